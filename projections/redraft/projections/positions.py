"""How far each projection has come, and which version of it made the rows: kept beside the rows, in their transaction.

The position is a tracking row of the `eventsourcing` library, a high-water mark that can only rise.
"""

from __future__ import annotations

import sqlite3
from typing import Final, cast

import msgspec
from eventsourcing.persistence import Tracking
from eventsourcing.sqlite import SQLiteCursor, SQLiteDatastore, SQLiteTrackingRecorder

from redraft.projections.place import Cursor, Mark, Tracks
from redraft.projections.projection import Projection

_VERSIONS: Final = (
    "CREATE TABLE redraft_projections "
    "(name TEXT PRIMARY KEY, version INTEGER NOT NULL, tables TEXT NOT NULL) WITHOUT ROWID"
)
_LOG: Final = "CREATE TABLE redraft_log (first TEXT NOT NULL)"
_MARKS: Final = """
    SELECT json_group_array(json_array(name, version, ifnull(notification_id, 0)))
    FROM redraft_projections LEFT JOIN tracking ON application_name = name
"""


class SqliteTracks:
    """The positions in a SQLite file; see `Tracks`."""

    def __init__(self) -> None:
        self._recorder = SQLiteTrackingRecorder(SQLiteDatastore(":memory:"))  # it never connects: cursors are ours

    def create(self, cursor: Cursor) -> None:
        if cursor.execute("SELECT 1 FROM sqlite_master WHERE name = 'redraft_projections'").fetchone() is None:
            cursor.execute(_VERSIONS)
            cursor.execute(_LOG)
            self._recorder._create_table(SQLiteCursor(cast("sqlite3.Cursor", cursor)))

    def move(self, cursor: Cursor, name: str, position: int) -> None:
        self._recorder._insert_tracking(SQLiteCursor(cast("sqlite3.Cursor", cursor)), Tracking(name, position))

    def marks(self, cursor: Cursor) -> dict[str, Mark]:
        """Read with one statement that gives one row."""
        (found,) = cursor.execute(_MARKS).fetchone()
        read = msgspec.json.decode(found, type=list[tuple[str, int, int]])
        return {name: Mark(version, position) for name, version, position in read}


SQLITE_TRACKS: Final = SqliteTracks()


class Positions:
    """Reads and moves the marks; every call is part of its caller's transaction."""

    def __init__(self, tracks: Tracks) -> None:
        self._tracks = tracks

    def create(self, cursor: Cursor) -> None:
        """Makes the tables, if they are not there."""
        self._tracks.create(cursor)

    def marks(self, cursor: Cursor) -> dict[str, Mark]:
        """All marks, by the projection's name."""
        return self._tracks.marks(cursor)

    def move(self, cursor: Cursor, name: str, position: int) -> None:
        """Raises a projection's position."""
        self._tracks.move(cursor, name, position)

    def reset(self, cursor: Cursor, projection: Projection) -> None:
        """Sets a projection to its present version and tables, at the beginning of the log."""
        cursor.execute("DELETE FROM tracking WHERE application_name = ?", (projection.name,))
        made = (projection.name, projection.version, " ".join(table.name for table in projection.tables))
        cursor.execute("DELETE FROM redraft_projections WHERE name = ?", (projection.name,))
        cursor.execute("INSERT INTO redraft_projections VALUES (?, ?, ?)", made)

    def tables(self, cursor: Cursor, name: str) -> list[str]:
        """The tables that the file has of a projection, in whichever version."""
        found = cursor.execute("SELECT tables FROM redraft_projections WHERE name = ?", (name,)).fetchone()
        return [] if found is None else str(found[0]).split()

    def log(self, cursor: Cursor) -> str | None:
        """The hash of the first event of the log that the rows came from; None if that is not known yet."""
        found = cursor.execute("SELECT first FROM redraft_log").fetchone()
        return None if found is None else str(found[0])

    def set_log(self, cursor: Cursor, first: str | None) -> None:
        cursor.execute("DELETE FROM redraft_log")
        if first is not None:
            cursor.execute("INSERT INTO redraft_log VALUES (?)", (first,))
