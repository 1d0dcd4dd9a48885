"""The recorders of `eventsourcing` that keep our events: which one a URL names, and what we add to it.

SQLite: the library's table, so that any program built on the library can read it, with a faster insert. In memory: the
library's, with positions. PostgreSQL: see `postgres_recorder`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import lru_cache, partial
from heapq import nsmallest
from pathlib import Path
from threading import Lock
from typing import Any, Final, Protocol, TypeAlias
from uuid import UUID

import msgspec
from eventsourcing.persistence import (
    ApplicationRecorder,
    DatabaseError,
    DataError,
    IntegrityError,
    Notification,
    OperationalError,
    PersistenceError,
    StoredEvent,
)
from eventsourcing.popo import POPOApplicationRecorder
from eventsourcing.sqlite import SQLiteApplicationRecorder, SQLiteConnection, SQLiteConnectionPool, SQLiteDatastore

from redraft.events.appends import NewRow
from redraft.events.codec import GENESIS, link_of
from redraft.events.errors import InputError
from redraft.events.inspection import Inspection
from redraft.events.run_keys import TABLE as KEYS
from redraft.events.run_keys import RunKeys, SqliteKeys
from redraft.events.sqlite_check import FileCheck
from redraft.events.sqlite_file import connect, explain, prepare, when_free
from redraft.events.sqlite_rules import CREATE_IDS, FOLLOWS, ONCE, lay_down, rules_of
from redraft.events.sqlite_seal import LAY_OUT, seal_file

__all__ = [
    "ApplicationRecorder",
    "DataError",
    "DatabaseError",
    "IntegrityError",
    "MemoryRecorder",
    "Notification",
    "Opened",
    "OperationalError",
    "PersistenceError",
    "SQLiteRecorder",
    "StoredEvent",
    "explain",
    "open_recorder",
]

FORMS: Final = (
    "sqlite:///runs.db (relative), sqlite:////var/lib/redraft/runs.db (absolute), "
    "postgresql://user@host:5432/database, or memory:"
)
LAST: Final = 2**63 - 1
"""The last version and the last position that a database can count to."""

_MOST_ROWS: Final = 4096
"""Rows in one INSERT; SQLite takes 32,766 parameters, four a row."""


Listen: TypeAlias = Callable[[Callable[[int], None]], Coroutine[None, None, None]]


Then: TypeAlias = Callable[[Sequence[int] | PersistenceError], None]
"""Told the positions of rows that were recorded, or why it is not known that they were."""


class DirectWriter(Protocol):
    """Records rows from the event loop itself, where no call may wait, one insert at a time."""

    def begin(self, rows: Sequence[NewRow], then: Then) -> bool:
        """Begins to record all of the rows or none, and calls `then` later; False when it does not take these rows.

        What is told is as `insert_events` of a recorder gives and raises it.
        """
        ...

    def close(self) -> None:
        """Lets go of what it holds; nothing may be under way."""
        ...


class Opened(msgspec.Struct, frozen=True):
    """A recorder, what it is called in error messages, whether its calls may wait for a disk, and how it is let go.

    `listen` is there if the recorder hears of what other processes append: it runs until it is cancelled, and calls
    what it is given with the end of the log. `keys` is where the keys of encrypted runs lie; without it, in memory.
    `check` looks at what holds the events, and tells what is wrong with it. `direct` is there where appends need no
    thread.
    """

    recorder: ApplicationRecorder
    where: str
    waits: bool
    release: Callable[[], None]
    listen: Listen | None = None
    keys: RunKeys | None = None
    check: Callable[[], Inspection] | None = None
    direct: DirectWriter | None = None


def open_recorder(url: str) -> Opened:
    """The recorder that a store's URL names; raises InputError naming the forms, StoreUnusable, StoreError."""
    scheme, colon, rest = url.partition(":")
    match scheme + colon, rest:
        case "memory:", "":
            return Opened(MemoryRecorder(), "memory:", False, lambda: None)
        case "sqlite:", path if path.startswith("///") and path[3:].strip("/") and "\0" not in path:
            return _open_sqlite(_plain_path(path[3:]))
        case "postgresql:" | "postgres:", rest if rest.startswith("//"):
            return _open_postgres(url)
        case _:
            told = f"{scheme}:…" if colon else "without a scheme"
            raise InputError(f"store {told} is not understood; give {FORMS}")


def _plain_path(text: str) -> Path:
    if ":memory:" in text:
        raise InputError("store sqlite:///:memory: is not understood; give memory: for a store without a file")
    return Path(text)


def _open_postgres(url: str) -> Opened:
    with psycopg_needed():
        from redraft.events.postgres_recorder import open_postgres  # only those who use it need psycopg
    return open_postgres(url)


@contextmanager
def psycopg_needed() -> Iterator[None]:
    """Turns an import that fails for want of psycopg into an InputError with the remedy."""
    try:
        yield
    except ImportError as error:
        raise InputError(
            f"a store in PostgreSQL needs psycopg ({error}); pip install 'psycopg[binary,pool]'"
        ) from error


