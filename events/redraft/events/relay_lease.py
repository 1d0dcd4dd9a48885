"""The right to be the one relay of a store, and how far the relay has come.

Whoever has the lease publishes; others stand by. A holder that lost it without noticing may publish what the next one
publishes too, which is harmless, but it cannot move the checkpoint.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from redraft.events.errors import InputError
from redraft.events.lease import Held, Lease
from redraft.events.recorders import FORMS, psycopg_needed
from redraft.events.sqlite_lock import FileRow

if TYPE_CHECKING:
    from redraft.events.postgres_lock import PostgresRow

RETRY_SECONDS: Final = 0.5
"""How often one that stands by tries to get the lease."""


def open_lease(url: str, *, retry: float = RETRY_SECONDS) -> Lease:
    """The lease of the store that a URL names: `sqlite:///path` or `postgresql://…`.

    `retry` is how often, in seconds, one that stands by tries. Raises InputError for any other URL.
    """
    return Lease(_row(url), retry)


async def look(url: str) -> tuple[Held | None, int]:
    """Who relays from a store, None when nobody ever did, and the checkpoint; it is not moved.

    Raises InputError for a URL that `open_lease` does not take; StoreError when the store cannot be read.
    """
    row = _row(url)
    try:
        return await row.look()
    finally:
        await row.close()


def _row(url: str) -> FileRow | PostgresRow:
    scheme, colon, rest = url.partition("://")
    match scheme + colon, rest:
        case "sqlite://", path if path.startswith("/") and path.strip("/"):
            store = Path(path[1:])
            return FileRow(store.with_name(f"{store.stem}.relay{store.suffix or '.db'}"))
        case "postgresql://" | "postgres://", _:
            return _open_postgres(url)
        case _:
            raise InputError(f"store {scheme}{colon}… has no lease for a relay; give {FORMS}")


def _open_postgres(url: str) -> PostgresRow:
    with psycopg_needed():
        from redraft.events.postgres_connection import Database
        from redraft.events.postgres_lock import RELAYING, PostgresRow  # only those who use it need psycopg
    return PostgresRow(Database(url), RELAYING)
