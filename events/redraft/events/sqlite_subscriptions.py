"""Subscriptions beside a SQLite store: a file of their own, and one with the lease of each name that is served."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from redraft.events.errors import StoreError, StoreUnusable
from redraft.events.lease import Lease
from redraft.events.sqlite_file import BUSY_SECONDS, explain, opened, when_free
from redraft.events.sqlite_lock import FileRow
from redraft.events.subscription_book import Execute

APPLICATION_ID: Final = 0x52645362
"""SQLite's `application_id` of our files: "RdSb"."""

VERSION: Final = 1
"""SQLite's `user_version` of the files that this version of Redraft writes."""

LAYOUT: Final = (
    """CREATE TABLE redraft_subscriptions (
        name TEXT PRIMARY KEY, position INTEGER NOT NULL, epoch INTEGER NOT NULL, wants TEXT NOT NULL,
        target TEXT NOT NULL, created REAL NOT NULL, moved REAL NOT NULL, failing TEXT
    ) WITHOUT ROWID""",
    """CREATE TABLE redraft_set_aside (
        subscription TEXT NOT NULL, position INTEGER NOT NULL, id TEXT NOT NULL, run TEXT NOT NULL,
        version INTEGER NOT NULL, event TEXT NOT NULL, attempts INTEGER NOT NULL, error TEXT NOT NULL,
        parked_at REAL NOT NULL, retry INTEGER NOT NULL, PRIMARY KEY (subscription, position)
    ) WITHOUT ROWID""",
)
"""The tables: what is known of each name, and the events that were parked for it."""


class SqliteBook:
    """Subscriptions in the file `path`, which is made when it is first used. See `Book`."""

    def __init__(self, path: Path, retry: float) -> None:
        self.where = str(path)
        self._path = path
        self._retry = retry
        self._turn = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    @contextmanager
    def transaction(self) -> Iterator[Execute]:
        with self._turn, self._clear_errors():
            if self._connection is None:
                self._connection = when_free(self._open)
            connection = self._connection
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield lambda sql, values: _rows(connection, sql, values)
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.rollback()

    def lease(self, name: str) -> Lease:
        lock = self._path.with_name(f"{self._path.stem}.{name}.lock")
        return Lease(FileRow(lock, what=f"subscription {name!r}, its lock"), self._retry)

    def close(self) -> None:
        with self._turn:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _open(self) -> sqlite3.Connection:
        connection = opened(self._path, BUSY_SECONDS)
        try:
            self._lay_out(connection)
            # A crash of the machine may take the last positions back, in whole transactions: events then come again.
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
        except BaseException:
            connection.close()
            raise
        return connection

    def _lay_out(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")
        try:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if not application and connection.execute("SELECT 1 FROM sqlite_master").fetchone() is None:
                for table in LAYOUT:
                    connection.execute(table)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {VERSION}")
            elif application != APPLICATION_ID:
                raise StoreUnusable(f"subscriptions {self._path}: the file is not ours; move it away")
            elif version > VERSION:
                raise StoreUnusable(
                    f"subscriptions {self._path}: written by a later version of Redraft; use that version"
                )
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.rollback()

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(f"subscriptions {self._path}: {explain(error)}") from error


def _rows(connection: sqlite3.Connection, sql: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
    return connection.execute(sql, tuple(values)).fetchall()
