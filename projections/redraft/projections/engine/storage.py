"""The ports of the engine: what read models need of a database, a file or memory.

Statements are written once for all databases: values stand as `?` or `:name`, and only common SQL is used. The
differences are behind `Tables`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self, TypeAlias, TypeVar

import msgspec

from redraft.events.errors import ReadModelCorrupt
from redraft.projections.engine.projection import Key, SetAll, Table, Value, times

StorageLocation: TypeAlias = Path | str | None
"""A file, a `postgresql://` URL, or None for memory."""

Cells: TypeAlias = tuple[Value, ...]
Parameters: TypeAlias = Sequence[Value] | Mapping[str, Value]


class Phrase(NamedTuple):
    """Words that follow each other in a text; the last may be the beginning of a longer one."""

    words: tuple[str, ...]
    begins: bool = False


class ProjectionCheckpoint(NamedTuple):
    """The version of a projection's rows, and the position in the log up to which they count every event (0: none).

    `build` distinguishes its tables from earlier ones. `failed` is the position of the event at which the projection
    stopped (0: it has not), `error` the reason.
    """

    version: int
    position: int
    build: int = 1
    failed: int = 0
    error: str = ""


Checkpoints: TypeAlias = dict[str, ProjectionCheckpoint]
"""The checkpoints of several projections, by name."""


class Cursor(Protocol):
    """Executes statements and returns their rows; `sqlite3.Cursor` fits."""

    def execute(self, sql: str, parameters: Parameters = ..., /) -> Self: ...

    def fetchone(self) -> Any: ...  # noqa: ANN401

    def fetchall(self) -> list[Any]: ...


class Tables(Protocol):
    """Creates tables, and writes their rows, many with one statement."""

    @property
    def same(self) -> str:
        """Returns the operator for equal values, of which NULL is one."""
        ...

    def existing(self, cursor: Cursor) -> Collection[str]:
        """Returns the names of the tables that exist."""
        ...

    def is_ours(self, cursor: Cursor, name: str) -> bool:
        """Returns whether a table that exists was made for a read model, and not by another program."""
        ...

    def define(self, cursor: Cursor, name: str, columns: str) -> None:
        """Creates a table with these columns, which the commit must not lose."""
        ...

    def create(self, cursor: Cursor, table: Table) -> None: ...

    def drop(self, cursor: Cursor, name: str) -> None:
        """Drops the table of this name, if it exists, with its indexes."""
        ...

    def rename(self, cursor: Cursor, name: str, new: str) -> None: ...

    def matching(self, table: Table, phrases: Sequence[Phrase]) -> tuple[str, str]:
        """Returns the condition for rows whose `searched` column has all phrases, and the value of its `:words`."""
        ...

    def find(self, cursor: Cursor, table: Table, keys: Sequence[Key]) -> list[tuple[Key, Cells]]:
        """Returns the existing rows among these keys, each with its key as given."""
        ...

    def put(self, cursor: Cursor, table: Table, rows: Iterable[Cells]) -> None:
        """Writes whole rows, replacing those with the same keys."""
        ...

    def delete(self, cursor: Cursor, table: Table, depth: int, keys: Iterable[Key]) -> None:
        """Deletes the rows with these keys, each of which holds the first `depth` columns."""
        ...

    def set_all(self, cursor: Cursor, table: Table, alike: Sequence[SetAll]) -> None:
        """Applies broad changes that set the same columns under the same conditions, each to another group."""
        ...


class Session(Protocol):
    """An open session with the database, used by one thread."""

    def transaction(self, *, ahead: bool = False) -> AbstractContextManager[Cursor]:
        """Runs statements in one transaction that excludes other writers.

        With `ahead`, statements may run later than they are issued, at the latest when rows are fetched or at the end;
        an error then appears late too, at another statement or at none.
        """
        ...

    def reading(self) -> AbstractContextManager[Cursor]:
        """Yields a cursor for one statement that reads."""
        ...

    def close(self) -> None: ...


class Storage(Protocol):
    """A database for read models. Its sessions raise `faults` and others; `clear_errors` makes StoreErrors of them."""

    @property
    def tables(self) -> Tables: ...

    @property
    def faults(self) -> tuple[type[Exception], ...]: ...

    @property
    def has_readers(self) -> bool:
        """Returns whether sessions that read can exist next to the one that writes."""
        ...

    def open(self) -> Session:
        """Opens the session that writes. Raises IncompatibleStore, having changed nothing, when it is not Redraft's."""
        ...

    def open_reader(self) -> Session:
        """Opens a session that cannot write."""
        ...

    def clear_errors(self) -> AbstractContextManager[None]: ...

    def damage_error(self) -> ReadModelCorrupt:
        """Returns the error to raise when the stored data is not what was written."""
        ...

    def is_row_error(self, error: Exception) -> bool:
        """Returns whether the error says that a row cannot be written, while the storage itself is intact.

        OwnError is one, whatever it carries; MemoryError is none, as the process is short of memory.
        """
        ...

    def is_damage(self, error: Exception, *, opening: bool = False) -> bool:
        """Returns whether the error says that Redraft's own data is damaged, so that it may be rebuilt from the log."""
        ...

    def remove(self, tables: Iterable[str]) -> None:
        """Removes all read models, with these tables."""
        ...


T = TypeVar("T", bound=msgspec.Struct)


def row_decoder(kind: type[T], *moments: str) -> Callable[[Cells], T]:
    """Returns a function that makes a struct from a row in the order of its fields; `moments` are its time columns."""
    names = kind.__struct_fields__

    def make_row(cells: Cells) -> T:
        row = dict(zip(names, cells, strict=True))
        return msgspec.convert({**row, **times(row, *moments)}, kind, strict=False)

    return make_row
