"""How every projection in a place stands: those of this program, and those of others."""

from __future__ import annotations

import msgspec

from redraft.projections.place import Cursor
from redraft.projections.positions import Positions, beside
from redraft.projections.projection import BESIDE


class Building(msgspec.Struct, frozen=True):
    """Rows of this version are being made beside those that are read, and count the events up to `position`."""

    version: int
    position: int
    failed: int
    error: str


class State(msgspec.Struct, frozen=True):
    """A projection: its rows are of this version, and count every event up to `position`.

    `failed` is the position of the event at which it has stopped (0: it has not), `error` what is wrong with it;
    `rows` says how many rows each of its tables has.
    """

    name: str
    version: int
    position: int
    failed: int
    error: str
    rows: dict[str, int]
    building: Building | None = None


def states(positions: Positions, cursor: Cursor) -> tuple[State, ...]:
    """Every projection, by name."""
    marks = positions.marks(cursor)
    found: list[State] = []
    for track, mark in sorted(marks.items()):
        if track.endswith(BESIDE):
            continue
        built = marks.get(beside(track))
        building = Building(built.version, built.position, built.failed, built.error) if built else None
        rows = {table: _count(cursor, table) for table in positions.shape(cursor, track)}
        found.append(State(track, mark.version, mark.position, mark.failed, mark.error, rows, building))
    return tuple(found)


def _count(cursor: Cursor, table: str) -> int:
    (count,) = cursor.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608 - checked names
    return int(count)
