"""A projection: a name, a version, its tables, and a function from a recorded event to changes of rows.

It is plain data and plain code: it cannot send anything, ask the time, or see the file that its rows lie in. `Views`
keeps the rows and the position, each event counting exactly once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import TypeAlias, cast

import msgspec

from redraft.events.envelope import Recorded

Value: TypeAlias = str | int | float | None
Row: TypeAlias = dict[str, Value]
Key: TypeAlias = tuple[str | int, ...]


class Table(msgspec.Struct, frozen=True):
    """A table: its columns with their SQL types, how many of the first are its key (at least 1), and its indexes.

    `indexes` gives for each index the part that follows `ON table`, such as `(timer) WHERE timer IS NOT NULL`. Rows
    with the same first key column, as a rule the run, are held together. Raises ValueError
    for a name that is not plain.
    """

    name: str
    columns: Mapping[str, str]
    key: int = 1
    indexes: Mapping[str, str] = {}

    def __post_init__(self) -> None:
        for name in (self.name, *self.columns, *self.indexes):
            if not (name.isidentifier() and name.isascii()):
                raise ValueError(f"table {self.name!r}: {name!r} is not a plain name; use letters, digits and _")
        if self.name == "tracking" or self.name.startswith(("redraft_", "sqlite_")):
            raise ValueError(f"a table cannot be named {self.name!r}; that name is taken")
        if not 1 <= self.key <= len(self.columns):
            raise ValueError(
                f"table {self.name}: key={self.key} is not 1 to {len(self.columns)}, its number of columns"
            )

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.columns)[: self.key]


class Put(msgspec.Struct, frozen=True):
    """A whole row, every column named: new, or in place of the one with the same key."""

    table: str
    row: Row


class Set(msgspec.Struct, frozen=True):
    """Changes columns of one row; nothing happens when there is none with this key.

    `values` are set, `add` are added to what is there, and of `most` the greater of the two stays.
    """

    table: str
    key: Key
    values: Mapping[str, Value]
    add: Mapping[str, int | float] | None = None
    most: Mapping[str, float] | None = None


class SetAll(msgspec.Struct, frozen=True):
    """Sets columns of all rows with this first key column that hold, in each column of `where`, one of its values."""

    table: str
    group: str | int
    values: Mapping[str, Value]
    where: Mapping[str, tuple[str | int | float, ...]] = {}


class Delete(msgspec.Struct, frozen=True):
    """Takes away the row with this key, if there is one; with the first key column alone, all rows that have it."""

    table: str
    key: Key


Change: TypeAlias = Put | Set | SetAll | Delete


class Projection(msgspec.Struct, frozen=True):
    """What turns the log into rows. Raise `version` (from 1) when a table or `apply` changes: rows are then made anew.

    `apply` depends on the event alone, so that a rebuild gives the same rows. Its changes take effect in their order.
    """

    name: str
    version: int
    tables: tuple[Table, ...]
    apply: Callable[[Recorded], Iterable[Change]]


def seconds(time: datetime) -> float:
    """A time as it lies in a row: seconds since 1970 in UTC, exact to the microsecond."""
    return time.timestamp()


def moment(value: Value) -> datetime:
    """The time (UTC) that `seconds` gave this value for."""
    return datetime.fromtimestamp(cast("float", value), UTC)


def times(row: Row, *names: str) -> dict[str, datetime | None]:
    """The times that lie in these columns of a row."""
    return {name: None if row[name] is None else moment(row[name]) for name in names}
