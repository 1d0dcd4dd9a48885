"""Stores read models in a SQLite file or in memory.

The file may be deleted at any time, as all its content comes from the log; Redraft removes it only when its header says
that Redraft wrote it.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final

import msgspec

from redraft.events.errors import IncompatibleStore, ReadModelCorrupt, StoreError
from redraft.events.sqlite.file import identity_of, open_connection, transaction, when_free
from redraft.projections.engine.projection import Key, SetAll, Table, Value, invalid_table_error
from redraft.projections.engine.storage import Cells, Cursor, Phrase

APPLICATION: Final = 0x52645677
"""The SQLite `application_id` of Redraft's read models: "RdVw"."""

FORMAT: Final = 2
"""The SQLite `user_version`: the format of the checkpoints. A file of an earlier format is emptied."""

BUSY_SECONDS: Final = 30.0
"""How long a write waits for another process that is writing."""

_DAMAGE: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_DAMAGED: Final = "it is damaged; `redraft rebuild` builds it again from the log"
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
    """Opens a connection for writing to the file, creating the file if it is missing.

    Raises IncompatibleStore, having changed nothing, when the file is not Redraft's or of a later version.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    is_ours(path)
    connection = _connect(path)
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


def open_memory() -> sqlite3.Connection:
    """Opens a database in memory, which is gone when it is closed."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False, cached_statements=64)
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    _claim(connection)
    return connection


def is_ours(path: Path) -> bool:
    """Returns whether the file is Redraft's; False when it is missing. Raises IncompatibleStore for another's file.

    The application id is written before the file's journal is, so reading the header is enough.
    """
    if not path.exists():
        return False
    if not path.is_file():
        raise IncompatibleStore(f"read models {path}: not a file; move it away: Redraft makes the file from the log")
    if not path.stat().st_size:
        return False
    found = identity_of(path)
    if found is None or found.application != APPLICATION:
        raise IncompatibleStore(
            f"read models {path}: the file belongs to another program; move it away: Redraft makes its own from the log"
        )
    if found.version > FORMAT:
        raise IncompatibleStore(
            f"read models {path}: written by a later version of Redraft; use that version, or delete the file: "
            "Redraft builds it again from the log"
        )
    return True


def _connect(path: Path) -> sqlite3.Connection:
    connection = open_connection(path.absolute(), BUSY_SECONDS, cached=64)
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    return connection


def _claim(connection: sqlite3.Connection) -> None:
    """Marks a new file as Redraft's, and empties one of an earlier format."""
    with transaction(connection):
        if connection.execute("PRAGMA user_version").fetchone()[0] < FORMAT:
            tables = (
                "SELECT name FROM pragma_table_list WHERE type IN ('table', 'virtual') AND name NOT LIKE 'sqlite_%'"
            )
            for (table,) in connection.execute(tables).fetchall():
                connection.execute(f"DROP TABLE {table}")
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {FORMAT}")


BLOCK: Final = 256
"""The maximum number of rows that one statement writes."""

_MOST_PARAMETERS: Final = 32_000

_NULL: Final = math.nan
"""SQLite stores NaN as NULL, and `sqlite3` takes a float in a fifth of the time that it takes for None."""


