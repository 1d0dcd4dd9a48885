"""Opens what the settings name as the store: the event store with its key, read models, subscriptions, relay lease."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from redraft.app.process.files import read_key
from redraft.app.process.lifecycle import together
from redraft.app.settings.settings import Settings, views_path
from redraft.events.backends import open_lease, open_store
from redraft.events.encryption.keyring import Encryption
from redraft.events.errors import InputError
from redraft.events.store.event_store import EventStore
from redraft.events.store.lease import Lease
from redraft.projections.backends import FOLLOWED, open_views
from redraft.projections.engine.projection import Projection
from redraft.projections.engine.views import Views
from redraft.projections.engine.writer import Notice


@asynccontextmanager
async def open_store_of(settings: Settings) -> AsyncIterator[EventStore]:
    """Opens the event store, beside the event loop. Raises InputError for an unusable key, and as `open_store` does."""
    opened = await asyncio.to_thread(open_store, settings.store, encryption=encryption_of(settings))
    async with opened as store:
        yield store


@asynccontextmanager
async def open_views_of(
    settings: Settings,
    projections: Sequence[Projection] = FOLLOWED,
    report: Callable[[Notice], None] = lambda notice: None,
) -> AsyncIterator[Views]:
    """Opens the read models of these projections, by default those that every deployment keeps up to date."""
    async with open_views(views_path(settings.store), projections, report) as views:
        yield views


@asynccontextmanager
async def hold_lease_of(settings: Settings, seconds: float) -> AsyncIterator[tuple[Lease, int] | None]:
    """Holds the right to relay within the block; yields the lease and its position.

    Yields None when another process still holds it after `seconds`.
    """
    async with open_lease(settings.store) as lease:
        try:
            async with asyncio.timeout(seconds):
                position = await lease.acquire()
        except TimeoutError:
            yield None
            return
        async with together([lease.keep()]):
            yield lease, position


def encryption_of(settings: Settings) -> Encryption | None:
    """Returns the encryption of the settings, None without. Raises InputError for a key that is missing or unusable."""
    if not (settings.encrypt_new_runs or settings.encrypt_key or settings.encrypt_key_file):
        return None
    from redraft.events.encryption.cipher import REMEDY, read_master_key  # only those who use it wait for its import

    if settings.encrypt_key and settings.encrypt_key_file:
        raise InputError("REDRAFT_ENCRYPT_KEY and REDRAFT_ENCRYPT_KEY_FILE are both set; remove one of them")
    if settings.encrypt_key:
        return Encryption(read_master_key(settings.encrypt_key, "REDRAFT_ENCRYPT_KEY"), settings.encrypt_new_runs)
    if settings.encrypt_key_file is None:
        raise InputError(
            f"REDRAFT_ENCRYPT_NEW_RUNS is set without a key; {REMEDY}, which REDRAFT_ENCRYPT_KEY_FILE then names"
        )
    text = read_key(settings.encrypt_key_file, "REDRAFT_ENCRYPT_KEY_FILE")
    key = read_master_key(text, f"REDRAFT_ENCRYPT_KEY_FILE {settings.encrypt_key_file}")
    return Encryption(key, settings.encrypt_new_runs)
