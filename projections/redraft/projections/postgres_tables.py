"""How rows are written in PostgreSQL: one array for each column, any number of rows with one statement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import NoneType
from typing import Final, cast

import msgspec
from psycopg import errors

from redraft.events.postgres_schema import LASTING
from redraft.projections.place import Cells, Cursor
from redraft.projections.projection import Key, SetAll, Table, Value, kind_of, unmakeable

_KINDS: Final = {"TEXT": 'text COLLATE "C"', "INTEGER": "bigint", "REAL": "double precision"}
"""The types of a projection's tables, and what they are here: the same range, and the same order."""

_ITEMS: Final[dict[str, Callable[[Value], str]]] = {
    "TEXT": lambda value: '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"',
    "INTEGER": lambda value: str(int(cast("int", value))),
    "REAL": lambda value: repr(float(cast("float", value))),
}
"""How a value is written in an array, whose values are all of one type; a number in a row may be of either."""

_TYPES: Final = {"TEXT": {str, NoneType}, "INTEGER": {int, NoneType}, "REAL": {float, NoneType}}


class PostgresTables:
    def create(self, cursor: Cursor, table: Table) -> None:
        columns = [
            f"{name} {_KINDS[kind_of(kind)]}{kind[len(kind_of(kind)) :]}" for name, kind in table.columns.items()
        ]
        cursor.execute(LASTING)
        try:
            cursor.execute(f"CREATE TABLE {table.name} ({', '.join(columns)}, PRIMARY KEY ({', '.join(table.keys)}))")
            for name, rest in table.indexes.items():
                cursor.execute(f"CREATE INDEX {name} ON {table.name} {rest}")
        except (errors.SyntaxError, errors.UndefinedColumn) as error:
            raise unmakeable(table, error) from None

    def find(self, cursor: Cursor, table: Table, keys: Sequence[Key]) -> list[tuple[Key, Cells]]:
        named = " AND ".join(f"{table.name}.{name} = given.c{at}" for at, name in enumerate(table.keys))
        given = _given(table, table.keys, "WITH ORDINALITY ")
        sql = f"SELECT given.ordinality, {table.name}.* FROM {given} JOIN {table.name} ON {named}"  # noqa: S608
        found = cursor.execute(sql, _columns(table, table.keys, keys)).fetchall()
        return [(keys[row[0] - 1], row[1:]) for row in found]

    def put(self, cursor: Cursor, table: Table, rows: Iterable[Cells]) -> None:
        names = tuple(table.columns)
        rest = ", ".join(f"{name} = excluded.{name}" for name in names[table.key :])
        cursor.execute(
            f"INSERT INTO {table.name} SELECT * FROM {_given(table, names)} "  # noqa: S608
            f"ON CONFLICT ({', '.join(table.keys)}) " + (f"DO UPDATE SET {rest}" if rest else "DO NOTHING"),
            _columns(table, names, rows),
        )

    def delete(self, cursor: Cursor, table: Table, depth: int, keys: Iterable[Key]) -> None:
        names = table.keys[:depth]
        which = f"({', '.join(names)}) IN (SELECT * FROM {_given(table, names)})" if depth > 1 else _among(table)  # noqa: S608
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
        sql = f"UPDATE {table.name} SET {news} FROM {_given(table, names)} WHERE {' AND '.join(tests)}"  # noqa: S608
        columns = _columns(table, names, ((change.group, *change.values.values()) for change in alike))
        listed = (*shape.where.items(), *shape.unless.items())
        allowed = [_column(table, name, values) for name, values in listed]
        cursor.execute(sql, [*columns, columns[0], *allowed])


POSTGRES_TABLES: Final = PostgresTables()


def _array(table: Table, name: str) -> str:
    return _KINDS[kind_of(table.columns[name])].partition(" COLLATE")[0] + "[]"


def _among(table: Table) -> str:
    """That a row's first key column is among given values: so it is looked up, also where nobody analyzes tables."""
    return f"{table.name}.{table.keys[0]} = ANY(CAST(? AS {_array(table, table.keys[0])}))"


def _given(table: Table, names: Sequence[str], more: str = "") -> str:
    """Rows made of one array for each of these columns, as a table `given` with the columns c0, c1 and so on."""
    arrays = ", ".join(f"CAST(? AS {_array(table, name)})" for name in names)
    return f"unnest({arrays}) {more}AS given ({', '.join(f'c{number}' for number in range(len(names)))})"


def _columns(table: Table, names: Sequence[str], rows: Iterable[Sequence[Value]]) -> list[Value]:
    columns = zip(*rows, strict=True)
    return [_column(table, name, values) for name, values in zip(names, columns, strict=True)]


def _column(table: Table, name: str, values: Sequence[Value]) -> Value:
    """The values of a column as PostgreSQL writes arrays: one text is handed over much faster than many values.

    A JSON list is written alike, but for escapes, numbers that JSON does not have, and values of another type.
    """
    kind = kind_of(table.columns[name])
    if {*map(type, values)} <= _TYPES[kind]:
        listed = msgspec.json.encode(values)
        if b"\\" not in listed and listed.count(b"null") == values.count(None):
            return "{" + listed[1:-1].decode() + "}"
    written = _ITEMS[kind]
    return "{" + ",".join(["NULL" if value is None else written(value) for value in values]) + "}"
