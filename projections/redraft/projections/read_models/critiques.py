"""Critiques and scores: one row per critique and per judged draft, and totals for each critic."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from redraft.events.messages.content import Critique, Mark, marks_text
from redraft.events.messages.domain_events import DraftApproved, DraftCritiqued, DraftRejected, RunStarted
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.scales import write_scale
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
    unchanged,
)
from redraft.projections.engine.storage import row_decoder
from redraft.projections.engine.views import Views
from redraft.projections.read_models.agreement import DECISIONS, decision_row
from redraft.projections.read_models.runs import select_runs
from redraft.projections.run_views.chart import CriticScore, JoinedScore, score_of

TABLE: Final = Table(
    "critiques",
    {
        "run": "TEXT NOT NULL",
        "version": "INTEGER NOT NULL",
        "critic": "TEXT NOT NULL",
        "path": "TEXT NOT NULL",
        "draft": "INTEGER NOT NULL",
        "score": "REAL",
        "scale": "TEXT",
        "marks": "TEXT NOT NULL",
        "approved": "INTEGER",
        "errors": "INTEGER NOT NULL",
        "suggestions": "INTEGER NOT NULL",
        "repeated": "INTEGER NOT NULL",
        "time": "REAL NOT NULL",
        "position": "INTEGER NOT NULL",
    },
    key=2,
)
"""`repeated` is 1 for a critique that a fork repeats from its parent; `score` is NULL for a verdict alone.

`scale` is the one that the critic declares, as `1..10`; `marks` are criteria and measures, as people read them.
"""

MARKS: Final = Table(
    "marks",
    {
        "run": "TEXT NOT NULL",
        "version": "INTEGER NOT NULL",
        "criterion": "TEXT NOT NULL",
        "critic": "TEXT NOT NULL",
        "draft": "INTEGER NOT NULL",
        "score": "REAL NOT NULL",
        "scale": "TEXT",
        "confidence": "REAL",
        "repeated": "INTEGER NOT NULL",
        "time": "REAL NOT NULL",
        "position": "INTEGER NOT NULL",
    },
    key=3,
)
"""One row for each criterion of a critique."""


MEASURES: Final = Table(
    "measures",
    {
        "run": "TEXT NOT NULL",
        "version": "INTEGER NOT NULL",
        "measure": "TEXT NOT NULL",
        "critic": "TEXT NOT NULL",
        "draft": "INTEGER NOT NULL",
        "value": "REAL NOT NULL",
        "repeated": "INTEGER NOT NULL",
        "time": "REAL NOT NULL",
        "position": "INTEGER NOT NULL",
    },
    key=3,
)
"""One row for each measure of a critique."""


class Critic(msgspec.Struct, frozen=True):
    """A critic: the number of its critiques and of the runs that had them, and totals.

    Scores are 0..1, or None for verdicts alone; `scale` is the one that the critic declares. `approved` and `refused`
    count its verdicts, `errors` and `suggestions` those it listed in all; `last` is the UTC time of its last critique.
    """

    critic: str
    critiques: int
    runs: int
    mean: float | None
    lowest: float | None
    highest: float | None
    approved: int
    refused: int
    errors: int
    suggestions: int
    last: datetime
    scale: str | None


class CritiqueLine(msgspec.Struct, frozen=True):
    """A critique of a draft, by its version in the run: critic, step, draft, score, counts, and UTC time."""

    version: int
    critic: str
    path: str
    draft: int
    score: float | None
    approved: bool | None
    errors: int
    suggestions: int
    time: datetime
    scale: str | None
    marks: str


class CriterionTotal(msgspec.Struct, frozen=True):
    """A criterion of a critic: how often it was judged, in how many runs, and its scores, 0..1 and on `scale`."""

    critic: str
    criterion: str
    critiques: int
    runs: int
    mean: float
    lowest: float
    highest: float
    confidence: float | None
    scale: str | None


class CriterionLine(msgspec.Struct, frozen=True):
    """A critic's score of a draft for one criterion, by the version of the critique in the run."""

    version: int
    critic: str
    criterion: str
    draft: int
    score: float
    scale: str | None
    confidence: float | None
    time: datetime


class MeasureTotal(msgspec.Struct, frozen=True):
    """A measure of a critic: how often it was counted, in how many runs, and its numbers."""

    critic: str
    measure: str
    critiques: int
    runs: int
    mean: float
    lowest: float
    highest: float


