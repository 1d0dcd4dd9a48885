"""The list of runs: one row a run, kept from its start to its end. `run_list` asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, assert_never

from redraft.events.content import Brief, DraftRef
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
from redraft.events.plan import Plan
from redraft.events.texts import ERASED
from redraft.events.usage import Usage
from redraft.projections.plain import plain
from redraft.projections.projection import Change, Projection, Put, Row, Set, Table, seconds
from redraft.projections.without_texts import without_texts

BRIEF_LENGTH: Final = 120
"""How many characters of a brief's first line the list shows."""

TABLE: Final = Table(
    "runs",
    {
        "run": "TEXT NOT NULL",
        "workflow": "TEXT NOT NULL",
        "status": "TEXT NOT NULL",
        "outcome": "TEXT",
        "reason": "TEXT NOT NULL",
        "brief": "TEXT NOT NULL",
        "source": "TEXT NOT NULL",
        "tags": "TEXT NOT NULL",
        "parent": "TEXT",
        "forked": "INTEGER",
        "started": "REAL NOT NULL",
        "updated": "REAL NOT NULL",
        "ended": "REAL",
        "iterations": "INTEGER NOT NULL",
        "score": "REAL",
        "best": "REAL",
        "draft": "INTEGER",
        "sha256": "TEXT",
        "steps": "INTEGER NOT NULL",
        "failures": "INTEGER NOT NULL",
        "calls": "INTEGER NOT NULL",
        "unpriced": "INTEGER NOT NULL",
        "tokens": "INTEGER NOT NULL",
        "cost": "REAL NOT NULL",
        "currency": "TEXT NOT NULL",
        "began": "INTEGER NOT NULL",
        "position": "INTEGER NOT NULL",
        "version": "INTEGER NOT NULL",
    },
    indexes={"runs_started": "(started, position, workflow, outcome, status, tags)"},
)
"""`tags` have a blank before and after each. `parent` and `forked` are a fork's: which run, at which version. `began`
is the position of its first event, `position` that of its last. The index has all that a list can be filtered by, so
that only the runs that are listed need to be looked up."""


def project_run(recorded: Recorded) -> Sequence[Change]:
    """Returns what an event changes in its run's row."""
    event, now = recorded.data, seconds(recorded.time)
    values: Row = {"updated": now, "position": recorded.position, "version": recorded.version}
    match event:
        case StepRequested():
            return _requested(recorded.run, event, values)
        case DraftCritiqued():
            if _is_alone(event.path):
                values["score"] = event.critique.score
            return (_answered(recorded, event.usage, values),)
        case DraftGenerated() | DraftRefined():
            values |= {"draft": event.draft.version, "sha256": event.draft.sha256}
            return (_answered(recorded, event.usage, values),)
        case DraftPublished() | VerdictLate():
            return (_answered(recorded, event.usage, values),)
        case StepFailed():
            return (_answered(recorded, event.usage, values, "failures"),)
        case IterationStarted():
            return (Set("runs", (recorded.run,), values, {"iterations": int("/" not in event.path)}),)
        case LoopEnded():
            return (_scored(recorded.run, event.draft, event.score, values),)
        case RunEnded():
            values |= {"status": "ended", "outcome": event.outcome, "reason": event.reason, "ended": now}
            values["iterations"] = event.iterations
            return (_scored(recorded.run, event.draft, event.score, values),)
        case RunQuarantined():
            return (_set_aside(recorded, event, values),)
        case RunErased():
            gone: Row = {"brief": ERASED, "source": "", "reason": ERASED, "sha256": ERASED}
            return (Set("runs", (recorded.run,), values | gone),)
        case RunStarted():
            return (Put("runs", _row(recorded.run, recorded.position, event, values)),)
        case RunPaused():
            return (Set("runs", (recorded.run,), values | {"status": "paused"}),)
        case RunResumed():
            return (Set("runs", (recorded.run,), values | {"status": "running"}),)
        case DraftEdited():
            values |= {"draft": event.draft.version, "sha256": event.draft.sha256}
            return (Set("runs", (recorded.run,), values),)
        case (
            RunGuided()
            | LimitsChanged()
            | RunCancelled()
            | LoopClosing()
            | PanelClosed()
            | ChoicesCredited()
            | BudgetReached()
            | ApprovalRequested()
            | DraftApproved()
            | DraftRejected()
            | ApprovalExpired()
        ):
            return (Set("runs", (recorded.run,), values),)
        case _ as never:
            assert_never(never)


