"""What the read models ask of the place that they lie in: a file, memory, or a database.

Statements are written once, for all: values stand as `?` or `:name`, and only what every place understands is used.
What differs is behind `Tables` (how rows are written) and `Tracks` (how positions are kept).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self, TypeAlias

from redraft.events.errors import Damaged
from redraft.projections.projection import Key, SetAll, Table, Value

Where: TypeAlias = Path | str | None
"""A file, a `postgresql://` URL, or memory."""

Cells: TypeAlias = tuple[Value, ...]
Parameters: TypeAlias = Sequence[Value] | Mapping[str, Value]


class Mark(NamedTuple):
    """A projection's version, and the position in the log up to which its rows count every event (0: none).

    `build` tells its tables from those that were there before them. `failed` is the position of the event at which it
    has stopped (0: it has not), `error` what is wrong with it.
    """

    version: int
    position: int
    build: int = 1
    failed: int = 0
    error: str = ""


class Cursor(Protocol):
    """What carries out a statement and gives its rows; `sqlite3.Cursor` is one."""

    def execute(self, sql: str, parameters: Parameters = ..., /) -> Self: ...

    def fetchone(self) -> Any: ...  # noqa: ANN401

    def fetchall(self) -> list[Any]: ...


class Tables(Protocol):
    """How the rows of a table are written, many with one statement."""

    def create(self, cursor: Cursor, table: Table) -> None: ...

    def find(self, cursor: Cursor, table: Table, keys: Sequence[Key]) -> list[tuple[Key, Cells]]:
        """The whole rows that there are of those with these keys, each with its key as it was given."""
        ...

    def put(self, cursor: Cursor, table: Table, rows: Iterable[Cells]) -> None:
        """Writes whole rows, new or in place of those with the same keys."""
        ...

    def delete(self, cursor: Cursor, table: Table, depth: int, keys: Iterable[Key]) -> None:
        """Takes away the rows with these keys, each of which names the first `depth` columns."""
        ...

    def set_all(self, cursor: Cursor, table: Table, alike: Sequence[SetAll]) -> None:
        """Carries out broad changes that set the same columns under the same conditions, each of another group."""
        ...


class Tracks(Protocol):
    """Where the positions are: high-water marks of the `eventsourcing` library, in a table named `tracking`."""

    def create(self, cursor: Cursor) -> None:
        """Makes the table `tracking` and, beside it, those of `positions`, if they are not there."""
        ...

    def move(self, cursor: Cursor, track: str, position: int) -> None: ...

    def marks(self, cursor: Cursor) -> dict[str, Mark]: ...


class Session(Protocol):
    """An open way to a place, used by one thread."""

    def transaction(self, *, ahead: bool = False) -> AbstractContextManager[Cursor]:
        """Everything or nothing, while nobody else writes.

        With `ahead`, a statement may be carried out later than it is given, while the next is made ready: at the latest
        when rows are fetched, or at the end. Its error comes as late, with another statement or with none.
        """
        ...

    def reading(self) -> AbstractContextManager[Cursor]:
        """For one statement that reads."""
        ...

    def close(self) -> None: ...


class Place(Protocol):
    """A place. Its sessions raise `faults` and others; `clear_errors` turns them into StoreErrors for people."""

    @property
    def tables(self) -> Tables: ...

    @property
    def tracks(self) -> Tracks: ...

    @property
    def faults(self) -> tuple[type[Exception], ...]: ...

    @property
    def has_readers(self) -> bool:
        """Whether there can be sessions beside the one that writes."""
        ...

    def open(self) -> Session:
        """The session that writes. Raises StoreUnusable, having changed nothing, when the place is not ours."""
        ...

    def open_reader(self) -> Session:
        """A session that cannot write."""
        ...

    def clear_errors(self) -> AbstractContextManager[None]: ...

    def damaged(self) -> Damaged:
        """What is raised when what lies here is not what was written."""
        ...

    def is_of_rows(self, error: Exception) -> bool:
        """Whether an error says that what a projection gave cannot be written, the place itself being well."""
        ...

    def is_damage(self, error: Exception, *, opening: bool = False) -> bool:
        """Whether an error says that what lies here is wrong, and the place ours, so that all may be made anew."""
        ...

    def remove(self, tables: Iterable[str]) -> None:
        """Takes away all that lies here, with these tables."""
        ...
