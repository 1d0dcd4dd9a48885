"""The SQLite file: that it is ours before anything is written to it, and how a new one is laid out.

A file of another program, of a later version, or no database at all is told by `sqlite_identity`, which changes
nothing: to open a stranger's database as one's own could already change it.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, TypeVar

from redraft.events.errors import StoreError, StoreUnusable
from redraft.events.sqlite_identity import address_of, identity_of

APPLICATION_ID: Final = 0x52446674
"""SQLite's `application_id` of our files: "RDft"."""

SCHEMA_VERSION: Final = 1
"""SQLite's `user_version` of the files that this version of Redraft writes."""

BUSY_SECONDS: Final = 10
"""How long a statement waits for another process that holds the file."""

MOST_BYTES: Final = 32 * 2**20
"""Of a file that is read as a whole: it takes up to 0.1 s, and for a moment memory of twice its size."""

_SETTINGS: Final = {"synchronous": 2, "secure_delete": 1}
_KEEP: Final = {
    "{0}_never_updated": "CREATE TRIGGER {0}_never_updated BEFORE UPDATE ON {0} "
    "BEGIN SELECT RAISE(ABORT, 'events are never updated'); END",
    "{0}_never_deleted": "CREATE TRIGGER {0}_never_deleted BEFORE DELETE ON {0} "
    "BEGIN SELECT RAISE(ABORT, 'events are never deleted'); END",
}
_LINES: Final = {
    "SQLITE_FULL": "the disk is full; free some space and try again",
    "SQLITE_BUSY": f"another process has held it for {BUSY_SECONDS} seconds; wait for it or end it, and try again",
    "SQLITE_READONLY": "it may not be written; check the permissions of the file and of its folder",
    "SQLITE_IOERR": "the disk gives an error; check the disk and the space on it",
    "SQLITE_CORRUPT": "it is damaged; restore it from a copy",
    "SQLITE_NOTADB": "it is damaged; restore it from a copy",
    "SQLITE_CANTOPEN": "it cannot be opened; check that its folder is there and may be written",
}
_Result = TypeVar("_Result")


def uri_of(path: Path) -> str:
    """The URI by which SQLite opens a file, and makes it if need be."""
    return f"{address_of(path)}?mode=rwc"


def connect(path: Path, seconds: float = BUSY_SECONDS) -> sqlite3.Connection:
    """A connection in autocommit mode, every commit synced to disk, what is deleted overwritten with zeros.

    So the bytes of the file that hold nothing are known; see `sqlite_unused`. `seconds` is how long a statement waits
    for others. Raises sqlite3.Error.
    """
    connection = opened(path, seconds)
    try:
        for setting, value in _SETTINGS.items():
            connection.execute(f"PRAGMA {setting}={value}")
            if connection.execute(f"PRAGMA {setting}").fetchone()[0] != value:
                raise sqlite3.OperationalError(f"{setting}={value} is refused")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def opened(path: Path, seconds: float, cached: int = 128) -> sqlite3.Connection:
    """Opens a SQLite file in autocommit mode, for any thread. One that it makes is for its owner's eyes alone.

    So are the files that SQLite keeps beside it. Raises sqlite3.Error.
    """
    is_new = not path.exists()
    connection = sqlite3.connect(
        uri_of(path),
        uri=True,
        timeout=seconds,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=cached,
    )
    if is_new:
        with suppress(OSError):  # some file systems have no modes
            path.chmod(0o600)
    return connection


def prepare(path: Path, table: str, statements: Sequence[str]) -> None:
    """Makes sure that there is a database of ours at `path`, with this table, and that it uses a write-ahead log.

    Raises StoreUnusable, with nothing written, when the file is not ours; StoreError when it cannot be made or opened.
    """
    refuse_stranger(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"folder {path.parent} cannot be made: {error.strerror}; name another folder") from error
    try:
        with closing(connect(path)) as connection:
            when_free(lambda: _lay_out(connection, path, (*statements, *triggers_of(table).values())))
            when_free(lambda: _log_ahead(connection, path))
    except sqlite3.Error as error:
        raise StoreError(f"store {path}: {explain(error)}") from error


def triggers_of(table: str) -> dict[str, str]:
    """The triggers that keep the rows of a table as they are: their statements by their names."""
    return {name.format(table): statement.format(table) for name, statement in _KEEP.items()}


def refuse_stranger(path: Path) -> None:
    """Raises StoreUnusable when there is something at `path` that is not a database of ours, or of a later version."""
    try:
        if not path.exists():
            return
        if not path.is_file():
            what = "a folder" if path.is_dir() else "not a regular file"
            raise StoreUnusable(f"store {path} is {what}; name a file, such as {path / 'redraft.db'}")
        if not path.stat().st_size:
            return
        found = identity_of(path)
    except OSError as error:
        raise StoreUnusable(f"store {path} cannot be read: {error.strerror}; check its permissions") from error
    if found is None:
        raise StoreUnusable(f"store {path} is not a database; name another file, or a new one")
    _check(path, *found)


def explain(error: BaseException) -> str:
    """What a database's error means and how to mend it, in one line."""
    cause = error if isinstance(error, sqlite3.Error) else error.__cause__
    name = str(getattr(cause, "sqlite_errorname", ""))
    text = " ".join(str(cause or error).split())
    return _LINES.get("_".join(name.split("_")[:2]), text or type(error).__name__)


def _check(path: Path, application: int, version: int) -> None:
    if application != APPLICATION_ID:
        raise StoreUnusable(f"store {path} is the database of another program; name another file, or a new one")
    if version > SCHEMA_VERSION:
        raise StoreUnusable(
            f"store {path} was written by a later version of Redraft (its schema is {version}, ours {SCHEMA_VERSION}); "
            "upgrade Redraft, or name another file"
        )


def _lay_out(connection: sqlite3.Connection, path: Path, statements: Sequence[str]) -> None:
    """Creates our schema in an empty database, all of it or nothing."""
    if not _is_empty(connection):
        _check(path, *_identity(connection))
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        if _is_empty(connection):
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
            for statement in statements:
                connection.execute(statement)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _is_empty(connection: sqlite3.Connection) -> bool:
    return _identity(connection) == (0, 0) and not connection.execute("SELECT 1 FROM sqlite_master").fetchone()


def _identity(connection: sqlite3.Connection) -> tuple[int, int]:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return application, version


def _log_ahead(connection: sqlite3.Connection, path: Path) -> None:
    if connection.execute("PRAGMA journal_mode").fetchone() == ("wal",):
        return
    _refuse_damage(connection, path)
    (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
    if mode != "wal":
        raise StoreUnusable(
            f"store {path}: this file system cannot keep a write-ahead log; name a file on a local disk"
        )


def _refuse_damage(connection: sqlite3.Connection, path: Path) -> None:
    """Raises StoreUnusable when a write-ahead log is asked for by one of two bytes: SQLite would mend it in silence.

    They are read through SQLite, as `sqlite_identity` tells why; that takes memory, so in a large file they are not.
    """
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    if pages * size <= MOST_BYTES and hasattr(connection, "serialize"):  # it may be compiled without
        head = connection.serialize()[:20]
        if head[18:19] != head[19:20]:
            raise StoreUnusable(f"store {path} is damaged: bytes 18 and 19 differ; restore it from a copy")


def when_free(attempt: Callable[[], _Result], seconds: float = BUSY_SECONDS) -> _Result:
    """Tries again while another process is laying the file out: SQLite does not always wait by itself."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return attempt()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname.startswith("SQLITE_BUSY") and time.monotonic() < deadline:
                time.sleep(0.005)
                continue
            raise