class SqliteTables:
    """Writes rows with multi-row SQLite statements; see `Tables`."""

    same = "IS"

    def existing(self, cursor: Cursor) -> set[str]:
        return {name for (name,) in cursor.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()}

    def is_ours(self, cursor: Cursor, name: str) -> bool:
        return True  # so is the file

    def define(self, cursor: Cursor, name: str, columns: str) -> None:
        cursor.execute(f"CREATE TABLE {name} ({columns})")

    def create(self, cursor: Cursor, table: Table) -> None:
        columns = ", ".join(f"{name} {kind}" for name, kind in table.columns.items())
        keys = ", ".join(table.keys)
        try:
            cursor.execute(f"CREATE TABLE {table.name} ({columns}, PRIMARY KEY ({keys})) WITHOUT ROWID")
            for name, rest in table.indexes.items():
                cursor.execute(f"CREATE INDEX {name} ON {table.name} {rest}")
            for statement in _index_words(table) if table.searched else ():
                cursor.execute(statement)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_ERROR or "already exists" in str(error):
                raise
            raise invalid_table_error(table, error) from None

    def drop(self, cursor: Cursor, name: str) -> None:
        cursor.execute(f"DROP TABLE IF EXISTS {name}")
        cursor.execute(f"DROP TABLE IF EXISTS {_words_name(name)}")

    def rename(self, cursor: Cursor, name: str, new: str) -> None:
        triggers = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ?"
        made: list[tuple[str, str]] = cursor.execute(triggers, (name,)).fetchall()
        for trigger, _ in made:
            cursor.execute(f"DROP TRIGGER {trigger}")
        cursor.execute(f"ALTER TABLE {name} RENAME TO {new}")
        if made:
            cursor.execute(f"ALTER TABLE {_words_name(name)} RENAME TO {_words_name(new)}")
        for _, statement in made:
            cursor.execute(statement.replace(name, new))

    def matching(self, table: Table, phrases: Sequence[Phrase]) -> tuple[str, str]:
        words = _words_name(table.name)
        wanted = " AND ".join(f'"{" ".join(each.words)}"{"*" if each.begins else ""}' for each in phrases)
        return f"{table.name}.position IN (SELECT rowid FROM {words} WHERE {words} MATCH :words)", wanted  # noqa: S608

    def find(self, cursor: Cursor, table: Table, keys: Sequence[Key]) -> list[tuple[Key, Cells]]:
        found: list[tuple[Key, Cells]] = []
        for count, block in _blocks(((at, *key) for at, key in enumerate(keys)), 1 + table.key):
            named = " AND ".join(f"{table.name}.{name} = of.column{at}" for at, name in enumerate(table.keys, 2))
            sql = (
                f"SELECT of.column1, {table.name}.* FROM (VALUES {_places(1 + table.key, count)}) AS of "  # noqa: S608
                f"CROSS JOIN {table.name} WHERE {named}"  # in this order: each key is looked up
            )
            found += [(keys[row[0]], row[1:]) for row in cursor.execute(sql, block).fetchall()]
        return found

    def put(self, cursor: Cursor, table: Table, rows: Iterable[Cells]) -> None:
        for count, block in _blocks(rows, len(table.columns)):
            cursor.execute(_upsert(table, count), block)

    def delete(self, cursor: Cursor, table: Table, depth: int, keys: Iterable[Key]) -> None:
        names = ", ".join(table.keys[:depth])
        for count, block in _blocks(keys, depth):
            cursor.execute(f"DELETE FROM {table.name} WHERE ({names}) IN (VALUES {_places(depth, count)})", block)  # noqa: S608

    def set_all(self, cursor: Cursor, table: Table, alike: Sequence[SetAll]) -> None:
        allowed = list(chain.from_iterable((*alike[0].where.values(), *alike[0].unless.values())))
        rows = ((change.group, *change.values.values()) for change in alike)
        for count, block in _blocks(rows, 1 + len(alike[0].values)):
            cursor.execute(_update(table, alike[0], count), [*block, *allowed])


SQLITE_TABLES: Final = SqliteTables()


def _words_name(table: str) -> str:
    """Returns the name of the full-text index of a table."""
    return f"redraft_words_{table}"


def _index_words(table: Table) -> Iterator[str]:
    """Yields the statements that index a column by words, and keep the index as the table is."""
    name, column, words = table.name, table.searched, _words_name(table.name)
    yield f"CREATE VIRTUAL TABLE {words} USING fts5({column}, content='', tokenize='unicode61 remove_diacritics 0')"
    add = f"INSERT INTO {words} (rowid, {column}) VALUES (new.position, new.{column});"  # noqa: S608 - checked names
    take = f"INSERT INTO {words} ({words}, rowid, {column}) VALUES ('delete', old.position, old.{column});"  # noqa: S608
    for event, body in {"INSERT": add, "DELETE": take, "UPDATE": take + add}.items():
        yield f"CREATE TRIGGER {words}_{event} AFTER {event} ON {name} BEGIN {body} END"


def _update(table: Table, change: SetAll, count: int) -> str:
    name = table.name
    news = ", ".join(f"{column} = of.column{number}" for number, column in enumerate(change.values, 2))
    tests = [f"{name}.{table.keys[0]} = of.column1"]
    tests += [f"{name}.{column} IN {_places(len(values))}" for column, values in change.where.items()]
    tests += [
        f"({name}.{column} IS NULL OR {name}.{column} NOT IN {_places(len(values))})"
        for column, values in change.unless.items()
    ]
    places = _places(1 + len(change.values), count)
    return f"UPDATE {name} SET {news} FROM (VALUES {places}) AS of WHERE {' AND '.join(tests)}"  # noqa: S608


