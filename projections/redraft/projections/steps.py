"""The steps of the runs that go on: one row a path, and when the timekeeper has to look at it. `step_list` asks.

A run that ends takes its rows with it, so that the table is as small as what is under way; `tree` keeps what has been.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from redraft.projections.untold import untold

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
    },
    key=2,
    indexes={"steps_timer": "(timer) WHERE timer IS NOT NULL"},
)
"""`timer` is `due` of an open step, `retry_at` of a waiting one, NULL of all others; `position` is the request's.
`cause` is the id of the event that set the timer: the request's, or that of the failure after which it waits."""

UNANSWERED: Final = ("open", "waiting")


def project_step(recorded: Recorded) -> Sequence[Change]:
    """Returns what an event changes in its run's steps."""
    event, run = recorded.data, recorded.run
    match event:
        case StepRequested():
            return (Put("steps", _requested(recorded, event)),)
        case VerdictLate():
            return (_done(recorded, event.path, event.draft.version, event.critique.score),)
        case PanelClosed():
            return ()
        case DraftCritiqued():
            return (_done(recorded, event.path, event.draft.version, event.critique.score),)
        case DraftGenerated() | DraftRefined() | DraftPublished():
            return (_done(recorded, event.path, event.draft.version),)
        case StepFailed():
            return (_failed(recorded, event),)
        case RunEnded() | RunQuarantined() | RunStarted():
            return (Delete("steps", (run,)),)
        case LoopEnded() | BudgetReached():
            left: Row = {"status": "abandoned", "finished": seconds(recorded.time), "timer": None}
            return (SetAll("steps", run, left, {"status": UNANSWERED}),)
        case RunErased():
            return (SetAll("steps", run, {"message": ""}),)
        case IterationStarted() | LoopClosing():
            return ()
        case RunGuided() | LimitsChanged() | RunPaused() | RunResumed() | RunCancelled() | ChoicesCredited():
            return ()
        case ApprovalRequested():
            return (Put("steps", _asked(recorded, event)),)
        case DraftApproved():
            return (_done(recorded, event.path, event.draft.version),) if event.granted else ()
        case DraftRejected() | ApprovalExpired():
            return (_done(recorded, event.path, event.draft.version),)
        case DraftEdited():
            left = {"status": "abandoned", "finished": seconds(recorded.time), "timer": None}
            return (SetAll("steps", run, left, {"status": UNANSWERED}),)
        case _ as never:
            assert_never(never)


STEPS: Final = Projection(
    "steps",
    4,
    (TABLE,),
    untold(project_step),
    lambda entry: (Delete("steps", (entry.run,)),),
    (RunEnded, RunQuarantined),
)
"""The projection that keeps the steps."""


def _requested(recorded: Recorded, event: StepRequested) -> Row:
    due = seconds(event.due)
    return {
        "run": recorded.run,
        "path": event.path,
        "role": event.role,
        "actor": event.actor,
        "attempt": event.attempt,
        "status": "open",
        "requested": seconds(recorded.time),
        "due": due,
        "retry_at": None,
        "finished": None,
        "score": None,
        "draft": event.draft.version if event.draft else None,
        "message": "",
        "position": recorded.position,
        "cause": recorded.id,
        "timer": due,
    }


def _asked(recorded: Recorded, event: ApprovalRequested) -> Row:
    due = seconds(event.due)
    return {
        "run": recorded.run,
        "path": event.path,
        "role": "approver",
        "actor": ", ".join(event.approvers) or "anybody",
        "attempt": 1,
        "status": "open",
        "requested": seconds(recorded.time),
        "due": due,
        "retry_at": None,
        "finished": None,
        "score": None,
        "draft": event.draft.version,
        "message": "",
        "position": recorded.position,
        "cause": recorded.id,
        "timer": due,
    }


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
