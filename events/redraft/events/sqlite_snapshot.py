"""A SQLite file as it lies on the disk, at rest while others may write.

What is committed goes into the write-ahead log first. When all of the log is in the file, and a reading transaction
begins before anything else is committed, the file is what that transaction sees: for as long as it goes on, nothing
newer is moved into the file (https://www.sqlite.org/wal.html#concurrency). Others write on meanwhile, into the log.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

QUIET_SECONDS: Final = 5.0
"""How long a moment is waited for in which nobody commits; writers that never pause for milliseconds are rare."""

_PAUSE: Final = 0.01


@contextmanager
def file_at_rest(connection: sqlite3.Connection, path: Path, seconds: float = QUIET_SECONDS) -> Iterator[bool]:
    """Whether the file is now, until the context ends, what the connection reads. Raises sqlite3.Error."""
    deadline = time.monotonic() + seconds
    try:
        while not (found := _begin(connection, path)) and time.monotonic() < deadline:
            connection.execute("ROLLBACK")
            time.sleep(_PAUSE)
        yield found
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _begin(connection: sqlite3.Connection, path: Path) -> bool:
    """Begins to read; False if what is read is not all in the file."""
    connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    before = _version(connection)
    moved = _move_log(connection)
    connection.execute("BEGIN")
    connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    if moved is None:
        return _is_empty(path.with_name(f"{path.name}-wal"))
    return moved and before == _version(connection)


def _version(connection: sqlite3.Connection) -> int:
    """A number that is another one when somebody else has committed something."""
    return int(connection.execute("PRAGMA data_version").fetchone()[0])


def _move_log(connection: sqlite3.Connection) -> bool | None:
    """Moves the log into the file as far as nobody is disturbed; whether that was all of it, None: not allowed."""
    try:
        busy, pages, moved = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorname.startswith("SQLITE_READONLY"):
            return None
        raise
    return not busy and bool(pages == moved)


def _is_empty(log: Path) -> bool:
    return not log.exists() or not log.stat().st_size
