"""The positions in PostgreSQL: tracking rows of the `eventsourcing` library, high-water marks that can only rise."""

from __future__ import annotations

from typing import Final, cast

from eventsourcing.persistence import Tracking
from eventsourcing.postgres import PostgresDatastore, PostgresTrackingRecorder
from psycopg import Cursor as PsycopgCursor
from psycopg.rows import DictRow

from redraft.events.postgres_schema import LASTING
from redraft.projections.place import Cursor, Mark
from redraft.projections.positions import ASIDE, FIXED, LOG, VERSIONS
from redraft.projections.postgres_session import PostgresCursor

_TYPES: Final = {"text": "text", "integer": "bigint"}
_MADE: Final = f"""
    SELECT relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE nspname = current_schema() AND relname IN {FIXED}
"""  # noqa: S608
_MARKS: Final = """
    SELECT track, version, coalesce(notification_id, 0), build, failed, error
    FROM redraft_projections LEFT JOIN tracking ON application_name = track
"""


class PostgresTracks:
    """See `Tracks`; the tables lie in the first schema of the search path."""

    def __init__(self) -> None:
        self._recorder: PostgresTrackingRecorder | None = None

    def create(self, cursor: Cursor) -> None:
        made = {name for (name,) in cursor.execute(_MADE).fetchall()}
        if not made >= set(FIXED):
            cursor.execute(LASTING)
        for name, statement in (("redraft_projections", VERSIONS), ("redraft_log", LOG), ("redraft_aside", ASIDE)):
            if name not in made:
                cursor.execute(statement.format_map(_TYPES))
        if "tracking" not in made:
            self._recorder_in(cursor)._create_table(_plain(cursor))

    def move(self, cursor: Cursor, track: str, position: int) -> None:
        self._recorder_in(cursor)._insert_tracking(_plain(cursor), Tracking(track, position))

    def marks(self, cursor: Cursor) -> dict[str, Mark]:
        return {track: Mark(*rest) for track, *rest in cursor.execute(_MARKS).fetchall()}

    def _recorder_in(self, cursor: Cursor) -> PostgresTrackingRecorder:
        if self._recorder is None:
            (schema,) = cursor.execute("SELECT current_schema()").fetchone()
            datastore = PostgresDatastore("", "", "", "", "", schema=schema)  # it never connects: cursors are ours
            self._recorder = PostgresTrackingRecorder(datastore, tracking_table_name="tracking")
        return self._recorder


def _plain(cursor: Cursor) -> PsycopgCursor[DictRow]:
    """The library's recorder looks at no row's columns here, only at whether there is one."""
    return cast("PsycopgCursor[DictRow]", cast("PostgresCursor", cursor).plain())