def _open_sqlite(path: Path) -> Opened:
    datastore = _Datastore(path)
    recorder = SQLiteRecorder(datastore)
    keys, table, statements = SqliteKeys(path), recorder.events_table_name, recorder.create_table_statements
    prepare(path, table, (*statements, *LAY_OUT, CREATE_IDS, *rules_of(table).values()))
    check = FileCheck(path, table, statements)

    def release() -> None:
        recorder.close_writer()
        if recorder.has_written or keys.has_written:
            seal_file(path, table, KEYS)
        datastore.close()

    return Opened(recorder, str(path), True, release, keys=keys, check=check)


class _Pool(SQLiteConnectionPool):
    """Connections that sync every commit and keep prepared statements; the library's keep one statement."""

    @staticmethod
    def detect_memory_mode(db_name: str) -> bool:
        return False

    def _create_connection(self) -> SQLiteConnection:
        with _errors_of_the_library():
            connection = connect(Path(self.db_name))
        connection.row_factory = sqlite3.Row
        connection.text_factory = partial(str, encoding="utf-8", errors="replace")
        return SQLiteConnection(connection, self.max_age)


class _Datastore(SQLiteDatastore):
    def __init__(self, path: Path) -> None:
        super().__init__(str(path), originator_id_type="text")
        self.pool = _Pool(db_name=str(path))


def versions_between(gt: int | None, lte: int | None) -> tuple[int, int]:
    """The version after which, and the one up to which, events are read, as a database takes them."""
    return -1 if gt is None else gt, LAST if lte is None else lte


