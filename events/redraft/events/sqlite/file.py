"""Opens a store's SQLite file, after checking that it is ours, and creates a new one.

The check changes nothing: opening the database of another program, or of a later version, as one's own could already
change it. It also must not disturb processes that have the file open. A process that closes a file loses all its locks
on it (POSIX, fcntl): reading and closing a file that is also open in SQLite would drop SQLite's lock, another process
could then remove its write-ahead log, and later commits would be lost. So SQLite itself reads the file, because it
knows the connections of its process. The option `immutable` (https://www.sqlite.org/uri.html) makes it neither lock nor
write anything."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple, TypeVar
from urllib.parse import quote

from redraft.events.errors import IncompatibleStore, StoreError

_MAGIC: Final = b"SQLite format 3\0"
_SMALLEST: Final = 512
"""The bytes of the smallest page: SQLite treats a shorter file as an empty database."""


class Identity(NamedTuple):
    """SQLite's `application_id` and `user_version`: https://www.sqlite.org/fileformat2.html#the_database_header"""

    application: int
    version: int


def identity_of(path: Path) -> Identity | None:
    """Returns the identity of the database in the file `path`; None when it is no database. Raises OSError."""
    if path.stat().st_size < _SMALLEST:
        return None
    try:
        with closing(sqlite3.connect(_uri(path, "mode=ro&immutable=1"), uri=True)) as connection:
            return _identity(connection)
    except sqlite3.Error:
        return _read_header(path)  # no process has a file open that SQLite cannot open


def _uri(path: Path, options: str) -> str:
    """Returns the URI of a file. After two slashes SQLite would expect a host."""
    plain = str(path)
    if plain.startswith("//"):
        plain = "/" + plain.lstrip("/")
    return f"file:{quote(plain)}?{options}"


def _read_header(path: Path) -> Identity | None:
    with path.open("rb") as file:
        head = file.read(100)
    if len(head) < 100 or not head.startswith(_MAGIC):
        return None
    return Identity(int.from_bytes(head[68:72]), int.from_bytes(head[60:64]))


APPLICATION_ID: Final = 0x52446674
"""SQLite's `application_id` of our files: "RDft"."""

SCHEMA_VERSION: Final = 1
"""SQLite's `user_version` of the files that this version of Redraft writes."""

BUSY_SECONDS: Final = 10
"""Seconds that a statement waits for another process that holds the file."""

_SETTINGS: Final = {"synchronous": 2, "secure_delete": 1}
_KEEP: Final = {
    "{0}_never_updated": "CREATE TRIGGER {0}_never_updated BEFORE UPDATE ON {0} "
    "BEGIN SELECT RAISE(ABORT, 'events are never updated'); END",
    "{0}_never_deleted": "CREATE TRIGGER {0}_never_deleted BEFORE DELETE ON {0} "
    "BEGIN SELECT RAISE(ABORT, 'events are never deleted'); END",
}
_FULL: Final = "the disk is full; free some space and try again"
_LINES: Final = {
    "SQLITE_FULL": _FULL,
    "SQLITE_IOERR_SHMSIZE": _FULL,  # there is no room for the index of the write-ahead log
    "SQLITE_BUSY": f"another process has held it for {BUSY_SECONDS} seconds; wait for it or end it, and try again",
    "SQLITE_READONLY": "it may not be written; check the permissions of the file and of its folder",
    "SQLITE_IOERR": "the disk gives an error; check the disk and the space on it",
    "SQLITE_CORRUPT": "it is damaged; restore it from a copy",
    "SQLITE_NOTADB": "it is damaged; restore it from a copy",
    "SQLITE_CANTOPEN": "it cannot be opened; check that its folder is there and may be written",
}
_Result = TypeVar("_Result")


