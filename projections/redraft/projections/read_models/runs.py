"""The list of runs: one row per run, kept from start to end. `runs_query` reads it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, assert_never

from redraft.events.messages import domain_events as events
from redraft.events.messages.content import Brief
from redraft.events.messages.envelope import Recorded, Unreadable
from redraft.events.messages.plan import Plan
from redraft.events.messages.redaction import ERASED
from redraft.events.messages.scales import write_scale
from redraft.events.messages.usage import Usage
from redraft.projections.display import plain
from redraft.projections.engine.projection import (
    Change,
    Projection,
    Put,
    Row,
    Set,
    Table,
    Value,
    seconds,
    without_texts,
)


def select_runs(
    time: str, since: datetime | None = None, workflow: str = "", run: str = "", column: str = "run"
) -> tuple[str, dict[str, Value]]:
    """Returns the condition, with its parameters, for rows of one run, of a workflow's runs, or of all.

    `time` is the column that must hold `since` or a later time, `column` that of the run. `workflow` needs `RUNS` in
    the same storage.
    """
    condition = f"{time} >= :since AND (:run = '' OR {column} = :run)"
    if workflow:
        condition += f" AND {column} IN (SELECT run FROM runs WHERE workflow = :workflow)"  # noqa: S608 - a column
    return condition, {"since": seconds(since) if since else 0.0, "workflow": workflow, "run": run}


def day_of(time: str) -> str:
    """Returns the expression for the beginning (UTC) of the day of a time column, on every database."""
    whole = f"CAST({time} AS BIGINT)"  # which one database rounds, and another cuts off
    return f"({whole} - CASE WHEN {whole} > {time} THEN 1 ELSE 0 END) / 86400 * 86400"


BRIEF_LENGTH: Final = 120
"""How many characters of a brief's first line the list shows."""

TABLE: Final = Table(
    "runs",
    {
        "run": "TEXT NOT NULL",
        "workflow": "TEXT NOT NULL",
        "status": "TEXT NOT NULL",
        "waits": "INTEGER NOT NULL",
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
        "scale": "TEXT",
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
        "step": "TEXT NOT NULL",
        "began": "INTEGER NOT NULL",
        "position": "INTEGER NOT NULL",
        "version": "INTEGER NOT NULL",
    },
    indexes={"runs_started": "(started, position, workflow, outcome, status, tags)"},
)
"""`waits` is 1 while people have to decide on a draft; the status is `waiting` then, unless the run is paused.
`tags` have a blank before and after each. `step` is the path of the newest request or approval, empty once the run
has ended. `parent` and `forked` are set for a fork: its parent run and the version.
`began` is the position of its first event, `position` that of its last. The index has every column that a list can be
filtered by, so that only the listed rows need to be looked up.
"""
_EMPTY: Final = TABLE.empty_row()


def project_run(recorded: Recorded) -> Sequence[Change]:
    """Returns what an event changes in its run's row."""
    event, now = recorded.data, seconds(recorded.time)
    values: Row = {"updated": now, "position": recorded.position, "version": recorded.version}
    match event:
        case events.StepRequested():
            return _request_changes(recorded.run, event, values | {"step": plain(event.path)})
        case events.ApprovalRequested():
            return _ask_people(recorded.run, values | {"step": plain(event.path)})
        case events.DraftCritiqued():
            if _is_alone(event.path):
                values |= {"score": event.critique.known_score, "scale": write_scale(event.critique.scale)}
            return (_count_answer(recorded, event.usage, values),)
        case events.DraftGenerated() | events.DraftRefined():
            values |= {"draft": event.draft.version, "sha256": event.draft.sha256}
            return (_count_answer(recorded, event.usage, values),)
        case events.DraftPublished() | events.VerdictLate():
            return (_count_answer(recorded, event.usage, values),)
        case events.StepFailed():
            return (_count_answer(recorded, event.usage, values, "failures"),)
        case events.IterationStarted():
            return (Set("runs", (recorded.run,), values, {"iterations": int("/" not in event.path)}),)
        case events.LoopEnded():
            return (_set_score(recorded.run, event, values),)
        case events.RunEnded():
            values |= {
                "step": "",
                "waits": 0,
                "status": "ended",
                "outcome": event.outcome,
                "reason": event.reason,
                "ended": now,
            }
            values["iterations"] = event.iterations
            return (_set_score(recorded.run, event, values),)
        case events.RunQuarantined():
            return (_quarantine(recorded, event, values),)
        case events.RunErased():
            gone: Row = {"brief": ERASED, "source": "", "reason": ERASED, "sha256": ERASED}
            return (Set("runs", (recorded.run,), values | gone),)
        case events.RunStarted():
            return (Put("runs", _new_row(recorded.run, recorded.position, event, values)),)
        case events.RunPaused():
            return (Set("runs", (recorded.run,), values | {"status": "paused"}),)
        case events.RunResumed():
            waiting = Set("runs", (recorded.run,), {"status": "waiting"}, where={"waits": (1,)})
            return Set("runs", (recorded.run,), values | {"status": "running"}), waiting
        case events.DraftEdited():
            values |= {"draft": event.draft.version, "sha256": event.draft.sha256}
            return _ask_nobody(recorded.run, values)
        case events.DraftRejected() | events.ApprovalExpired() | events.BudgetReached():
            return _ask_nobody(recorded.run, values)
        case events.DraftApproved() if event.granted:
            return _ask_nobody(recorded.run, values)
        case (
            events.RunGuided()
            | events.LimitsChanged()
            | events.RunCancelled()
            | events.LoopClosing()
            | events.PanelClosed()
            | events.CriticSkipped()
            | events.ChoicesCredited()
            | events.DraftApproved()
        ):
            return (Set("runs", (recorded.run,), values),)
        case _ as never:
            assert_never(never)


