"""Read models in a file, or in memory: see `view_file` for what is done to the file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

import msgspec

from redraft.events.errors import Damaged, StoreError
from redraft.projections.sqlite_tables import SQLITE_TABLES
from redraft.projections.sqlite_tracks import SQLITE_TRACKS
from redraft.projections.view_file import (
    clear_errors,
    damaged,
    is_damage,
    is_ours,
    open_file,
    open_memory,
    open_reader,
    remove,
)

_OF_ROWS: Final = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError, sqlite3.ProgrammingError)


class SqlitePlace:
    """The file `path`, or without one memory, to which `memory` gives the connection."""

    tables = SQLITE_TABLES
    tracks = SQLITE_TRACKS
    faults = (sqlite3.DatabaseError, msgspec.MsgspecError, ValueError)

    def __init__(self, path: Path | None, memory: Callable[[], sqlite3.Connection] = open_memory) -> None:
        self._path = path
        self._memory = memory

    @property
    def has_readers(self) -> bool:
        return self._path is not None

    def open(self) -> SqliteSession:
        return SqliteSession(self._memory() if self._path is None else open_file(self._path))

    def open_reader(self) -> SqliteSession:
        if self._path is None:
            raise StoreError("read models in memory have one session")
        return SqliteSession(open_reader(self._path))

    def clear_errors(self) -> AbstractContextManager[None]:
        return clear_errors(self._path)

    def damaged(self) -> Damaged:
        return damaged(self._path)

    def is_of_rows(self, error: Exception) -> bool:
        return not isinstance(error, sqlite3.Error | OSError | StoreError) or isinstance(error, _OF_ROWS)

    def is_damage(self, error: Exception, *, opening: bool = False) -> bool:
        return self._path is not None and is_damage(error, opening=opening) and (not opening or is_ours(self._path))

    def remove(self, tables: Iterable[str]) -> None:
        if self._path is not None:
            remove(self._path)


class SqliteSession:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @contextmanager
    def transaction(self, *, ahead: bool = False) -> Iterator[sqlite3.Cursor]:
        cursor = self._connection.cursor()
        cursor.execute("BEGIN IMMEDIATE")
        try:
            yield cursor
            cursor.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.rollback()
            raise
        finally:
            cursor.close()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Cursor]:
        yield self._connection.cursor()

    def close(self) -> None:
        self._connection.close()
