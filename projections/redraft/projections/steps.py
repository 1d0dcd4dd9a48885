"""The steps of the runs that go on: one row a path, and when the timekeeper has to look at it. `step_list` asks.

A run that ends takes its rows with it, so that the table is as small as what is under way; `tree` keeps what has been.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, assert_never

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
from redraft.events.envelope import Recorded
from redraft.projections.projection import Change, Delete, Projection, Put, Row, Set, SetAll, Table, seconds
from redraft.projections.without_texts import without_texts

MOVES: Final = "timer IS NOT NULL AND (held = 0 OR status <> 'waiting')"
"""Which rows can become due: a step is not tried again while its run is paused."""

TABLE: Final = Table(
    "steps",
    {
        "run": "TEXT NOT NULL",
        "path": "TEXT NOT NULL",
        "role": "TEXT NOT NULL",
        "actor": "TEXT NOT NULL",
        "attempt": "INTEGER NOT NULL",
        "status": "TEXT NOT NULL",
        "requested": "REAL NOT NULL",
        "due": "REAL NOT NULL",
        "retry_at": "REAL",
        "finished": "REAL",
        "score": "REAL",
        "draft": "INTEGER",
        "message": "TEXT NOT NULL",
        "position": "INTEGER NOT NULL",
        "cause": "TEXT NOT NULL",
        "timer": "REAL",
        "held": "INTEGER NOT NULL",
        "queue_wait": "REAL",
    },
    key=2,
    indexes={"steps_timer": f"(timer) WHERE {MOVES}", "steps_open": "(role, actor, requested) WHERE status = 'open'"},
)
"""`timer` is `due` of an open step, `retry_at` of a waiting one, NULL of all others; `position` is the request's.
`cause` is the id of the event that set the timer: the request's, or that of the failure after which it waits. `held` is
1 while the run is paused, `queue_wait` what the plan says of that. The row without a path is the run's wall time, if
its budget limits that."""

UNANSWERED: Final = ("open", "waiting")


def project_step(recorded: Recorded) -> Sequence[Change]:
    """Returns what an event changes in its run's steps."""
    event, run = recorded.data, recorded.run
    match event:
        case StepRequested():
            return (Put("steps", _requested(recorded, event)),)
        case VerdictLate():
            return (_done(recorded, event.path, event.draft.version, event.critique.score),)
        case PanelClosed(missing=missing):
            return tuple(Set("steps", (run, path), _abandoned(recorded)) for path in missing)
        case DraftCritiqued():
            return (_done(recorded, event.path, event.draft.version, event.critique.score),)
        case DraftGenerated() | DraftRefined() | DraftPublished():
            return (_done(recorded, event.path, event.draft.version),)
        case StepFailed():
            return (_failed(recorded, event),)
        case RunEnded() | RunQuarantined():
            return (Delete("steps", (run,)),)
        case RunStarted():
            return (Delete("steps", (run,)), *_limited(recorded, event))
        case LoopEnded() | BudgetReached() | DraftEdited() | IterationStarted() | LoopClosing():
            return (SetAll("steps", run, _abandoned(recorded), {"status": UNANSWERED}),)
        case RunErased():
            return (SetAll("steps", run, {"message": ""}),)
        case RunPaused() | RunResumed():
            return (SetAll("steps", run, {"held": int(isinstance(event, RunPaused))}),)
        case RunGuided() | LimitsChanged() | RunCancelled() | ChoicesCredited():
            return ()
        case ApprovalRequested():
            left = SetAll("steps", run, _abandoned(recorded), {"status": UNANSWERED})
            return (left, Put("steps", _asked(recorded, event)))
        case DraftApproved():
            return (_done(recorded, event.path, event.draft.version),) if event.granted else ()
        case DraftRejected() | ApprovalExpired():
            return (_done(recorded, event.path, event.draft.version),)
        case _ as never:
            assert_never(never)


STEPS: Final = Projection(
    "steps",
    5,
    (TABLE,),
    without_texts(project_step),
    lambda entry: (Delete("steps", (entry.run,)),),
    (RunEnded, RunQuarantined),
)
"""The projection that keeps the steps."""


def _limited(recorded: Recorded, event: RunStarted) -> tuple[Put, ...]:
    """The row that is due when the wall time of the run is over."""
    budget = event.plan.budget
    if budget is None or budget.seconds is None:
        return ()
    row = _row(recorded, "", event.at + timedelta(seconds=budget.seconds))
    return (Put("steps", {**row, "status": "limit"}),)


def _requested(recorded: Recorded, event: StepRequested) -> Row:
    draft = event.draft.version if event.draft else None
    asked: Row = {"role": event.role, "actor": event.actor, "attempt": event.attempt, "draft": draft}
    return _row(recorded, event.path, event.due) | asked | {"queue_wait": event.queue_wait}


def _asked(recorded: Recorded, event: ApprovalRequested) -> Row:
    asked: Row = {"actor": ", ".join(event.approvers) or "anybody", "draft": event.draft.version}
    return _row(recorded, event.path, event.due) | {"role": "approver"} | asked


def _row(recorded: Recorded, path: str, due: datetime) -> Row:
    """The row of an open step, in which role, actor and draft are still to be set."""
    return {
        "run": recorded.run,
        "path": path,
        "role": "clock",
        "actor": "",
        "attempt": 1,
        "status": "open",
        "requested": seconds(recorded.time),
        "due": seconds(due),
        "retry_at": None,
        "finished": None,
        "score": None,
        "draft": None,
        "message": "",
        "position": recorded.position,
        "cause": recorded.id,
        "timer": seconds(due),
        "held": 0,
        "queue_wait": None,
    }


def _abandoned(recorded: Recorded) -> Row:
    return {"status": "abandoned", "finished": seconds(recorded.time), "timer": None}


def _done(recorded: Recorded, path: str, draft: int, score: float | None = None) -> Set:
    values: Row = {
        "status": "done",
        "finished": seconds(recorded.time),
        "score": score,
        "draft": draft,
        "timer": None,
    }
    return Set("steps", (recorded.run, path), values)


def _failed(recorded: Recorded, event: StepFailed) -> Set:
    key = (recorded.run, event.path)
    if event.retry_at is None:
        values: Row = {"status": "failed", "finished": seconds(recorded.time), "message": event.message, "timer": None}
        return Set("steps", key, values)
    retry_at = seconds(event.retry_at)
    waits: Row = {"status": "waiting", "retry_at": retry_at, "message": event.message}
    return Set("steps", key, {**waits, "cause": recorded.id, "timer": retry_at})
