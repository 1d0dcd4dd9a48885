"""What critics said, one row a critique, and what it adds up to for each critic."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from redraft.events.domain_events import DraftCritiqued
from redraft.events.envelope import Recorded
from redraft.projections.lines import line_of
from redraft.projections.of_workflow import of_workflow
from redraft.projections.projection import Change, Projection, Put, Table, Value, seconds, unchanged
from redraft.projections.views import Views

TABLE: Final = Table(
    "critiques",
    {
        "run": "TEXT NOT NULL",
        "version": "INTEGER NOT NULL",
        "critic": "TEXT NOT NULL",
        "path": "TEXT NOT NULL",
        "draft": "INTEGER NOT NULL",
        "score": "REAL NOT NULL",
        "approved": "INTEGER",
        "errors": "INTEGER NOT NULL",
        "suggestions": "INTEGER NOT NULL",
        "repeated": "INTEGER NOT NULL",
        "time": "REAL NOT NULL",
        "position": "INTEGER NOT NULL",
    },
    key=2,
)
"""`repeated` is 1 where a fork repeats what was said in its parent."""


class Critic(msgspec.Struct, frozen=True):
    """A critic: in how many runs it gave how many critiques, and what they said.

    Scores are 0..1. `approved` and `refused` count its verdicts, `errors` and `suggestions` what it named in all;
    `last` is the time (UTC) of its last critique.
    """

    critic: str
    critiques: int
    runs: int
    mean: float
    lowest: float
    highest: float
    approved: int
    refused: int
    errors: int
    suggestions: int
    last: datetime


class CritiqueLine(msgspec.Struct, frozen=True):
    """A critique of a draft of a run, by its version in the run: who, where, when (UTC), and how many of what."""

    version: int
    critic: str
    path: str
    draft: int
    score: float
    approved: bool | None
    errors: int
    suggestions: int
    time: datetime


def project_critique(recorded: Recorded) -> Sequence[Change]:
    """The row of a critique."""
    event = recorded.data
    if not isinstance(event, DraftCritiqued):
        return ()
    said = event.critique
    return (
        Put(
            "critiques",
            {
                "run": recorded.run,
                "version": recorded.version,
                "critic": said.critic or event.path.rpartition("/")[2],
                "path": event.path,
                "draft": event.draft.version,
                "score": said.score,
                "approved": said.approved,
                "errors": len(said.errors),
                "suggestions": len(said.suggestions),
                "repeated": int(bool(recorded.repeats)),
                "time": seconds(recorded.time),
                "position": recorded.position,
            },
        ),
    )


CRITIQUES: Final = Projection("critiques", 1, (TABLE,), project_critique, unchanged)
"""The projection that keeps them."""


async def critics(views: Views, since: datetime | None = None, workflow: str = "") -> list[Critic]:
    """Every critic, with what it said since then, in runs of a workflow or in all, by name.

    What forks repeat counts once. `workflow` needs `RUNS` in the same place.
    """
    sql = f"""
        SELECT critic, count(*), count(DISTINCT run), avg(score), min(score), max(score),
            coalesce(sum(CASE WHEN approved = 1 THEN 1 ELSE 0 END), 0),
            coalesce(sum(CASE WHEN approved = 0 THEN 1 ELSE 0 END), 0),
            CAST(sum(errors) AS BIGINT), CAST(sum(suggestions) AS BIGINT), max(time)
        FROM critiques WHERE repeated = 0 AND time >= :since {of_workflow(workflow)} GROUP BY critic ORDER BY critic
    """  # noqa: S608 - made of what stands there
    given: dict[str, Value] = {"since": seconds(since) if since else 0.0, "workflow": workflow}
    return await views.read(line_of(Critic, "last"), sql, given)


async def critiques_of(views: Views, run: str) -> list[CritiqueLine]:
    """The critiques of a run, in their order."""
    sql = (
        "SELECT version, critic, path, draft, score, approved, errors, suggestions, time FROM critiques "
        "WHERE run = ? ORDER BY version"
    )
    return await views.read(line_of(CritiqueLine, "time"), sql, (run,))
