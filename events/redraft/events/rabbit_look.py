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

_TOGETHER: Final = 32
"""How many messages are given back at once: a quorum queue of 3.10 mixes up the order of more."""

_UNSEEN: Final = 512
"""How many are given back before a look whether they arrived: RabbitMQ gathers what comes faster into one."""


class Look:
    """`waiting` counts what is in the queue, without what is taken. Nobody else may read from the queue meanwhile."""

    def __init__(self, channel: Channel, queue: str, waiting: Callable[[], Awaitable[int]]) -> None:
        self._channel = channel
        self._queue = queue
        self._waiting = waiting
        self._messages: list[DeliveredMessage] = []
        self._taken: set[int | None] = set()
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
        self._taken.add(message.delivery_tag)

    async def end(self) -> None:
        """Gives back what was not taken, and waits until it is to be seen again."""
        if not self._messages:
            return
        await answer(self._channel.basic_cancel(self._consumer))
        arrived = await self._waiting()
        left = [message.delivery_tag or 0 for message in self._messages if message.delivery_tag not in self._taken]
        for start in range(0, len(left), _TOGETHER):
            given = left[start : start + _TOGETHER]
            await tell(self._channel.basic_nack(given[-1], multiple=True, wait=False))
            number = start + len(given)
            if number % _UNSEEN == 0 or number == len(left):
                await self._seen(arrived + number)

    async def _seen(self, number: int) -> None:
        """Waits until so many are in the queue again."""
        with suppress(TimeoutError):  # the others are there, even if somebody took one that we gave back
            async with asyncio.timeout(ANSWER):
                while await self._waiting() < number:  # noqa: ASYNC110 - the server tells nobody
                    await asyncio.sleep(_PAUSE)
