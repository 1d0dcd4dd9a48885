"""The bus of one process: queues in memory, for `refine()`, `redraft run` and tests.

Everything runs on one event loop: there are no threads and no locks, and a step between two `await`s is whole. Letters
live as long as the bus; what is lost with the process can be sent again from the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Final, Self

from redraft.events.bus import DELIVERY_LIMIT, Consumer, Depth, Letter, Parked, T, require_size
from redraft.events.errors import BusError
from redraft.events.local_queue import LocalConsumer, Parking, Queue, at_least_one

LARGEST: Final = 1024**3
"""Bytes of a letter's body at most, unless the bus is told otherwise."""


class LocalBus:
    """The bus of one process; all of it is used from one event loop.

    A queue comes to be when it is first named. `capacity` (letters, at least 1) bounds what waits in each queue. What
    consumers hold comes on top, at most their prefetch, and when it comes back it may take a queue above the capacity.
    Publishers that wait for room are served in the order in which they came; one that is cancelled has put the first of
    its letters, maybe none or all, and puts no more.

    A letter is delivered `delivery_limit` times (at least 1). When it comes back once more it is parked, before that it
    takes its old place in the queue. At most `capacity` letters are parked; none is dropped to make room, and waiting
    would never end: nobody empties the parking. So `reject` then raises BusError and the letter stays unsettled; if its
    consumer leaves, it goes back to its queue.

    A `shared` bus stands for a broker whose readers come and go: letters that were in a queue before its reader came
    have `waited`.

    Raises InputError for numbers below 1 (`prefetch` and `most` too), and BusError for every call after `close` or to a
    consumer whose context was left.
    """

    def __init__(
        self,
        *,
        capacity: int = 10_000,
        delivery_limit: int = DELIVERY_LIMIT,
        largest: int = LARGEST,
        shared: bool = False,
    ) -> None:
        self._shared = shared
        self.largest = at_least_one("largest", largest)
        self._capacity = at_least_one("capacity", capacity)
        self._parking = Parking(capacity, at_least_one("delivery_limit", delivery_limit))
        self._queues: dict[str, Queue] = {}
        self._tags = count(1)
        self._closed = False

    async def publish(self, queue: str, letters: Sequence[Letter]) -> None:
        """Puts letters in order, waiting for room. If the bus is closed meanwhile, only the first were put, or none."""
        place = self._named(queue)
        require_size(queue, letters, self.largest)
        publisher = place.offer(letters)
        if publisher is None:
            return
        try:
            await publisher.done
        except asyncio.CancelledError:
            place.withdraw(publisher)
            raise
        if publisher.rest:
            raise BusError(f"the bus was closed before {len(publisher.rest)} letters found room in {queue}")

    @asynccontextmanager
    async def consume(self, queue: str, prefetch: int) -> AsyncIterator[Consumer]:
        place = self._named(queue)
        consumer = LocalConsumer(place, self._parking, at_least_one("prefetch", prefetch), shared=self._shared)
        place.consumers.add(consumer)
        try:
            yield consumer
        finally:
            consumer.leave()

    async def parked(self, keep: Callable[[Parked], T]) -> Sequence[T]:
        """What `keep` makes of each letter that was set aside, oldest first."""
        self._require_open()
        return [keep(each) for each in self._parking.letters]

    async def retry(self, parked_id: str) -> bool:
        """Puts a parked letter into its queue again, waiting for room; it is parked again if that comes to nothing."""
        self._require_open()
        found = self._parking.take(parked_id)
        if found is None:
            return False
        place, parked = found
        try:
            await self.publish(parked.queue, [parked.letter])
        except BaseException:
            self._parking.letters.insert(place, parked)
            raise
        return True

    async def discard(self, parked_id: str) -> bool:
        """Takes a parked letter away for good."""
        self._require_open()
        return self._parking.take(parked_id) is not None

    async def queue(self, queue: str) -> Depth | None:
        """See `Queues`."""
        self._require_open()
        found = self._queues.get(queue)
        return Depth(len(found.ready), len(found.consumers)) if found else None

    async def retry_all(self) -> Sequence[str]:
        """Puts all that is parked now into its queues again."""
        return [each.id for each in tuple(self._parking.letters) if await self.retry(each.id)]

    async def discard_all(self) -> Sequence[str]:
        """Takes all that is parked now away for good."""
        return [each.id for each in tuple(self._parking.letters) if await self.discard(each.id)]

    async def close(self) -> None:
        """Ends the bus with all that is in it; everybody who waits gets BusError. Closing again does nothing."""
        self._closed = True
        for queue in self._queues.values():
            queue.close()

    async def __aenter__(self) -> Self:
        self._require_open()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    def _named(self, name: str) -> Queue:
        self._require_open()
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = Queue(name, self._capacity, self._tags)
        return queue

    def _require_open(self) -> None:
        if self._closed:
            raise BusError("the bus is closed")
