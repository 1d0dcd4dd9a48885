"""The right to be the one relay of a store, and how far the relay has come.

Whoever has the lease publishes; others stand by. A holder that lost it without noticing may publish what the next one
publishes too, which is harmless, but it cannot move the checkpoint.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self

from redraft.events.errors import InputError
from redraft.events.recorders import FORMS, psycopg_needed
from redraft.events.sqlite_lock import FileLease

RETRY_SECONDS: Final = 0.5
"""How often one that stands by tries to get the lease."""


class RelayLease(Protocol):
    """Entered, it can be acquired; left, it is given back. Every method raises StoreError when the store is away."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def acquire(self) -> int:
        """Waits until nobody else has the lease, and gives the checkpoint. When it was lost, acquire it again."""
        ...

    async def load(self) -> int:
        """The position of the last event that was published, 0 before the first. Raises LeaseLost."""
        ...

    async def save(self, position: int) -> None:
        """Moves the checkpoint up to this position, never down. Raises LeaseLost: then it was not moved."""
        ...

    async def release(self) -> None:
        """Gives the lease back, if it is held, so that the next may have it."""
        ...


def open_lease(url: str, *, retry: float = RETRY_SECONDS) -> RelayLease:
    """The lease of the store that a URL names: `sqlite:///path` or `postgresql://…`.

    `retry` is how often, in seconds, one that stands by tries. Raises InputError for any other URL.
    """
    scheme, colon, rest = url.partition("://")
    match scheme + colon, rest:
        case "sqlite://", path if path.startswith("/") and path.strip("/"):
            store = Path(path[1:])
            return FileLease(store.with_name(f"{store.stem}.relay{store.suffix or '.db'}"), retry)
        case "postgresql://" | "postgres://", _:
            return _open_postgres(url, retry)
        case _:
            raise InputError(f"store {scheme}{colon}… has no lease for a relay; give {FORMS}")


def _open_postgres(url: str, retry: float) -> RelayLease:
    with psycopg_needed():
        from redraft.events.postgres_lock import AdvisoryLease  # only those who use it need psycopg
    return AdvisoryLease(url, retry)
