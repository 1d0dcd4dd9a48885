"""The bus of one process: queues in memory, for `refine()`, `redraft run` and tests.

Everything runs on one event loop: there are no threads and no locks, and a step between two `await`s is whole. Letters
live as long as the bus; what is lost with the process can be sent again from the log.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count
from operator import attrgetter
from typing import Final, Self

from msgspec.structs import replace

from redraft.events.bus import DELIVERY_LIMIT, Consumer, Delivery, Depth, Letter, Parked, T, require_size
from redraft.events.errors import BusError, InputError

_by_tag = attrgetter("tag")


LARGEST: Final = 1024**3
"""Bytes of a letter's body at most, unless the bus is told otherwise."""


def _at_least_one(what: str, number: int) -> int:
    if number < 1:
        raise InputError(f"{what} is {number}: it must be at least 1")
    return number


class _Line:
    """Those who wait for a turn, first come first served."""

    __slots__ = ("_turns",)

    def __init__(self) -> None:
        self._turns: deque[asyncio.Future[None]] = deque()

    async def wait(self) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._turns.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                with suppress(ValueError):
                    self._turns.remove(turn)
            else:  # the turn was given to one who cannot use it any more
                self.wake()
            raise

    def wake(self) -> None:
        while self._turns:
            turn = self._turns.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    def wake_all(self) -> None:
        while self._turns:
            self.wake()


class _Publisher:
    """One who waits for room, with the letters that are not yet put."""

    __slots__ = ("done", "rest")

    def __init__(self, letters: Sequence[Letter]) -> None:
        self.rest = deque(letters)
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class _Queue:
    """The letters that wait under one name, ordered by tag: a letter keeps the tag that it was put with.

    Two things always hold: a publisher waits only while `ready` is full; and while `ready` has a letter and somebody is
    idle, somebody has been woken who has not run yet.
    """

    __slots__ = ("capacity", "closed", "consumers", "idle", "name", "publishers", "ready", "tags")

    def __init__(self, name: str, capacity: int, tags: Iterator[int]) -> None:
        self.name = name
        self.capacity = capacity
        self.tags = tags
        self.ready: deque[Delivery] = deque()
        self.publishers: deque[_Publisher] = deque()
        self.consumers: set[_LocalConsumer] = set()
        self.idle = _Line()
        self.closed = False

    def offer(self, letters: Sequence[Letter]) -> _Publisher | None:
        """Puts all letters, or gives the publisher who waits in line until all are put."""
        publisher = None
        if len(self.ready) + len(letters) > self.capacity:
            publisher = _Publisher(letters)
            self.publishers.append(publisher)
            self._admit()
        else:
            self._put(letters)
        if self.ready:
            self.idle.wake()
        return publisher

    def withdraw(self, publisher: _Publisher) -> None:
        with suppress(ValueError):  # it may have put its last letter while it was being cancelled
            self.publishers.remove(publisher)

    def pop(self, most: int) -> list[Delivery]:
        ready = self.ready
        taken = [ready.popleft() for _ in range(min(most, len(ready)))]
        if self.publishers:
            self._admit()
        if ready:
            self.idle.wake()
        return taken

    def give_back(self, delivery: Delivery) -> None:
        again = Delivery(delivery.letter, delivery.queue, delivery.tag, delivery.count + 1)
        self.ready.insert(bisect_left(self.ready, again.tag, key=_by_tag), again)
        self.idle.wake()

    def close(self) -> None:
        self.closed = True
        self.idle.wake_all()
        for consumer in self.consumers:
            consumer.sated.wake_all()
        for publisher in self.publishers:
            if not publisher.done.done():
                publisher.done.set_result(None)

    def _put(self, letters: Iterable[Letter]) -> None:
        name, tags = self.name, self.tags
        self.ready.extend([Delivery(letter, name, next(tags), 1) for letter in letters])

    def _admit(self) -> None:
        while self.publishers and (room := self.capacity - len(self.ready)) > 0:
            publisher = self.publishers[0]
            if not publisher.done.done():  # otherwise it was cancelled, and puts nothing more
                rest = publisher.rest
                self._put([rest.popleft() for _ in range(min(room, len(rest)))])
                if rest:
                    return
                publisher.done.set_result(None)
            self.publishers.popleft()


