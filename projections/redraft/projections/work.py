"""What each actor did: one row a try of a step, and what they add up to for each actor."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, assert_never

import msgspec

from redraft.events.domain_events import (
    ApprovalExpired,
    ApprovalRequested,
    BudgetReached,
    ChoicesCredited,
    DraftApproved,
    DraftCritiqued,
    DraftEdited,
    DraftGenerated,
    DraftPublished,
    DraftRefined,
    DraftRejected,
    IterationStarted,
    LimitsChanged,
    LoopClosing,
    LoopEnded,
    PanelClosed,
    RunCancelled,
    RunEnded,
    RunErased,
    RunGuided,
    RunPaused,
    RunQuarantined,
    RunResumed,
    RunStarted,
    StepFailed,
    StepRequested,
    VerdictLate,
)
from redraft.events.envelope import Recorded, Unreadable
from redraft.events.plan import Role
from redraft.events.usage import Usage
from redraft.projections.lines import line_of
from redraft.projections.of_workflow import of_workflow
from redraft.projections.projection import Change, Delete, Projection, Put, Row, Set, SetAll, Table, Value, seconds
from redraft.projections.views import Views

TABLE: Final = Table(
    "work",
    {
        "run": "TEXT NOT NULL",
        "path": "TEXT NOT NULL",
        "attempt": "INTEGER NOT NULL",
        "role": "TEXT NOT NULL",
        "actor": "TEXT NOT NULL",
        "result": "TEXT NOT NULL",
        "requested": "REAL NOT NULL",
        "finished": "REAL",
        "tokens": "INTEGER NOT NULL",
        "cost": "REAL NOT NULL",
        "currency": "TEXT NOT NULL",
    },
    key=3,
)
"""`result` is open, done, dropped (its loop or run ended without it), or the kind of its failure."""


class ActorLine(msgspec.Struct, frozen=True):
    """An actor, and the tries that were asked of it: `done`, failed by kind, `dropped`, or still `open`.

    `dropped` are those whose loop or run ended without their answer. `seconds` is the time from request to answer of
    what was done, in all; `mean` and `longest` that of one. `tokens` and `cost` are what all tries used; where their
    currencies differ, `currency` says so.
    """

    role: Role
    actor: str
    asked: int
    done: int
    failed: int
    error: int
    invalid: int
    timeout: int
    lost: int
    unserved: int
    dropped: int
    open: int
    runs: int
    seconds: float
    mean: float | None
    longest: float | None
    tokens: int
    cost: float
    currency: str


def project_work(recorded: Recorded) -> Sequence[Change]:
    """Returns what an event changes in the tries of its run."""
    event, run = recorded.data, recorded.run
    match event:
        case StepRequested():
            return (Put("work", _asked(recorded, event)),)
        case DraftGenerated() | DraftCritiqued() | DraftRefined() | DraftPublished() | StepFailed() if recorded.repeats:
            return (Delete("work", (run, event.path, event.attempt)),)  # it was done in the parent of this fork
        case DraftGenerated() | DraftCritiqued() | DraftRefined() | DraftPublished() | VerdictLate():
            return (_ended(recorded, event.path, event.attempt, "done", event.usage),)
        case StepFailed():
            return (_ended(recorded, event.path, event.attempt, event.kind, event.usage),)
        case LoopEnded() | RunEnded() | RunQuarantined() | DraftEdited() | BudgetReached():
            left: Row = {"result": "dropped", "finished": seconds(recorded.time)}
            return (SetAll("work", run, left, {"result": ("open",)}),)
        case RunStarted():
            return (Delete("work", (run,)),)  # there is none: said, it need not be looked up
        case IterationStarted() | LoopClosing() | RunErased() | PanelClosed() | ChoicesCredited():
            return ()
        case RunGuided() | LimitsChanged() | RunPaused() | RunResumed() | RunCancelled():
            return ()
        case ApprovalRequested() | DraftApproved() | DraftRejected() | ApprovalExpired():
            return ()  # what people do is no work of an actor
        case _ as never:
            assert_never(never)


def leave_work(entry: Unreadable) -> Sequence[Change]:
    """Returns the change that drops what actors were asked for a run that cannot be read."""
    return (SetAll("work", entry.run, {"result": "dropped"}, {"result": ("open",)}),)


ACTORS: Final = Projection("actors", 1, (TABLE,), project_work, leave_work)
"""The projection that keeps it."""

_COUNTS: Final = ", ".join(
    f"sum(CASE WHEN result {test} THEN 1 ELSE 0 END)"
    for test in (
        "= 'done'",
        "IN ('error', 'invalid', 'timeout', 'lost', 'unserved')",
        "= 'error'",
        "= 'invalid'",
        "= 'timeout'",
        "= 'lost'",
        "= 'unserved'",
        "= 'dropped'",
        "= 'open'",
    )
)
_TOOK: Final = "CASE WHEN result = 'done' THEN finished - requested END"


async def actors(views: Views, run: str = "", since: datetime | None = None, workflow: str = "") -> list[ActorLine]:
    """Every actor with what was asked of it since then, in one run, in those of a workflow or in all, by role and name.

    `workflow` needs `RUNS` in the same place.
    """
    sql = f"""
        SELECT role, actor, count(*), {_COUNTS}, count(DISTINCT run), coalesce(sum({_TOOK}), 0), avg({_TOOK}),
            max({_TOOK}), CAST(sum(tokens) AS BIGINT), sum(cost),
            CASE WHEN min(NULLIF(currency, '')) = max(currency) THEN max(currency)
                WHEN max(currency) = '' THEN '' ELSE 'mixed' END
        FROM work WHERE requested >= :since AND (:run = '' OR run = :run) {of_workflow(workflow)}
        GROUP BY role, actor ORDER BY role, actor
    """  # noqa: S608 - made of what stands above
    given: dict[str, Value] = {"since": seconds(since) if since else 0.0, "run": run, "workflow": workflow}
    return await views.read(line_of(ActorLine), sql, given)


def _asked(recorded: Recorded, event: StepRequested) -> Row:
    return {
        "run": recorded.run,
        "path": event.path,
        "attempt": event.attempt,
        "role": event.role,
        "actor": event.actor,
        "result": "open",
        "requested": seconds(recorded.time),
        "finished": None,
        "tokens": 0,
        "cost": 0.0,
        "currency": "",
    }


def _ended(recorded: Recorded, path: str, attempt: int, result: str, usage: Usage) -> Set:
    values: Row = {"result": result, "finished": seconds(recorded.time)}
    if not usage.is_nothing:
        values |= {"tokens": usage.tokens, "cost": usage.cost, "currency": usage.currency}
    return Set("work", (recorded.run, path, attempt), values)