class MeasureLine(msgspec.Struct, frozen=True):
    """What a critic counted of a draft, by the version of the critique in the run."""

    version: int
    critic: str
    measure: str
    draft: int
    value: float
    time: datetime


def project_critique(recorded: Recorded) -> Sequence[Change]:
    """Returns the rows of a critique, or of a person's decision about a draft."""
    event = recorded.data
    if isinstance(event, DraftApproved | DraftRejected):
        return (decision_row(recorded, event),)
    if not isinstance(event, DraftCritiqued):
        return ()
    said = event.critique
    row: Row = {
        "run": recorded.run,
        "version": recorded.version,
        "critic": said.critic or event.path.rpartition("/")[2],
        "path": event.path,
        "draft": event.draft.version,
        "score": said.known_score,
        "scale": write_scale(said.scale),
        "marks": marks_text(said),
        "approved": said.approved,
        "errors": len(said.errors),
        "suggestions": len(said.suggestions),
        "repeated": int(bool(recorded.repeats or event.reused)),
        "time": seconds(recorded.time),
        "position": recorded.position,
    }
    if not (said.criteria or said.measures):
        return (Put("critiques", row),)
    own: Row = {name: row[name] for name in ("run", "version", "critic", "draft", "repeated", "time", "position")}
    counted = (own | {"measure": name, "value": float(value)} for name, value in said.measures.items())
    marks = (Put("marks", _mark_row(own, said, each)) for each in said.criteria)
    return (Put("critiques", row), *marks, *(Put("measures", each) for each in counted))


def _mark_row(own: Row, said: Critique, mark: Mark) -> Row:
    scale = write_scale(mark.scale or said.scale)
    return own | {"criterion": mark.name, "score": mark.score, "scale": scale, "confidence": mark.confidence}


CRITIQUES: Final = Projection("critiques", 6, (TABLE, MARKS, MEASURES, DECISIONS), project_critique, unchanged)
"""The projection that keeps critiques, and what people decided about the same drafts."""


async def critics(views: Views, since: datetime | None = None, workflow: str = "") -> list[Critic]:
    """Returns every critic with its critiques since a time, in runs of a workflow or in all, by name.

    What forks repeat and verdicts taken again count once. `workflow` needs `RUNS` in the same storage.
    """
    where, given = select_runs("time", since, workflow)
    sql = f"""
        SELECT critic, count(*), count(DISTINCT run), avg(score), min(score), max(score),
            coalesce(sum(CASE WHEN approved = 1 THEN 1 ELSE 0 END), 0),
            coalesce(sum(CASE WHEN approved = 0 THEN 1 ELSE 0 END), 0),
            CAST(sum(errors) AS BIGINT), CAST(sum(suggestions) AS BIGINT), max(time),
            CASE WHEN count(DISTINCT coalesce(scale, '')) = 1 THEN max(scale) END
        FROM critiques WHERE repeated = 0 AND {where} GROUP BY critic ORDER BY critic
    """  # noqa: S608 - made of what stands there
    return await views.read(row_decoder(Critic, "last"), sql, given)


async def critiques_of(views: Views, run: str) -> list[CritiqueLine]:
    """Returns the critiques of a run, in order."""
    columns = ", ".join(CritiqueLine.__struct_fields__)
    sql = f"SELECT {columns} FROM critiques WHERE run = ? ORDER BY version"  # noqa: S608
    return await views.read(row_decoder(CritiqueLine, "time"), sql, (run,))


async def criteria(views: Views, since: datetime | None = None, workflow: str = "") -> list[CriterionTotal]:
    """Returns every criterion of every critic with its scores since a time, in runs of a workflow or in all.

    What forks repeat and verdicts taken again count once. `workflow` needs `RUNS` in the same storage.
    """
    where, given = select_runs("time", since, workflow)
    sql = f"""
        SELECT critic, criterion, count(*), count(DISTINCT run), avg(score), min(score), max(score), avg(confidence),
            CASE WHEN count(DISTINCT coalesce(scale, '')) = 1 THEN max(scale) END
        FROM marks WHERE repeated = 0 AND {where} GROUP BY critic, criterion ORDER BY critic, criterion
    """  # noqa: S608 - made of what stands there
    return await views.read(row_decoder(CriterionTotal), sql, given)


async def criteria_of(views: Views, run: str) -> list[CriterionLine]:
    """Returns the scores of a run by criterion, in order."""
    columns = ", ".join(CriterionLine.__struct_fields__)
    sql = f"SELECT {columns} FROM marks WHERE run = ? ORDER BY version, criterion"  # noqa: S608
    return await views.read(row_decoder(CriterionLine, "time"), sql, (run,))


