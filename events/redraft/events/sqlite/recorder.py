"""The recorder that keeps events in a SQLite file: the library's table, with a faster insert."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from eventsourcing.persistence import (
    DatabaseError,
    DataError,
    IntegrityError,
    Notification,
    OperationalError,
    PersistenceError,
    StoredEvent,
)
from eventsourcing.sqlite import (
    SQLiteApplicationRecorder,
    SQLiteConnection,
    SQLiteConnectionPool,
    SQLiteCursor,
    SQLiteDatastore,
)

from redraft.events.encryption.keyring import TABLE, DatabaseKeys
from redraft.events.sqlite.direct_writer import SqliteDirectWriter
from redraft.events.sqlite.file import (
    BUSY_SECONDS,
    SharedConnection,
    connect,
    explain,
    prepare,
    store_errors,
    transaction,
    when_free,
)
from redraft.events.sqlite.schema import CREATE_IDS, CREATE_LATER, add_rules, inspect, rules_of
from redraft.events.store.append import NewRow
from redraft.events.store.recorder import TEXTS, LogRow, Opened, Place, versions_between

_MOST_ROWS: Final = 4096
"""Rows in one INSERT; SQLite takes 32,766 parameters, four a row."""

QUICK: Final = 0.002
"""Seconds: commits that usually take less may be waited for by an event loop."""

_SMOOTHING: Final = 16
"""The usual time of a commit is a moving average: each commit moves it by one part in so many of the difference."""

_PATIENT: Final = (f"PRAGMA busy_timeout={BUSY_SECONDS * 1000}", "PRAGMA wal_autocheckpoint=1000")
_IMPATIENT: Final = ("PRAGMA busy_timeout=0", "PRAGMA wal_autocheckpoint=0")
"""Settings of the writing connection: with these a commit waits for nobody, and leaves the write-ahead log to grow."""

_COLUMNS: Final = (
    "SELECT rowid, originator_id, originator_version, CAST(COALESCE(topic, '') AS TEXT), "
    "CAST(COALESCE(state, '') AS BLOB)"
)
"""The columns of events, also where somebody put values of other types into them."""


def open_sqlite(path: Path) -> Opened:
    """Opens the store in this file, and creates it where it is missing; raises IncompatibleStore, StoreError."""
    datastore = Datastore(path)
    recorder = SQLiteRecorder(datastore)
    keys, table, statements = (
        DatabaseKeys(SqliteKeyTables(path)),
        recorder.events_table_name,
        recorder.create_table_statements,
    )
    prepare(path, table, (*statements, CREATE_IDS, *rules_of(table).values()))
    recorder.require_same_file()
    check = partial(inspect, path, table, statements)

    def release() -> None:
        recorder.close_writer()
        datastore.close()

    direct = SqliteDirectWriter(recorder)
    return Opened(recorder, str(path), True, release, keys=keys, check=check, direct=direct, scan=recorder.scan)


class SqliteKeyTables:
    """See `KeyTables`. Its connection overwrites deleted data with zeros."""

    collation = "BINARY"

    def __init__(self, path: Path) -> None:
        self.where = str(path)
        self.connection = SharedConnection(partial(connect, path.absolute()), partial(store_errors, f"store {path}"))
        self.close = self.connection.close

    def ask(self, table: str, statement: str, *values: str | int | bytes) -> list[tuple[Any, ...]]:
        with self.connection.lend() as connection:
            if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone():
                return []
            return connection.execute(statement.format(table), values).fetchall()

    def add(self, table: str, rows: Sequence[tuple[str | bytes, ...]]) -> None:
        places = ", ".join("?" * (2 if table == TABLE else 1))
        with self.connection.lend() as connection:
            connection.execute(CREATE_LATER[table])
            with transaction(connection):
                connection.executemany(f"INSERT INTO {table} VALUES ({places}) ON CONFLICT DO NOTHING", rows)  # noqa: S608

    def purge(self) -> None:
        with self.connection.lend() as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # else it may stay in the write-ahead log for long


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


class Datastore(SQLiteDatastore):
    def __init__(self, path: Path) -> None:
        file = str(path.absolute())  # connections are opened later too, when the working folder may be another
        super().__init__(file, originator_id_type="text")
        self.pool = _Pool(db_name=file)

    @contextmanager
    def transaction(self, *, commit: bool) -> Iterator[SQLiteCursor]:
        """Runs the library's transaction, and puts meaning and remedy into its errors."""
        try:
            with super().transaction(commit=commit) as cursor:
                yield cursor
        except PersistenceError as error:
            raise type(error)(explain(error)) from error.__cause__


