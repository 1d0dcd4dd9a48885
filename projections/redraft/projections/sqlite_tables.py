"""How rows are written in SQLite: blocks of values, one statement each.

At every SQL statement sqlite3 gives up the interpreter's lock and has to win it back from a busy event loop.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from redraft.projections.place import Cells, Cursor
from redraft.projections.projection import Key, SetAll, Table, Value, unmakeable

BLOCK: Final = 256
"""How many rows one statement writes at most."""

_MOST_PARAMETERS: Final = 32_000


class SqliteTables:
    def create(self, cursor: Cursor, table: Table) -> None:
        columns = ", ".join(f"{name} {kind}" for name, kind in table.columns.items())
        keys = ", ".join(table.keys)
        try:
            cursor.execute(f"CREATE TABLE {table.name} ({columns}, PRIMARY KEY ({keys})) WITHOUT ROWID")
            for name, rest in table.indexes.items():
                cursor.execute(f"CREATE INDEX {name} ON {table.name} {rest}")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_ERROR or "already exists" in str(error):
                raise
            raise unmakeable(table, error) from None

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
    """Rows that only fill up the block have no key and are left out."""
    rest = ", ".join(f"{column} = excluded.{column}" for column in tuple(table.columns)[table.key :])
    return (
        f"INSERT INTO {table.name} SELECT * FROM (VALUES {_places(len(table.columns), count)}) "  # noqa: S608
        f"WHERE column1 IS NOT NULL ON CONFLICT ({', '.join(table.keys)}) "
        + (f"DO UPDATE SET {rest}" if rest else "DO NOTHING")
    )


def _blocks(rows: Iterable[Iterable[Value]], width: int) -> Iterator[tuple[int, list[Value]]]:
    """The values of rows cut into blocks whose number of rows is a power of two, the last filled up with NULL.

    Few sizes are few statements to prepare.
    """
    values = list(chain.from_iterable(rows))
    most = min(BLOCK, 1 << ((_MOST_PARAMETERS // width).bit_length() - 1)) * width
    for start in range(0, len(values), most):
        block = values[start : start + most]
        count = 1 << (len(block) // width - 1).bit_length()
        block.extend([None] * (count * width - len(block)))
        yield count, block


def _places(width: int, count: int = 1) -> str:
    """`(?,?)` for a row of two values, as often as there are rows."""
    return ",".join(["(" + ",".join("?" * width) + ")"] * count)