def _upsert(table: Table, count: int) -> str:
    """Returns the statement for `count` rows; rows that only fill up the block have no key and are left out."""
    rest = ", ".join(f"{column} = excluded.{column}" for column in tuple(table.columns)[table.key :])
    return (
        f"INSERT INTO {table.name} SELECT * FROM (VALUES {_places(len(table.columns), count)}) "  # noqa: S608
        f"WHERE column1 IS NOT NULL ON CONFLICT ({', '.join(table.keys)}) "
        + (f"DO UPDATE SET {rest}" if rest else "DO NOTHING")
    )


def _blocks(rows: Iterable[Iterable[Value]], width: int) -> Iterator[tuple[int, list[Value]]]:
    """Yields rows in blocks of a power of two, the last padded with NULL: few sizes mean few statements to prepare."""
    values: list[Value] = [_NULL if value is None else value for value in chain.from_iterable(rows)]
    block_size = min(BLOCK, 1 << ((_MOST_PARAMETERS // width).bit_length() - 1)) * width
    for start in range(0, len(values), block_size):
        block = values[start : start + block_size]
        count = 1 << (len(block) // width - 1).bit_length()
        block.extend([_NULL] * (count * width - len(block)))
        yield count, block


def _places(width: int, count: int = 1) -> str:
    """Returns the placeholders of `count` rows: `(?,?)` for a row of two values."""
    return ",".join(["(" + ",".join("?" * width) + ")"] * count)


_OF_ROWS: Final = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError, sqlite3.ProgrammingError)


class SqliteStorage:
    """A database in the file `path`, or, without a path, the connection that `memory` opens."""

    tables = SQLITE_TABLES
    faults = (sqlite3.DatabaseError, msgspec.MsgspecError, ValueError)

    def __init__(self, path: Path | None, memory: Callable[[], sqlite3.Connection] = open_memory) -> None:
        self._path = path
        self._memory = memory
        self._where = f"read models {path}" if path else "read models"

    @property
    def has_readers(self) -> bool:
        return self._path is not None

    def open(self) -> SqliteSession:
        return SqliteSession(self._memory() if self._path is None else open_file(self._path))

    def open_reader(self) -> SqliteSession:
        if self._path is None:
            raise StoreError("read models in memory have one session")
        connection = _connect(self._path)
        connection.execute("PRAGMA query_only = ON")
        return SqliteSession(connection)

    @contextmanager
    def clear_errors(self) -> Iterator[None]:
        """Turns errors of SQLite and the file system into one line that names the file and the remedy."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            line = _LINES.get(_code(error))
            if line is None:
                raise
            kind = ReadModelCorrupt if line == _DAMAGED else StoreError
            raise kind(f"{self._where}: {line}") from error
        except OSError as error:
            remedy = "check its folder's permissions and free space"
            raise StoreError(f"{self._where}: {error.strerror}; {remedy}") from error

    def damage_error(self) -> ReadModelCorrupt:
        return ReadModelCorrupt(f"{self._where}: {_DAMAGED}")

    def is_row_error(self, error: Exception) -> bool:
        return not isinstance(error, sqlite3.Error | OSError | StoreError | MemoryError) or isinstance(error, _OF_ROWS)

    def is_damage(self, error: Exception, *, opening: bool = False) -> bool:
        """Returns whether the error says that the file's bytes are wrong, not that it is busy, full or unreachable.

        While `opening`, an SQL error counts as damage too, because the statements themselves are known to be right.
        """
        if self._path is None or (opening and not is_ours(self._path)):
            return False
        if isinstance(error, sqlite3.DatabaseError):
            return _code(error) in _DAMAGE or (opening and _code(error) == sqlite3.SQLITE_ERROR)
        return isinstance(error, msgspec.MsgspecError | OverflowError | ValueError)

    def remove(self, tables: Iterable[str]) -> None:
        """Deletes the file and the files that SQLite keeps next to it."""
        if self._path is not None:
            for name in (self._path, Path(f"{self._path}-wal"), Path(f"{self._path}-shm")):
                name.unlink(missing_ok=True)


class SqliteSession:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @contextmanager
    def transaction(self, *, ahead: bool = False) -> Iterator[sqlite3.Cursor]:
        with closing(self._connection.cursor()) as cursor, transaction(self._connection):
            yield cursor

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Cursor]:
        yield self._connection.cursor()

    def close(self) -> None:
        self._connection.close()


def _code(error: sqlite3.DatabaseError) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