async def measures(views: Views, since: datetime | None = None, workflow: str = "") -> list[MeasureTotal]:
    """Returns every measure of every critic with its numbers since a time, in runs of a workflow or in all.

    What forks repeat counts once. `workflow` needs `RUNS` in the same storage.
    """
    where, given = select_runs("time", since, workflow)
    sql = f"""
        SELECT critic, measure, count(*), count(DISTINCT run), avg(value), min(value), max(value)
        FROM measures WHERE repeated = 0 AND {where} GROUP BY critic, measure ORDER BY critic, measure
    """  # noqa: S608 - made of what stands there
    return await views.read(row_decoder(MeasureTotal), sql, given)


async def measures_of(views: Views, run: str) -> list[MeasureLine]:
    """Returns what critics counted in a run, in order."""
    columns = ", ".join(MeasureLine.__struct_fields__)
    sql = f"SELECT {columns} FROM measures WHERE run = ? ORDER BY version, measure"  # noqa: S608
    return await views.read(row_decoder(MeasureLine, "time"), sql, (run,))


SCORES_TABLE: Final = Table(
    "scores",
    {
        "run": "TEXT NOT NULL",
        "draft": "INTEGER NOT NULL",
        "score": "REAL NOT NULL",
        "scale": "TEXT",
        "critics": "INTEGER NOT NULL",
        "within": "TEXT NOT NULL",
        "repeated": "INTEGER NOT NULL",
        "time": "REAL NOT NULL",
        "position": "INTEGER NOT NULL",
    },
    key=2,
)
"""`within` is the iteration of the loop in which the draft was judged last, `critics` how many judged it there;
`repeated` is 1 for what a fork repeats from its parent.
"""


class Scored(msgspec.Struct, frozen=True):
    """A judged draft of a run: its version, joined score (0..1), number of critics, and UTC time."""

    draft: int
    score: float
    critics: int
    within: str
    time: datetime
    scale: str | None


class Course(msgspec.Struct, frozen=True):
    """The n-th drafts of runs (from 1): how many runs had one judged, and their scores (0..1)."""

    draft: int
    runs: int
    mean: float
    lowest: float
    highest: float
    scale: str | None


def project_score(recorded: Recorded) -> Sequence[Change]:
    """Returns the changes that an event makes to the score of a draft."""
    run, event = recorded.run, recorded.data
    if isinstance(event, RunStarted):
        return (Delete("scores", (run,)),)  # there are none: said, it need not be looked up
    match score_of(event):
        case CriticScore(draft, within, score, scale):
            time = seconds(recorded.time)
            new: Row = {"run": run, "draft": draft, "score": 1.0, "critics": 0, "within": within, "time": time}
            again: Row = {"within": within, "score": 1.0, "critics": 0}
            last: Row = {"time": time, "position": recorded.position, "repeated": int(bool(recorded.repeats))}
            last["scale"] = write_scale(scale)
            new |= last
            return (
                SetAll("scores", run, again, {"draft": (draft,)}, {"within": (within,)}),
                Set("scores", (run, draft), last, {"critics": 1}, None, {"score": score}, new),
            )
        case JoinedScore(draft, score, scale):
            return (Set("scores", (run, draft), {"score": score, "scale": write_scale(scale)}),)
        case None:
            return ()


SCORES: Final = Projection("scores", 2, (SCORES_TABLE,), project_score, unchanged)
"""The projection that keeps scores."""


async def series(views: Views, run: str) -> list[Scored]:
    """Returns the scores of a run's drafts, by version."""
    sql = "SELECT draft, score, critics, within, time, scale FROM scores WHERE run = ? ORDER BY draft"
    return await views.read(row_decoder(Scored, "time"), sql, (run,))


async def course(views: Views, since: datetime | None = None, workflow: str = "") -> list[Course]:
    """Returns the scores of first, second and later drafts since a time, in runs of a workflow or in all.

    `workflow` needs `RUNS` in the same storage.
    """
    where, given = select_runs("time", since, workflow)
    sql = f"""
        SELECT draft, count(*), avg(score), min(score), max(score),
            CASE WHEN count(DISTINCT coalesce(scale, '')) = 1 THEN max(scale) END
        FROM scores
        WHERE repeated = 0 AND {where} GROUP BY draft ORDER BY draft
    """  # noqa: S608 - made of what stands there
    return await views.read(row_decoder(Course), sql, given)
