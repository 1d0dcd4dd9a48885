"""Defines projections: a name, a version, tables, and a function from a recorded event to changes of rows.

A projection is plain data and a pure function: it has no access to the bus, the clock or the database. `Views` keeps
the rows and the checkpoint, and counts each event exactly once. docs/projections.md explains how to write one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import compress
from operator import attrgetter
from typing import Final, TypeAlias, TypeVar, cast, final

import msgspec

from redraft.events.errors import InputError
from redraft.events.messages.domain_events import DomainEvent
from redraft.events.messages.envelope import Recorded, Unreadable
from redraft.events.messages.redaction import ENCRYPTED, find_texts, redact

Value: TypeAlias = str | int | float | None
Row: TypeAlias = dict[str, Value]
Key: TypeAlias = tuple[str | int, ...]

SHADOW_SUFFIX: Final = "__next"
"""The suffix of a table's name while its new version is built next to the one that is read."""

KINDS: Final = ("TEXT", "INTEGER", "REAL")
"""The column types."""

MAX_NAME_LENGTH: Final = 50
"""The maximum length of a name; with the suffixes added to it, it fits the 63 characters of PostgreSQL."""


class Table(msgspec.Struct, frozen=True):
    """A table: its columns with their SQL types, how many leading columns form its key (at least 1), and its indexes.

    A type is TEXT, INTEGER or REAL, optionally followed by NOT NULL. `indexes` maps the name of each index to the text
    that follows `ON table`, such as `(timer) WHERE timer IS NOT NULL`. Rows with the same first key column, usually the
    run, are cached together. The words of the column `searched` are indexed for full-text search (`Views.matching`);
    the table then has a column `position` that is another integer in each row.

    Raises ValueError for a name that is not a plain identifier, and for a searched table without its columns.
    """

    name: str
    columns: Mapping[str, str]
    key: int = 1
    indexes: Mapping[str, str] = {}
    searched: str = ""

    def __post_init__(self) -> None:
        for name in (self.name, *self.columns, *self.indexes):
            if not (name.isidentifier() and name.isascii()):
                raise ValueError(f"table {self.name!r}: {name!r} is not a plain name; use letters, digits and _")
            if len(name) > MAX_NAME_LENGTH:
                raise ValueError(f"table {self.name!r}: {name!r} is too long; use {MAX_NAME_LENGTH} characters at most")
        if self.name in ("tracking", "stored_events") or self.name.startswith(("redraft_", "sqlite_", "pg_")):
            raise ValueError(f"a table cannot be named {self.name!r}; that name is taken")
        for kind in self.columns.values():
            kind_of(kind)
        if not 1 <= self.key <= len(self.columns):
            raise ValueError(
                f"table {self.name}: key={self.key} is not 1 to {len(self.columns)}, its number of columns"
            )
        if self.searched and not {self.searched, "position"} <= self.columns.keys():
            raise ValueError(f"table {self.name}: a searched table has the columns {self.searched} and position")

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.columns)[: self.key]

    def empty_row(self) -> Row:
        """Returns a row without values: "" or 0 in columns that are NOT NULL, None in the others."""
        empty: dict[str, Value] = {"TEXT": "", "INTEGER": 0, "REAL": 0.0}
        return {
            name: empty[kind_of(kind)] if "NOT NULL" in kind.upper() else None for name, kind in self.columns.items()
        }


@lru_cache(maxsize=256)
def kind_of(declared: str) -> str:
    """Returns the type of a column declaration. Raises ValueError for an unknown type."""
    kind = declared.split()[0].upper() if declared.strip() else ""
    if kind not in KINDS:
        raise ValueError(f"a column cannot be {declared!r}; declare it as {', '.join(KINDS)}")
    return kind


def invalid_table_error(table: Table, error: Exception) -> InputError:
    """Returns the InputError for a table whose names or indexes the database does not accept."""
    name = table.name.removesuffix(SHADOW_SUFFIX)
    return InputError(f"table {name}: it cannot be made, see its names and indexes: {str(error).splitlines()[0]}")


class Put(msgspec.Struct, frozen=True, gc=False):
    """Writes a whole row, every column named; replaces the row with the same key."""

    table: str
    row: Row


class Set(msgspec.Struct, frozen=True, gc=False):
    """Changes columns of one row that are not part of its key.

    `values` are assigned and `add` is added to the present value; `maximum` keeps the greater of both values,
    `minimum` the smaller. Without a row of this key the whole row `new` is inserted first; without `new` nothing
    happens. Nothing happens either when a column of `where` holds none of its allowed values, or one of `unless` one
    that is named there.
    """

    table: str
    key: Key
    values: Mapping[str, Value]
    add: Mapping[str, int | float] | None = None
    maximum: Mapping[str, float] | None = None
    minimum: Mapping[str, float] | None = None
    new: Row | None = None
    where: Mapping[str, tuple[str | int | float, ...]] | None = None
    unless: Mapping[str, tuple[str | int | float, ...]] | None = None