class _Parking:
    """What was set aside. It holds `capacity` letters and refuses more: nothing is dropped to make room."""

    __slots__ = ("capacity", "letters", "limit")

    def __init__(self, capacity: int, limit: int) -> None:
        self.capacity = capacity
        self.limit = limit
        self.letters: list[Parked] = []

    def put(self, delivery: Delivery, reason: str) -> None:
        if self.is_full():
            raise BusError(
                f"cannot park {delivery.letter.name} from {delivery.queue} ({reason}): {self.capacity} letters are "
                "parked already, the capacity of the bus; mend what made them fail, then start again"
            )
        self.letters.append(Parked(str(delivery.tag), delivery.letter, delivery.queue, reason))

    def take(self, parked_id: str) -> tuple[int, Parked] | None:
        """A parked letter with its place, taken out."""
        for place, parked in enumerate(self.letters):
            if parked.id == parked_id:
                return place, self.letters.pop(place)
        return None

    def is_full(self) -> bool:
        return len(self.letters) >= self.capacity

    def is_due(self, delivery: Delivery) -> bool:
        return delivery.count >= self.limit


class _LocalConsumer:
    """`_held` are its unsettled deliveries, `sated` its takes that wait until it may hold more.

    What has a tag up to `_before` was in a shared queue when it came.
    """

    __slots__ = ("_before", "_held", "_left", "_parking", "_prefetch", "_queue", "sated")

    def __init__(self, queue: _Queue, parking: _Parking, prefetch: int, *, shared: bool) -> None:
        self._queue = queue
        self._parking = parking
        self._prefetch = prefetch
        self._before = queue.ready[-1].tag if shared and queue.ready else 0
        self._held: dict[int, Delivery] = {}
        self._left = False
        self.sated = _Line()

    async def take(self, most: int) -> Sequence[Delivery]:
        _at_least_one("most", most)
        queue, held = self._queue, self._held
        self._require_presence()
        while (room := min(most, self._prefetch - len(held))) < 1 or not queue.ready:
            if room > 0:
                await queue.idle.wait()
            else:
                if queue.ready:  # our turn, if we were given one, is for somebody who can use it
                    queue.idle.wake()
                await self.sated.wait()
            self._require_presence()
        taken = queue.pop(room)
        if self._before and taken[0].tag <= self._before:
            taken = [replace(each, waited=True) if each.tag <= self._before else each for each in taken]
        for delivery in taken:
            held[delivery.tag] = delivery
        return taken

    async def ack(self, deliveries: Sequence[Delivery]) -> None:
        self._require_presence()
        for delivery in deliveries:
            if self._holds(delivery):
                del self._held[delivery.tag]
        self.sated.wake_all()

    async def reject(self, delivery: Delivery, *, requeue: bool, reason: str = "") -> None:
        self._require_presence()
        if not self._holds(delivery):
            return
        if not requeue:
            self._parking.put(delivery, reason or "rejected")
        elif self._parking.is_due(delivery):
            self._parking.put(delivery, f"delivered {delivery.count} times, the last time: {reason or 'rejected'}")
        else:
            self._queue.give_back(delivery)
        del self._held[delivery.tag]
        self.sated.wake_all()

    def leave(self) -> None:
        """Gives back what is not settled. What is due to be parked and finds no room there stays in its queue."""
        self._left = True
        self._queue.consumers.discard(self)
        for delivery in self._held.values():
            self._give_up(delivery)
        self._held.clear()
        self.sated.wake_all()
        self._queue.idle.wake_all()  # ours among them, to see that we left

    def _give_up(self, delivery: Delivery) -> None:
        if self._parking.is_due(delivery) and not self._parking.is_full():
            reason = f"delivered {delivery.count} times, the last time: its consumer left before it was settled"
            self._parking.put(delivery, reason)
        else:
            self._queue.give_back(delivery)

    def _holds(self, delivery: Delivery) -> bool:
        held = self._held.get(delivery.tag)
        return held is not None and held.count == delivery.count

    def _require_presence(self) -> None:
        if self._queue.closed:
            raise BusError("the bus is closed")
        if self._left:
            raise BusError(f"this consumer has left {self._queue.name}; what it had not settled is delivered again")


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

    A `shared` one stands for a broker whose readers come and go: what was in a queue before its reader has `waited`.

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
        self.largest = _at_least_one("largest", largest)
        self._capacity = _at_least_one("capacity", capacity)
        self._parking = _Parking(capacity, _at_least_one("delivery_limit", delivery_limit))
        self._queues: dict[str, _Queue] = {}
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
        consumer = _LocalConsumer(place, self._parking, _at_least_one("prefetch", prefetch), shared=self._shared)
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

    def _named(self, name: str) -> _Queue:
        self._require_open()
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = _Queue(name, self._capacity, self._tags)
        return queue

    def _require_open(self) -> None:
        if self._closed:
            raise BusError("the bus is closed")
