"""A look at all that waits in a queue: everything is taken, and given back in its order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Final, TypeVar

from aiormq import Channel
from aiormq.abc import DeliveredMessage

from redraft.events.rabbit_link import ANSWER, answer, tell

_T = TypeVar("_T")

_MOST: Final = 65_535
_PAUSE: Final = 0.005

_TOGETHER: Final = 32
"""How many messages are given back at once: a quorum queue of 3.10 mixes up the order of more."""

_UNSEEN: Final = 16
"""How often some are given back before a look whether they arrived: RabbitMQ gathers what comes faster into one."""


class Look:
    """`waiting` counts what is in the queue, without what is taken. Nobody else may read from the queue meanwhile.

    What is taken stays with the server until it is settled; here is kept only what is made of each message.
    """

    def __init__(self, channel: Channel, queue: str, waiting: Callable[[], Awaitable[int]]) -> None:
        self._channel = channel
        self._queue = queue
        self._waiting = waiting
        self._pages: list[list[int]] = []
        self._taken: set[int | None] = set()

    async def all(self, keep: Callable[[DeliveredMessage], _T]) -> list[_T]:
        """What `keep` makes of each message that waits now, oldest first.

        `keep` is called with one message after the other as they arrive; what it raises is raised here.
        """
        found: list[_T] = []
        left = await self._waiting()
        while len(found) < left:
            found += await self.next(keep, min(left - len(found), _MOST))
        return found

    async def next(self, keep: Callable[[DeliveredMessage], _T], wanted: int) -> list[_T]:
        """What `keep` makes of each of the next messages, so many (at least 1, at most 65,535).

        The consumer is gone when this returns, and brings no more when some are settled.
        """
        found: list[_T] = []
        tags: list[int] = []
        arrived = asyncio.Event()
        faults: list[Exception] = []

        async def deliver(message: DeliveredMessage) -> None:
            tags.append(message.delivery_tag or 0)
            try:
                found.append(keep(message))
            except Exception as error:  # noqa: BLE001 - the client would only log it
                faults.append(error)
            arrived.set()

        self._pages.append(tags)
        await answer(self._channel.basic_qos(prefetch_count=wanted))
        consuming = self._channel.basic_consume(self._queue, deliver)
        consumer = (await answer(consuming)).consumer_tag or ""
        while len(tags) < wanted:
            arrived.clear()
            await answer(arrived.wait())
        await answer(self._channel.basic_cancel(consumer))
        if faults:
            raise faults[0]
        return found

    async def take(self, tag: int | None) -> None:
        """Takes the message with this delivery tag for good."""
        await tell(self._channel.basic_ack(tag or 0, wait=False))
        self._taken.add(tag)

    async def end(self) -> None:
        """Gives back what was not taken, and waits until it is to be seen again."""
        if not self._pages:
            return
        arrived = await self._waiting()
        for number, given in enumerate(self._left(), start=1):
            await tell(self._channel.basic_nack(given[-1], multiple=True, wait=False))
            arrived += len(given)
            if number % _UNSEEN == 0:
                await self._seen(arrived)
        await self._seen(arrived)
        self._pages.clear()

    def _left(self) -> Iterator[list[int]]:
        """The tags of what was not taken, oldest first, in groups to be given back at once: of one consumer each."""
        for page in self._pages:
            left = [tag for tag in page if tag not in self._taken]
            yield from (left[start : start + _TOGETHER] for start in range(0, len(left), _TOGETHER))

    async def _seen(self, number: int) -> None:
        """Waits until so many are in the queue again."""
        with suppress(TimeoutError):  # the others are there, even if somebody took one that we gave back
            async with asyncio.timeout(ANSWER):
                while await self._waiting() < number:  # noqa: ASYNC110 - the server tells nobody
                    await asyncio.sleep(_PAUSE)
