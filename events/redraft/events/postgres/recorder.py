"""The recorder that keeps events in PostgreSQL: the library's, with an insert of one round trip.

The library locks the whole table and waits for the server 14 times for each insert. This one calls a function that
takes an advisory lock, numbers the events without a gap, and notifies the followers of the log: see `postgres.schema`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final
from uuid import UUID

import psycopg
from eventsourcing.persistence import ApplicationRecorder, Subscription
from eventsourcing.postgres import PostgresApplicationRecorder, PostgresDatastore, PostgresSubscription
from psycopg.rows import DictRow, tuple_row
from psycopg.sql import SQL, Composed, Identifier

from redraft.events.encryption.keyring import IMPORTED, TABLE, DatabaseKeys
from redraft.events.errors import StoreError
from redraft.events.postgres.connection import Connections, Cursor, Database, execute
from redraft.events.postgres.direct_writer import PostgresDirectWriter
from redraft.events.postgres.guards import inspect
from redraft.events.postgres.schema import EVENTS, prepare, schema_change
from redraft.events.store.recorder import (
    LAST,
    LogRow,
    Notification,
    Opened,
    Place,
    StoredEvent,
    place_of_last,
    versions_between,
)

RECONNECT_SECONDS: Final = 1.0
"""Seconds between the loss of a connection and the next attempt to connect."""

_PAUSE_SECONDS: Final = 0.001
"""Notifications within this time are handled together."""

_QUIET_SECONDS: Final = 0.02
"""The same while only this process appends: waking up for its own notifications is useless."""

_SILENT_SECONDS: Final = 20.0
"""Seconds without a notification after which the server is pinged."""


async def listen(database: Database, schema: str, is_ours: Callable[[int], bool], moved: Callable[[int], None]) -> None:
    """Calls `moved` with the end of the log when another process has appended; never ends by itself.

    `is_ours` returns, by the id of the server's process, whether this process appended: then it knows the end already.
    """
    while True:
        with suppress(psycopg.Error, OSError):
            connection = await database.connect_async()
            try:
                await _listen(connection, schema, is_ours, moved)
            finally:
                await connection.close()
        await asyncio.sleep(RECONNECT_SECONDS)


async def _listen(
    connection: psycopg.AsyncConnection[DictRow],
    schema: str,
    is_ours: Callable[[int], bool],
    moved: Callable[[int], None],
) -> None:
    cursor = connection.cursor(row_factory=tuple_row)
    found = await (await cursor.execute(_CHANNEL, (Identifier(schema, EVENTS).as_string(),))).fetchone()
    await connection.execute(SQL("LISTEN {}").format(Identifier(found[0] if found else "")))
    while True:
        notices = [each async for each in connection.notifies(timeout=_SILENT_SECONDS, stop_after=1)]
        if not notices:
            await connection.execute("SELECT 1")  # raises when the server is gone
        foreign = [each for each in notices if not is_ours(each.pid)]
        if foreign and foreign[-1].payload.isdecimal():
            moved(int(foreign[-1].payload))
        await asyncio.sleep(_PAUSE_SECONDS if foreign else _QUIET_SECONDS)


_CHANNEL: Final = "SELECT 'redraft_' || %s::regclass::oid"
"""The channel on which `redraft_append` notifies those who follow a table."""

_MOST_BYTES: Final = 16 * 1024 * 1024
"""Bytes of events in one call of the function; a value in PostgreSQL can have 1 GB at most."""


def open_postgres(url: str) -> Opened:
    """Opens the store in a database; raises InputError, IncompatibleStore, StoreError."""
    database = Database(url)
    schema = prepare(database)
    datastore = Datastore(database, schema)
    direct = PostgresDirectWriter(database, schema)

    def is_ours(process: int) -> bool:
        return direct.serves(process) or datastore.connections.serves(process)

    listening = partial(listen, database, schema, is_ours)
    keys = DatabaseKeys(PostgresKeyTables(database, schema, datastore.connections))
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
        guards=check,
    )


_COLUMNS: Final = {TABLE: "(run text PRIMARY KEY, wrapped bytea NOT NULL)", IMPORTED: "(run text PRIMARY KEY)"}
_PLACES: Final = {TABLE: "(%s, %s)", IMPORTED: "(%s)"}


class PostgresKeyTables:
    """See `KeyTables`."""

    collation = "C"

    def __init__(self, database: Database, schema: str, connections: Connections) -> None:
        self.where = database.where
        self._database = database
        self._schema = schema
        self._connections = connections

    def ask(self, table: str, statement: str, *values: str | int | bytes) -> list[tuple[Any, ...]]:
        with self._cursor() as cursor:
            if not self._has(cursor, table):
                return []
            return execute(cursor, statement.format(self._name(table)), values)

    def add(self, table: str, rows: Sequence[tuple[str | bytes, ...]]) -> None:
        name = self._name(table)
        with self._cursor() as cursor:
            if not self._has(cursor, table):
                with schema_change(cursor.connection):
                    cursor.execute(f"CREATE TABLE IF NOT EXISTS {name} {_COLUMNS[table]}".encode())
            with cursor.connection.transaction():
                cursor.executemany(f"INSERT INTO {name} VALUES {_PLACES[table]} ON CONFLICT DO NOTHING".encode(), rows)  # noqa: S608
                runs = {row[0] for row in rows}
                (kept,) = execute(cursor, f"SELECT count(DISTINCT run) FROM {name} WHERE run = ANY(?)", [list(runs)])[0]  # noqa: S608
                if kept != len(runs):
                    why = f"a trigger or a rule keeps rows out of {table}; see redraft doctor"
                    raise StoreError(f"store {self.where}: {why}")

    def purge(self) -> None:
        with self._cursor() as cursor:
            if self._has(cursor, TABLE):
                cursor.execute(f"VACUUM FULL {self._name(TABLE)}".encode())  # else they stay in the table's file

    def close(self) -> None:
        """Does nothing: the recorder owns the connections."""

    def _name(self, table: str) -> str:
        return Identifier(self._schema, table).as_string()

    def _has(self, cursor: Cursor, table: str) -> bool:
        found = cursor.execute("SELECT to_regclass(%s) IS NOT NULL", (self._name(table),)).fetchone()
        return found is not None and bool(found[0])

    @contextmanager
    def _cursor(self) -> Iterator[Cursor]:
        try:
            with self._connections.lend() as connection, connection.cursor(row_factory=tuple_row) as cursor:
                yield cursor
        except psycopg.Error as error:
            raise self._database.unreadable(error) from None


class Datastore(PostgresDatastore):
    """The library's datastore, with connections of ours."""

    def __init__(self, database: Database, schema: str) -> None:
        super().__init__("", "", "", "", "", schema=schema, originator_id_type="text")
        self._database = database
        self.connections = Connections(database)

    def register_type_adapters(self) -> None:
        """Does nothing: the events travel in arrays of plain types."""

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
    """The library's recorder and its table, with positions with every read, and without its automatic retries."""

    def __init__(self, datastore: PostgresDatastore) -> None:
        super().__init__(datastore, events_table_name=EVENTS)
        self._append = self._statement("SELECT {append}(%b::text[], %b::bigint[], %b::text[], %b::bytea[])")
        columns = "SELECT notification_id, originator_id, originator_version, topic, state FROM {events} "
        of_run = "WHERE originator_id = %s AND originator_version > %s AND originator_version <= %s "
        self._select = {
            desc: self._statement(columns + of_run + f"ORDER BY originator_version {order} LIMIT %s")
            for desc, order in ((False, "ASC"), (True, "DESC"))
        }
        span = columns + "WHERE notification_id >= %s AND notification_id <= %s "
        self._select_log = self._statement(span + "ORDER BY notification_id LIMIT %s")
        self._select_topics = self._statement(span + "AND topic = ANY(%s) ORDER BY notification_id LIMIT %s")
        self._select_after = self._statement(
            "SELECT notification_id, originator_id, originator_version, topic, state FROM (SELECT *, "  # noqa: S608 - no value
            "sum(octet_length(state)) OVER (ORDER BY notification_id) - octet_length(state) AS before "
            f"FROM ({columns} WHERE notification_id > %s ORDER BY notification_id LIMIT %s) AS these) AS counted "
            "WHERE before < %s ORDER BY notification_id"
        )
        self._select_by_run = self._statement(
            columns + "WHERE (originator_id, originator_version) > (%s, %s) "
            "ORDER BY originator_id, originator_version LIMIT %s"
        )
        self._select_head = self._statement("SELECT max(notification_id) FROM {events}")

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int]:  # noqa: ANN401
        """Records all of the events or none, and returns their positions. Raises IntegrityError when one is there."""
        parts = list(_parts(stored_events))
        with self.datastore.get_connection() as connection, connection.cursor(row_factory=tuple_row) as cursor:
            if len(parts) == 1:
                last = self._insert_part(cursor, parts[0])
            else:
                last = 0
                with connection.transaction():
                    for part in parts:
                        last = self._insert_part(cursor, part)
        return list(range(last - len(stored_events) + 1, last + 1))

    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[Notification]:
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
        first = 0 if start is None else start + (not inclusive_of_start)
        last = LAST if stop is None else stop
        if topics:
            return self._read(self._select_topics, (first, last, list(topics), limit))
        return self._read(self._select_log, (first, last, limit))

    def select_after(self, position: int, limit: int, max_bytes: int) -> Sequence[LogRow]:
        return [LogRow(*row) for row in self._fetch(self._select_after, (position, limit, max_bytes))]

    def select_by_run(self, after: Place, limit: int) -> tuple[Sequence[LogRow], Place]:
        page = [LogRow(*row) for row in self._fetch(self._select_by_run, (after.run, after.version, limit))]
        return page, place_of_last(page, after)

    def max_notification_id(self) -> int | None:
        with self.datastore.get_connection() as connection, connection.cursor(row_factory=tuple_row) as cursor:
            found = cursor.execute(self._select_head, prepare=True).fetchone()
        return found[0] if found else None

    def subscribe(self, gt: int | None = None, topics: Sequence[str] = ()) -> Subscription[ApplicationRecorder]:
        """Returns the library's subscription, woken by the notifications that our inserts send; it misses no event."""
        events = Identifier(self.datastore.schema, self.events_table_name).as_string()
        with self.datastore.get_connection() as connection, connection.cursor(row_factory=tuple_row) as cursor:
            (self.channel_name,) = cursor.execute(_CHANNEL, (events,)).fetchone() or ("",)
        return GaplessSubscription(self, gt, topics)

    def _insert_part(self, cursor: Cursor, events: Sequence[StoredEvent]) -> int:
        columns = (
            [str(event.originator_id) for event in events],
            [event.originator_version for event in events],
            [event.topic for event in events],
            [event.state for event in events],
        )
        (last,) = cursor.execute(self._append, columns, prepare=True).fetchone() or (0,)
        return int(last)

    def _read(self, statement: Composed, values: Sequence[object]) -> list[Notification]:
        found = self._fetch(statement, values)
        return [Notification(run, version, topic, state, at) for at, run, version, topic, state in found]

    def _fetch(self, statement: Composed, values: Sequence[object]) -> list[tuple[Any, ...]]:
        with (
            self.datastore.get_connection() as connection,
            connection.cursor(binary=True, row_factory=tuple_row) as cursor,
        ):
            return cursor.execute(statement, values, prepare=True).fetchall()

    def _statement(self, text: str) -> Composed:
        schema = self.datastore.schema
        return SQL(text).format(
            append=Identifier(schema, "redraft_append"), events=Identifier(schema, self.events_table_name)
        )


class GaplessSubscription(PostgresSubscription):
    """The library's subscription, which reads the log again once it listens.

    The library's own reads the log while it begins to listen: an event that is inserted after the one and before the
    other is delivered only when another event follows.
    """

    def _listen(self) -> None:
        try:
            with self._recorder.datastore.get_connection() as connection:
                connection.execute(SQL("LISTEN {}").format(Identifier(self._recorder.channel_name)))
                self._has_been_notified.set()
                while not self._has_been_stopped and not self._thread_error:
                    for _ in connection.notifies(timeout=0.1, stop_after=1):
                        self._has_been_notified.set()
        except BaseException as error:  # noqa: BLE001 - as the library's: who reads the subscription gets it
            self._thread_error = self._thread_error or error
            self.stop()


def _parts(events: Sequence[StoredEvent]) -> Iterator[Sequence[StoredEvent]]:
    """Yields the events in parts of a bounded size."""
    start, size = 0, 0
    for at, event in enumerate(events):
        size += len(event.state)
        if size > _MOST_BYTES and at > start:
            yield events[start:at]
            start, size = at, len(event.state)
    if events:
        yield events[start:]
