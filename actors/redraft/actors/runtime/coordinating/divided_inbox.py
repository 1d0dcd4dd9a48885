"""One reader of several queues, for a coordinator: the inbox, and the partitions of it that are its share."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from typing import Final

from msgspec.structs import replace

from redraft.actors.runtime.relaying.queue_publisher import AGAIN, OnTrouble, UnusableQueues
from redraft.actors.values import ignore
from redraft.events.bus.port import Bus, Consumer, Delivery
from redraft.events.errors import BusUnusable
from redraft.events.messages.memory import memory_decoded

PAGE: Final = 64
"""The number of messages that are taken from one queue before those of others."""

TAKEN_BYTES: Final = 4 * 1024 * 1024
"""The memory of the messages, decoded, that one `take` returns, unless a single message has more."""

PATIENCE: Final = 10.0
"""Seconds for which a queue that is given up waits until what was taken from it is settled."""


class _Part:
    """One of the queues: its consumer, and how many of its messages are here and not settled."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.unsettled = 0
        self.untaken = 0
        self.changed = asyncio.Event()

    def settle(self, number: int) -> None:
        self.unsettled -= number
        self.changed.set()


class DividedInbox:
    """Reads the queues that are open, as one `Consumer`. A message has another tag here than with its own consumer."""

    def __init__(self, bus: Bus, on_trouble: OnTrouble = ignore) -> None:
        self._bus = bus
        self._unusable = UnusableQueues(on_trouble)
        self._tags = count(1)
        self._ready: deque[tuple[_Part, Delivery]] = deque()
        self._held: dict[int, tuple[_Part, Delivery]] = {}
        self._changed = asyncio.Event()
        self._parts: set[_Part] = set()

    async def serve(self, queue: str, prefetch: int, closing: asyncio.Event) -> None:
        """Reads a queue until `closing` is set, and what was taken from it is settled. Raises BusError.

        Tries again every `AGAIN` seconds while the queue is there with other settings.
        """
        while not closing.is_set():
            try:
                await self._serve(queue, prefetch, closing)
            except BusUnusable as error:
                self._unusable.block(queue, str(error))
                with suppress(TimeoutError):
                    async with asyncio.timeout(AGAIN):
                        await closing.wait()

    async def _serve(self, queue: str, prefetch: int, closing: asyncio.Event) -> None:
        async with self._bus.consume(queue, prefetch) as consumer:
            part = _Part(consumer)
            self._parts.add(part)
            try:
                reading = asyncio.create_task(self._read(part))
                closed = asyncio.create_task(closing.wait())
                try:
                    await asyncio.wait([reading, closed], return_when=asyncio.FIRST_COMPLETED)
                finally:
                    reading.cancel()
                    closed.cancel()
                    await asyncio.wait([reading, closed])
                if not reading.cancelled():
                    reading.result()
                await _wait_settled(part)
            finally:
                self._parts.discard(part)
                self._ready = deque(each for each in self._ready if each[0] is not part)

    async def _read(self, part: _Part) -> None:
        """Takes messages from a queue, page by page: the next when all of the one before are taken from here."""
        while True:
            page = await part.consumer.take(PAGE)
            self._unusable.free(page[0].queue)
            part.unsettled += len(page)
            part.untaken = len(page)
            self._ready += [(part, delivery) for delivery in page]
            self._changed.set()
            while part.untaken:
                part.changed.clear()
                await part.changed.wait()

    async def take(self, limit: int) -> Sequence[Delivery]:
        """Waits for a message, then returns those that wait, up to `limit`."""
        while not self._ready:
            self._changed.clear()
            await self._changed.wait()
        taken: list[Delivery] = []
        size = 0
        while self._ready and len(taken) < limit and size < TAKEN_BYTES:
            part, delivery = self._ready.popleft()
            tag = next(self._tags)
            self._held[tag] = part, delivery
            taken.append(replace(delivery, tag=tag))
            size += memory_decoded(delivery.bus_message.body)
            part.untaken -= 1
            if not part.untaken:
                part.changed.set()
        return taken

    def ahead(self) -> Sequence[str]:
        """Returns the ids of messages that have arrived and are not taken yet."""
        here = [delivery.bus_message.origin.id for _, delivery in self._ready]
        return [*here, *(each for part in self._parts for each in part.consumer.ahead())]

    async def ack(self, deliveries: Sequence[Delivery]) -> None:
        """Acknowledges messages. Those of a queue that was left meanwhile are delivered again, to its next reader."""
        settled: dict[_Part, list[Delivery]] = {}
        for delivery in deliveries:
            if found := self._held.pop(delivery.tag, None):
                settled.setdefault(found[0], []).append(found[1])
        for part, theirs in settled.items():
            if part in self._parts:
                await part.consumer.ack(theirs)
            part.settle(len(theirs))

    async def reject(self, delivery: Delivery, *, requeue: bool, reason: str = "") -> None:
        """Gives a message back."""
        found = self._held.get(delivery.tag)
        if found is None:
            return
        part, theirs = found
        if part in self._parts:
            await part.consumer.reject(theirs, requeue=requeue, reason=reason)
        del self._held[delivery.tag]
        part.settle(1)


async def _wait_settled(part: _Part) -> None:
    try:
        async with asyncio.timeout(PATIENCE):
            while part.unsettled:
                part.changed.clear()
                await part.changed.wait()
    except TimeoutError:
        return
