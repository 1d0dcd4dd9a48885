"""Work of actors: one row per attempt of a step, and totals for each actor."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, assert_never

import msgspec

from redraft.events.messages import domain_events as events
from redraft.events.messages.envelope import Recorded, Unreadable
from redraft.events.messages.plan import Role
from redraft.events.messages.usage import Usage
from redraft.projections.display import NAME_LENGTH, plain
from redraft.projections.engine.projection import (
    Change,
    Delete,
    Projection,
    Put,
    Row,
    Set,
    SetAll,
    Table,
    seconds,
)
from redraft.projections.engine.storage import row_decoder
from redraft.projections.engine.views import Views
from redraft.projections.read_models.runs import select_runs

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
        "unpriced": "INTEGER NOT NULL",
        "calls": "INTEGER NOT NULL",
        "model": "TEXT NOT NULL",
    },
    key=3,
)
"""The run of an item has rows of its own, and is none in that of the run around it.

`result` is open, done, reused (an earlier verdict was taken again), skipped (its condition did not hold), dropped
(its loop or run ended without the answer), or the kind of its failure.
"""
NOT_ASKED: Final = "('reused', 'skipped')"
"""The results, in SQL, of rows that are no attempts: nobody was asked."""
_EMPTY: Final = TABLE.empty_row()


class ActorLine(msgspec.Struct, frozen=True):
    """An actor with its attempts: `done`, failed by kind, `dropped`, or still `open`.

    `reused` counts verdicts that were taken again without asking it, `skipped` how often a critic's condition did not
    hold; neither are attempts. An attempt is dropped when its loop or run ended without its answer. `seconds` is the
    total time from request to answer of attempts that are done; `mean` and `longest` are for one. `tokens` and `cost`
    are what all attempts used; `currency` is `mixed` when their currencies differ. `unpriced` are the calls without a
    known price, which `cost` leaves out. It was asked for the `first` time and answered for the `last` at these times
    (UTC); the oldest attempt that is open was asked for at `waiting_since`.
    """

    role: Role
    actor: str
    asked: int
    done: int
    reused: int
    skipped: int
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
    unpriced: int
    first: datetime
    last: datetime | None
    waiting_since: datetime | None


def project_work(recorded: Recorded) -> Sequence[Change]:
    """Returns what an event changes in the tries of its run."""
    event, run = recorded.data, recorded.run
    match event:
        case events.StepRequested(role="run"):
            return ()  # what was done for an item is in the rows of its own run
        case events.StepRequested():
            return (Put("work", _new_row(recorded, event)),)
        case (
            events.DraftGenerated()
            | events.DraftCritiqued()
            | events.DraftRefined()
            | events.DraftPublished()
            | events.StateChanged()
            | events.StepFailed()
        ) if recorded.repeats:
            return (Delete("work", (run, event.path, event.attempt)),)  # it was done in the parent of this fork
        case events.DraftCritiqued(reused=version) if version:
            return (_finish(recorded, event.path, event.attempt, "reused", event.usage),)
        case (
            events.DraftGenerated()
            | events.DraftCritiqued()
            | events.DraftRefined()
            | events.DraftPublished()
            | events.StateChanged()
            | events.VerdictLate()
        ):
            return (_finish(recorded, event.path, event.attempt, "done", event.usage),)
        case events.StepFailed():
            return (_finish(recorded, event.path, event.attempt, event.kind, event.usage),)
        case (
            events.LoopEnded()
            | events.RunEnded()
            | events.RunQuarantined()
            | events.DraftEdited()
            | events.BudgetReached()
        ):
            left: Row = {"result": "dropped", "finished": seconds(recorded.time)}
            return (SetAll("work", run, left, {"result": ("open",)}),)
        case events.CriticSkipped():
            return () if recorded.repeats else (Put("work", _skipped_row(recorded, event)),)
        case events.RunStarted():
            return (Delete("work", (run,)),)  # there is none: said, it need not be looked up
        case (
            events.IterationStarted()
            | events.LoopClosing()
            | events.RunErased()
            | events.PanelClosed()
            | events.ChoicesCredited()
        ):
            return ()
        case (
            events.RunGuided()
            | events.LimitsChanged()
            | events.RunPaused()
            | events.RunResumed()
            | events.RunCancelled()
            | events.LessonStruck()
        ):
            return ()
        case events.ApprovalRequested() | events.DraftApproved() | events.DraftRejected() | events.ApprovalExpired():
            return ()  # what people do is no work of an actor
        case _ as never:
            assert_never(never)


def leave_work(entry: Unreadable) -> Sequence[Change]:
    """Returns the change that drops what actors were asked for a run that cannot be read."""
    return (SetAll("work", entry.run, {"result": "dropped"}, {"result": ("open",)}),)


ACTORS: Final = Projection("actors", 6, (TABLE,), project_work, leave_work)
"""The projection that keeps these rows."""

_COUNTS: Final = ", ".join(
    f"sum(CASE WHEN result {test} THEN 1 ELSE 0 END)"
    for test in (
        "= 'done'",
        "= 'reused'",
        "= 'skipped'",
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
    """Returns every actor with its attempts since a time, in a run, a workflow or all, by role and name.

    `workflow` needs `RUNS` in the same storage.
    """
    where, given = select_runs("requested", since, workflow, run)
    sql = f"""
        SELECT role, actor, sum(CASE WHEN result NOT IN {NOT_ASKED} THEN 1 ELSE 0 END), {_COUNTS}, count(DISTINCT run),
            coalesce(sum({_TOOK}), 0), avg({_TOOK}),
            max({_TOOK}), CAST(sum(tokens) AS BIGINT), sum(cost),
            CASE WHEN min(NULLIF(currency, '')) = max(currency) THEN max(currency)
                WHEN max(currency) = '' THEN '' ELSE 'mixed' END,
            CAST(sum(unpriced) AS BIGINT), min(requested), max(finished),
            min(CASE WHEN result = 'open' THEN requested END)
        FROM work WHERE {where} GROUP BY role, actor ORDER BY role, actor
    """  # noqa: S608 - made of what stands above
    return await views.read(row_decoder(ActorLine, "first", "last", "waiting_since"), sql, given)


def _new_row(recorded: Recorded, event: events.StepRequested) -> Row:
    return {
        **_EMPTY,
        "run": recorded.run,
        "path": event.path,
        "attempt": event.attempt,
        "role": event.role,
        "actor": event.actor,
        "result": "open",
        "requested": seconds(recorded.time),
    }


def _skipped_row(recorded: Recorded, event: events.CriticSkipped) -> Row:
    at = seconds(recorded.time)
    name = event.actor or event.path.rpartition("/")[2]  # a step that chooses had chosen no one yet
    own: Row = {"run": recorded.run, "path": event.path, "role": "critic", "actor": name}
    return {**_EMPTY, **own, "result": "skipped", "requested": at, "finished": at}


def _finish(recorded: Recorded, path: str, attempt: int, result: str, usage: Usage) -> Set:
    values: Row = {"result": result, "finished": seconds(recorded.time)}
    if not usage.is_nothing:
        values |= {"tokens": usage.tokens, "cost": usage.cost, "currency": usage.currency}
        values |= {"unpriced": usage.unpriced, "calls": usage.calls, "model": plain(usage.model, NAME_LENGTH)}
    return Set("work", (recorded.run, path, attempt), values)
