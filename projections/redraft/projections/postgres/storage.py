"""Stores read models in the event store's PostgreSQL database and schema."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import NoneType
from typing import Final, cast

import msgspec
import psycopg
from psycopg import errors
from psycopg.sql import SQL, Identifier

from redraft.events.errors import ReadModelCorrupt, StoreError
from redraft.events.postgres.connection import Connections, Database, is_row_too_large
from redraft.events.postgres.schema import DURABLE_COMMIT, prepare
from redraft.projections.engine.positions import SYSTEM_TABLES
from redraft.projections.engine.projection import Key, SetAll, Table, Value, invalid_table_error, kind_of
from redraft.projections.engine.storage import Cells, Cursor, Phrase
from redraft.projections.postgres.session import PostgresSession

_KINDS: Final = {"TEXT": 'text COLLATE "C"', "INTEGER": "bigint", "REAL": "double precision"}
"""PostgreSQL's types for the column types, with the same range and the same sort order."""

_ITEMS: Final[dict[str, Callable[[Value], str]]] = {
    "TEXT": lambda value: '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"',
    "INTEGER": lambda value: str(int(cast("int", value))),
    "REAL": lambda value: repr(float(cast("float", value))),
}
"""Writes a value as an item of an array, whose items all have one type; a number in a row may be int or float."""

_WORDS: Final = "redraft_words"
"""The last column of a searched table: without it PostgreSQL reads each text anew in which it finds a phrase."""

_MARK: Final = "a read model of Redraft"
"""The comment on each table that was made for a read model: those of other programs are never dropped."""

_NAMED: Final = "to_regclass(quote_ident({}))"
"""The table of this name in the schema; NULL when there is none."""

_TYPES: Final = {"TEXT": {str, NoneType}, "INTEGER": {int, NoneType}, "REAL": {float, NoneType}}


