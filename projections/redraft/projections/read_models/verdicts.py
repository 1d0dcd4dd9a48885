"""Verdicts of critics that other runs may take again, by the key of what the critic was given."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from redraft.events.messages.domain_events import (
    DraftCritiqued,
    EventRef,
    RunErased,
    RunQuarantined,
    RunStarted,
    StepRequested,
)
from redraft.events.messages.envelope import Recorded, Unreadable
from redraft.projections.engine.projection import Change, Delete, Projection, Put, Row, Set, Table
from redraft.projections.engine.storage import row_decoder
from redraft.projections.engine.views import Views

TABLE: Final = Table(
    "verdicts",
    {
        "run": "TEXT NOT NULL",
        "path": "TEXT NOT NULL",
        "attempt": "INTEGER NOT NULL",
        "given": "TEXT NOT NULL",
        "version": "INTEGER NOT NULL",
        "position": "INTEGER NOT NULL",
    },
    key=2,
    indexes={"verdicts_given": "(given, position) WHERE version > 0"},
)
"""`given` is the key, `version` the event of the verdict: 0 while the critic has not answered."""

MOST: Final = 8
"""The most verdicts with one key that are returned, the latest."""


def project_verdict(recorded: Recorded) -> Sequence[Change]:
    """Returns the row of a request with a key, and the change by its answer.

    An encrypted run has no rows, nor has one that was erased or set aside; what a fork repeats is found in its parent,
    and what was taken again where it was taken from. A verdict that changed its run's state is none to take again, nor
    is that of a critic that looked at more than it was given.
    """
    event, run = recorded.data, recorded.run
    match event:
        case RunStarted() | RunErased() | RunQuarantined():
            return (Delete("verdicts", (run,)),)
        case StepRequested() if event.verdict_key and event.reused is None and _may_be_taken(recorded):
            row: Row = {"run": run, "path": event.path, "attempt": event.attempt, "given": event.verdict_key}
            return (Put("verdicts", row | {"version": 0, "position": recorded.position}),)
        case DraftCritiqued(reused=None, hermetic=True, state=changes) if not changes and _may_be_taken(recorded):
            said: Row = {"version": recorded.version, "position": recorded.position}
            return (Set("verdicts", (run, event.path), said, where={"attempt": (event.attempt,)}),)
        case _:
            return ()


def _may_be_taken(recorded: Recorded) -> bool:
    return not (recorded.encrypted or recorded.repeats)


def _set_aside(entry: Unreadable) -> Iterable[Change]:
    return (Delete("verdicts", (entry.run,)),)


VERDICTS: Final = Projection(
    "verdicts",
    1,
    (TABLE,),
    project_verdict,
    _set_aside,
    clears=(RunErased, RunQuarantined),
    only=(RunStarted, StepRequested, DraftCritiqued),
)
"""The projection that keeps these rows."""


async def verdicts(views: Views, key: str) -> list[EventRef]:
    """Returns the events with a verdict under this key, at most `MOST`, the latest first."""
    sql = "SELECT run, version FROM verdicts WHERE given = :given AND version > 0 ORDER BY position DESC LIMIT :most"
    return await views.read(row_decoder(EventRef), sql, {"given": key, "most": MOST})
