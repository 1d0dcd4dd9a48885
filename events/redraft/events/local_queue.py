"""The queues of the bus of one process, and what reads them. See `local_bus`."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from operator import attrgetter

from msgspec.structs import replace

from redraft.events.bus import Delivery, Letter, Parked
from redraft.events.errors import BusError, InputError

_by_tag = attrgetter("tag")


def at_least_one(what: str, number: int) -> int:
    """Returns the number. Raises InputError, which says what it is, when it is below 1."""
    if number < 1:
        raise InputError(f"{what} is {number}: it must be at least 1")
    return number


class Line:
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


class Publisher:
    """One who waits for room, with the letters that are not yet put."""

    __slots__ = ("done", "rest")

    def __init__(self, letters: Sequence[Letter]) -> None:
        self.rest = deque(letters)
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Queue:
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
        self.publishers: deque[Publisher] = deque()
        self.consumers: set[LocalConsumer] = set()
        self.idle = Line()
        self.closed = False

    def offer(self, letters: Sequence[Letter]) -> Publisher | None:
        """Puts all letters, or gives the publisher who waits in line until all are put."""
        publisher = None
        if len(self.ready) + len(letters) > self.capacity:
            publisher = Publisher(letters)
            self.publishers.append(publisher)
            self._admit()
        else:
            self._put(letters)
        if self.ready:
            self.idle.wake()
        return publisher

    def withdraw(self, publisher: Publisher) -> None:
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


class Parking:
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


class LocalConsumer:
    """Reads one queue; `_held` are its unsettled deliveries, `sated` its takes that wait until it may hold more.

    What has a tag up to `_before` was in a shared queue when it came.
    """

    __slots__ = ("_before", "_held", "_left", "_parking", "_prefetch", "_queue", "sated")

    def __init__(self, queue: Queue, parking: Parking, prefetch: int, *, shared: bool) -> None:
        self._queue = queue
        self._parking = parking
        self._prefetch = prefetch
        self._before = queue.ready[-1].tag if shared and queue.ready else 0
        self._held: dict[int, Delivery] = {}
        self._left = False
        self.sated = Line()

    async def take(self, most: int) -> Sequence[Delivery]:
        at_least_one("most", most)
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

    def ahead(self) -> Sequence[str]:
        """Nothing is sent ahead."""
        return ()

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
