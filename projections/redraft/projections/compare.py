"""Whether the rows of two sets of tables are equal: those that are read, and those that were built beside them."""

from __future__ import annotations

import msgspec

from redraft.projections.place import Cursor
from redraft.projections.positions import Shape, beside


class Compared(msgspec.Struct, frozen=True):
    """How many rows a table had `before` and has `after`, and how many of these were not there before.

    `differ` is None where the table was not there before, or had other columns.
    """

    before: int
    after: int
    differ: int | None

    @property
    def same(self) -> bool | None:
        """Whether the rows are equal; None when they cannot be compared."""
        return None if self.differ is None else self.differ == 0 and self.before == self.after


class Switched(msgspec.Struct, frozen=True):
    """What was built beside the live rows of a projection has taken their place, at this position of the log.

    `before` is the version that the rows were of.
    """

    projection: str
    before: int
    version: int
    position: int
    tables: dict[str, Compared]

    @property
    def same(self) -> bool | None:
        """Whether all rows are equal to those before; None when some cannot be compared."""
        answers = [table.same for table in self.tables.values()]
        return None if None in answers else all(answers)


def compared(cursor: Cursor, live: Shape, built: Shape) -> dict[str, Compared]:
    """The tables that were built, each with the live one of its name."""
    return {table: _compared(cursor, table, live.get(table), columns) for table, columns in built.items()}


def _compared(cursor: Cursor, table: str, before: list[str] | None, after: list[str]) -> Compared:
    built = _count(cursor, beside(table))
    if before is None:
        return Compared(0, built, None)
    if before != after:
        return Compared(_count(cursor, table), built, None)
    columns = ", ".join(column.split()[0] for column in after)
    both = f"SELECT {columns} FROM {beside(table)} EXCEPT SELECT {columns} FROM {table}"  # noqa: S608 - checked names
    return Compared(_count(cursor, table), built, _count(cursor, f"({both}) AS rows_that_differ"))


def _count(cursor: Cursor, rows: str) -> int:
    (count,) = cursor.execute(f"SELECT count(*) FROM {rows}").fetchone()  # noqa: S608 - checked names
    return int(count)
