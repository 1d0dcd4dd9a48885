"""What a store knows of runs beside their events: their wrapped keys, and which of them came out of an archive.

A key is no event: it can go. A run without a key is recorded in the clear, or was erased. That a run was imported is no
event either: what was imported stays as it was recorded. Each table is made with its first row.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, Final, Protocol

from redraft.events.errors import StoreError
from redraft.events.sqlite_file import connect, explain, when_free
from redraft.events.sqlite_seal import break_seal

TABLE: Final = "redraft_keys"
CREATE: Final = f"CREATE TABLE IF NOT EXISTS {TABLE} (run TEXT NOT NULL PRIMARY KEY, wrapped BLOB NOT NULL)"

IMPORTED: Final = "redraft_imported"
CREATE_IMPORTED: Final = f"CREATE TABLE IF NOT EXISTS {IMPORTED} (run TEXT NOT NULL PRIMARY KEY)"


class RunKeys(Protocol):
    """For any thread; `waits`: its methods block. Every method raises StoreError when the store is away."""

    @property
    def waits(self) -> bool: ...

    def get(self, run: str) -> bytes | None: ...

    def put(self, run: str, wrapped: bytes) -> bytes:
        """Keeps a key, durably, unless the run has one; gives the one that it has now."""
        ...

    def destroy(self, run: str) -> bool:
        """Takes a key away, and what the store can reach of its copies; False when there is none."""
        ...

    def page(self, after: str, most: int) -> Sequence[tuple[str, bytes]]:
        """Runs with their keys, in the order of their ids, after this one."""
        ...

    def is_imported(self, run: str) -> bool: ...

    def note_imported(self, runs: Iterable[str]) -> None:
        """Keeps, durably, that these runs come out of an archive."""
        ...

    def close(self) -> None: ...


class MemoryKeys:
    """Keys of a store in memory."""

    waits = False

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}
        self._imported: set[str] = set()

    def get(self, run: str) -> bytes | None:
        return self._kept.get(run)

    def put(self, run: str, wrapped: bytes) -> bytes:
        return self._kept.setdefault(run, wrapped)

    def destroy(self, run: str) -> bool:
        return self._kept.pop(run, None) is not None

    def page(self, after: str, most: int) -> Sequence[tuple[str, bytes]]:
        return [(run, self._kept[run]) for run in sorted(self._kept) if run > after][:most]

    def is_imported(self, run: str) -> bool:
        return run in self._imported

    def note_imported(self, runs: Iterable[str]) -> None:
        self._imported.update(runs)

    def close(self) -> None:
        """Nothing is open."""


class SqliteKeys:
    """Keys in the store's file, over a connection of its own, which overwrites what it deletes with zeros."""

    waits = True

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        self._open: sqlite3.Connection | None = None
        self.has_written = False

    def get(self, run: str) -> bytes | None:
        found = self._ask(f"SELECT wrapped FROM {TABLE} WHERE run = ?", (run,))  # noqa: S608
        return _key(found[0][0]) if found else None

    def put(self, run: str, wrapped: bytes) -> bytes:
        with self._connection() as connection:
            connection.execute(CREATE)
            put = connection.execute(f"INSERT INTO {TABLE} VALUES (?, ?) ON CONFLICT DO NOTHING", (run, wrapped))  # noqa: S608
            self.has_written = self.has_written or put.rowcount > 0
        kept = self.get(run)
        if kept is None:
            raise StoreError(f"store {self._path}: the key of run {run} was destroyed")
        return kept

    def destroy(self, run: str) -> bool:
        if self.get(run) is None:
            return False
        with self._connection() as connection:
            break_seal(connection)  # before the key goes: else another key could make as many as were sealed
            self.has_written = True
            gone = connection.execute(f"DELETE FROM {TABLE} WHERE run = ?", (run,)).rowcount  # noqa: S608
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # else it may stay in the write-ahead log for long
        return gone > 0

    def page(self, after: str, most: int) -> Sequence[tuple[str, bytes]]:
        asked = f"SELECT run, wrapped FROM {TABLE} WHERE run > ? ORDER BY run LIMIT ?"  # noqa: S608
        return [(str(run), _key(wrapped)) for run, wrapped in self._ask(asked, (after, most))]

    def is_imported(self, run: str) -> bool:
        return bool(self._ask(f"SELECT 1 FROM {IMPORTED} WHERE run = ?", (run,), IMPORTED))  # noqa: S608

    def note_imported(self, runs: Iterable[str]) -> None:
        with self._connection() as connection:
            connection.execute(CREATE_IMPORTED)
            connection.execute("BEGIN IMMEDIATE")
            try:
                each = ((run,) for run in runs)
                connection.executemany(f"INSERT INTO {IMPORTED} VALUES (?) ON CONFLICT DO NOTHING", each)  # noqa: S608
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.rollback()
            self.has_written = True

    def close(self) -> None:
        with self._lock:
            opened, self._open = self._open, None
            if opened is not None:
                opened.close()

    def _ask(self, statement: str, values: tuple[str | int, ...], table: str = TABLE) -> list[tuple[Any, ...]]:
        with self._connection() as connection:
            if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone():
                return []
            with closing(connection.execute(statement, values)) as cursor:
                return cursor.fetchall()

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                if self._open is None:
                    self._open = when_free(lambda: connect(self._path))
                yield self._open
            except sqlite3.Error as error:
                raise StoreError(f"store {self._path}: {explain(error)}") from error


def _key(found: object) -> bytes:
    """A key as it is kept; in a file that was tampered with there may be anything, which then opens nothing."""
    return found if isinstance(found, bytes) else repr(found).encode(errors="replace")
