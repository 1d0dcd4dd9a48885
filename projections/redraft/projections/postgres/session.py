"""Runs the engine's statements in PostgreSQL: translates placeholders for psycopg and serialises writers."""

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

from redraft.events.postgres import connection as postgres_connection
from redraft.events.postgres.connection import Connections
from redraft.events.postgres.schema import APPLICATION, VERSION_TABLE
from redraft.projections.engine.storage import Parameters

_SPOKEN: Final = re.compile(r"'[^']*'|\?|json_each\(:(?P<list>\w+)\)|:(?P<name>\w+)|%")
"""The parts of a statement that are translated: values, and a list of texts that is given as JSON."""


_END_STALLED: Final = SQL("""
    SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_stat_activity USING (pid)
    WHERE locktype = 'advisory' AND granted AND classid = {application} AND objid = {table}::regclass AND objsubid = 2
          AND database = datid AND datname = current_database() AND wait_event = 'ClientRead'
          AND state_change < clock_timestamp() - make_interval(secs => %s)
""")
"""Ends a session that holds the lock and falls silent while it pipelines statements.

The server takes that for work, and not for an idle transaction, which it would end by itself after the same time.
"""


class PostgresCursor:
    """Executes the engine's statements, each with a psycopg cursor of its own, so that results may arrive after later
    ones.
    """

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._latest = connection.cursor(row_factory=tuple_row)

    def execute(self, sql: str, parameters: Parameters = (), /) -> Self:
        self._latest = self._connection.cursor(row_factory=tuple_row)
        self._latest.execute(_translate(sql), cast("psycopg.abc.Params", _strip_nul(parameters)))
        return self

    def fetchone(self) -> Any:  # noqa: ANN401
        return self._latest.fetchone()

    def fetchall(self) -> list[Any]:
        return self._latest.fetchall()


class PostgresSession:
    """A session that connects when it is used, and again after the server was away."""

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
        """Waits for the lock of other writers.

        A writer that stalls is ended. Raises psycopg.Error when the others take too long and are not merely stalled.
        """
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
        """Ends the sessions that hold the lock and stall; returns their number."""
        return connection.execute(self._end_stalled, (postgres_connection.IDLE_SECONDS,)).rowcount

    @contextmanager
    def reading(self) -> Iterator[PostgresCursor]:
        with self._connections.lend() as connection:
            yield PostgresCursor(connection)

    def close(self) -> None:
        self._connections.close()


@contextmanager
def _pipeline(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Sends statements without waiting for each, only at the end; of several errors the first is raised."""
    with connection.pipeline() as pipeline:
        try:
            yield
            pipeline.sync()
        except BaseException:
            with suppress(psycopg.Error):
                pipeline.sync()  # what followed the error was not carried out, as the error itself tells
            raise


@lru_cache(maxsize=512)
def _translate(sql: str) -> bytes:
    """Returns a statement of the engine in the syntax of psycopg and PostgreSQL."""

    def translate_mark(found: re.Match[str]) -> str:
        if found["list"]:
            return f"jsonb_array_elements_text(CAST(%({found['list']})s AS jsonb)) AS listed (value)"
        if found["name"]:
            return f"%({found['name']})s"
        return "%s" if found.group() == "?" else found.group().replace("%", "%%")

    return _SPOKEN.sub(translate_mark, sql).encode()


def _strip_nul(parameters: Parameters) -> object:
    """Returns parameters without NUL, the one character that PostgreSQL cannot store."""
    if isinstance(parameters, Mapping):
        return {name: _without_nul(value) for name, value in parameters.items()}
    return [_without_nul(value) for value in parameters]


def _without_nul(value: object) -> object:
    return value.replace("\0", "\N{REPLACEMENT CHARACTER}") if isinstance(value, str) and "\0" in value else value