class SQLiteRecorder(SQLiteApplicationRecorder):
    """The library's recorder and its table, with each group of events in one statement, and positions with every read.

    sqlite3 gives up the interpreter's lock at every statement and has to get it back from a busy event loop: one
    statement that is its own transaction does so once, where the library does n + 2 times. One connection writes: of
    two that take turns, as those of the library's pool do, each reads again from the file what the other has written.
    """

    has_written = False
    _has_rules = False

    def __init__(self, datastore: SQLiteDatastore) -> None:
        super().__init__(datastore)
        self._lock = Lock()
        self._writer: sqlite3.Connection | None = None

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Gives the connection that writes, to one at a time. Raises the library's errors."""
        with self._lock, _errors_of_the_library():
            if self._writer is None:
                self._writer = connect(Path(self.datastore.pool.db_name))
            yield self._writer

    def close_writer(self) -> None:
        """Closes the connection that writes; the next insert opens another."""
        with self._lock:
            if self._writer is not None:
                self._writer.close()
            self._writer = None

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:  # noqa: ANN401
        """Records all of the events or none, and gives their positions.

        Raises IntegrityError when one is there, or does not follow the last event of its run; see `sqlite_rules`.
        """
        if not self._has_rules:
            self._lay_down_rules()
        positions = self._inserted(stored_events, **kwargs)
        self.has_written = True
        return positions

    def _lay_down_rules(self) -> None:
        with _errors_of_the_library(), closing(connect(Path(self.datastore.pool.db_name))) as connection:
            when_free(lambda: lay_down(connection, self.events_table_name))
        self._has_rules = True

    def _inserted(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:  # noqa: ANN401
        if not 0 < len(stored_events) <= _MOST_ROWS:
            return super().insert_events(stored_events, **kwargs)
        values = [v for s in stored_events for v in (str(s.originator_id), s.originator_version, s.topic, s.state)]
        statement = _insert(self.events_table_name, len(stored_events))
        with self.writing() as connection:
            last = connection.execute(statement, values).lastrowid or 0
        return range(last - len(stored_events) + 1, last + 1)

    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[Notification]:
        """The events of a run, each with its position."""
        run = str(originator_id)
        statement = (
            "SELECT rowid, originator_version, CAST(COALESCE(topic, '') AS TEXT), CAST(COALESCE(state, '') AS BLOB) "  # noqa: S608
            f"FROM {self.events_table_name} WHERE originator_id=? AND originator_version>? AND originator_version<=? "
            f"ORDER BY originator_version {'DESC' if desc else 'ASC'} LIMIT ?"
        )
        values = (run, *versions_between(gt, lte), -1 if limit is None else limit)
        with self.datastore.get_connection(commit=False) as connection, _errors_of_the_library():
            cursor = connection.cursor()
            cursor.execute(statement, values)
            return [Notification(run, version, topic, state, at) for at, version, topic, state in cursor.fetchall()]

    def select_after(self, position: int, limit: int, most_bytes: int) -> Sequence[Notification]:
        """The rows of the log after a position, as many as have so many bytes together, and at least one."""
        statement = (
            "SELECT rowid, originator_id, originator_version, topic, state "  # noqa: S608
            f"FROM {self.events_table_name} WHERE rowid>? ORDER BY rowid LIMIT ?"
        )
        found: list[Notification] = []
        with self.datastore.get_connection(commit=False) as connection, _errors_of_the_library():
            cursor = connection.cursor()
            cursor.execute(statement, (position, limit))
            while most_bytes > 0 and (row := cursor.fetchone()) is not None:
                at, run, version, topic, state = row
                found.append(Notification(run, version, topic, state, at))
                most_bytes -= len(state) if isinstance(state, bytes | str) else 0
        return found

    def select_by_run(self, run: str, version: int, limit: int) -> Sequence[Notification]:
        """Rows in the order of runs and versions, as the index has them, after this version of this run."""
        table = self.events_table_name
        statement = (
            "SELECT rowid, originator_id, originator_version, CAST(COALESCE(topic, '') AS TEXT), "  # noqa: S608
            f"CAST(COALESCE(state, '') AS BLOB) FROM {table} INDEXED BY sqlite_autoindex_{table}_1 "
            "WHERE (originator_id, originator_version) > (?, ?) ORDER BY originator_id, originator_version LIMIT ?"
        )
        with self.datastore.get_connection(commit=False) as connection, _errors_of_the_library():
            cursor = connection.cursor()
            cursor.execute(statement, (run, version, limit))
            return [
                Notification(run, version, topic, state, at) for at, run, version, topic, state in cursor.fetchall()
            ]

    def scan(self, run: str) -> int:
        """How many rows bear this run, by the rows themselves and not by the index: reads the whole table."""
        statement = f"SELECT count(*) FROM {self.events_table_name} NOT INDEXED WHERE originator_id=?"  # noqa: S608
        with self.datastore.get_connection(commit=False) as connection, _errors_of_the_library():
            cursor = connection.cursor()
            cursor.execute(statement, (run,))
            return int(cursor.fetchone()[0])


class MemoryRecorder(POPOApplicationRecorder):
    """The library's recorder in memory, with positions with every read, and the rules that databases have."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        super().__init__(*args, **kwargs)
        self._ids: set[str] = set()
        self._tips: dict[str, tuple[int, str]] = {}

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:  # noqa: ANN401
        """Records all of the events or none; it keeps objects, so these have to be the library's own.

        Raises IntegrityError when one is there, or does not follow the last event of its run.
        """
        own = [StoredEvent(s.originator_id, s.originator_version, s.topic, s.state) for s in stored_events]
        with self._database_lock:
            ids, tips = self._checked(own)
            positions = super().insert_events(own, **kwargs)
            self._ids |= ids
            self._tips |= tips
            return positions

    def _checked(self, events: Sequence[StoredEvent]) -> tuple[set[str], dict[str, tuple[int, str]]]:
        """The ids of the events, and how they leave their runs; raises IntegrityError for what a rule refuses."""
        ids: set[str] = set()
        tips: dict[str, tuple[int, str]] = {}
        for event in events:
            run, version = str(event.originator_id), event.originator_version
            link = link_of(run, version, event.topic, event.state)
            if (version - 1, link.previous) != tips.get(run, self._tips.get(run, (0, GENESIS))):
                raise IntegrityError(f"{FOLLOWS}: event {version} does not follow the last event of run {run}")
            if link.id in ids or link.id in self._ids:
                raise IntegrityError(f"{ONCE}: an event with the id {link.id} is in the log already")
            ids.add(link.id)
            tips[run] = (version, link.hash)
        return ids, tips

    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[Notification]:
        """The events of a run, each with its position."""
        run = str(originator_id)
        with self._database_lock:
            found = super().select_events(originator_id, gt=gt, lte=lte, desc=desc, limit=limit)
            at = self._stored_events_index[run]
            return [
                Notification(run, s.originator_version, s.topic, s.state, at[s.originator_version] + 1) for s in found
            ]

    def select_after(self, position: int, limit: int, most_bytes: int) -> Sequence[Notification]:
        """The rows of the log after a position. They are in memory: their bytes are not counted."""
        return self.select_notifications(position, limit, inclusive_of_start=False)

    def select_by_run(self, run: str, version: int, limit: int) -> Sequence[Notification]:
        """Rows in the order of runs and versions, after this version of this run."""
        with self._database_lock:
            found = [(str(s.originator_id), s.originator_version, at) for at, s in enumerate(self._stored_events)]
            chosen = nsmallest(limit, (each for each in found if each[:2] > (run, version)))
            rows = [(self._stored_events[at], at + 1) for _, _, at in chosen]
            return [Notification(s.originator_id, s.originator_version, s.topic, s.state, at) for s, at in rows]


@lru_cache(maxsize=512)
def _insert(table: str, rows: int) -> str:
    return f"INSERT INTO {table} VALUES " + ",".join(["(?,?,?,?)"] * rows)  # noqa: S608


@contextmanager
def _errors_of_the_library() -> Iterator[None]:
    """Turns SQLite's errors into the library's, as its own transactions do."""
    try:
        yield
    except sqlite3.IntegrityError as error:
        raise IntegrityError(error) from error
    except sqlite3.DataError as error:
        raise DataError(error) from error
    except sqlite3.OperationalError as error:
        raise OperationalError(error) from error
    except sqlite3.Error as error:
        raise DatabaseError(error) from error