class SetAll(msgspec.Struct, frozen=True, gc=False):
    """Sets columns of all rows whose first key column is `group` and whose `where` columns each hold one of the given
    values.

    Rows that hold one of the values of `unless` in its column stay as they are.
    """

    table: str
    group: str | int
    values: Mapping[str, Value]
    where: Mapping[str, tuple[str | int | float, ...]] = {}
    unless: Mapping[str, tuple[str | int | float, ...]] = {}


class Delete(msgspec.Struct, frozen=True, gc=False):
    """Deletes the row with this key, if there is one; a key of the first column alone deletes all rows that have it."""

    table: str
    key: Key


Change: TypeAlias = Put | Set | SetAll | Delete
Step: TypeAlias = Callable[[Row | None], tuple[Row, Iterable[Change]]]


@final
class Fold(msgspec.Struct, frozen=True, gc=False):
    """Replaces a row by what `step` makes of it (None without one), and makes the further changes that `step` returns.

    With it a change may depend on earlier events of its run, as far as the row keeps them. Without `step` the row is
    deleted. A table that is folded is changed by nothing else.
    """

    table: str
    key: Key
    step: Step | None


Apply: TypeAlias = Callable[[Recorded], Iterable[Change | Fold]]
ApplyRun: TypeAlias = Callable[[Sequence[Recorded]], Iterable[Change | Fold]]


class Projection(msgspec.Struct, frozen=True):
    """A function that turns events into rows. Raise `version` (from 1) when a table or `apply` changes.

    The rows of a new version are built in shadow tables, and replace the old ones once they have caught up. `apply`
    must depend on the event alone, and a `Fold` on it and its row, so that a rebuild gives the same rows. Its changes
    take effect in order.

    A run with an unreadable event is set aside: of its later events only its quarantine and its erasure are projected.
    `aside` returns the changes that record this; with it, a run whose event makes `apply` fail is set aside as well,
    and without it the projection stops at that event. `clears` lists the event types at which `apply` deletes all rows
    of the run: earlier events of the run in the same batch are then skipped. `only` lists the types of the events that
    `apply` is called for, beside those of `clears`; all if it is empty. `apply_run`, if given, is called instead of it:
    with all events of one run in a batch, in order; its changes must have the effect of those of `apply` for each
    event.

    Raises ValueError for a name that is not a plain identifier, a version below 1, or no table.
    """

    name: str
    version: int
    tables: tuple[Table, ...]
    apply: Apply
    aside: Callable[[Unreadable], Iterable[Change]] | None = None
    clears: tuple[type[DomainEvent], ...] = ()
    only: tuple[type[DomainEvent], ...] = ()
    apply_run: ApplyRun | None = None

    def __post_init__(self) -> None:
        if not (self.name.isidentifier() and self.name.isascii() and len(self.name) <= MAX_NAME_LENGTH):
            raise ValueError(
                f"projection {self.name!r}: the name is not plain; use {MAX_NAME_LENGTH} letters, digits and _ at most"
            )
        if self.version < 1:
            raise ValueError(f"projection {self.name}: version {self.version} is below 1; begin with 1")
        for name in (self.name, *(table.name for table in self.tables)):
            if SHADOW_SUFFIX in name or name != name.lower():  # PostgreSQL takes capitals for small letters
                raise ValueError(
                    f"projection {self.name}: {name!r} has a capital letter or {SHADOW_SUFFIX} in it; name it otherwise"
                )
        if not self.tables:
            raise ValueError(f"projection {self.name}: it has no table; give at least one")


def check_names(projections: Sequence[Projection]) -> None:
    """Raises InputError when two projections, or two tables or indexes of theirs, have the same name."""
    tables = [table for projection in projections for table in projection.tables]
    names = [projection.name for projection in projections]
    things = [name for table in tables for name in (table.name, *table.indexes)]
    for listed in (names, things):
        twice = sorted({name for name in listed if listed.count(name) > 1})
        if twice:
            raise InputError(f"two projections cannot share the name {twice[0]!r}; rename one")


_DATA: Final = attrgetter("data")


