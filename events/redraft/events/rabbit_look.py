"""A look at all that waits in a queue: everything is taken, and given back in its order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

from aiormq import Channel
from aiormq.abc import DeliveredMessage

from redraft.events.rabbit_link import ANSWER, answer, tell

_MOST: Final = 65_535
_PAUSE: Final = 0.005


class Look:
    """`waiting` counts what is in the queue, without what is taken. Nobody else may read from the queue meanwhile."""

    def __init__(self, channel: Channel, queue: str, waiting: Callable[[], Awaitable[int]]) -> None:
        self._channel = channel
        self._queue = queue
        self._waiting = waiting
        self._messages: list[DeliveredMessage] = []
        self._taken = 0
        self._consumer = ""

    async def begin(self) -> Sequence[DeliveredMessage]:
        """All that waits now, oldest first; at most 65,535 messages."""
        wanted = min(await self._waiting(), _MOST)
        arrived = asyncio.Event()

        async def deliver(message: DeliveredMessage) -> None:
            self._messages.append(message)
            arrived.set()

        if wanted:
            await answer(self._channel.basic_qos(prefetch_count=wanted))
            consuming = self._channel.basic_consume(self._queue, deliver)
            self._consumer = (await answer(consuming)).consumer_tag or ""
        while len(self._messages) < wanted:
            arrived.clear()
            await answer(arrived.wait())
        return self._messages

    async def take(self, message: DeliveredMessage) -> None:
        """Takes a message for good."""
        await tell(self._channel.basic_ack(message.delivery_tag or 0, wait=False))
        self._taken += 1

    async def end(self) -> None:
        """Gives back what was not taken, and waits until it is to be seen again."""
        if not self._messages:
            return
        await answer(self._channel.basic_cancel(self._consumer))
        await tell(self._channel.basic_nack(self._messages[-1].delivery_tag or 0, multiple=True, wait=False))
        left = len(self._messages) - self._taken
        with suppress(TimeoutError):  # the others are there, even if somebody took one that we gave back
            async with asyncio.timeout(ANSWER):
                while await self._waiting() < left:  # noqa: ASYNC110 - the server tells nobody
                    await asyncio.sleep(_PAUSE)
