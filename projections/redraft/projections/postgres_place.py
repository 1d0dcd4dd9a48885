"""Read models in PostgreSQL: in the store's database and schema, beside the events that they are made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
from psycopg import errors
from psycopg.sql import SQL, Identifier

from redraft.events.errors import Damaged, StoreError
from redraft.events.postgres_connection import Connections, Database
from redraft.events.postgres_schema import prepare
from redraft.projections.positions import FIXED
from redraft.projections.postgres_session import PostgresSession
from redraft.projections.postgres_tables import POSTGRES_TABLES
from redraft.projections.postgres_tracks import PostgresTracks

_DAMAGE: Final = (errors.UndefinedTable, errors.UndefinedColumn, errors.DuplicateTable, errors.InvalidTableDefinition)
_OF_ROWS: Final = (psycopg.IntegrityError, psycopg.DataError, psycopg.ProgrammingError)
_FRESH_PLANS: Final = "SET plan_cache_mode = force_custom_plan"
"""A plan that was made while a table was empty is not kept: where nobody analyzes, it would read it all."""
_BY_KEYS: Final = "SET enable_seqscan = off; SET jit = off"
"""Where nobody analyzes, a few keys are taken for a third of a table, and all of it would be read to find them."""
_AT_EASE: Final = f"SET synchronous_commit = off; {_BY_KEYS}; {_FRESH_PLANS}"
"""A server that fails may lose what was written last, rows and position together: it is made again from the log."""
_READ_ONLY: Final = f"SET default_transaction_read_only = on; {_FRESH_PLANS}"


class PostgresPlace:
    """The database that a store's URL names. Raises InputError when the URL is not understood."""

    tables = POSTGRES_TABLES
    faults = (psycopg.Error,)
    has_readers = True

    def __init__(self, url: str) -> None:
        self._database = Database(url)
        self.tracks = PostgresTracks()

    def open(self) -> PostgresSession:
        return PostgresSession(Connections(self._database, _AT_EASE), prepare(self._database))

    def open_reader(self) -> PostgresSession:
        return PostgresSession(Connections(self._database, _READ_ONLY), prepare(self._database))

    @contextmanager
    def clear_errors(self) -> Iterator[None]:
        """Turns what psycopg raises into one line that names the database and the remedy."""
        try:
            yield
        except psycopg.Error as error:
            if self.is_damage(error):
                raise self.damaged() from error
            raise StoreError(f"read models in {self._database.where}: {self._line(error)}") from None

    def damaged(self) -> Damaged:
        return Damaged(
            f"read models in {self._database.where}: their tables were changed; `redraft rebuild` makes them anew "
            "from the log"
        )

    def is_of_rows(self, error: Exception) -> bool:
        if isinstance(error, psycopg.Error):
            return isinstance(error, _OF_ROWS) and not isinstance(
                error, (*_DAMAGE, errors.ReadOnlySqlTransaction, errors.InsufficientPrivilege)
            )
        return not isinstance(error, OSError | StoreError)

    def is_damage(self, error: Exception, *, opening: bool = False) -> bool:
        return isinstance(error, _DAMAGE)

    def remove(self, tables: Iterable[str]) -> None:
        with self._database.connect() as connection, connection.transaction():
            for name in (*tables, *FIXED):
                connection.execute(SQL("DROP TABLE IF EXISTS {}").format(Identifier(name)))

    def _line(self, error: psycopg.Error) -> str:
        if isinstance(error, errors.ReadOnlySqlTransaction):
            return "they may not be written: a query reads, and a server that stands by takes no writes"
        return self._database.explain(error)
