"""Reports the state of every projection in a database: those of this program and those of others."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Final

import msgspec

from redraft.projections.display import error_text, plain
from redraft.projections.engine.positions import Positions, Shape, columns_of, shadow_name
from redraft.projections.engine.projection import SHADOW_SUFFIX, OwnError, Projection, Table
from redraft.projections.engine.storage import Cursor

MAX_ERROR_LENGTH: Final = 500
"""The maximum number of characters kept of an error."""


class Stopped(msgspec.Struct, frozen=True):
    """A projection that failed on the event at the position `failed`; it stays at `position`, and the others go on."""

    projection: str
    position: int
    failed: int
    error: str


class SetAside(msgspec.Struct, frozen=True):
    """A run whose events from `version` on are not projected, because that one cannot be read or processed."""

    run: str
    version: int
    position: int
    error: str


class Resumed(msgspec.Struct, frozen=True):
    """A projection that had stopped and goes on; it has reached this position."""

    projection: str
    position: int


class ProjectionFailed(Exception):
    """Carries the failed projection and its error out of the transaction, which is rolled back."""

    def __init__(self, projection: Projection, error: Exception) -> None:
        super().__init__(projection.name)
        self.projection = projection
        self.error = error


def describe_error(error: Exception) -> str:
    """Returns an error as one line that every database keeps: class, message, and the place in the projection's own
    code.
    """
    raised = error.error if isinstance(error, OwnError) else error
    said = plain(error_text(raised), MAX_ERROR_LENGTH)
    ours = str(Path(__file__).parents[1])
    frames = [each for each in traceback.extract_tb(raised.__traceback__) if not each.filename.startswith(ours)]
    return f"{said} ({plain(Path(frames[-1].filename).name)}, line {frames[-1].lineno})" if frames else said


class Building(msgspec.Struct, frozen=True):
    """Shadow rows of this version are being built, and count the events up to `position`."""

    version: int
    position: int
    failed: int
    error: str


class State(msgspec.Struct, frozen=True):
    """A projection: its rows are of `version` and count every event up to `position`.

    `failed` is the position of the event at which it stopped (0: it has not), `error` the reason; `rows` holds the
    number of rows of each table.
    """

    name: str
    version: int
    position: int
    failed: int
    error: str
    rows: dict[str, int]
    building: Building | None = None


def read_states(positions: Positions, cursor: Cursor) -> tuple[State, ...]:
    """Returns the state of every projection, by name."""
    checkpoints = positions.checkpoints(cursor)
    found: list[State] = []
    for name, live in sorted(checkpoints.items()):
        if name.endswith(SHADOW_SUFFIX):
            continue
        built = checkpoints.get(shadow_name(name))
        building = Building(built.version, built.position, built.failed, built.error) if built else None
        rows = {table: _count_rows(cursor, table) for table in positions.shape(cursor, name)}
        found.append(State(name, live.version, live.position, live.failed, live.error, rows, building))
    return tuple(found)


class Compared(msgspec.Struct, frozen=True):
    """The rows of a table `before` and `after` a rebuild, and how many differ: None for new tables or columns."""

    before: int
    after: int
    differ: int | None

    @property
    def same(self) -> bool | None:
        """Returns whether the rows are equal; None when they cannot be compared."""
        return None if self.differ is None else self.differ == 0 and self.before == self.after


class Switched(msgspec.Struct, frozen=True):
    """The shadow rows of a projection have replaced its live rows, of version `before`, at this position of the log."""

    projection: str
    before: int
    version: int
    position: int
    tables: dict[str, Compared]

    @property
    def same(self) -> bool | None:
        """Returns whether all rows are equal to the old ones; None when some cannot be compared."""
        answers = [table.same for table in self.tables.values()]
        return None if None in answers else all(answers)


def compare_tables(cursor: Cursor, live: Shape, built: Projection, same: str) -> dict[str, Compared]:
    """Compares each newly built table with the live one of the same name; `same` is as in `Tables`."""
    return {table.name: _compare_table(cursor, table, live.get(table.name), same) for table in built.tables}


def _compare_table(cursor: Cursor, table: Table, before: list[str] | None, same: str) -> Compared:
    name, new = table.name, shadow_name(table.name)
    built = _count_rows(cursor, new)
    if before is None:
        return Compared(0, built, None)
    if before != columns_of(table):
        return Compared(_count_rows(cursor, name), built, None)
    tests = [f"{name}.{key} = {new}.{key}" for key in table.keys]  # so that each row is looked up by its key
    tests += [f"{name}.{column} {same} {new}.{column}" for column in tuple(table.columns)[table.key :]]
    differing = f"{new} WHERE NOT EXISTS (SELECT 1 FROM {name} WHERE {' AND '.join(tests)})"  # noqa: S608 - checked names
    return Compared(_count_rows(cursor, name), built, _count_rows(cursor, differing))


def _count_rows(cursor: Cursor, rows: str) -> int:
    (count,) = cursor.execute(f"SELECT count(*) FROM {rows}").fetchone()  # noqa: S608 - checked names
    return int(count)
