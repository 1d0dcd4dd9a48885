"""The positions in a SQLite file: tracking rows of the `eventsourcing` library, high-water marks that can only rise."""

from __future__ import annotations

import sqlite3
from typing import Final, cast

import msgspec
from eventsourcing.persistence import Tracking
from eventsourcing.sqlite import SQLiteCursor, SQLiteDatastore, SQLiteTrackingRecorder

from redraft.projections.place import Cursor, Mark
from redraft.projections.positions import ASIDE, LOG, VERSIONS

_TYPES: Final = {"text": "TEXT", "integer": "INTEGER"}
_MARKS: Final = """
    SELECT json_group_array(json_array(track, version, ifnull(notification_id, 0), build, failed, error))
    FROM redraft_projections LEFT JOIN tracking ON application_name = track
"""


class SqliteTracks:
    """See `Tracks`."""

    def __init__(self) -> None:
        self._recorder = SQLiteTrackingRecorder(SQLiteDatastore(":memory:"))  # it never connects: cursors are ours

    def create(self, cursor: Cursor) -> None:
        if cursor.execute("SELECT 1 FROM sqlite_master WHERE name = 'redraft_projections'").fetchone() is None:
            cursor.execute(f"{VERSIONS.format_map(_TYPES)} WITHOUT ROWID")
            cursor.execute(LOG.format_map(_TYPES))
            self._recorder._create_table(SQLiteCursor(cast("sqlite3.Cursor", cursor)))
        if cursor.execute("SELECT 1 FROM sqlite_master WHERE name = 'redraft_aside'").fetchone() is None:
            cursor.execute(f"{ASIDE.format_map(_TYPES)} WITHOUT ROWID")

    def move(self, cursor: Cursor, track: str, position: int) -> None:
        self._recorder._insert_tracking(SQLiteCursor(cast("sqlite3.Cursor", cursor)), Tracking(track, position))

    def marks(self, cursor: Cursor) -> dict[str, Mark]:
        """Read with one statement that gives one row."""
        (found,) = cursor.execute(_MARKS).fetchone()
        return {row[0]: Mark(*row[1:]) for row in _ROWS.decode(found)}


_ROWS: Final = msgspec.json.Decoder(list[tuple[str, int, int, int, int, str]])

SQLITE_TRACKS: Final = SqliteTracks()
