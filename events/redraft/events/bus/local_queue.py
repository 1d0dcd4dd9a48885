"""The queues of the bus of one process, its dead letters, and its consumers. See `bus.local`."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from operator import attrgetter

from msgspec.structs import replace

from redraft.events.bus.port import BusMessage, DeadLetter, Delivery, is_inbox, require_at_least_one
from redraft.events.errors import BusError, NoRoom

_by_tag = attrgetter("tag")


class Line:
    """Tasks that wait for a turn, first come first served."""

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
            else:  # the turn was given to a cancelled task: pass it on
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
    """A publisher that waits for room; `rest` holds the messages that are not yet put."""

    def __init__(self, bus_messages: Sequence[BusMessage]) -> None:
        self.rest = deque(bus_messages)
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Queue:
    """The messages that wait under one name, ordered by tag. A message keeps the tag that it got when it was put.

    `noticed` has what is set once the message of an id is acknowledged.

    Two invariants: a publisher waits only while `ready` is full; and while `ready` has a message and a consumer is
    idle, some consumer has been woken that has not run yet.
    """

    def __init__(self, name: str, capacity: int, tags: Iterator[int]) -> None:
        self.name = name
        self.capacity = capacity
        self.tags = tags
        self.ready: deque[Delivery] = deque()
        self.publishers: deque[Publisher] = deque()
        self.consumers: set[LocalConsumer] = set()
        self.idle = Line()
        self.noticed: dict[str, asyncio.Event] = {}
        self.closed = False

    def offer(self, bus_messages: Sequence[BusMessage]) -> Publisher | None:
        """Puts all messages and returns None, or returns the publisher that waits until all are put."""
        publisher = None
        if self.has_room(len(bus_messages)):
            self._put(bus_messages)
        else:
            publisher = Publisher(bus_messages)
            self.publishers.append(publisher)
            self._admit()
        if self.ready:
            self.idle.wake()
        return publisher

    def has_room(self, number: int) -> bool:
        """Returns whether so many messages could be put without waiting."""
        return len(self.ready) + number <= self.capacity

    def remove(self, publisher: Publisher) -> None:
        with suppress(ValueError):  # it may have put its last message while it was being cancelled
            self.publishers.remove(publisher)

    def pop(self, limit: int) -> list[Delivery]:
        ready = self.ready
        taken = [ready.popleft() for _ in range(min(limit, len(ready)))]
        if self.publishers:
            self._admit()
        if ready:
            self.idle.wake()
        return taken

    def give_back(self, delivery: Delivery) -> None:
        again = Delivery(delivery.bus_message, delivery.queue, delivery.tag, delivery.count + 1)
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

    def _put(self, bus_messages: Iterable[BusMessage]) -> None:
        name, tags = self.name, self.tags
        self.ready.extend([Delivery(bus_message, name, next(tags), 1) for bus_message in bus_messages])

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


class DeadLetterQueue:
    """The dead letters of a bus. It holds `capacity` messages and refuses more: none is dropped to make room."""

    def __init__(self, capacity: int, limit: int) -> None:
        self.capacity = capacity
        self.limit = limit
        self.bus_messages: list[DeadLetter] = []

    def put(self, delivery: Delivery, reason: str) -> None:
        if self.is_full():
            raise NoRoom(
                f"cannot keep {delivery.bus_message.name} from {delivery.queue} as a dead letter ({reason}): there are "
                f"{self.capacity} already, the capacity of the bus; fix the cause of these failures, then start again"
            )
        self.bus_messages.append(DeadLetter(str(delivery.tag), delivery.bus_message, delivery.queue, reason))

    def take(self, dead_letter_id: str) -> tuple[int, DeadLetter] | None:
        """Removes a dead letter, and returns its index and itself; None when there is none of this id."""
        for place, dead_letter in enumerate(self.bus_messages):
            if dead_letter.id == dead_letter_id:
                return place, self.bus_messages.pop(place)
        return None

    def is_full(self) -> bool:
        return len(self.bus_messages) >= self.capacity

    def is_due(self, delivery: Delivery) -> bool:
        return delivery.count >= self.limit


class LocalConsumer:
    """Reads one queue. `_held` are its unsettled deliveries; `sated` wakes `take` calls when it may hold more.

    Messages with a tag up to `_before` were in a shared queue before this consumer arrived.
    """

    def __init__(self, queue: Queue, parking: DeadLetterQueue, prefetch: int, *, shared: bool) -> None:
        self._queue = queue
        self._dead_letters = parking
        self._prefetch = prefetch
        self._before = queue.ready[-1].tag if shared and queue.ready else 0
        self._held: dict[int, Delivery] = {}
        self._left = False
        self.sated = Line()

    async def take(self, limit: int) -> Sequence[Delivery]:
        require_at_least_one("limit", limit)
        queue, held = self._queue, self._held
        self._require_presence()
        while (room := min(limit, self._prefetch - len(held))) < 1 or not queue.ready:
            if room > 0:
                await queue.idle.wait()
            else:
                if queue.ready:  # if we were given a turn, pass it on to a consumer that can use it
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
        """Returns (): this bus sends nothing ahead."""
        return ()

    async def ack(self, deliveries: Sequence[Delivery]) -> None:
        self._require_presence()
        held, noticed = self._held, self._queue.noticed
        for delivery in deliveries:
            found = held.get(delivery.tag)
            if found is not None and found.count == delivery.count:  # as `_holds`
                del held[delivery.tag]
                if noticed and (event := noticed.get(delivery.bus_message.origin.id)):
                    event.set()
        self.sated.wake_all()

    async def reject(self, delivery: Delivery, *, requeue: bool, reason: str = "") -> None:
        self._require_presence()
        if not self._holds(delivery):
            return
        if not requeue:
            self._dead_letters.put(delivery, reason or "rejected")
        elif self._dead_letters.is_due(delivery):
            self._dead_letters.put(delivery, f"delivered {delivery.count} times, the last time: {reason or 'rejected'}")
        else:
            self._queue.give_back(delivery)
        del self._held[delivery.tag]
        self.sated.wake_all()

    def leave(self) -> None:
        """Gives back every unsettled message, also one that is due to become a dead letter but finds no room.

        Those of the inbox are never due here: a coordinator leaves it because the store is away, which is no fault of
        what people and workers have sent meanwhile, and nothing else has kept.
        """
        self._left = True
        self._queue.consumers.discard(self)
        for delivery in self._held.values():
            self._give_up(delivery)
        self._held.clear()
        self.sated.wake_all()
        self._queue.idle.wake_all()  # our own `take` calls among them, which then see that we left

    def _give_up(self, delivery: Delivery) -> None:
        is_due = self._dead_letters.is_due(delivery) and not is_inbox(delivery.queue)
        if is_due and not self._dead_letters.is_full():
            reason = f"delivered {delivery.count} times, the last time: its consumer left before it was settled"
            self._dead_letters.put(delivery, reason)
        else:
            self._queue.give_back(delivery)

    def _holds(self, delivery: Delivery) -> bool:
        held = self._held.get(delivery.tag)
        return held is not None and held.count == delivery.count

    def _require_presence(self) -> None:
        if self._queue.closed:
            raise BusError("the bus is closed")
        if self._left:
            raise BusError(f"this consumer has left {self._queue.name}; its unsettled messages are delivered again")
