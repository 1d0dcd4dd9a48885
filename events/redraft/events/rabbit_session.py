"""One channel that reads a queue: what it was sent and has not settled. It ends with its channel."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Final

from aiormq import Channel
from aiormq.abc import DeliveredMessage

from redraft.events.rabbit_link import LOST, answer, let_go, tell

HOLD: Final = 0.05
"""Seconds for which acknowledgements wait for the server to send as much as it may, before that is changed."""

_READER: Final = "redraft"
"""How the tag of a consumer on the channel begins. Each has a number of its own, or RabbitMQ 3.10 mixes them up."""


class Session:
    """Acknowledgements are collected, and sent together when `send_soon` is called.

    How much is sent ahead can be changed for a new reader alone, and a quorum queue takes back what is on its way to
    one that has gone, and counts it as delivered. So more is asked for when nothing can be on its way, since all that
    the server may send has come; less is asked for at once, and read on when the queue has what it took back.
    """

    def __init__(self, channel: Channel) -> None:
        self.ended = False
        self._channel = channel
        self._open: dict[int, int] = {}
        self._settled: set[int] = set()
        self._due = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._prefetch = 0
        self._wanted = 0
        self._readers = 0
        self._unsettled_by_reader: Counter[int] = Counter()
        channel.closing.add_done_callback(lambda _: self.end())

    async def read(self, queue: str, prefetch: int, arrived: Callable[[DeliveredMessage], None]) -> None:
        """Asks for what is in a queue; each message is handed to `arrived` in order."""
        self._queue, self._arrived = queue, arrived
        self._channel.on_consumer_cancel_callbacks.add(lambda _: self.end())
        await self._consume(prefetch)

    async def _consume(self, prefetch: int) -> None:
        self._readers += 1
        self._prefetch = prefetch
        await answer(self._channel.basic_qos(prefetch_count=prefetch))
        await answer(self._channel.basic_consume(self._queue, self._deliver, consumer_tag=self._tag))

    async def _deliver(self, message: DeliveredMessage) -> None:
        reader = int((message.consumer_tag or self._tag).rpartition(".")[2])
        self._open[tag_of(message)] = reader
        self._unsettled_by_reader[reader] += 1
        self._arrived(message)
        if self._wanted and self._may_change:
            self._due.set()

    def resize(self, prefetch: int) -> None:
        """Has so many messages sent ahead, fewer at once, more as soon as that can be; what was sent before stays."""
        self._wanted = prefetch
        if self._may_change:
            self._due.set()

    @property
    def _may_change(self) -> bool:
        """Whether fewer messages are wanted, or all have come that the server may send, so that none is on its way."""
        return self._wanted < self._prefetch or self._unsettled_by_reader[self._readers] >= self._prefetch

    def settle(self, message: DeliveredMessage) -> None:
        self._settled.add(tag_of(message))

    @property
    def _tag(self) -> str:
        return f"{_READER}.{self._readers}"

    @property
    def unsettled(self) -> int:
        """How many messages the server has sent and holds for settled by nobody."""
        return len(self._open)

    def send_soon(self) -> None:
        if self._wanted and not self._may_change:
            self.send_after(HOLD)
        elif self._settled:
            self._due.set()

    def send_after(self, seconds: float) -> None:
        """Has sent what is settled by then; the first call counts."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._now)

    def _now(self) -> None:
        self._timer = None
        if self._settled:
            self._due.set()

    def end(self) -> None:
        self.ended = True
        self._due.set()

    async def serve(self) -> None:
        """Sends what is settled, each time that it is due, until the session ends."""
        try:
            while not self.ended:
                await self._due.wait()
                self._due.clear()
                if self._wanted and self._may_change and not self.ended:
                    prefetch, self._wanted = self._wanted, 0
                    await answer(self._channel.basic_cancel(self._tag))
                    await answer(self._channel.queue_declare(self._queue, passive=True))
                    await self._consume(prefetch)
                await self._send()
        except LOST:
            self.end()

    async def give_back(self, message: DeliveredMessage) -> None:
        """To be delivered again, counted. (`basic.reject` is counted by every version, `basic.nack` not by 4.3.)"""
        await tell(self._channel.basic_reject(tag_of(message), requeue=True, wait=False))
        self._close(tag_of(message))

    async def dead_letter(self, message: DeliveredMessage) -> None:
        """Has the server set it aside by itself."""
        await tell(self._channel.basic_reject(tag_of(message), requeue=False, wait=False))
        self._close(tag_of(message))

    async def stop(self) -> None:
        """Asks for nothing more. What arrived by now is still to be settled."""
        if not self.ended:
            await answer(self._channel.basic_cancel(self._tag))

    async def leave(self, held: set[int]) -> None:
        """Sends what is settled and gives back the rest in its order. What was not `held` is not counted, by 4.3."""
        try:
            if not self.ended:
                await self._send()
                for tag in list(self._open):
                    back = self._channel.basic_reject if tag in held else self._channel.basic_nack
                    await tell(back(tag, requeue=True, wait=False))
        finally:
            await let_go(self._channel)

    async def _send(self) -> None:
        """Settles at once all that was delivered before what is still open, and the others one by one."""
        together = list(takewhile(self._settled.__contains__, self._open))
        if together:
            await self._ack(together[-1], together)
        for tag in sorted(self._settled):
            await self._ack(tag, [tag])

    async def _ack(self, tag: int, tags: Sequence[int]) -> None:
        """Settles `tags`, which are all that is open up to `tag`, or that one."""
        await tell(self._channel.basic_ack(tag, multiple=len(tags) > 1, wait=False))
        self._settled.difference_update(tags)
        for settled in tags:
            self._close(settled)

    def _close(self, tag: int) -> None:
        reader = self._open.pop(tag, None)
        if reader is not None:
            self._unsettled_by_reader[reader] -= 1


def tag_of(message: DeliveredMessage) -> int:
    return message.delivery_tag or 0
