"""Runs one process that serves a named subscription, for `redraft subscribe` and `redraft webhook`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from structlog.typing import FilteringBoundLogger

from redraft.app.process.health import health_file
from redraft.app.process.lifecycle import PATIENCE, drained, opened, retry_forever
from redraft.app.settings.settings import Settings
from redraft.app.subscribing.delivery import Handler, SubscriptionServer
from redraft.app.subscribing.feed import StoreFeed
from redraft.app.wiring.stores import open_store_of
from redraft.events.backends import open_subscriptions
from redraft.events.messages.filters import EventFilter
from redraft.events.messages.plan import Retry
from redraft.events.store.event_store import EventStore
from redraft.events.subscriptions.subscriptions import Subscriptions, check_name

Start: TypeAlias = int | Literal["now"]
"""After which position a new name begins, or only with what is recorded from now on."""


Opening: TypeAlias = Callable[[StoreFeed], AbstractAsyncContextManager[Handler]]
"""Opens a handler, for as long as events are delivered to it from this feed."""


class Served(msgspec.Struct, frozen=True):
    """A named subscription: its handler and filter, its target (for people), its start, and its attempts."""

    name: str
    handler: Opening
    criteria: EventFilter
    target: str
    start: Start
    retry: Retry
    timeout: float


async def serve_name(
    settings: Settings,
    served: Served,
    drain: asyncio.Event,
    ready: Callable[[], None],
    log: FilteringBoundLogger,
    *,
    patience: float = PATIENCE,
    health: Path | None = None,
) -> None:
    """Delivers until `drain` is set and the handler has returned; stands by while another process has the name.

    The store is tried for `patience` seconds at the start (StoreError), and for ever after that. `ready` is called when
    the name is about to be served for the first time.
    """
    check_name(served.name)
    async with opened(lambda: _logs(settings), patience, log) as (store, names, head):
        feed = StoreFeed(store)
        start = head if served.start == "now" else served.start
        async with served.handler(feed) as handler, health_file(health, store.head, log):
            to_whom = served.name, handler, log, served.criteria, served.target
            delivery = SubscriptionServer(feed, names, *to_whom, start, served.retry, served.timeout)
            async with drained(delivery, drain):
                await retry_forever(served.name, partial(delivery.run, _once(ready)), log)


@asynccontextmanager
async def _logs(settings: Settings) -> AsyncIterator[tuple[EventStore, Subscriptions, int]]:
    """Yields the log, the subscriptions to it, and the position of its last event. Raises StoreError."""
    async with open_store_of(settings) as store, open_subscriptions(settings.store) as names:
        yield store, names, await store.head()


def _once(call: Callable[[], None]) -> Callable[[], None]:
    left = [call]
    return lambda: left.pop()() if left else None
