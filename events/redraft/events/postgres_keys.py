"""The keys of runs in PostgreSQL, and which were imported: see `run_keys`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, LiteralString

import psycopg
from psycopg.rows import tuple_row
from psycopg.sql import SQL, Composed, Identifier

from redraft.events.errors import StoreError
from redraft.events.postgres_connection import Connections, Database
from redraft.events.postgres_schema import APPLICATION
from redraft.events.run_keys import IMPORTED, TABLE


class PostgresKeys:
    waits = True

    def __init__(self, database: Database, schema: str, connections: Connections) -> None:
        self._database = database
        self._schema = schema
        self._connections = connections

    def get(self, run: str) -> bytes | None:
        found = self._ask("SELECT wrapped FROM {} WHERE run = %s", run)
        return found[0][0] if found else None

    def put(self, run: str, wrapped: bytes) -> bytes:
        with self._cursor() as cursor:
            self._make(cursor, TABLE, "CREATE TABLE IF NOT EXISTS {} (run text PRIMARY KEY, wrapped bytea NOT NULL)")
            cursor.execute(self._statement("INSERT INTO {} VALUES (%s, %s) ON CONFLICT DO NOTHING"), (run, wrapped))
        kept = self.get(run)
        if kept is None:
            raise StoreError(f"store {self._database.where}: the key of run {run} was destroyed")
        return kept

    def destroy(self, run: str) -> bool:
        with self._cursor() as cursor:
            if not self._is_there(cursor, TABLE):
                return False
            cursor.execute(self._statement("DELETE FROM {} WHERE run = %s"), (run,))
            gone = cursor.rowcount > 0
            cursor.execute(self._statement("VACUUM FULL {}"))  # else the key stays in the table's file, though unseen
        return gone

    def page(self, after: str, most: int) -> Sequence[tuple[str, bytes]]:
        return self._ask(
            'SELECT run, wrapped FROM {} WHERE run COLLATE "C" > %s ORDER BY run COLLATE "C" LIMIT %s', after, most
        )

    def is_imported(self, run: str) -> bool:
        return bool(self._ask("SELECT 1 FROM {} WHERE run = %s", run, table=IMPORTED))

    def note_imported(self, runs: Iterable[str]) -> None:
        noted = "INSERT INTO {} SELECT unnest(%s::text[]) ON CONFLICT DO NOTHING"
        with self._cursor() as cursor:
            self._make(cursor, IMPORTED, "CREATE TABLE IF NOT EXISTS {} (run text PRIMARY KEY)")
            cursor.execute(self._statement(noted, IMPORTED), (list(runs),))

    def close(self) -> None:
        """The connections are the recorder's."""

    def _ask(self, statement: LiteralString, *values: str | int, table: str = TABLE) -> list[tuple[Any, ...]]:
        with self._cursor() as cursor:
            if not self._is_there(cursor, table):
                return []
            return cursor.execute(self._statement(statement, table), values).fetchall()

    def _make(self, cursor: psycopg.Cursor[tuple[Any, ...]], table: str, create: LiteralString) -> None:
        if not self._is_there(cursor, table):
            with cursor.connection.transaction():  # two that make it at once would get in each other's way
                cursor.execute("SELECT pg_advisory_xact_lock(%s, 0)", (APPLICATION,))
                cursor.execute(self._statement(create, table))

    def _is_there(self, cursor: psycopg.Cursor[tuple[Any, ...]], table: str) -> bool:
        name = Identifier(self._schema, table).as_string()
        found = cursor.execute("SELECT to_regclass(%s)", (name,)).fetchone()
        return found is not None and found[0] is not None

    @contextmanager
    def _cursor(self) -> Iterator[psycopg.Cursor[tuple[Any, ...]]]:
        try:
            with self._connections.lend() as connection, connection.cursor(row_factory=tuple_row) as cursor:
                yield cursor
        except psycopg.Error as error:
            raise self._database.unreadable(error) from None

    def _statement(self, text: LiteralString, table: str = TABLE) -> Composed:
        return SQL(text).format(Identifier(self._schema, table))
