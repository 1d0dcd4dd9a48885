"""Subscriptions in PostgreSQL: in the store's schema, beside the events; a name is served under a lease."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import psycopg
from psycopg.rows import tuple_row
from psycopg.sql import SQL, Identifier

from redraft.events.lease import Lease
from redraft.events.postgres_connection import Connections, Database
from redraft.events.postgres_lock import PostgresRow, serving
from redraft.events.postgres_schema import APPLICATION, LASTING, VERSION_TABLE, prepare
from redraft.events.subscription_book import Execute

_TABLES: Final = """
    CREATE TABLE IF NOT EXISTS {subscriptions} (
        name text PRIMARY KEY, position bigint NOT NULL, epoch bigint NOT NULL, wants text NOT NULL,
        target text NOT NULL, created double precision NOT NULL, moved double precision NOT NULL, failing text
    );
    CREATE TABLE IF NOT EXISTS {set_aside} (
        subscription text NOT NULL, position bigint NOT NULL, id text NOT NULL, run text NOT NULL,
        version bigint NOT NULL, event text NOT NULL, attempts bigint NOT NULL, error text NOT NULL,
        parked_at double precision NOT NULL, retry bigint NOT NULL, PRIMARY KEY (subscription, position)
    );
"""


class PostgresBook:
    """Subscriptions in the database of a store; see `Book`. Raises InputError when the URL is not understood."""

    def __init__(self, url: str, retry: float) -> None:
        self._database = Database(url)
        self.where = self._database.where
        self._retry = retry
        # What is not yet on disk when the server dies is delivered once more.
        self._connections = Connections(self._database, "SET synchronous_commit = off")
        self._laid_out = False

    @contextmanager
    def transaction(self) -> Iterator[Execute]:
        try:
            if not self._laid_out:
                self._lay_out()
            with (
                self._connections.lend() as connection,
                connection.transaction(),
                connection.cursor(row_factory=tuple_row) as cursor,
            ):
                yield partial(_rows, cursor)
        except psycopg.Error as error:
            raise self._database.unreadable(error) from None

    def lease(self, name: str) -> Lease:
        return Lease(PostgresRow(self._database, serving(name)), self._retry)

    def close(self) -> None:
        self._connections.close()

    def _lay_out(self) -> None:
        schema = prepare(self._database)
        version = Identifier(schema, VERSION_TABLE)
        names = {"subscriptions": "redraft_subscriptions", "set_aside": "redraft_set_aside"}
        with self._connections.lend() as connection, connection.transaction():
            connection.execute(LASTING)  # a table that a crash takes away again would be missed for ever
            lock = SQL("SELECT pg_advisory_xact_lock({}, {}::regclass::oid::integer)")
            connection.execute(lock.format(APPLICATION, version.as_string()))
            connection.execute(SQL(_TABLES).format(**{key: Identifier(schema, each) for key, each in names.items()}))
        self._laid_out = True


def _rows(cursor: psycopg.Cursor[tuple[Any, ...]], sql: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
    cursor.execute(sql.replace("?", "%s").encode(), values)
    return cursor.fetchall() if cursor.description else []
