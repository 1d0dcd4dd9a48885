"""One process that serves a named subscription: what `redraft subscribe` and `redraft webhook` run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from structlog.typing import FilteringBoundLogger

from redraft.app.delivery import Delivery, Handler, Retry
from redraft.app.deployment import open_log_of
from redraft.app.feed import StoreFeed
from redraft.app.health import health_file
from redraft.app.settings import Settings
from redraft.app.upkeep import PATIENCE, kept_up, opened
from redraft.events.filters import EventFilter
from redraft.events.subscription_book import checked_name
from redraft.events.subscriptions import open_subscriptions

Start: TypeAlias = int | Literal["now"]
"""After which position a new name begins, or only with what is recorded from now on."""


Opening: TypeAlias = Callable[[StoreFeed], AbstractAsyncContextManager[Handler]]
"""Opens a handler, for as long as events are delivered to it from this feed."""


class Served(msgspec.Struct, frozen=True):
    """A name, what it wants, what its events go to (for people), where it begins, and how often is tried."""

    name: str
    handler: Opening
    wanted: EventFilter
    target: str
    start: Start
    retry: Retry


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
    checked_name(served.name)
    async with (
        opened(lambda: open_log_of(settings), patience, log) as store,
        open_subscriptions(settings.store) as names,
    ):

        async def ping() -> None:
            await store.head()

        feed = StoreFeed(store)
        start = await store.head() if served.start == "now" else served.start
        async with served.handler(feed) as handler, health_file(health, ping, log):
            delivery = Delivery(
                *(feed, names, served.name, handler, log),
                wanted=served.wanted,
                target=served.target,
                start=start,
                retry=served.retry,
            )
            draining = asyncio.create_task(_drained(delivery, drain))
            try:
                await kept_up(served.name, partial(delivery.run, _once(ready)), log)
            finally:
                draining.cancel()


def just(handler: Handler) -> Opening:
    """A handler that needs no opening."""

    @asynccontextmanager
    async def opening(feed: StoreFeed) -> AsyncIterator[Handler]:
        yield handler

    return opening


async def _drained(delivery: Delivery, drain: asyncio.Event) -> None:
    await drain.wait()
    await delivery.drain()


def _once(call: Callable[[], None]) -> Callable[[], None]:
    left = [call]
    return lambda: left.pop()() if left else None
