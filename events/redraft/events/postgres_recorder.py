"""The recorder that keeps our events in PostgreSQL: the library's, with an insert of one round trip.

The library locks the whole table and waits for the server 14 times for each insert. Ours calls one function, which
takes an advisory lock, numbers the events without a gap, and tells whoever follows the log: see `postgres_schema`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final
from uuid import UUID

import psycopg
from eventsourcing.postgres import PostgresApplicationRecorder, PostgresDatastore
from psycopg.rows import DictRow, tuple_row
from psycopg.sql import SQL, Composed, Identifier

from redraft.events.postgres_connection import Connections, Database
from redraft.events.postgres_direct import PostgresDirectWriter
from redraft.events.postgres_keys import PostgresKeys
from redraft.events.postgres_listening import listen
from redraft.events.postgres_schema import EVENTS, inspect, prepare
from redraft.events.recorders import (
    LAST,
    Notification,
    Opened,
    StoredEvent,
    versions_between,
)

_MOST_BYTES: Final = 16 * 1024 * 1024
"""Bytes of events in one call of the function; a value can have 1 GB at most in PostgreSQL."""


def open_postgres(url: str) -> Opened:
    """The recorder of a database; raises InputError, StoreUnusable, StoreError."""
    database = Database(url)
    schema = prepare(database)
    datastore = Datastore(database, schema)
    direct = PostgresDirectWriter(database, schema)

    def is_ours(process: int) -> bool:
        return direct.serves(process) or datastore.connections.serves(process)

    listening = partial(listen, database, schema, is_ours)
    keys = PostgresKeys(database, schema, datastore.connections)
    check = partial(inspect, database, schema)
    return Opened(
        PostgresRecorder(datastore),
        database.where,
        True,
        datastore.close,
        listening,
        keys,
        check,
        None if sys.platform == "win32" else direct,  # its event loop watches no sockets
    )


class Datastore(PostgresDatastore):
    """The library's way to a database, on connections of ours."""

    def __init__(self, database: Database, schema: str) -> None:
        super().__init__("", "", "", "", "", schema=schema, originator_id_type="text")
        self._database = database
        self.connections = Connections(database)

    def register_type_adapters(self) -> None:
        """Nothing: the events travel in arrays of plain types."""

    @contextmanager
    def get_connection(self) -> Iterator[psycopg.Connection[DictRow]]:
        """Lends a connection in autocommit mode; raises the library's errors, each with a line for people."""
        try:
            with self.connections.lend() as connection:
                yield connection
        except psycopg.Error as error:
            raise self._database.persistence_error(error) from None

    def close(self) -> None:
        if hasattr(self, "connections"):
            self.connections.close()


class PostgresRecorder(PostgresApplicationRecorder):
    """The library's recorder and its table, with positions with every read, and nothing tried again behind our back."""

    def __init__(self, datastore: PostgresDatastore) -> None:
        super().__init__(datastore, events_table_name=EVENTS)
        self._append = self._statement(
            "SELECT {append}(%b::text[], %b::bigint[], %b::text[], %b::bytea[])",
        )
        columns = "SELECT notification_id, originator_id, originator_version, topic, state FROM {events} "
        of_run = "WHERE originator_id = %s AND originator_version > %s AND originator_version <= %s "
        self._select = {
            desc: self._statement(columns + of_run + f"ORDER BY originator_version {order} LIMIT %s")
            for desc, order in ((False, "ASC"), (True, "DESC"))
        }
        self._select_log = self._statement(
            columns + "WHERE notification_id >= %s AND notification_id <= %s ORDER BY notification_id LIMIT %s"
        )
        self._select_after = self._statement(
            "SELECT notification_id, originator_id, originator_version, topic, state FROM (SELECT *, "  # noqa: S608 - no value
            "sum(octet_length(state)) OVER (ORDER BY notification_id) - octet_length(state) AS before "
            f"FROM ({columns} WHERE notification_id > %s ORDER BY notification_id LIMIT %s) AS these) AS counted "
            "WHERE before < %s ORDER BY notification_id"
        )
        self._select_topics = self._statement(
            columns + "WHERE notification_id >= %s AND notification_id <= %s AND topic = ANY(%s) "
            "ORDER BY notification_id LIMIT %s"
        )
        self._select_by_run = self._statement(
            columns + "WHERE (originator_id, originator_version) > (%s, %s) "
            "ORDER BY originator_id, originator_version LIMIT %s"
        )
        self._select_head = self._statement("SELECT max(notification_id) FROM {events}")

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int]:  # noqa: ANN401
        """Records all of the events or none, and gives their positions. Raises IntegrityError when one is there."""
        parts = list(_parts(stored_events))
        with self.datastore.get_connection() as connection, connection.cursor(row_factory=tuple_row) as cursor:
            if len(parts) == 1:
                last = self._insert_part(cursor, parts[0])
            else:
                last = 0
                with connection.transaction():
                    for part in parts:
                        last = self._insert_part(cursor, part)
        return range(last - len(stored_events) + 1, last + 1)

    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[Notification]:
        """The events of a run, each with its position."""
        values = (str(originator_id), *versions_between(gt, lte), limit)
        return self._read(self._select[desc], values)

    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> Sequence[Notification]:
        """The events of the log from a position on, or, if that is not included, after it."""
        first = 0 if start is None else start + (not inclusive_of_start)
        last = LAST if stop is None else stop
        if topics:
            return self._read(self._select_topics, (first, last, list(topics), limit))
        return self._read(self._select_log, (first, last, limit))

    def select_after(self, position: int, limit: int, most_bytes: int) -> Sequence[Notification]:
        """The rows of the log after a position, as many as have so many bytes together, and at least one."""
        return self._read(self._select_after, (position, limit, most_bytes))

    def select_by_run(self, run: str, version: int, limit: int) -> Sequence[Notification]:
        """Rows in the order of runs and versions, after this version of this run."""
        return self._read(self._select_by_run, (run, version, limit))

    def max_notification_id(self) -> int | None:
        """The position of the last event, None when there is none."""
        with self.datastore.get_connection() as connection, connection.cursor(row_factory=tuple_row) as cursor:
            found = cursor.execute(self._select_head, prepare=True).fetchone()
        return found[0] if found else None

    def _insert_part(self, cursor: psycopg.Cursor[tuple[Any, ...]], events: Sequence[StoredEvent]) -> int:
        columns = (
            [str(event.originator_id) for event in events],
            [event.originator_version for event in events],
            [event.topic for event in events],
            [event.state for event in events],
        )
        (last,) = cursor.execute(self._append, columns, prepare=True).fetchone() or (0,)
        return int(last)

    def _read(self, statement: Composed, values: Sequence[object]) -> list[Notification]:
        with (
            self.datastore.get_connection() as connection,
            connection.cursor(binary=True, row_factory=tuple_row) as cursor,
        ):
            found = cursor.execute(statement, values, prepare=True).fetchall()
        return [Notification(run, version, topic, state, at) for at, run, version, topic, state in found]

    def _statement(self, text: str) -> Composed:
        schema = self.datastore.schema
        return SQL(text).format(
            append=Identifier(schema, "redraft_append"), events=Identifier(schema, self.events_table_name)
        )


def _parts(events: Sequence[StoredEvent]) -> Iterator[Sequence[StoredEvent]]:
    """The events in parts of a bounded size."""
    start, size = 0, 0
    for at, event in enumerate(events):
        size += len(event.state)
        if size > _MOST_BYTES and at > start:
            yield events[start:at]
            start, size = at, len(event.state)
    if events:
        yield events[start:]