class OwnError(Exception):
    """Carries what a function of a projection's own raised: whatever it is, it says nothing about the database."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


_T = TypeVar("_T")
_C = TypeVar("_C")


def call_own(function: Callable[[_T], Iterable[_C]], given: Iterable[_T]) -> list[_C]:
    """Returns the changes that a function of a projection's own makes of each of these, in order.

    Raises OwnError for what the function raises, or its changes while they are read. MemoryError and
    KeyboardInterrupt are the process's, and pass as they are.
    """
    try:
        return [change for each in given for change in function(each)]
    except (MemoryError, KeyboardInterrupt):
        raise
    except BaseException as error:  # also those of test frameworks, and panics of libraries in Rust
        raise OwnError(error) from error


def fold_own(step: Step, found: Row | None) -> tuple[Row, Sequence[Change]]:
    """Returns what the `step` of a `Fold` makes of a row, and its further changes. Raises as `call_own` does."""
    try:
        row, changes = step(found)
        return row, tuple(changes)
    except (MemoryError, KeyboardInterrupt):
        raise
    except BaseException as error:  # also those of test frameworks, and panics of libraries in Rust
        raise OwnError(error) from error


def changes_of(projection: Projection, events: Sequence[Recorded]) -> list[Change | Fold]:
    """Returns the changes of events; those of a run come in order. Raises OwnError.

    Events that the projection does not look at are left out, and those before one at which the rows of the run are
    deleted.
    """
    kinds = [*map(type, map(_DATA, events))]
    cleared: dict[str, int] = {}
    if projection.clears:
        clearing = compress(events, map(frozenset(projection.clears).__contains__, kinds))
        cleared = {each.run: each.position for each in clearing}
    if projection.only:
        events = [*compress(events, map(frozenset((*projection.only, *projection.clears)).__contains__, kinds))]
    if cleared:
        events = [each for each in events if each.run not in cleared or each.position >= cleared[each.run]]
    if projection.apply_run is None:
        return call_own(projection.apply, events)
    runs: defaultdict[str, list[Recorded]] = defaultdict(list)
    for each in events:
        runs[each.run].append(each)
    return call_own(projection.apply_run, runs.values())


def unchanged(entry: Unreadable) -> Iterable[Change]:
    """Returns no changes: the `aside` of a projection whose rows stay as they are when a run is set aside."""
    return ()


EARLIEST: Final = datetime(2, 1, 1, tzinfo=UTC)
LATEST: Final = datetime(9998, 12, 31, 23, 59, 59, tzinfo=UTC)
"""The first and the last time in a row. Each is a year from the end of the calendar: every zone can show it, a whole
number of seconds names it, and whoever reads it may add a wait. The times of events are anybody's: one that is earlier
or later, as in an archive by a stranger, is stored and read as these."""

_LOWEST: Final = EARLIEST.timestamp()
_HIGHEST: Final = LATEST.timestamp()


@lru_cache(maxsize=64)  # that of an event is asked for by every projection
def seconds(time: datetime) -> float:
    """Returns a time as it is stored in a row: seconds since 1970 in UTC, exact to the microsecond.

    A time before `EARLIEST` or after `LATEST` is stored as that.
    """
    return _within(time.timestamp())


def seconds_after(time: datetime, wait: float) -> float:
    """Returns, as `seconds` does, the time so many seconds after another one."""
    return _within(time.timestamp() + wait)


def moment(value: Value) -> datetime:
    """Returns the UTC time of a value stored by `seconds`; never one before `EARLIEST` or after `LATEST`."""
    return datetime.fromtimestamp(_within(cast("float", value)), UTC)


def _within(stored: float) -> float:
    return min(max(stored, _LOWEST), _HIGHEST)


def times(row: Row, *names: str) -> dict[str, datetime | None]:
    """Returns the values of these columns of a row as UTC times."""
    return {name: None if row[name] is None else moment(row[name]) for name in names}


def without_texts(apply: Apply) -> Apply:
    """Returns a function like `apply` that sees no text of an event that is stored encrypted."""

    def apply_redacted(recorded: Recorded) -> Iterable[Change | Fold]:
        return apply(_redact_event(recorded) if recorded.encrypted else recorded)

    return apply_redacted


def run_without_texts(apply_run: ApplyRun) -> ApplyRun:
    """Returns a function like `apply_run` that sees no text of an event that is stored encrypted."""

    def apply_redacted(events: Sequence[Recorded]) -> Iterable[Change | Fold]:
        return apply_run([_redact_event(each) if each.encrypted else each for each in events])

    return apply_redacted


def _redact_event(recorded: Recorded) -> Recorded:
    """Returns the event with `ENCRYPTED` in place of each text by people and models, and of each text's digest."""
    texts = list(find_texts(recorded.data))
    data = redact(msgspec.json.decode(msgspec.json.encode(recorded.data)), texts, ENCRYPTED)
    return msgspec.structs.replace(recorded, data=msgspec.convert(data, type(recorded.data)))