def connect(path: Path, seconds: float = BUSY_SECONDS, *, creates: bool = False) -> sqlite3.Connection:
    """Opens a connection in autocommit mode that syncs every commit, and overwrites deleted data with zeros.

    So the key of an erased run remains nowhere in the file. A statement waits `seconds` for others. With `creates` a
    file that is missing is made. Raises sqlite3.Error.
    """
    connection = open_connection(path, seconds, creates=creates)
    try:
        for setting, value in _SETTINGS.items():
            connection.execute(f"PRAGMA {setting}={value}")
            if connection.execute(f"PRAGMA {setting}").fetchone()[0] != value:
                raise sqlite3.OperationalError(f"{setting}={value} is refused")
    except sqlite3.Error:
        connection.close()
        raise
    except UnicodeDecodeError as error:  # SQLite's message about a damaged schema repeats the bytes that it found
        connection.close()
        raise sqlite3.DatabaseError(_LINES["SQLITE_CORRUPT"]) from error
    return connection


def open_connection(path: Path, seconds: float, cached: int = 128, *, creates: bool = True) -> sqlite3.Connection:
    """Opens a SQLite file in autocommit mode, for any thread. Only its owner may read what this makes."""
    is_new = not path.exists()
    connection = sqlite3.connect(
        _uri(path, "mode=rwc" if creates else "mode=rw"),
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


@contextmanager
def store_errors(what: str) -> Iterator[None]:
    """Turns SQLite's errors into StoreError; `what` names the file."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(f"{what}: {explain(error)}") from error


class SharedConnection:
    """A connection that is opened at first use, and lent to one thread at a time, whose errors become others."""

    def __init__(
        self, open_file: Callable[[], sqlite3.Connection], errors: Callable[[], AbstractContextManager[None]]
    ) -> None:
        """`errors` runs a block, and turns the errors of SQLite in it into others."""
        self._open_file = open_file
        self._errors = errors
        self._lock = Lock()
        self._open: sqlite3.Connection | None = None

    @contextmanager
    def lend(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._errors():
            if self._open is None:
                self._open = when_free(self._open_file)
            yield self._open

    def close(self) -> None:
        with self._lock:
            opened, self._open = self._open, None
            if opened is not None:
                opened.close()


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Runs the block while nobody else writes: commits at its end, rolls back when it raises."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.rollback()


def rewrite(path: Path) -> None:
    """Rewrites a file, and its write-ahead log, without what was deleted. Raises StoreError."""
    try:
        with closing(sqlite3.connect(path, timeout=5, isolation_level=None)) as connection:
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error as error:
        raise StoreError(explain(error)) from error


def open_beside(
    path: Path, seconds: float, what: str, identity: Identity, statements: Sequence[str]
) -> sqlite3.Connection:
    """Opens a file that lies beside a store's, and executes these statements, which create what is missing.

    A crash of the machine may undo its last transactions. `what` names it in messages; a statement waits `seconds` for
    others. Raises IncompatibleStore when it was not made by Redraft, or of a later version; sqlite3.Error.
    """
    connection = open_connection(path, seconds)
    try:
        with transaction(connection):
            is_new = _is_new(connection, f"{what} {path}", identity)
            for statement in statements:
                connection.execute(statement)
            if is_new:
                connection.execute(f"PRAGMA application_id = {identity.application}")
                connection.execute(f"PRAGMA user_version = {identity.version}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
    except BaseException:
        connection.close()
        raise
    return connection


def _is_new(connection: sqlite3.Connection, where: str, ours: Identity) -> bool:
    """Returns whether a database is empty; raises IncompatibleStore when it is not Redraft's, or of a later version."""
    if _is_empty(connection):
        return True
    found = _identity(connection)
    if found.application != ours.application:
        raise IncompatibleStore(f"{where}: the file belongs to another program; move it away")
    if found.version > ours.version:
        raise IncompatibleStore(f"{where}: written by a later version of Redraft; use that version")
    return False


def prepare(path: Path, table: str, statements: Sequence[str]) -> None:
    """Makes sure that `path` is a database of ours with this table and a write-ahead log.

    Raises IncompatibleStore, with nothing written, when Redraft did not make it; StoreError.
    """
    refuse_stranger(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"folder {path.parent} cannot be made: {error.strerror}; name another folder") from error
    with store_errors(f"store {path}"), closing(connect(path, creates=True)) as connection:
        when_free(lambda: _lay_out(connection, path, (*statements, *triggers_of(table).values())))
        when_free(lambda: _log_ahead(connection, path))


def triggers_of(table: str) -> dict[str, str]:
    """Returns the triggers that refuse changes to a table's rows: their statements by their names."""
    return {name.format(table): statement.format(table) for name, statement in _KEEP.items()}


def refuse_stranger(path: Path) -> None:
    """Raises IncompatibleStore when `path` exists and is no database of ours, or one of a later version."""
    try:
        if not path.exists():
            return
        if not path.is_file():
            what = "a folder" if path.is_dir() else "not a regular file"
            raise IncompatibleStore(f"store {path} is {what}; name a file, such as {path / 'redraft.db'}")
        if not path.stat().st_size:
            return
        found = identity_of(path)
    except OSError as error:
        raise IncompatibleStore(f"store {path} cannot be read: {error.strerror}; check its permissions") from error
    if found is None:
        raise IncompatibleStore(f"store {path} is not a database; name another file, or a new one")
    _check(path, *found)


def explain(error: BaseException) -> str:
    """Returns the meaning and remedy of a database's error in one line."""
    cause = error if isinstance(error, sqlite3.Error) else error.__cause__
    name = str(getattr(cause, "sqlite_errorname", ""))
    text = " ".join(str(cause or error).split())
    return _LINES.get(name) or _LINES.get(_kind(name), text or type(error).__name__)


_UNAVAILABLE: Final = frozenset({"SQLITE_FULL", "SQLITE_IOERR", "SQLITE_BUSY", "SQLITE_CANTOPEN", "SQLITE_NOMEM"})


def is_unavailable(error: sqlite3.Error) -> bool:
    """Returns whether the machine keeps a file from being read, its disk or another process, and not its content."""
    name = str(getattr(error, "sqlite_errorname", ""))
    return _kind(name) in _UNAVAILABLE and name != "SQLITE_IOERR_SHORT_READ"


def _kind(name: str) -> str:
    """Returns the name of an error without what makes it more precise: `SQLITE_IOERR` of `SQLITE_IOERR_WRITE`."""
    return "_".join(name.split("_")[:2])


def _check(path: Path, application: int, version: int) -> None:
    if application != APPLICATION_ID:
        raise IncompatibleStore(f"store {path} is the database of another program; name another file, or a new one")
    if version > SCHEMA_VERSION:
        raise IncompatibleStore(
            f"store {path} was written by a later version of Redraft (its schema is {version}, ours {SCHEMA_VERSION}); "
            "upgrade Redraft, or name another file"
        )


def _lay_out(connection: sqlite3.Connection, path: Path, statements: Sequence[str]) -> None:
    """Creates our schema in an empty database, all of it or nothing."""
    if not _is_empty(connection):
        _check(path, *_identity(connection))
        return
    with transaction(connection):
        if _is_empty(connection):
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
            for statement in statements:
                connection.execute(statement)


def _is_empty(connection: sqlite3.Connection) -> bool:
    return _identity(connection) == (0, 0) and not connection.execute("SELECT 1 FROM sqlite_master").fetchone()


def _identity(connection: sqlite3.Connection) -> Identity:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return Identity(application, version)


def _log_ahead(connection: sqlite3.Connection, path: Path) -> None:
    if connection.execute("PRAGMA journal_mode").fetchone() == ("wal",):
        return
    (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
    if mode != "wal":
        raise IncompatibleStore(
            f"store {path}: this file system cannot keep a write-ahead log; name a file on a local disk"
        )


def when_free(attempt: Callable[[], _Result], seconds: float = BUSY_SECONDS) -> _Result:
    """Retries the attempt while another process is creating the file: SQLite does not always wait by itself."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return attempt()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname.startswith("SQLITE_BUSY") and time.monotonic() < deadline:
                time.sleep(0.005)
                continue
            raise