class PostgresTables:
    """Writes rows with one array parameter per column; see `Tables`."""

    same = "IS NOT DISTINCT FROM"

    def existing(self, cursor: Cursor) -> set[str]:
        schema = "to_regnamespace(quote_ident(current_schema()))"
        made = cursor.execute(f"SELECT relname FROM pg_class WHERE relnamespace = {schema}").fetchall()  # noqa: S608
        return {name for (name,) in made}

    def is_ours(self, cursor: Cursor, name: str) -> bool:
        comment = cursor.execute(f"SELECT obj_description({_NAMED.format('?')}, 'pg_class')", (name,)).fetchone()
        return bool(comment == (_MARK,))

    def define(self, cursor: Cursor, name: str, columns: str) -> None:
        cursor.execute(DURABLE_COMMIT)
        cursor.execute(f"CREATE TABLE {name} ({columns})")
        cursor.execute(f"COMMENT ON TABLE {name} IS '{_MARK}'")

    def create(self, cursor: Cursor, table: Table) -> None:
        columns = [
            f"{name} {_KINDS[kind_of(kind)]}{kind[len(kind_of(kind)) :]}" for name, kind in table.columns.items()
        ]
        if table.searched:
            columns.append(f"{_WORDS} tsvector GENERATED ALWAYS AS (to_tsvector('simple', {table.searched})) STORED")
        try:
            self.define(cursor, table.name, f"{', '.join(columns)}, PRIMARY KEY ({', '.join(table.keys)})")
            for name, rest in table.indexes.items():
                cursor.execute(f"CREATE INDEX {name} ON {table.name} {rest}")
            if table.searched:
                cursor.execute(f"CREATE INDEX ON {table.name} USING gin ({_WORDS})")
        except (errors.SyntaxError, errors.UndefinedColumn) as error:
            raise invalid_table_error(table, error) from None

    def drop(self, cursor: Cursor, name: str) -> None:
        cursor.execute(f"DROP TABLE IF EXISTS {name}")

    def rename(self, cursor: Cursor, name: str, new: str) -> None:
        cursor.execute(f"ALTER TABLE {name} RENAME TO {new}")

    def matching(self, table: Table, phrases: Sequence[Phrase]) -> tuple[str, str]:
        wanted = " & ".join(f"({' <-> '.join(each.words)}{':*' if each.begins else ''})" for each in phrases)
        return f"{table.name}.{_WORDS} @@ to_tsquery('simple', :words)", wanted

    def find(self, cursor: Cursor, table: Table, keys: Sequence[Key]) -> list[tuple[Key, Cells]]:
        named = " AND ".join(f"{table.name}.{name} = given.c{at}" for at, name in enumerate(table.keys))
        given = _list_arrays(table, table.keys, "WITH ORDINALITY ")
        columns = ", ".join(f"{table.name}.{name}" for name in table.columns)
        sql = f"SELECT given.ordinality, {columns} FROM {given} JOIN {table.name} ON {named}"  # noqa: S608
        found = cursor.execute(sql, _columns(table, table.keys, keys)).fetchall()
        return [(keys[row[0] - 1], row[1:]) for row in found]

    def put(self, cursor: Cursor, table: Table, rows: Iterable[Cells]) -> None:
        names = tuple(table.columns)
        rest = ", ".join(f"{name} = excluded.{name}" for name in names[table.key :])
        cursor.execute(
            f"INSERT INTO {table.name} SELECT * FROM {_list_arrays(table, names)} "  # noqa: S608
            f"ON CONFLICT ({', '.join(table.keys)}) " + (f"DO UPDATE SET {rest}" if rest else "DO NOTHING"),
            _columns(table, names, rows),
        )

    def delete(self, cursor: Cursor, table: Table, depth: int, keys: Iterable[Key]) -> None:
        names = table.keys[:depth]
        which = f"({', '.join(names)}) IN (SELECT * FROM {_list_arrays(table, names)})" if depth > 1 else _among(table)  # noqa: S608
        cursor.execute(f"DELETE FROM {table.name} WHERE {which}", _columns(table, names, keys))  # noqa: S608

    def set_all(self, cursor: Cursor, table: Table, alike: Sequence[SetAll]) -> None:
        shape = alike[0]
        names = (table.keys[0], *shape.values)
        news = ", ".join(f"{name} = given.c{number}" for number, name in enumerate(shape.values, 1))
        tests = [f"{table.name}.{names[0]} = given.c0", _among(table)]
        tests += [f"{table.name}.{name} = ANY(CAST(? AS {_array(table, name)}))" for name in shape.where]
        tests += [
            f"({table.name}.{name} IS NULL OR {table.name}.{name} <> ALL(CAST(? AS {_array(table, name)})))"
            for name in shape.unless
        ]
        sql = f"UPDATE {table.name} SET {news} FROM {_list_arrays(table, names)} WHERE {' AND '.join(tests)}"  # noqa: S608
        columns = _columns(table, names, ((change.group, *change.values.values()) for change in alike))
        listed = (*shape.where.items(), *shape.unless.items())
        allowed = [_column(table, name, values) for name, values in listed]
        cursor.execute(sql, [*columns, columns[0], *allowed])


POSTGRES_TABLES: Final = PostgresTables()


def _array(table: Table, name: str) -> str:
    return _KINDS[kind_of(table.columns[name])].partition(" COLLATE")[0] + "[]"


def _among(table: Table) -> str:
    """Returns the condition for given first keys, which makes the server use the index without any ANALYZE."""
    return f"{table.name}.{table.keys[0]} = ANY(CAST(? AS {_array(table, table.keys[0])}))"


def _list_arrays(table: Table, names: Sequence[str], more: str = "") -> str:
    """Returns a table `given` with the columns c0, c1 and so on, made of one array for each of these columns."""
    arrays = ", ".join(f"CAST(? AS {_array(table, name)})" for name in names)
    return f"unnest({arrays}) {more}AS given ({', '.join(f'c{number}' for number in range(len(names)))})"


def _columns(table: Table, names: Sequence[str], rows: Iterable[Sequence[Value]]) -> list[Value]:
    columns = zip(*rows, strict=True)
    return [_column(table, name, values) for name, values in zip(names, columns, strict=True)]