class SQLiteRecorder(SQLiteApplicationRecorder):
    """The library's recorder and its table, with one statement for each group of events, and positions with every read.

    sqlite3 releases the interpreter's lock at every statement and must get it back from a busy event loop: one
    statement that is its own transaction does so once, the library n + 2 times. One connection writes: of two that take
    turns, as in the library's pool, each must read again from the file what the other has written.
    """

    _has_rules = False

    def __init__(self, datastore: SQLiteDatastore) -> None:
        super().__init__(datastore)
        self._path = Path(datastore.pool.db_name)
        self._file: tuple[int, int] | None = None
        writer = SharedConnection(partial(connect, self._path), _errors_of_the_library)
        self.writing, self.close_writer = writer.lend, writer.close
        self._is_patient = True
        self._usual_seconds = 0.0
        self.quick_commits = 0
        """How many commits in a row left the usual time of a commit below `QUICK`."""

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:  # noqa: ANN401
        """Records all of the events or none, and returns their positions.

        Raises IntegrityError when one is there, or does not follow the last event of its run; see `sqlite.schema`.
        """
        self.require_same_file()
        if not self._has_rules:
            with self.writing() as connection:
                when_free(lambda: add_rules(connection, self.events_table_name))
            self._has_rules = True
        if not 0 < len(stored_events) <= _MOST_ROWS:
            return super().insert_events(stored_events, **kwargs)
        with self.writing() as connection:
            return self._insert(connection, stored_events, patient=True)

    def insert_if_free(self, rows: Sequence[NewRow]) -> Sequence[int] | None:
        """Works as `insert_events`, but returns None, with nothing recorded, where another process holds the file."""
        self.require_same_file()
        with self.writing() as connection:
            try:
                return self._insert(connection, rows, patient=False)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorname.startswith("SQLITE_BUSY"):
                    self.quick_commits = 0
                    return None
                raise

    def _insert(
        self, connection: sqlite3.Connection, rows: Sequence[StoredEvent] | Sequence[NewRow], *, patient: bool
    ) -> Sequence[int]:
        if patient != self._is_patient:
            for setting in _PATIENT if patient else _IMPATIENT:
                connection.execute(setting)
            self._is_patient = patient
        values = [  # `sqlite3` looks for an adapter of bytes each time, and for none of a bytearray
            v for row in rows for v in (str(row.originator_id), row.originator_version, row.topic, bytearray(row.state))
        ]
        begun = time.perf_counter()
        last = connection.execute(_insert(self.events_table_name, len(rows)), values).lastrowid or 0
        self._usual_seconds += (time.perf_counter() - begun - self._usual_seconds) / _SMOOTHING
        self.quick_commits = self.quick_commits + 1 if self._usual_seconds < QUICK else 0
        return list(range(last - len(rows) + 1, last + 1))

    def require_same_file(self) -> None:
        """Raises OperationalError when another file, or none, is where one was at the first call.

        SQLite would go on writing into the file that was deleted or moved, and nobody would read it again.
        """
        try:
            found = self._path.stat()
            now = found.st_dev, found.st_ino
        except OSError:
            now = None
        self._file = self._file or now
        if now is None or now != self._file:
            raise OperationalError(
                "its file was deleted, moved or replaced while it was in use; put it back, with its -wal file, or "
                "restore a copy and start again"
            )

    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[Notification]:
        return self._select(
            f"{_COLUMNS} FROM {self.events_table_name} "
            "WHERE originator_id=? AND originator_version>? AND originator_version<=? "
            f"ORDER BY originator_version {'DESC' if desc else 'ASC'} LIMIT ?",
            (str(originator_id), *versions_between(gt, lte), -1 if limit is None else limit),
        )

    def select_after(self, position: int, limit: int, max_bytes: int) -> Sequence[LogRow]:
        statement = (
            "SELECT rowid, originator_id, originator_version, topic, state "  # noqa: S608
            f"FROM {self.events_table_name} WHERE rowid>? ORDER BY rowid LIMIT ?"
        )
        found: list[LogRow] = []
        with self._reading() as cursor:
            for row in cursor.execute(statement, (position, limit)):
                found.append(LogRow(*row))
                max_bytes -= len(row[4]) if isinstance(row[4], bytes | str) else 0
                if max_bytes <= 0:
                    break
        return found

    def select_by_run(self, after: Place, limit: int) -> tuple[Sequence[LogRow], Place]:
        """See `Recorder`; finds the rows by the index, and goes on by its very bytes: what is read of text that is not
        valid comes before it in the index."""
        table, run = self.events_table_name, "CAST(? AS TEXT)" if after.is_text else "?"
        statement = (
            f"{_COLUMNS}, CAST(originator_id AS BLOB) FROM {table} INDEXED BY sqlite_autoindex_{table}_1 "
            f"WHERE (originator_id, originator_version) > ({run}, ?) ORDER BY originator_id, originator_version LIMIT ?"
        )
        with self._reading() as cursor:
            rows = cursor.execute(statement, (after.run, after.version, limit)).fetchall()
        if rows:
            _, shown, version, _, _, run = rows[-1]
            is_torn = isinstance(version, str) and "\N{REPLACEMENT CHARACTER}" in version  # then on behind all texts
            last = float("-inf") if version is None else b"" if is_torn else version  # nothing is greater than NULL
            after = Place(run, last, is_text=isinstance(shown, str))
        return [LogRow(*row[:5]) for row in rows], after

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Cursor]:
        """Lends a cursor whose rows are plain tuples, which take half as long to read as the library's."""
        connected = self.datastore.get_connection(commit=False)
        with connected as connection, _errors_of_the_library(), connection.cursor() as cursor:
            cursor.row_factory = None
            yield cursor

    def _select(self, statement: str, values: Sequence[str | int]) -> Sequence[Notification]:
        with self.datastore.get_connection(commit=False) as connection, _errors_of_the_library():
            cursor = connection.cursor()
            cursor.execute(statement, values)
            return [
                Notification(run, version, topic, state, at) for at, run, version, topic, state in cursor.fetchall()
            ]

    def scan(self, run: str) -> int:
        """Counts the rows of a run without the index: reads the whole table."""
        statement = f"SELECT count(*) FROM {self.events_table_name} NOT INDEXED WHERE originator_id=?"  # noqa: S608
        with self.datastore.get_connection(commit=False) as connection, _errors_of_the_library():
            cursor = connection.cursor()
            cursor.execute(statement, (run,))
            return int(cursor.fetchone()[0])


@lru_cache(maxsize=512)
def _insert(table: str, rows: int) -> str:
    return f"INSERT INTO {table} VALUES " + ",".join(["(?,?,?,?)"] * rows)  # noqa: S608


@contextmanager
def _errors_of_the_library() -> Iterator[None]:
    """Turns SQLite's errors into the library's, as its own transactions do."""
    try:
        yield
    except sqlite3.IntegrityError as error:
        kind = DataError if str(error).startswith(TEXTS) else IntegrityError
        raise kind(explain(error)) from error
    except sqlite3.DataError as error:
        raise DataError(explain(error)) from error
    except sqlite3.OperationalError as error:
        raise OperationalError(explain(error)) from error
    except sqlite3.Error as error:
        raise DatabaseError(explain(error)) from error
