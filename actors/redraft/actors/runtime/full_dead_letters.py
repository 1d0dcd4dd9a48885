"""A reader whose refused messages find no room among the dead letters: it keeps them, and everything else goes on."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from redraft.actors.runtime.relaying.queue_publisher import UnusableQueues
from redraft.events.bus.port import DEAD_LETTERS, Consumer, Delivery
from redraft.events.errors import BusError, NoRoom

AGAIN: Final = 5.0
"""Seconds between two attempts to make a kept message a dead letter."""


@asynccontextmanager
async def keeping_refused(consumer: Consumer, unusable: UnusableQueues) -> AsyncIterator[Consumer]:
    """Yields a reader that keeps what it refuses, unsettled, while there is no room for another dead letter.

    It tries again until there is. `unusable` says once that there is none, and once that there is some again. What is
    kept counts among the messages that the reader may hold: so there are never more of them than that.
    """
    reader = _Keeping(consumer, unusable)
    try:
        yield reader
    finally:
        await reader.leave()


class _Keeping:
    """`consumer`, with `reject` as above; what is still kept as it leaves goes back to the queue."""

    def __init__(self, consumer: Consumer, unusable: UnusableQueues) -> None:
        self._consumer = consumer
        self._unusable = unusable
        self._kept: deque[tuple[Delivery, bool, str]] = deque()
        self._trying: asyncio.Task[None] | None = None
        self.take = consumer.take
        self.ahead = consumer.ahead
        self.ack = consumer.ack

    async def reject(self, delivery: Delivery, *, requeue: bool, reason: str = "") -> None:
        """Gives a message back, or keeps it if it is to be a dead letter for which there is no room."""
        try:
            await self._consumer.reject(delivery, requeue=requeue, reason=reason)
        except NoRoom as error:
            self._unusable.block(DEAD_LETTERS, str(error))
            self._kept.append((delivery, requeue, reason))
            if self._trying is None or self._trying.done():
                self._trying = asyncio.create_task(self._keep_trying())

    async def leave(self) -> None:
        """Tries no more."""
        if self._trying is not None:
            self._trying.cancel()
            await asyncio.wait([self._trying])

    async def _keep_trying(self) -> None:
        """Makes what is kept dead letters, as soon as there is room.

        While the bus is away, whoever takes messages says so.
        """
        while self._kept:
            delivery, requeue, reason = self._kept[0]
            try:
                await self._consumer.reject(delivery, requeue=requeue, reason=reason)
            except BusError:
                await asyncio.sleep(AGAIN)
            else:
                self._kept.popleft()
        self._unusable.free(DEAD_LETTERS)
