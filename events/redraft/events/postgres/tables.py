"""Small tables in the schema of a store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import LiteralString

import psycopg
from psycopg.rows import tuple_row

from redraft.events.postgres.connection import Connections, Database, execute
from redraft.events.postgres.schema import prepare, schema_change
from redraft.events.subscriptions.subscriptions import Execute


class PostgresTables:
    """Tables in the store's schema, created at first use by the statements `create`.

    A crash of the server may undo the last transactions, unless they are to be `durable`.
    """

    def __init__(self, database: Database, create: Sequence[LiteralString], *, durable: bool = False) -> None:
        self.where = database.where
        self._database = database
        self._create = create
        self._connections = Connections(database, "" if durable else "SET synchronous_commit = off")
        self._laid_out = False
        self.close = self._connections.close

    @contextmanager
    def transaction(self) -> Iterator[Execute]:
        """Runs the block in one exclusive write transaction. Raises StoreError."""
        try:
            if not self._laid_out:
                self._lay_out()
            with (
                self._connections.lend() as connection,
                connection.transaction(),
                connection.cursor(row_factory=tuple_row) as cursor,
            ):
                yield partial(execute, cursor)
        except psycopg.Error as error:
            raise self._database.unreadable(error) from None

    def _lay_out(self) -> None:
        prepare(self._database)
        with self._connections.lend() as connection, schema_change(connection):
            for statement in self._create:
                connection.execute(statement)
        self._laid_out = True