def project_unreadable(entry: Unreadable) -> Sequence[Change]:
    """Returns the change that marks a run unreadable; if nothing is known of the run, it is listed without a time."""
    values: Row = {
        "status": "unreadable",
        "outcome": None,
        "reason": plain(unreadable_reason(entry)),
        "position": entry.position,
    }
    new = _unknown_row(entry.run, entry.position, {"updated": 0.0, "version": entry.version, **values})
    return (Set("runs", (entry.run,), values, new=new),)


def unreadable_reason(entry: Unreadable) -> str:
    """Returns why a run cannot be read, and from which event on."""
    return f"it cannot be read from event {entry.version} on (position {entry.position}): {entry.why}"


RUNS: Final = Projection("runs", 9, (TABLE,), without_texts(project_run), project_unreadable)
"""The projection that keeps the list."""


def _ask_people(run: str, values: Row) -> Sequence[Change]:
    """Marks a run as waiting for people; one that is paused stays so."""
    return Set("runs", (run,), values | {"waits": 1}), Set("runs", (run,), {"status": "waiting"}, where=_RUNNING)


def _ask_nobody(run: str, values: Row) -> Sequence[Change]:
    """Marks a run as waiting for nobody any more."""
    return Set("runs", (run,), values | {"waits": 0}), Set("runs", (run,), {"status": "running"}, where=_WAITING)


_RUNNING: Final = {"status": ("running",)}
_WAITING: Final = {"status": ("waiting",)}


def _count_answer(recorded: Recorded, usage: Usage, values: Row, what: str = "steps") -> Set:
    """Counts an answer in the column `what`, and its usage. An answer that a fork repeats belongs to its parent."""
    run = recorded.run
    if recorded.repeats:
        return Set("runs", (run,), values)
    if usage.is_nothing:
        return Set("runs", (run,), values, {what: 1})
    if usage.currency:
        values["currency"] = usage.currency
    used = {"calls": usage.calls, "unpriced": usage.unpriced, "tokens": usage.tokens, "cost": usage.cost}
    return Set("runs", (run,), values, {what: 1, **used})


def _request_changes(run: str, event: events.StepRequested, values: Row) -> Sequence[Change]:
    """Takes a draft's joined score from a refiner's request; the score of a single critic is known already."""
    if event.role != "refiner" or event.score is None:
        return (Set("runs", (run,), values),)
    if len(event.critiques) > 1:
        values |= {"score": event.score, "scale": write_scale(event.scale)}
    return (Set("runs", (run,), values, None, {"best": event.score}),)


def _quarantine(recorded: Recorded, event: events.RunQuarantined, values: Row) -> Set:
    """Marks a run as quarantined, whatever its earlier outcome; a run that could not be read before is added."""
    aside: Row = {
        "status": "quarantined",
        "waits": 0,
        "outcome": None,
        "reason": event.reason,
        "ended": values["updated"],
        "step": "",
    }
    new = _unknown_row(recorded.run, recorded.position, values | aside)
    return Set("runs", (recorded.run,), values | aside, new=new)


def _unknown_row(run: str, began: int, values: Row) -> Row:
    """Returns the row of a run whose beginning could not be read."""
    return _new_row(run, began, events.RunStarted(Plan("", ()), Brief(""), datetime(1970, 1, 1, tzinfo=UTC)), values)


def _set_score(run: str, ended: events.LoopEnded | events.RunEnded, values: Row) -> Set:
    draft, score = ended.draft, ended.score
    if draft is not None and draft.version:
        values |= {"draft": draft.version, "sha256": draft.sha256}
    if score is None:
        return Set("runs", (run,), values)
    return Set("runs", (run,), values | {"score": score, "scale": write_scale(ended.scale)}, None, {"best": score})


def _is_alone(path: str) -> bool:
    """Returns whether a critic's score is the draft's: not in a Parallel, which the path then names."""
    inside = path.rpartition("/")[0]
    return not inside or inside.endswith("]")


def _new_row(run: str, began: int, event: events.RunStarted, values: Row) -> Row:
    return {
        **_EMPTY,
        "run": run,
        "workflow": event.plan.name,
        "status": "running",
        "brief": brief_line(event.brief),
        "source": event.brief.source,
        "tags": f" {' '.join(event.tags)} " if event.tags else "",
        "parent": event.parent.run if event.parent else None,
        "forked": event.parent.version if event.parent else None,
        "started": values["updated"],
        "began": began,
        **values,
    }


def brief_line(brief: Brief) -> str:
    """Returns the first line of a brief, as the list shows it."""
    return plain(brief.text.lstrip().partition("\n")[0], BRIEF_LENGTH)
