"""Open ways to read models in PostgreSQL: statements as the engine writes them, as psycopg takes them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from functools import lru_cache
from typing import Any, Final, Self, cast

import psycopg
import psycopg.abc
from psycopg.errors import LockNotAvailable
from psycopg.rows import tuple_row
from psycopg.sql import SQL, Identifier

from redraft.events import postgres_connection
from redraft.events.postgres_connection import Connections
from redraft.events.postgres_schema import APPLICATION, VERSION_TABLE
from redraft.projections.place import Parameters

_SPOKEN: Final = re.compile(r"'[^']*'|\?|json_each\(:(?P<list>\w+)\)|:(?P<name>\w+)|%")
"""What is put in other words here: values, and a list of texts that is given as JSON."""


_END_STALLED: Final = SQL("""
    SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_stat_activity USING (pid)
    WHERE locktype = 'advisory' AND granted AND classid = {application} AND objid = {table}::regclass AND objsubid = 2
          AND database = datid AND datname = current_database() AND wait_event = 'ClientRead'
          AND state_change < clock_timestamp() - make_interval(secs => %s)
""")
"""Ends who holds the lock and says nothing more in the middle of statements that it sends ahead: for the server that is
work, and no idle transaction, which it would end by itself after as long."""


class PostgresCursor:
    """What carries out the engine's statements, each with a cursor of psycopg's: its result may come after the next."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._latest = self.plain()

    def plain(self) -> psycopg.Cursor[tuple[Any, ...]]:
        """A cursor of psycopg's for one statement."""
        return self._connection.cursor(row_factory=tuple_row)

    def execute(self, sql: str, parameters: Parameters = (), /) -> Self:
        self._latest = self.plain()
        self._latest.execute(_translated(sql), cast("psycopg.abc.Params", _storable(parameters)))
        return self

    def fetchone(self) -> Any:  # noqa: ANN401
        return self._latest.fetchone()

    def fetchall(self) -> list[Any]:
        return self._latest.fetchall()


class PostgresSession:
    """Connects when it is used, and again when the server was away."""

    def __init__(self, connections: Connections, schema: str) -> None:
        self._connections = connections
        table = Identifier(schema, VERSION_TABLE).as_string()
        key = SQL("{}, {}::regclass::oid::integer").format(APPLICATION, table)
        self._try = SQL("SELECT pg_try_advisory_xact_lock({})").format(key)
        self._lock = SQL("SELECT pg_advisory_xact_lock({})").format(key)
        self._end_stalled = _END_STALLED.format(application=APPLICATION, table=table)

    @contextmanager
    def transaction(self, *, ahead: bool = False) -> Iterator[PostgresCursor]:
        with self._connections.lend() as connection, connection.transaction():
            self._begin_alone(connection)
            with _pipeline(connection) if ahead else nullcontext():
                yield PostgresCursor(connection)

    def _begin_alone(self, connection: psycopg.Connection[Any]) -> None:
        """Waits for those who write. Raises psycopg.Error when they take too long and do not merely stand still."""
        [(free,)] = connection.cursor(row_factory=tuple_row).execute(self._try)
        ended = 1
        while not free:
            try:
                with connection.transaction():
                    connection.execute(self._lock)
                    free = True
            except LockNotAvailable:
                before, ended = ended, self._end_stalled_ones(connection)
                if not before and not ended:
                    raise

    def _end_stalled_ones(self, connection: psycopg.Connection[Any]) -> int:
        """Ends those who hold the lock and stand still; gives their number."""
        return connection.execute(self._end_stalled, (postgres_connection.IDLE_SECONDS,)).rowcount

    @contextmanager
    def reading(self) -> Iterator[PostgresCursor]:
        with self._connections.lend() as connection:
            yield PostgresCursor(connection)

    def close(self) -> None:
        self._connections.close()


@contextmanager
def _pipeline(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Statements are sent and not waited for, but at the end; of several errors the first is raised."""
    with connection.pipeline() as pipeline:
        try:
            yield
            pipeline.sync()
        except BaseException:
            with suppress(psycopg.Error):
                pipeline.sync()  # what followed the error was not carried out, as the error itself tells
            raise


@lru_cache(maxsize=512)
def _translated(sql: str) -> bytes:
    """A statement of the engine in the words of psycopg and PostgreSQL."""

    def spoken(found: re.Match[str]) -> str:
        if found["list"]:
            return f"jsonb_array_elements_text(CAST(%({found['list']})s AS jsonb)) AS listed (value)"
        if found["name"]:
            return f"%({found['name']})s"
        return "%s" if found.group() == "?" else found.group().replace("%", "%%")

    return _SPOKEN.sub(spoken, sql).encode()


def _storable(parameters: Parameters) -> object:
    """PostgreSQL keeps every character but one."""
    if isinstance(parameters, Mapping):
        return {name: _without_nul(value) for name, value in parameters.items()}
    return [_without_nul(value) for value in parameters]


def _without_nul(value: object) -> object:
    return value.replace("\0", "\N{REPLACEMENT CHARACTER}") if isinstance(value, str) and "\0" in value else value
