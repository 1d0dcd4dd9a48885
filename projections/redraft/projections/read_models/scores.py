"""Scores: one row for each judged draft of a run, joined of what its critics gave, and their course over drafts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from redraft.events.messages.domain_events import DraftCritiqued, LoopEnded, RunStarted, StepRequested
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.scales import write_scale
from redraft.projections.engine.projection import Change, Delete, Projection, Row, Set, Table, seconds, unchanged
from redraft.projections.engine.storage import row_decoder
from redraft.projections.engine.views import Views
from redraft.projections.read_models.runs import ONE_SCALE, select_runs
from redraft.projections.run_views.chart import CriticScore, JoinedScore, score_of

TABLE: Final = Table(
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
                Set("scores", (run, draft), again, unless={"within": (within,)}),
                Set("scores", (run, draft), last, {"critics": 1}, None, {"score": score}, new),
            )
        case JoinedScore(draft, score, scale):
            return (Set("scores", (run, draft), {"score": score, "scale": write_scale(scale)}),)
        case None:
            return ()


SCORES: Final = Projection(
    "scores", 2, (TABLE,), project_score, unchanged, only=(RunStarted, DraftCritiqued, StepRequested, LoopEnded)
)
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
        SELECT draft, count(*), avg(score), min(score), max(score), {ONE_SCALE} FROM scores
        WHERE repeated = 0 AND {where} GROUP BY draft ORDER BY draft
    """  # noqa: S608 - made of what stands there
    return await views.read(row_decoder(Course), sql, given)
