"""The scores of all runs, one row a judged draft: how a run went, and how runs go on the whole.

The rows of one run are what `scores` folds of its events.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from redraft.events.domain_events import RunStarted
from redraft.events.envelope import Recorded
from redraft.projections.lines import line_of
from redraft.projections.of_workflow import of_workflow
from redraft.projections.projection import (
    Change,
    Delete,
    Projection,
    Row,
    Set,
    SetAll,
    Table,
    Value,
    seconds,
    unchanged,
)
from redraft.projections.scores import Heard, Settled, said
from redraft.projections.views import Views

TABLE: Final = Table(
    "scores",
    {
        "run": "TEXT NOT NULL",
        "draft": "INTEGER NOT NULL",
        "score": "REAL NOT NULL",
        "critics": "INTEGER NOT NULL",
        "within": "TEXT NOT NULL",
        "repeated": "INTEGER NOT NULL",
        "time": "REAL NOT NULL",
        "position": "INTEGER NOT NULL",
    },
    key=2,
)
"""`within` is the pass of the loop in which the draft was judged last, `critics` how many judged it there;
`repeated` is 1 where a fork repeats what happened in its parent."""


class Scored(msgspec.Struct, frozen=True):
    """A judged draft of a run by its version: its joined score (0..1), of how many critics, and when (UTC)."""

    draft: int
    score: float
    critics: int
    within: str
    time: datetime


class Course(msgspec.Struct, frozen=True):
    """The n-th draft of runs (from 1): how many runs had one judged, and its scores (0..1) on the whole."""

    draft: int
    runs: int
    mean: float
    lowest: float
    highest: float


def project_score(recorded: Recorded) -> Sequence[Change]:
    """What an event says of a draft's score."""
    run, event = recorded.run, recorded.data
    if isinstance(event, RunStarted):
        return (Delete("scores", (run,)),)  # there are none: said, it need not be looked up
    match said(event):
        case Heard(draft, within, score):
            time = seconds(recorded.time)
            new: Row = {"run": run, "draft": draft, "score": 1.0, "critics": 0, "within": within, "time": time}
            again: Row = {"within": within, "score": 1.0, "critics": 0}
            last: Row = {"time": time, "position": recorded.position, "repeated": int(bool(recorded.repeats))}
            new |= last
            return (
                SetAll("scores", run, again, {"draft": (draft,)}, {"within": (within,)}),
                Set("scores", (run, draft), last, {"critics": 1}, None, {"score": score}, new),
            )
        case Settled(draft, score):
            return (Set("scores", (run, draft), {"score": score}),)
        case None:
            return ()


SCORES: Final = Projection("scores", 1, (TABLE,), project_score, unchanged)
"""The projection that keeps them."""


async def series(views: Views, run: str) -> list[Scored]:
    """The scores of a run's drafts, by version."""
    sql = "SELECT draft, score, critics, within, time FROM scores WHERE run = ? ORDER BY draft"
    return await views.read(line_of(Scored, "time"), sql, (run,))


async def course(views: Views, since: datetime | None = None, workflow: str = "") -> list[Course]:
    """How the first, the second and each later draft of runs, of a workflow or of all, was scored since then.

    `workflow` needs `RUNS` in the same place.
    """
    sql = f"""
        SELECT draft, count(*), avg(score), min(score), max(score) FROM scores
        WHERE repeated = 0 AND time >= :since {of_workflow(workflow)} GROUP BY draft ORDER BY draft
    """  # noqa: S608 - made of what stands there
    given: dict[str, Value] = {"since": seconds(since) if since else 0.0, "workflow": workflow}
    return await views.read(line_of(Course), sql, given)