def _column(table: Table, name: str, values: Sequence[Value]) -> Value:
    """Returns the values of a column as a PostgreSQL array literal: one text is sent much faster than many values.

    A JSON list looks the same, except for escapes, numbers that JSON does not have, and values of another type.
    """
    kind = kind_of(table.columns[name])
    if {*map(type, values)} <= _TYPES[kind]:
        listed = msgspec.json.encode(values)
        if b"\\" not in listed and listed.count(b"null") == values.count(None):
            return "{" + listed[1:-1].decode() + "}"
    written = _ITEMS[kind]
    return "{" + ",".join(["NULL" if value is None else written(value) for value in values]) + "}"


_DAMAGE: Final = (errors.UndefinedTable, errors.UndefinedColumn, errors.DuplicateTable, errors.InvalidTableDefinition)
_OF_ROWS: Final = (psycopg.IntegrityError, psycopg.DataError, psycopg.ProgrammingError)
_FRESH_PLANS: Final = "SET plan_cache_mode = force_custom_plan"
"""Never reuses a query plan: one made while a table was empty would read all of it."""
_BY_KEYS: Final = "SET enable_seqscan = off; SET jit = off"
"""Prefers indexes: without statistics the planner takes a few keys for a third of the table, and reads all."""
_AT_EASE: Final = f"SET synchronous_commit = off; {_BY_KEYS}; {_FRESH_PLANS}"
"""Commits asynchronously: a crash may lose the last writes, rows and checkpoints together; they are made again."""
_READ_ONLY: Final = f"SET default_transaction_read_only = on; {_FRESH_PLANS}"


class PostgresStorage:
    """The database that a store's URL names. Raises InputError for an invalid URL."""

    tables = POSTGRES_TABLES
    faults = (psycopg.Error,)
    has_readers = True

    def __init__(self, url: str) -> None:
        self._database = Database(url)

    def open(self) -> PostgresSession:
        return PostgresSession(Connections(self._database, _AT_EASE), prepare(self._database))

    def open_reader(self) -> PostgresSession:
        return PostgresSession(Connections(self._database, _READ_ONLY), prepare(self._database))

    @contextmanager
    def clear_errors(self) -> Iterator[None]:
        """Turns errors of psycopg into one line that names the database and the remedy."""
        try:
            yield
        except psycopg.Error as error:
            if self.is_damage(error):
                raise self.damage_error() from error
            raise StoreError(f"read models in {self._database.where}: {self._line(error)}") from None

    def damage_error(self) -> ReadModelCorrupt:
        return ReadModelCorrupt(
            f"read models in {self._database.where}: their tables were changed; `redraft rebuild` builds them again "
            "from the log"
        )

    def is_row_error(self, error: Exception) -> bool:
        if isinstance(error, psycopg.Error):
            return is_row_too_large(error) or (
                isinstance(error, _OF_ROWS)
                and not isinstance(error, (*_DAMAGE, errors.ReadOnlySqlTransaction, errors.InsufficientPrivilege))
            )
        return not isinstance(error, OSError | StoreError | MemoryError)

    def is_damage(self, error: Exception, *, opening: bool = False) -> bool:
        return isinstance(error, _DAMAGE)

    def remove(self, tables: Iterable[str]) -> None:
        with self._database.connect() as connection, connection.transaction():
            marked = f"SELECT 1 WHERE %s LIKE 'redraft_%%' OR obj_description({_NAMED.format('%s')}, 'pg_class') = %s"
            for name in (*tables, *SYSTEM_TABLES):
                if connection.execute(marked, (name, name, _MARK)).fetchone():
                    connection.execute(SQL("DROP TABLE IF EXISTS {}").format(Identifier(name)))

    def _line(self, error: psycopg.Error) -> str:
        if isinstance(error, errors.ReadOnlySqlTransaction):
            return "they may not be written: a query reads, and a server that stands by takes no writes"
        return self._database.explain(error)
