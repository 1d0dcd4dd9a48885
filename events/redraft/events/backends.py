"""Opens the databases that a store's URL names: event store, relay's lease, subscriptions, tokens, shares, presence.

Only this module knows which databases there are. It imports psycopg when a URL names PostgreSQL, and not before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_bytes
from typing import Final

import msgspec

from redraft.events.encryption.keyring import Encryption
from redraft.events.errors import InputError
from redraft.events.messages.plan import Role
from redraft.events.presence import CREATE as PRESENCE_TABLES
from redraft.events.presence import HttpWorkers, Presence
from redraft.events.shares import CREATE as SHARE_TABLES
from redraft.events.shares import Shares
from redraft.events.sqlite.file import Identity, rewrite
from redraft.events.sqlite.lease import FileLease, SqliteSubscriptions
from redraft.events.sqlite.recorder import open_sqlite
from redraft.events.sqlite.tables import SqliteTables
from redraft.events.store.event_store import EventStore
from redraft.events.store.lease import Lease, LeaseHolder, LeaseRow
from redraft.events.store.recorder import MemoryRecorder, Opened
from redraft.events.subscriptions.subscriptions import Subscriptions
from redraft.events.tokens import CREATE as TOKEN_TABLES
from redraft.events.tokens import Tokens

FORMS: Final = (
    "sqlite:///runs.db (relative), sqlite:////var/lib/redraft/runs.db (absolute), "
    "postgresql://user@host:5432/database, or memory:"
)
_TOKENS: Final = Identity(0x5264546B, 1)
"""The `application_id` of files of tokens, "RdTk", and the `user_version` that this version writes."""

_SHARES: Final = Identity(0x52645368, 1)
"""The same of files of coordinators' shares: "RdSh"."""

_PRESENCE: Final = Identity(0x52645072, 1)
"""The same of files of those who work by HTTP: "RdPr"."""

_SQLITE_CLOCK: Final = "(julianday('now') - 2440587.5) * 86400.0"
_POSTGRES_CLOCK: Final = "extract(epoch FROM clock_timestamp())::double precision"
"""The seconds of a database's clock, in its SQL."""

RETRY_SECONDS: Final = 0.5
"""Seconds between a standby's attempts to get a lease."""


class StoreUrl(msgspec.Struct, frozen=True):
    """The location of a store: the `path` of a SQLite file, or the `postgres` URL of a database, or in memory."""

    path: Path | None = None
    postgres: str = ""

    def beside(self, name: str) -> Path | None:
        """Returns the file of this name that belongs to a SQLite store; None for any other store."""
        if self.path is None:
            return None
        return self.path.with_name(f"{self.path.stem}.{name}{self.path.suffix or '.db'}")


def parse_store_url(url: str) -> StoreUrl:
    """Reads `sqlite:///path` (a fourth slash: absolute), `postgresql://…` or `memory:`. Raises InputError."""
    scheme, colon, rest = url.partition(":")
    match scheme + colon, rest:
        case "memory:", "":
            return StoreUrl()
        case "sqlite:", path if ":memory:" in path:
            raise InputError("store sqlite:///:memory: is not understood; give memory: for a store without a file")
        case "sqlite:", path if path.startswith("///") and path[3:].strip("/") and "\0" not in path:
            return StoreUrl(path=_real_file(Path(path[3:])))
        case "postgresql:" | "postgres:", rest if rest.startswith("//"):
            return StoreUrl(postgres=url)
        case _:
            named = f"{scheme}:…" if colon else "without a scheme"
            raise InputError(f"store {named} is not understood; give {FORMS}")


def _real_file(path: Path) -> Path:
    """Returns the absolute path of a file, of that which a symbolic link leads to.

    What belongs to a store lies beside that file, for everybody, also once a process has changed its folder.
    """
    try:
        return path.resolve() if path.is_symlink() else path.absolute()
    except (OSError, RuntimeError):  # links that lead to each other, or no working folder: whoever opens it says so
        return path


def open_recorder(url: str) -> Opened:
    """Returns the recorder that a store's URL names. Raises InputError, IncompatibleStore, StoreError."""
    store = parse_store_url(url)
    if store.path is not None:
        return open_sqlite(store.path)
    if not store.postgres:
        return Opened(MemoryRecorder(), "memory:", False, lambda: None)
    with psycopg_needed():
        from redraft.events.postgres.recorder import open_postgres  # late: psycopg is optional
    return open_postgres(url)


def open_store(url: str, *, poll: float = 0.25, encryption: Encryption | None = None) -> EventStore:
    """Opens the store that a URL names: `sqlite:///path` (a fourth slash: absolute), `postgresql://…`, or `memory:`.

    Makes a missing file, with its folder; a database must exist. `poll` is the interval, in seconds, at which the log
    is polled for other processes' events. `encryption` encrypts the texts of new runs, and decrypts those of encrypted
    ones. Raises InputError for any other URL, IncompatibleStore when Redraft did not make the file or database, and
    StoreError when it cannot be opened. Waits up to 10 seconds for other processes that lock it.
    """
    return EventStore(open_recorder(url), poll=poll, encryption=encryption)


def open_lease(url: str, *, retry: float = RETRY_SECONDS) -> Lease:
    """Returns the lease of the one relay of the store that a URL names: `sqlite:///path` or `postgresql://…`.

    The holder of the lease publishes; others stand by. A holder that lost it without noticing may publish events that
    the next one publishes too, which is harmless, but it cannot move the checkpoint. `retry` is the number of seconds
    between a standby's attempts. Raises InputError for any other URL.
    """
    return Lease(_relay_row(url), retry)


