"""How far each projection has come, and which version of it made the rows: kept beside the rows, in their transaction.

A projection has one set of tables that is read, its live one, and while a new version of it or a rebuild is under way a
second one beside it. Each of the two has a track: a name under which its position is kept.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from redraft.events.envelope import Unreadable
from redraft.events.errors import InputError
from redraft.projections.place import Cursor, Mark, Tables, Tracks
from redraft.projections.projection import BESIDE, Projection, Table

VERSIONS: Final = (
    "CREATE TABLE redraft_projections (track {text} PRIMARY KEY, version {integer} NOT NULL, build {integer} NOT NULL, "
    "tables {text} NOT NULL, failed {integer} NOT NULL, error {text} NOT NULL)"
)
ASIDE: Final = (
    "CREATE TABLE redraft_aside (track {text} NOT NULL, run {text} NOT NULL, version {integer} NOT NULL, "
    "position {integer} NOT NULL, error {text} NOT NULL, again {integer} NOT NULL, PRIMARY KEY (track, run))"
)
"""Runs that are set aside. `again` is 1 where it is the event that cannot be read, which another release may."""
LOG: Final = "CREATE TABLE redraft_log (first {text} NOT NULL)"
FIXED: Final = ("redraft_projections", "redraft_log", "redraft_aside", "tracking")
"""The tables that positions are kept in."""

Shape: TypeAlias = dict[str, list[str]]
"""The columns of each table with their types, as they were when it was made."""


class Aside(msgspec.Struct, frozen=True):
    """A run that is not projected to a track from the event `version` on, at this position of the log, and why.

    `again`: another release may be able to read that event.
    """

    track: str
    run: str
    version: int
    position: int
    error: str
    again: bool


def beside(name: str) -> str:
    """The track of what is built beside the live tables of a projection."""
    return name + BESIDE


def laid(table: Table, track: str, build: int) -> Table:
    """A table as it lies in its place: named after its track, its indexes so that no other build has the same."""
    name = beside(table.name) if track.endswith(BESIDE) else table.name
    indexes = {f"{table.name}_i{number}_{build}": rest for number, rest in enumerate(table.indexes.values())}
    return replace(table, name=name, indexes=indexes)


class Positions:
    """Reads and moves the marks, makes tables and drops them; every call is part of its caller's transaction."""

    def __init__(self, tracks: Tracks, tables: Tables) -> None:
        self._tracks = tracks
        self._tables = tables

    def create(self, cursor: Cursor) -> None:
        """Makes the tables of positions, if they are not there."""
        self._tracks.create(cursor)

    def marks(self, cursor: Cursor) -> dict[str, Mark]:
        """All marks, by track."""
        return self._tracks.marks(cursor)

    def move(self, cursor: Cursor, track: str, position: int) -> None:
        """Raises a position."""
        self._tracks.move(cursor, track, position)

    def fail(self, cursor: Cursor, track: str, failed: int, error: str) -> None:
        """Notes that an event cannot be projected, and why; with 0 and nothing, that it now can."""
        cursor.execute("UPDATE redraft_projections SET failed = ?, error = ? WHERE track = ?", (failed, error, track))

    def begin(self, cursor: Cursor, projection: Projection, track: str, build: int) -> Mark:
        """Makes the tables of a track anew, at the beginning of the log.

        Raises InputError when another projection has a table of the same name.
        """
        self.drop(cursor, track)
        self._refuse_taken(cursor, projection)
        for table in projection.tables:
            self._tables.create(cursor, laid(table, track, build))
        shape: Shape = {
            table.name: [f"{name} {kind}" for name, kind in table.columns.items()] for table in projection.tables
        }
        made = (track, projection.version, build, msgspec.json.encode(shape).decode(), 0, "")
        cursor.execute("INSERT INTO redraft_projections VALUES (?, ?, ?, ?, ?, ?)", made)
        return Mark(projection.version, 0, build)

    def _refuse_taken(self, cursor: Cursor, projection: Projection) -> None:
        names = {table.name for table in projection.tables}
        for track in self.marks(cursor):
            taken = sorted(names & self.shape(cursor, track).keys())
            if taken and track.removesuffix(BESIDE) != projection.name:
                raise InputError(
                    f"projection {projection.name}: the table {taken[0]!r} is that of the projection "
                    f"{track.removesuffix(BESIDE)!r}; name it otherwise"
                )

    def drop(self, cursor: Cursor, track: str) -> None:
        """Takes a track away with its tables, if it is there."""
        for table in self.shape(cursor, track):
            cursor.execute(f"DROP TABLE IF EXISTS {beside(table) if track.endswith(BESIDE) else table}")
        cursor.execute("DELETE FROM redraft_aside WHERE track = ?", (track,))
        cursor.execute("DELETE FROM tracking WHERE application_name = ?", (track,))
        cursor.execute("DELETE FROM redraft_projections WHERE track = ?", (track,))

    def switch(self, cursor: Cursor, name: str) -> None:
        """Puts what was built beside the live tables of a projection in their place."""
        built = beside(name)
        self.drop(cursor, name)
        for table in self.shape(cursor, built):
            cursor.execute(f"ALTER TABLE {beside(table)} RENAME TO {table}")
        cursor.execute("UPDATE redraft_aside SET track = ? WHERE track = ?", (name, built))
        cursor.execute("UPDATE tracking SET application_name = ? WHERE application_name = ?", (name, built))
        cursor.execute("UPDATE redraft_projections SET track = ? WHERE track = ?", (name, built))

    def set_aside(self, cursor: Cursor, track: str, entry: Unreadable) -> None:
        """Notes that nothing more of a run is projected to a track. One without a hash was read, and not taken."""
        what = (track, entry.run, entry.version, entry.position, entry.why, int(bool(entry.hash)))
        cursor.execute("INSERT INTO redraft_aside VALUES (?, ?, ?, ?, ?, ?)", what)

    def settle(self, cursor: Cursor, track: str, run: str) -> None:
        """Notes that a run that is set aside need not be looked at again: somebody has quarantined it."""
        cursor.execute("UPDATE redraft_aside SET again = 0 WHERE track = ? AND run = ?", (track, run))

    def aside(self, cursor: Cursor) -> list[Aside]:
        """The runs that are set aside, by track, those at the latest positions first."""
        sql = "SELECT track, run, version, position, error, again FROM redraft_aside ORDER BY position DESC, track"
        return [Aside(row[0], row[1], row[2], row[3], row[4], bool(row[5])) for row in cursor.execute(sql).fetchall()]

    def shape(self, cursor: Cursor, track: str) -> Shape:
        """The tables of a track, in whichever version; none if it is not there."""
        found = cursor.execute("SELECT tables FROM redraft_projections WHERE track = ?", (track,)).fetchone()
        return {} if found is None else msgspec.json.decode(str(found[0]), type=Shape)

    def log(self, cursor: Cursor) -> str | None:
        """The hash of the first event of the log that the rows came from; None if that is not known yet."""
        found = cursor.execute("SELECT first FROM redraft_log").fetchone()
        return None if found is None else str(found[0])

    def set_log(self, cursor: Cursor, first: str | None) -> None:
        cursor.execute("DELETE FROM redraft_log")
        if first is not None:
            cursor.execute("INSERT INTO redraft_log VALUES (?)", (first,))
