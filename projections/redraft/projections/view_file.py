"""The file that the read models lie in: whether it is ours, how it is opened, and how it is made anew.

It may be dropped at any time: all that it holds comes from the log. It is taken away only when its header says that
Redraft wrote it. Functions raise what SQLite and the file system do; `clear_errors` turns that into a line for people.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from redraft.events.errors import Damaged, StoreError, StoreUnusable
from redraft.events.sqlite_file import opened, when_free
from redraft.events.sqlite_identity import identity_of

APPLICATION: Final = 0x52645677
"""The SQLite `application_id` of our files: "RdVw"."""

FORMAT: Final = 2
"""The SQLite `user_version` of our files: how positions are kept. A file of an earlier one is emptied."""

BUSY_SECONDS: Final = 30.0
"""How long a write waits for another process that is writing."""

_DAMAGE: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_DAMAGED: Final = "it is damaged; `redraft rebuild` makes it anew from the log"
_LINES: Final = {
    sqlite3.SQLITE_BUSY: f"another process held it for {BUSY_SECONDS:.0f} s; wait for it or end it, and try again",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check the permissions of its folder",
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_FULL: "the disk is full; free some space and try again",
    sqlite3.SQLITE_IOERR: "the disk gives an error; check the disk and the space on it",
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_READONLY: "it may not be written; check the permissions of the file and of its folder",
}


def open_file(path: Path) -> sqlite3.Connection:
    """A connection for writing to our file, which is made if there is none.

    Raises StoreUnusable, having changed nothing, when the file is not ours or of a later version.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    is_ours(path)
    connection = _connect(path.absolute())
    try:
        _claim(connection)
        when_free(lambda: connection.execute("PRAGMA journal_mode = WAL"), BUSY_SECONDS)
        connection.execute("PRAGMA synchronous = NORMAL")
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            connection.execute(f"SELECT * FROM {table} LIMIT 1").fetchall()  # noqa: S608
    except BaseException:
        connection.close()
        raise
    return connection


def open_reader(path: Path) -> sqlite3.Connection:
    """A second connection to our file that can only read."""
    connection = _connect(path.absolute())
    connection.execute("PRAGMA query_only = ON")
    return connection


def open_memory() -> sqlite3.Connection:
    """The same without a file, gone when it is closed."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False, cached_statements=64)
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    _claim(connection)
    return connection


def is_ours(path: Path) -> bool:
    """False when there is nothing yet, True when the file is ours; raises StoreUnusable for every other.

    Our id is written before the file's journal is, so the header alone tells.
    """
    if not path.exists():
        return False
    if not path.is_file():
        raise StoreUnusable(f"read models {path}: not a file; name another place for them")
    if not path.stat().st_size:
        return False
    found = identity_of(path)
    if found is None or found.application != APPLICATION:
        raise StoreUnusable(f"read models {path}: the file is not ours; move it away or name another place for them")
    if found.version > FORMAT:
        raise StoreUnusable(
            f"read models {path}: written by a later version of Redraft; use that version, or delete the file: "
            "it is made anew from the log"
        )
    return True


def remove(path: Path) -> None:
    """Takes our file away, with the files that SQLite keeps beside it."""
    for name in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        name.unlink(missing_ok=True)


def is_damage(error: Exception, *, opening: bool = False) -> bool:
    """Whether an error says that the file's bytes are wrong, and not that it is busy, full or out of reach.

    On `opening`, nothing but damage can make one of our own statements wrong.
    """
    if isinstance(error, sqlite3.DatabaseError):
        return _code(error) in _DAMAGE or (opening and _code(error) == sqlite3.SQLITE_ERROR)
    return isinstance(error, msgspec.MsgspecError | OverflowError | ValueError)


def damaged(path: Path | None) -> Damaged:
    """What is raised for a damaged file."""
    return Damaged(f"{_name(path)}: {_DAMAGED}")


@contextmanager
def clear_errors(path: Path | None) -> Iterator[None]:
    """Turns what SQLite and the file system raise into one line that names the file and the remedy."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        line = _LINES.get(_code(error))
        if line is None:
            raise
        kind = Damaged if line == _DAMAGED else StoreError
        raise kind(f"{_name(path)}: {line}") from error
    except OSError as error:
        raise StoreError(f"{_name(path)}: {error.strerror}; check its folder's permissions and free space") from error


def _name(path: Path | None) -> str:
    return f"read models {path}" if path else "read models"


def _code(error: sqlite3.DatabaseError) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _connect(path: Path) -> sqlite3.Connection:
    connection = opened(path, BUSY_SECONDS, cached=64)
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    return connection


def _claim(connection: sqlite3.Connection) -> None:
    """Marks a new file as ours, and empties one of an earlier format."""
    connection.execute("BEGIN IMMEDIATE")
    if connection.execute("PRAGMA user_version").fetchone()[0] < FORMAT:
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            connection.execute(f"DROP TABLE {table}")
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {FORMAT}")
    connection.execute("COMMIT")