def project_unreadable(entry: Unreadable) -> Sequence[Change]:
    """That a run cannot be read from an event on; one of which nothing is known is listed without a time."""
    values: Row = {"status": "unreadable", "outcome": None, "reason": plain(told(entry)), "position": entry.position}
    new = _nothing_known(entry.run, entry.position, {"updated": 0.0, "version": entry.version, **values})
    return (Set("runs", (entry.run,), values, new=new),)


def told(entry: Unreadable) -> str:
    """Why a run cannot be read, and from where on."""
    return f"it cannot be read from event {entry.version} on (position {entry.position}): {entry.why}"


RUNS: Final = Projection("runs", 7, (TABLE,), without_texts(project_run), project_unreadable)
"""The projection that keeps the list."""


def _answered(recorded: Recorded, usage: Usage, values: Row, what: str = "steps") -> Set:
    """An answer that counts among `what`, and what it used. One that a fork repeats was work of its parent's."""
    run = recorded.run
    if recorded.repeats:
        return Set("runs", (run,), values)
    if usage.is_nothing:
        return Set("runs", (run,), values, {what: 1})
    if usage.currency:
        values["currency"] = usage.currency
    used = {"calls": usage.calls, "unpriced": usage.unpriced, "tokens": usage.tokens, "cost": usage.cost}
    return Set("runs", (run,), values, {what: 1, **used})


def _requested(run: str, event: StepRequested, values: Row) -> Sequence[Change]:
    """A refiner is told the score that a draft's critics gave together; that of a critic alone is known already."""
    if event.role != "refiner" or event.score is None:
        return (Set("runs", (run,), values),)
    if len(event.critiques) > 1:
        values["score"] = event.score
    return (Set("runs", (run,), values, None, {"best": event.score}),)


def _set_aside(recorded: Recorded, event: RunQuarantined, values: Row) -> Set:
    """How it ended before does not count; a run of which nothing could be read until now is listed from here on."""
    aside: Row = {"status": "quarantined", "outcome": None, "reason": event.reason, "ended": values["updated"]}
    new = _nothing_known(recorded.run, recorded.position, values | aside)
    return Set("runs", (recorded.run,), values | aside, new=new)


def _nothing_known(run: str, began: int, values: Row) -> Row:
    """The row of a run whose beginning could not be read."""
    return _row(run, began, RunStarted(Plan("", ()), Brief(""), datetime(1970, 1, 1, tzinfo=UTC)), values)


def _scored(run: str, draft: DraftRef | None, score: float | None, values: Row) -> Set:
    if draft is not None and draft.version:
        values |= {"draft": draft.version, "sha256": draft.sha256}
    if score is None:
        return Set("runs", (run,), values)
    return Set("runs", (run,), values | {"score": score}, None, {"best": score})


def _is_alone(path: str) -> bool:
    """Whether a critic's score is the draft's: not so for critics side by side, whose path names their Parallel."""
    inside = path.rpartition("/")[0]
    return not inside or inside.endswith("]")


def _row(run: str, began: int, event: RunStarted, values: Row) -> Row:
    return {
        "run": run,
        "workflow": event.plan.name,
        "status": "running",
        "outcome": None,
        "reason": "",
        "brief": brief_line(event.brief),
        "source": event.brief.source,
        "tags": f" {' '.join(event.tags)} " if event.tags else "",
        "parent": event.parent.run if event.parent else None,
        "forked": event.parent.version if event.parent else None,
        "started": values["updated"],
        "began": began,
        "ended": None,
        "iterations": 0,
        "score": None,
        "best": None,
        "draft": None,
        "sha256": None,
        "steps": 0,
        "failures": 0,
        "calls": 0,
        "unpriced": 0,
        "tokens": 0,
        "cost": 0.0,
        "currency": "",
        **values,
    }


def brief_line(brief: Brief) -> str:
    """The first line of a brief, as the list shows it."""
    return plain(brief.text.lstrip().partition("\n")[0], BRIEF_LENGTH)
