"""How far a named subscriber has come, kept beside the store: for one who holds the name's lease."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Final

import msgspec

from redraft.app.feed import Feed
from redraft.events.envelope import Recorded
from redraft.events.errors import StoreError
from redraft.events.filters import EventFilter
from redraft.events.subscriptions import Subscription, Subscriptions

SAVE_SECONDS: Final = 0.1
"""How often a position is saved while events follow each other without a pause."""


class Standing:
    """The position of a subscription that was taken. What saves it raises LeaseLost when its epoch is over."""

    def __init__(self, subscriptions: Subscriptions, taken: Subscription) -> None:
        self.taken = taken
        self._subscriptions = subscriptions
        self._position = self._saved = taken.position
        self._since = _seconds()

    def passed(self, position: int) -> None:
        """Everything up to this position is done with."""
        self._position = max(self._position, position)

    @property
    def is_due(self) -> bool:
        return _seconds() - self._since >= SAVE_SECONDS

    async def save(self) -> None:
        """Saves the position if it has changed."""
        position = self._position
        if position != self._saved:
            await self._subscriptions.save(self.taken, position)
            self.set_to(position)

    def set_to(self, position: int) -> None:
        """Takes note of a position that was saved with something else."""
        self.passed(position)
        self._saved, self._since = position, _seconds()


async def stand(
    feed: Feed, subscriptions: Subscriptions, name: str, wanted: EventFilter, start: int
) -> AsyncGenerator[Recorded, None]:
    """The events that a name has not had yet, and those to come. One is done with when the next is asked for."""
    async with subscriptions.lease(name) as lease:
        await lease.acquire()
        taken = await subscriptions.take(name, wanted_text(wanted), "a program", start)
        await feed.require(taken.position, name)
        standing = Standing(subscriptions, taken)
        keeping = asyncio.create_task(lease.keep())
        try:
            async with aclosing(feed.read(standing.taken.position, wanted)) as batches:
                async for batch in batches:
                    for event in batch.events:
                        if keeping.done():
                            keeping.result()
                        yield event
                        standing.passed(event.position)
                        if standing.is_due:
                            await standing.save()
                    standing.passed(batch.position)
                    await standing.save()
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)
            with suppress(StoreError):  # then what was done since the last save comes again
                await standing.save()


def _seconds() -> float:
    return asyncio.get_running_loop().time()


def wanted_text(wanted: EventFilter) -> str:
    """A filter as it is kept with a subscription: what it asks for, as JSON."""
    asked = {name: value for name, value in msgspec.structs.asdict(wanted).items() if value}
    return msgspec.json.encode(asked, order="deterministic").decode()
