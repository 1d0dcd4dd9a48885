"""The bus of one process: queues in memory, for `refine()`, `redraft run` and tests.

Everything runs on one event loop, without threads or locks: code between two `await`s is never interrupted. Messages
live as long as the bus; messages lost with the process can be sent again from the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from typing import Final, Self

from redraft.events.bus.local_queue import DeadLetterQueue, LocalConsumer, Queue
from redraft.events.bus.port import (
    DELIVERY_LIMIT,
    BusMessage,
    Consumer,
    DeadLetter,
    Delivery,
    Depth,
    T,
    is_inbox,
    require_at_least_one,
    require_size,
)
from redraft.events.errors import BusError

LARGEST: Final = 1024**3
"""The default limit for a message's body, in bytes."""


class LocalBus:
    """The bus of one process; all of it is used from one event loop.

    A queue is created when it is first named. At most `capacity` messages wait in it, besides those that consumers give
    back. Publishers that wait for room are served in the order in which they arrived. A cancelled publisher has put the
    first of its messages, perhaps none or all, and puts no more.

    A message is delivered at most `delivery_limit` times. Until then a returned message goes back to its old place in
    the queue; after that it becomes a dead letter. The bus keeps at most `capacity` dead letters and drops none: when
    there is no room, `reject` raises NoRoom, and the message stays unsettled.

    In a `shared` bus, messages that were in a queue before its reader arrived have `waited`. Raises InputError for
    numbers below 1, and BusError for every call after `close` or to a consumer whose context was left.
    """

    def __init__(
        self,
        *,
        capacity: int = 10_000,
        delivery_limit: int = DELIVERY_LIMIT,
        largest: int = LARGEST,
        largest_request: int | None = None,
        shared: bool = False,
    ) -> None:
        self._shared = shared
        self.largest = require_at_least_one("largest", largest)
        self.largest_request = require_at_least_one("largest_request", largest_request or largest)
        self._capacity = require_at_least_one("capacity", capacity)
        self._dead_letters = DeadLetterQueue(capacity, require_at_least_one("delivery_limit", delivery_limit))
        self._queues: dict[str, Queue] = {}
        self._tags = count(1)
        self._closed = False

    async def publish(self, queue: str, bus_messages: Sequence[BusMessage]) -> None:
        """Puts messages in order, waiting for room.

        Raises BusError if the bus is closed meanwhile: then only the first messages were put, or none.
        """
        place = self._open_queue(queue)
        require_size(queue, bus_messages, self.largest if is_inbox(queue) else self.largest_request)
        publisher = place.offer(bus_messages)
        if publisher is None:
            return
        try:
            await publisher.done
        except asyncio.CancelledError:
            place.remove(publisher)
            raise
        if publisher.rest:
            raise BusError(f"the bus was closed before {len(publisher.rest)} messages found room in {queue}")

    def offer(self, queue: str, bus_messages: Sequence[BusMessage]) -> bool:
        """Puts messages in order if there is room for all of them now; returns False, having put none, if there is not.

        Raises what `publish` raises.
        """
        place = self._open_queue(queue)
        require_size(queue, bus_messages, self.largest if is_inbox(queue) else self.largest_request)
        if not place.has_room(len(bus_messages)):
            return False
        place.offer(bus_messages)
        return True

    @contextmanager
    def noticing(self, queue: str, message: str) -> Iterator[asyncio.Event]:
        """Yields what is set once the message of this id, put within the block, is acknowledged by its consumer."""
        noticed = self._open_queue(queue).noticed
        event = noticed[message] = asyncio.Event()
        try:
            yield event
        finally:
            del noticed[message]

    @asynccontextmanager
    async def consume(self, queue: str, prefetch: int) -> AsyncIterator[Consumer]:
        place = self._open_queue(queue)
        consumer = LocalConsumer(
            place, self._dead_letters, require_at_least_one("prefetch", prefetch), shared=self._shared
        )
        place.consumers.add(consumer)
        try:
            yield consumer
        finally:
            consumer.leave()

    async def dead_letters(self, keep: Callable[[DeadLetter], T]) -> Sequence[T]:
        """Returns `keep(dead_letter)` for each dead letter, oldest first."""
        self._require_open()
        return [keep(each) for each in self._dead_letters.bus_messages]

    async def retry(self, dead_letter_id: str) -> bool:
        """Puts a dead letter back into its queue, waiting for room. If that fails, it stays a dead letter."""
        self._require_open()
        found = self._dead_letters.take(dead_letter_id)
        if found is None:
            return False
        place, dead_letter = found
        try:
            await self.publish(dead_letter.queue, [dead_letter.bus_message])
        except BaseException:
            self._dead_letters.bus_messages.insert(place, dead_letter)
            raise
        return True

    async def discard(self, dead_letter_id: str) -> bool:
        """Deletes a dead letter."""
        self._require_open()
        return self._dead_letters.take(dead_letter_id) is not None

    async def queue(self, queue: str) -> Depth | None:
        """Implements `Queues.queue`."""
        self._require_open()
        found = self._queues.get(queue)
        return Depth(len(found.ready), len(found.consumers)) if found else None

    async def retry_all(self) -> Sequence[str]:
        """Puts all present dead letters back into their queues, and returns their ids."""
        return [each.id for each in tuple(self._dead_letters.bus_messages) if await self.retry(each.id)]

    async def discard_all(self) -> Sequence[str]:
        """Deletes all present dead letters, and returns their ids."""
        return [each.id for each in tuple(self._dead_letters.bus_messages) if await self.discard(each.id)]

    def drop(self, is_lost: Callable[[str], bool]) -> Sequence[Delivery]:
        """Drops the messages that wait in queues of these names, as a broker does that had them in memory alone.

        Returns them.
        """
        lost = [queue for name, queue in self._queues.items() if is_lost(name)]
        return [delivery for queue in lost for delivery in queue.pop(len(queue.ready))]

    async def close(self) -> None:
        """Ends the bus and drops its messages; every waiting call raises BusError. Closing again does nothing."""
        self._closed = True
        for queue in self._queues.values():
            queue.close()

    async def __aenter__(self) -> Self:
        self._require_open()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    def _open_queue(self, name: str) -> Queue:
        self._require_open()
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = Queue(name, self._capacity, self._tags)
        return queue

    def _require_open(self) -> None:
        if self._closed:
            raise BusError("the bus is closed")
