"""Durable subscriptions: how far each name has come in the log, and the events that its handler could not take.

Positions lie in the store's database, or in a file beside it, never among the events. Whoever serves a name holds its
lease; each takeover, and each `redraft subscriptions reset`, begins a new epoch, and nothing is moved in an old one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeAlias

import msgspec

from redraft.events.errors import InputError
from redraft.events.lease import Held
from redraft.events.recorders import FORMS, psycopg_needed

RETRY_SECONDS: Final = 0.5
"""How often one that stands by tries to get the lease of a name."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")

Execute: TypeAlias = Callable[[str, Sequence[object]], list[tuple[Any, ...]]]
"""Carries out one statement, its values written as `?`, and gives its rows."""


class Failing(msgspec.Struct, frozen=True):
    """The event that a handler is being tried again with: how often it failed, why, and when it is tried next (UTC)."""

    position: int
    attempts: int
    error: str
    retry_at: datetime


class Subscription(msgspec.Struct, frozen=True):
    """A name, and the position up to which every event was handled, parked or passed over.

    `wants` is the filter as JSON, `target` what the events go to, for people; `parked` how many are set aside. Times
    are UTC; `moved` is when the position changed last.
    """

    name: str
    position: int
    epoch: int
    wants: str
    target: str
    created: datetime
    moved: datetime
    failing: Failing | None = None
    parked: int = 0


class ParkedEvent(msgspec.Struct, frozen=True):
    """An event that was set aside for one name: which, after how many attempts, why, and when (UTC).

    `retry`: somebody asked for it to be tried once more, and the process that serves the name has not done so yet.
    """

    subscription: str
    position: int
    id: str
    run: str
    version: int
    event: str
    attempts: int
    error: str
    parked_at: datetime
    retry: bool = False


class Book(Protocol):
    """A place that subscriptions are kept in. Its calls block: they belong on a thread of their own."""

    @property
    def where(self) -> str:
        """What it is called in messages."""
        ...

    def transaction(self) -> AbstractContextManager[Execute]:
        """Everything or nothing, while nobody else writes. Raises StoreError."""
        ...

    def lease(self, name: str) -> NameLease:
        """The right to serve a name, not yet acquired."""
        ...

    def close(self) -> None: ...


class NameLease(Protocol):
    """The right to be the one process that serves a name; see `Lease`."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def acquire(self, waits: Callable[[Held], None] | None = None) -> object:
        """Waits until nobody else has it; `waits` is told who does. Raises StoreError."""
        ...

    async def keep(self) -> None:
        """Renews it until it is cancelled. Raises LeaseLost."""
        ...

    async def release(self) -> None: ...


def open_book(url: str, *, retry: float = RETRY_SECONDS) -> Book:
    """The subscriptions of the store that a URL names: in a file beside a SQLite file, or in the same database.

    `retry` is how often, in seconds, one that stands by tries for a lease. Raises InputError for any other URL,
    StoreError when it cannot be opened.
    """
    scheme, colon, rest = url.partition("://")
    match scheme + colon, rest:
        case "sqlite://", path if path.startswith("/") and path.strip("/"):
            from redraft.events.sqlite_subscriptions import SqliteBook

            return SqliteBook(_beside(path), retry)
        case "postgresql://" | "postgres://", _:
            with psycopg_needed():
                from redraft.events.postgres_subscriptions import PostgresBook  # only those who use it need psycopg
            return PostgresBook(url, retry)
        case _:
            raise InputError(
                f"store {scheme}{colon}… keeps nothing, so no subscription can have a name there; give {FORMS}"
            )


def are_there(url: str) -> bool:
    """Whether there can be subscriptions in a store: without a file of them there are none, and looking makes none."""
    scheme, _, path = url.partition("://")
    return _beside(path).exists() if scheme == "sqlite" else scheme in ("postgresql", "postgres")


def _beside(path: str) -> Path:
    """The file of the subscriptions of the SQLite store at `/path`, as a URL has it."""
    store = Path(path[1:])
    return store.with_name(f"{store.stem}.subscriptions{store.suffix or '.db'}")


def checked_name(name: str) -> str:
    """The name of a subscription. Raises InputError for one that cannot be."""
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{name!r} cannot be the name of a subscription: give up to 100 ASCII letters, digits, '-', '_' and '.', "
            "such as search-index"
        )
    return name