async def read_lease(url: str) -> tuple[LeaseHolder | None, int]:
    """Returns the holder of a store's relay lease, None when there never was one, and the checkpoint.

    Raises InputError for a URL that `open_lease` does not accept; StoreError when the store cannot be read.
    """
    row = _relay_row(url)
    try:
        return await row.look()
    finally:
        await row.close()


def _relay_row(url: str) -> LeaseRow:
    store = parse_store_url(url)
    if (path := store.beside("relay")) is not None:
        return FileLease(path)
    if not store.postgres:
        raise InputError("store memory: has no lease for a relay; give sqlite:///path or postgresql://…")
    with psycopg_needed():
        from redraft.events.postgres.connection import Database  # late: psycopg is optional
        from redraft.events.postgres.lease import RELAY_LEASE, PostgresLease
    return PostgresLease(Database(url), RELAY_LEASE)


def open_subscriptions(url: str) -> Subscriptions:
    """Opens the subscriptions of a store: in a file beside a SQLite file, or in the same database.

    Raises InputError for any other URL, StoreError at the first use.
    """
    store = parse_store_url(url)
    if (path := store.beside("subscriptions")) is not None:
        return Subscriptions(SqliteSubscriptions(path, RETRY_SECONDS), time.time)
    if not store.postgres:
        raise InputError(
            "store memory: keeps nothing, so no subscription can have a name there; give sqlite:///path or "
            "postgresql://…"
        )
    with psycopg_needed():
        from redraft.events.postgres.lease import PostgresSubscriptions  # late: psycopg is optional
    return Subscriptions(PostgresSubscriptions(url, RETRY_SECONDS), time.time)


def utc() -> datetime:
    """Returns the present time."""
    return datetime.now(UTC)


def open_tokens(url: str, now: Callable[[], datetime] = utc) -> Tokens:
    """Opens the tokens of a store: in a file beside a SQLite file, or in the same database.

    Raises InputError for any other URL, StoreError at the first use.
    """
    store = parse_store_url(url)
    if (path := store.beside("tokens")) is not None:
        tables = SqliteTables(path, "tokens", _TOKENS, TOKEN_TABLES, durable=True)
        return Tokens(tables, now, token_bytes, path.exists)
    if not store.postgres:
        raise InputError("store memory: keeps no tokens; give sqlite:///path or postgresql://…")
    with psycopg_needed():
        from redraft.events.postgres.connection import Database  # late: psycopg is optional
        from redraft.events.postgres.tables import PostgresTables
    return Tokens(PostgresTables(Database(url), TOKEN_TABLES, durable=True), now, token_bytes, lambda: True)


def open_shares(url: str) -> Shares:
    """Opens the shares of a store's coordinators: in a file beside a SQLite file, or in the same database.

    Raises InputError for any other URL, StoreError at the first use.
    """
    store = parse_store_url(url)
    if (path := store.beside("shares")) is not None:
        return Shares(SqliteTables(path, "shares", _SHARES, SHARE_TABLES), _SQLITE_CLOCK, path.exists)
    if not store.postgres:
        raise InputError("store memory: is one process's own; give sqlite:///path or postgresql://…")
    with psycopg_needed():
        from redraft.events.postgres.connection import Database  # late: psycopg is optional
        from redraft.events.postgres.tables import PostgresTables
    return Shares(PostgresTables(Database(url), SHARE_TABLES), _POSTGRES_CLOCK)


def open_http_workers(url: str) -> HttpWorkers:
    """Opens what is known of those who work by HTTP: in a file beside a SQLite file, or in the same database.

    Raises InputError for any other URL, StoreError at the first use.
    """
    store = parse_store_url(url)
    if (path := store.beside("workers")) is not None:
        return HttpWorkers(SqliteTables(path, "workers", _PRESENCE, PRESENCE_TABLES), _SQLITE_CLOCK, path.exists)
    if not store.postgres:
        raise InputError("store memory: is one process's own; give sqlite:///path or postgresql://…")
    with psycopg_needed():
        from redraft.events.postgres.connection import Database  # late: psycopg is optional
        from redraft.events.postgres.tables import PostgresTables
    return HttpWorkers(PostgresTables(Database(url), PRESENCE_TABLES), _POSTGRES_CLOCK)


async def read_http_workers(url: str) -> Mapping[tuple[Role, str], Sequence[Presence]]:
    """Returns who works by HTTP for the actors of a store; nobody for one in memory. Raises StoreError."""
    store = parse_store_url(url)
    if store.path is None and not store.postgres:
        return {}
    async with open_http_workers(url) as workers:
        return await workers.present()


def may_have_subscriptions(url: str) -> bool:
    """Returns whether a store can have subscriptions: without their file there are none. Makes no file."""
    store = parse_store_url(url)
    path = store.beside("subscriptions")
    return bool(store.postgres) if path is None else path.exists()


def rewrite_tables(database: Path | str, tables: Sequence[str]) -> None:
    """Rewrites a SQLite file, or these tables of a URL's database, without deleted rows. Raises StoreError."""
    if isinstance(database, Path):
        rewrite(database)
        return
    with psycopg_needed():
        from redraft.events.postgres.connection import Database  # late: start-up time
    Database(database).rewrite(tables)


@contextmanager
def psycopg_needed() -> Iterator[None]:
    """Turns an ImportError for want of psycopg into an InputError with the remedy."""
    try:
        yield
    except ImportError as error:
        raise InputError(
            f"a store in PostgreSQL needs psycopg ({error}); pip install 'psycopg[binary,pool]'"
        ) from error
