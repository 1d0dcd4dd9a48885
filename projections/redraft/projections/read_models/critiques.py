"""Critiques: one row for each, for each of its criteria and measures, and totals for each critic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, TypeVar

import msgspec

from redraft.events.messages.content import Critique, Mark, marks_text
from redraft.events.messages.domain_events import (
    DraftApproved,
    DraftCritiqued,
    DraftRejected,
)
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.scales import write_scale
from redraft.projections.engine.projection import (
    Change,
    Projection,
    Put,
    Row,
    Table,
    Value,
    seconds,
    unchanged,
)
from redraft.projections.engine.storage import row_decoder
from redraft.projections.engine.views import Views
from redraft.projections.read_models.agreement import DECISIONS, decision_row
from redraft.projections.read_models.runs import ONE_SCALE, select_runs

T = TypeVar("T", bound=msgspec.Struct)

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


def _part_table(name: str, what: str, columns: Mapping[str, str]) -> Table:
    """Returns a table with rows for each `what` of a critique."""
    own = {"run": "TEXT NOT NULL", "version": "INTEGER NOT NULL", what: "TEXT NOT NULL", "critic": "TEXT NOT NULL"}
    said = {"repeated": "INTEGER NOT NULL", "time": "REAL NOT NULL", "position": "INTEGER NOT NULL"}
    return Table(name, {**own, "draft": "INTEGER NOT NULL", **columns, **said}, key=3)


MARKS: Final = _part_table("marks", "criterion", {"score": "REAL NOT NULL", "scale": "TEXT", "confidence": "REAL"})
"""One row for each criterion of a critique."""

MEASURES: Final = _part_table("measures", "measure", {"value": "REAL NOT NULL"})
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
    """A critic's score of a draft for one criterion, by the version of the critique in the run, and its step's path."""

    version: int
    critic: str
    criterion: str
    draft: int
    score: float
    scale: str | None
    confidence: float | None
    time: datetime
    path: str


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
    """The measures that a critic gave a draft, by the version of the critique in the run, and its step's path."""

    version: int
    critic: str
    measure: str
    draft: int
    value: float
    time: datetime
    path: str


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


CRITIQUES: Final = Projection(
    "critiques",
    6,
    (TABLE, MARKS, MEASURES, DECISIONS),
    project_critique,
    unchanged,
    only=(DraftCritiqued, DraftApproved, DraftRejected),
)
"""The projection that keeps critiques, and what people decided about the same drafts."""


async def critics(views: Views, since: datetime | None = None, workflow: str = "") -> list[Critic]:
    """Returns every critic with its critiques since a time, in runs of a workflow or in all, by name.

    What forks repeat and verdicts taken again count once, here and below. `workflow` needs `RUNS` in the same storage.
    """
    numbers = f"""avg(score), min(score), max(score),
        coalesce(sum(CASE WHEN approved = 1 THEN 1 ELSE 0 END), 0),
        coalesce(sum(CASE WHEN approved = 0 THEN 1 ELSE 0 END), 0),
        CAST(sum(errors) AS BIGINT), CAST(sum(suggestions) AS BIGINT), max(time), {ONE_SCALE}"""
    return await views.read(row_decoder(Critic, "last"), *_totals(TABLE, "critic", numbers, since, workflow))


async def criteria(views: Views, since: datetime | None = None, workflow: str = "") -> list[CriterionTotal]:
    """Returns every criterion of every critic with its scores since a time, in runs of a workflow or in all."""
    numbers = f"avg(score), min(score), max(score), avg(confidence), {ONE_SCALE}"
    return await views.read(row_decoder(CriterionTotal), *_totals(MARKS, "critic, criterion", numbers, since, workflow))


async def measures(views: Views, since: datetime | None = None, workflow: str = "") -> list[MeasureTotal]:
    """Returns every measure of every critic with its numbers since a time, in runs of a workflow or in all."""
    numbers = "avg(value), min(value), max(value)"
    return await views.read(row_decoder(MeasureTotal), *_totals(MEASURES, "critic, measure", numbers, since, workflow))


def _totals(table: Table, by: str, numbers: str, since: datetime | None, workflow: str) -> tuple[str, dict[str, Value]]:
    """Returns the query, with its parameters, for how many critiques and runs each had, and these numbers."""
    where, given = select_runs("time", since, workflow)
    sql = f"""
        SELECT {by}, count(*), count(DISTINCT run), {numbers}
        FROM {table.name} WHERE repeated = 0 AND {where} GROUP BY {by} ORDER BY {by}
    """  # noqa: S608 - made of what stands there
    return sql, given


async def critiques_of(views: Views, run: str) -> list[CritiqueLine]:
    """Returns the critiques of a run, in order."""
    return await _lines_of(views, TABLE, CritiqueLine, run)


async def criteria_of(views: Views, run: str) -> list[CriterionLine]:
    """Returns the scores of a run by criterion, in order."""
    return await _lines_of(views, MARKS, CriterionLine, run)


async def measures_of(views: Views, run: str) -> list[MeasureLine]:
    """Returns what critics counted in a run, in order."""
    return await _lines_of(views, MEASURES, MeasureLine, run)


async def _lines_of(views: Views, table: Table, kind: type[T], run: str) -> list[T]:
    path = f"(SELECT path FROM critiques AS c WHERE c.run = {table.name}.run AND c.version = {table.name}.version)"  # noqa: S608
    columns = ", ".join(path if name == "path" else name for name in kind.__struct_fields__)
    order = ", ".join(table.keys[1:])
    sql = f"SELECT {columns} FROM {table.name} WHERE run = ? ORDER BY {order}"  # noqa: S608
    return await views.read(row_decoder(kind, "time"), sql, (run,))
