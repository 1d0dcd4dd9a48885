"""A projection: a name, a version, its tables, and a function from a recorded event to changes of rows.

It is plain data and plain code: it cannot send anything, ask the time, or see the file that its rows lie in. `Views`
keeps the rows and the position, each event counting exactly once. docs/projections.md says how to write one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, TypeAlias, cast

import msgspec

from redraft.events.domain_events import DomainEvent
from redraft.events.envelope import Recorded, Unreadable
from redraft.events.errors import InputError

Value: TypeAlias = str | int | float | None
Row: TypeAlias = dict[str, Value]
Key: TypeAlias = tuple[str | int, ...]


BESIDE: Final = "__next"
"""What the name of a table ends with while it is built beside the one that is read."""

KINDS: Final = ("TEXT", "INTEGER", "REAL")
"""The types of columns."""

LONGEST: Final = 50
"""The characters of a name; with what is added to it, databases take 63."""


class Table(msgspec.Struct, frozen=True):
    """A table: its columns with their SQL types, how many of the first are its key (at least 1), and its indexes.

    A type is TEXT, INTEGER or REAL, and may be followed by NOT NULL. `indexes` gives for each index the part that
    follows `ON table`, such as `(timer) WHERE timer IS NOT NULL`. Rows with the same first key column, as a rule the
    run, are held together. Raises ValueError for a name that is not plain.
    """

    name: str
    columns: Mapping[str, str]
    key: int = 1
    indexes: Mapping[str, str] = {}

    def __post_init__(self) -> None:
        for name in (self.name, *self.columns, *self.indexes):
            if not (name.isidentifier() and name.isascii()):
                raise ValueError(f"table {self.name!r}: {name!r} is not a plain name; use letters, digits and _")
            if len(name) > LONGEST:
                raise ValueError(f"table {self.name!r}: {name!r} is too long; use {LONGEST} characters at most")
        if self.name == "tracking" or self.name.startswith(("redraft_", "sqlite_", "pg_")):
            raise ValueError(f"a table cannot be named {self.name!r}; that name is taken")
        for kind in self.columns.values():
            kind_of(kind)
        if not 1 <= self.key <= len(self.columns):
            raise ValueError(
                f"table {self.name}: key={self.key} is not 1 to {len(self.columns)}, its number of columns"
            )

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.columns)[: self.key]


@lru_cache(maxsize=256)
def kind_of(declared: str) -> str:
    """The type with which a column is declared; raises ValueError for one that there is not."""
    kind = declared.split()[0].upper() if declared.strip() else ""
    if kind not in KINDS:
        raise ValueError(f"a column cannot be {declared!r}; declare it as {', '.join(KINDS)}")
    return kind


def unmakeable(table: Table, error: Exception) -> InputError:
    """What is raised when a database does not understand a table's names or indexes."""
    name = table.name.removesuffix(BESIDE)
    return InputError(f"table {name}: it cannot be made, see its names and indexes: {str(error).splitlines()[0]}")


class Put(msgspec.Struct, frozen=True, gc=False):
    """A whole row, every column named: new, or in place of the one with the same key."""

    table: str
    row: Row


class Set(msgspec.Struct, frozen=True, gc=False):
    """Changes columns of one row, none of them part of its key.

    `values` are set, `add` are added to what is there, of `most` the greater of the two stays and of `least` the
    smaller. When there is no row with this key it begins as `new`, a whole row that the changes are then made to;
    without `new` nothing happens. Nor does it where the row holds, in a column of `where`, none of its values.
    """

    table: str
    key: Key
    values: Mapping[str, Value]
    add: Mapping[str, int | float] | None = None
    most: Mapping[str, float] | None = None
    least: Mapping[str, float] | None = None
    new: Row | None = None
    where: Mapping[str, tuple[str | int | float, ...]] | None = None


class SetAll(msgspec.Struct, frozen=True, gc=False):
    """Sets columns of all rows with this first key column that hold, in each column of `where`, one of its values.

    Rows that hold one of the values of `unless` in its column stay as they are.
    """

    table: str
    group: str | int
    values: Mapping[str, Value]
    where: Mapping[str, tuple[str | int | float, ...]] = {}
    unless: Mapping[str, tuple[str | int | float, ...]] = {}


class Delete(msgspec.Struct, frozen=True, gc=False):
    """Takes away the row with this key, if there is one; with the first key column alone, all rows that have it."""

    table: str
    key: Key


Change: TypeAlias = Put | Set | SetAll | Delete
Apply: TypeAlias = Callable[[Recorded], Iterable[Change]]


class Projection(msgspec.Struct, frozen=True):
    """What turns the log into rows. Raise `version` (from 1) when a table or `apply` changes.

    The rows of a new version are then built beside the old ones, and take their place when they have caught up.
    `apply` depends on the event alone, so that a rebuild gives the same rows. Its changes take effect in their order.
    A run with an event that cannot be read is set aside: nothing more of it is projected but that somebody quarantined
    or erased it. With `aside`, which gives the changes that say so, that goes for an event that `apply` cannot take
    too; without it the projection stops there. `clears` are the types of the events at which `apply` deletes all rows
    of the run: what the run did before such an event in the same batch is passed over.

    Raises ValueError for a name that is not plain, a version below 1, or no table.
    """

    name: str
    version: int
    tables: tuple[Table, ...]
    apply: Apply
    aside: Callable[[Unreadable], Iterable[Change]] | None = None
    clears: tuple[type[DomainEvent], ...] = ()

    def __post_init__(self) -> None:
        if not (self.name.isidentifier() and self.name.isascii() and len(self.name) <= LONGEST):
            raise ValueError(
                f"projection {self.name!r}: the name is not plain; use {LONGEST} letters, digits and _ at most"
            )
        if self.version < 1:
            raise ValueError(f"projection {self.name}: version {self.version} is below 1; begin with 1")
        for table in self.tables:
            if BESIDE in table.name:
                raise ValueError(f"projection {self.name}: no table can have {BESIDE} in its name, as {table.name} has")
        if not self.tables:
            raise ValueError(f"projection {self.name}: it has no table; give at least one")


def unchanged(entry: Unreadable) -> Iterable[Change]:
    """Returns no changes: the `aside` of a projection whose rows stay as they are when a run is set aside."""
    return ()


@lru_cache(maxsize=64)  # that of an event is asked for by every projection
def seconds(time: datetime) -> float:
    """A time as it lies in a row: seconds since 1970 in UTC, exact to the microsecond."""
    return time.timestamp()


def moment(value: Value) -> datetime:
    """The time (UTC) that `seconds` gave this value for."""
    return datetime.fromtimestamp(cast("float", value), UTC)


def times(row: Row, *names: str) -> dict[str, datetime | None]:
    """The times that lie in these columns of a row."""
    return {name: None if row[name] is None else moment(row[name]) for name in names}
