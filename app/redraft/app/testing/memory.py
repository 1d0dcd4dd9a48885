"""SQLite in memory that serves one history after the other: each statement is parsed once for many of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple, TypeAlias

from redraft.events.sqlite_subscriptions import LAYOUT
from redraft.projections.shipped import FOLLOWED
from redraft.projections.sqlite_place import SqlitePlace, SqliteSession
from redraft.projections.view_file import open_memory
from redraft.projections.writer import Writer

Lend: TypeAlias = Callable[[], sqlite3.Connection]


class _Laid(NamedTuple):
    """A connection, and the rows of its tables when they were made."""

    connection: sqlite3.Connection
    rows: dict[str, list[tuple[Any, ...]]]


class Memory:
    """Databases in memory, each laid out by `make`."""

    def __init__(self, make: Lend) -> None:
        self._make = make
        self._free: list[_Laid] = []

    @contextmanager
    def lent(self) -> Iterator[Lend]:
        """Yields a function that gives databases with the rows that a new one has. They are taken back at the end."""
        lent: list[_Laid] = []

        def lend() -> sqlite3.Connection:
            lent.append(self._renewed() or _laid(self._make()))
            return lent[-1].connection

        try:
            yield lend
        finally:
            self._free += lent

    def _renewed(self) -> _Laid | None:
        """Returns one that was used, as it was when it was new; None where there is none that is open."""
        while self._free:
            used = self._free.pop()
            with suppress(sqlite3.ProgrammingError):
                _renew(used)
                return used
        return None


def _laid(connection: sqlite3.Connection) -> _Laid:
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return _Laid(connection, {name: connection.execute(f"SELECT * FROM {name}").fetchall() for (name,) in tables})  # noqa: S608 - names of our own


def _renew(used: _Laid) -> None:
    """Raises sqlite3.ProgrammingError when it was closed."""
    used.connection.rollback()
    for name, rows in used.rows.items():
        used.connection.execute(f"DELETE FROM {name}")  # noqa: S608 - names of our own
        for row in rows:
            used.connection.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608


def _read_models() -> sqlite3.Connection:
    connection = open_memory()
    Writer(SqliteSession(connection), SqlitePlace(None), FOLLOWED)
    return connection


def book() -> sqlite3.Connection:
    """Tables of named subscriptions, in memory."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    for table in LAYOUT:
        connection.execute(table)
    return connection


READ_MODELS: Final = Memory(_read_models)
"""With the tables that `FOLLOWED` has."""

BOOKS: Final = Memory(book)
"""With the tables of named subscriptions."""
