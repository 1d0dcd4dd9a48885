"""The bus of many machines: RabbitMQ, by aio-pika. What lies where is in `rabbit_topology`, how messages look in
`rabbit_letters`.

A letter is safe once `publish` returns: its queue has confirmed it. Every letter arrives at least once; one that was
sent again, because nothing was heard of the first time, arrives with a `count` above 1. Letters of one `publish` keep
their order unless something failed in between.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from random import randrange
from typing import Final, Self
from uuid import uuid4

from redraft.events.bus import DELIVERY_LIMIT, INBOX, LARGEST_LETTER, Consumer, Letter, Parked, require_size
from redraft.events.envelope import Recorded
from redraft.events.errors import InputError, NotAllowed, TooLarge
from redraft.events.filters import EVERYTHING, About, EventFilter
from redraft.events.rabbit_address import Address, read_address
from redraft.events.rabbit_bundle import BATCH, bundled, write_bundle
from redraft.events.rabbit_consumer import RabbitConsumer
from redraft.events.rabbit_held import Held
from redraft.events.rabbit_letters import DELIVERED, letter_headers
from redraft.events.rabbit_lifetime import Lifetime
from redraft.events.rabbit_link import HEARTBEAT, Link, answer, let_go
from redraft.events.rabbit_overheard import Cancellations, Notes
from redraft.events.rabbit_parking import Parking, T
from redraft.events.rabbit_publisher import Place, Publisher
from redraft.events.rabbit_returns import Return
from redraft.events.rabbit_room import Room
from redraft.events.rabbit_stream import Stream, announce
from redraft.events.rabbit_topology import PREFIX, Kind, Names, Topology
from redraft.events.rabbit_turns import Turns
from redraft.events.rabbit_wire import Outgoing

CAPACITY: Final = 10_000
"""How many letters wait in a queue before publishers wait, unless the bus is told otherwise."""

INBOX_BUNDLE: Final = 64
"""How many letters for the inbox share a message at most."""

PATIENCE: Final = 60.0
"""For how many seconds a server that was reached before is tried again, unless the bus is told otherwise."""


def open_rabbit_bus(
    url: str,
    *,
    delivery_limit: int = DELIVERY_LIMIT,
    prefix: str = PREFIX,
    capacity: int = CAPACITY,
    patience: float = PATIENCE,
    bundle: int = 1,
    queues: Kind = "quorum",
    heartbeat: int = HEARTBEAT,
) -> RabbitBus:
    """The bus on the server of a URL: `amqp://user:password@host:port/vhost`, or `amqps://` with TLS (`read_address`).

    `delivery_limit` (at least 1) is how often a letter is delivered before it is parked, the same for all who use the
    server. `prefix` is what names on the server begin with. `bundle` (at least 1) is how many letters of one `publish`
    share a message in a work queue, see `rabbit_bundle`: then one worker gets all of them. `queues` is the kind of the
    queues of letters (`Kind`), the same for all who use the server. After one or two times `heartbeat` seconds without
    a sign of life the server gives us up, and delivers to others what we had not settled. Raises InputError for a URL
    or number that cannot be used. It connects when it is entered (BusError when that fails) or first used.
    """
    for what, number in [("delivery_limit", delivery_limit), ("capacity", capacity), ("bundle", bundle)]:
        if number < 1:
            raise InputError(f"{what} is {number}: it must be at least 1")
    address, token = read_address(url), uuid4().hex
    return RabbitBus(address, Names(prefix), delivery_limit, capacity, patience, token, bundle, queues, heartbeat)


class RabbitBus:
    """All of it is used from one event loop. It has two connections: when the server is short of memory or disk it
    stops those that publish, and consumers go on.

    While the server is away, every call waits for it, for `patience` seconds; then it raises BusError, as does every
    call after `close`. Publishers wait while `capacity` letters wait in the queue: what each sees is a moment old, so
    several of them together may put some more.
    """

    def __init__(
        self,
        address: Address,
        names: Names,
        delivery_limit: int,
        capacity: int,
        patience: float,
        token: str,
        bundle: int,
        queues: Kind,
        heartbeat: int,
    ) -> None:
        self._names = names
        self._limit = delivery_limit
        self._capacity = capacity
        self._bundle = bundle
        self._life = Lifetime()
        self._out = Link(address, "publishes", patience, heartbeat)
        self._in = Link(address, "consumes", patience, heartbeat)
        self._places = Topology(self._out, names, delivery_limit, queues)
        self._queues = Topology(self._in, names, delivery_limit, queues)
        self._publisher = Publisher(self._out, f"{token}-c")
        self._announcer = Publisher(self._out, f"{token}-e")
        self._rooms: defaultdict[str, Room] = defaultdict(lambda: Room(capacity))
        self._parking = Parking(self._in, self._queues, names, self._publisher, capacity)
        self._stream = Stream(self._in, self._queues, names.events)
        self._cancellations = Cancellations(self._in, names, token)
        self.turns = Turns(self._in, names, randrange)
        self._notes = Notes(self._in, self._places, names, self._publisher, token)
        self._consumers: set[RabbitConsumer] = set()
        self._leaving: set[asyncio.Task[None]] = set()

    async def publish(self, queue: str, letters: Sequence[Letter]) -> None:
        """Puts letters into a queue, in order, and returns when they are safe there. See `Bus`.

        Raises InputError for a name that no queue of letters can have.
        """
        require_size(queue, letters, LARGEST_LETTER)
        key = self._names.key(queue)
        exchange = self._names.asking(queue)
        place = Place(queue, lambda: self._places.queue(queue))
        room = self._rooms[queue]
        rest = list(letters)
        async with self._life.during():
            while rest:
                number = await room.enter(len(rest), lambda: self._out.persist(lambda: self._places.waiting(queue)))
                ready, rest = rest[:number], rest[number:]
                most = self._together(queue)
                messages = [_message(exchange, key, group) for group in bundled(ready, most)]
                await self._publisher.send(place, messages)

    @property
    def largest(self) -> int:
        return LARGEST_LETTER

    @asynccontextmanager
    async def consume(self, queue: str, prefetch: int) -> AsyncIterator[Consumer]:
        if prefetch < 1:
            raise InputError(f"prefetch is {prefetch}: it must be at least 1")
        self._life.require_open()
        name = self._names.there(queue)
        consumer = RabbitConsumer(queue, name, prefetch, self._in, self._queues, self._park, self._again, self._limit)
        self._consumers.add(consumer)
        try:
            yield consumer
        finally:
            self._consumers.discard(consumer)
            leaving = asyncio.create_task(consumer.leave())
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)
            await asyncio.shield(leaving)  # it gives everything back even if we are told not to wait

    async def parked(self, keep: Callable[[Parked], T]) -> Sequence[T]:
        """What was set aside, oldest first. See `rabbit_parking` for what holds when several look at once."""
        async with self._life.during():
            return await self._parking.all(keep)

    async def retry(self, parked_id: str) -> bool:
        async with self._life.during():
            return await self._parking.retry(parked_id)

    async def discard(self, parked_id: str) -> bool:
        async with self._life.during():
            return await self._parking.discard(parked_id)

    async def retry_all(self) -> Sequence[str]:
        async with self._life.during():
            return await self._parking.retry_all()

    async def discard_all(self) -> Sequence[str]:
        async with self._life.during():
            return await self._parking.discard_all()

    async def prepare(self) -> None:
        """Makes what every deployment has and is not there yet: the exchanges, the inbox, the parking, the stream."""

        async def made() -> None:
            await self._places.queue(INBOX)
            await self._places.events()

        async with self._life.during():
            await self._out.persist(made)

    async def clear_stream(self) -> None:
        """Takes away all that the stream of events keeps."""

        async def cleared() -> None:
            channel = await self._out.channel()
            try:
                await answer(channel.queue_delete(self._names.events))
            finally:
                await let_go(channel)
            await self._places.events()

        async with self._life.during():
            await self._out.persist(cleared)

    async def announce(self, events: Sequence[Recorded], facts: Mapping[str, About]) -> None:
        """Publishes recorded events, given in log order, to the topic and stream `redraft.events`. See `Announcer`."""
        async with self._life.during():
            await announce(self._announcer, self._places, self._names, events, facts)

    def subscribe_stream(self, after: int = 0, wanted: EventFilter = EVERYTHING) -> AsyncGenerator[Recorded, None]:
        """Recorded events after this position of the log, once and in order: those that are kept, then those to come.

        Only those that are `wanted`. For those who have RabbitMQ alone; close it when you are done
        (`contextlib.aclosing`). Raises BusError when events after the position are not kept any more, or the server
        cannot be used; CodecError for an event that this release cannot read.
        """
        self._life.require_open()
        return self._stream.read(after, wanted)

    def cancellations(self, listening: Callable[[], None] = lambda: None) -> AsyncGenerator[str, None]:
        """The ids of runs that people cancel, for those who work on them; close it when you are done.

        `listening` is called when none is missed from then on.
        """
        self._life.require_open()
        return self._cancellations.read(listening)

    def notes(self, queue: str) -> AsyncGenerator[bytes, None]:
        """See `Neighbours`; close it when you are done."""
        self._life.require_open()
        return self._notes.read(queue)

    async def tell(self, queue: str, note: bytes) -> None:
        """See `Neighbours`."""
        async with self._life.during():
            await self._notes.tell(queue, note)

    async def close(self) -> None:
        """Ends every call that waits with BusError. What consumers hold goes back to its queue."""
        self._life.end()
        await self.turns.close()
        for consumer in self._consumers:
            consumer.close("the bus is closed")
        await asyncio.gather(*self._leaving, return_exceptions=True)
        await self._publisher.close()
        await self._announcer.close()
        await asyncio.gather(self._out.close(), self._in.close())

    async def __aenter__(self) -> Self:
        self._life.require_open()
        try:
            await self._out.connect()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def _park(self, held: Held, reason: str, on_top: bool) -> None:
        """See `Parking.put`. After TooLarge and NotAllowed the server can move the message."""
        async with self._life.during():
            letter = held.delivery.letter
            body = letter.body if held.bundle else held.message.body
            try:
                await self._parking.put(held.headers, body, held.delivery.queue, reason, on_top=on_top)
            except (TooLarge, NotAllowed):
                if self._queues.kind == "classic":
                    await self._parking.ready()
                raise

    def _together(self, queue: str) -> int:
        """How many letters may share a message: what comes back is taken apart, and must not be parked for that."""
        most = INBOX_BUNDLE if queue == INBOX else self._bundle
        return most if self._limit > 2 else 1

    async def _again(self, letters: Sequence[Return]) -> None:
        """Sends letters of one queue again, each by itself."""
        queue = letters[0].held.delivery.queue
        place = Place(queue, lambda: self._places.queue(queue))
        messages = [self._counted(self._names.key(queue), each) for each in letters]
        async with self._life.during():
            await self._publisher.send(place, messages)

    def _counted(self, key: str, letter: Return) -> Outgoing:
        held = letter.held
        headers = {**held.headers, DELIVERED: letter.delivered} if letter.delivered else held.headers
        priority = int(self._places.kind == "classic")
        body = held.delivery.letter.body
        own = self._names.own(held.delivery.queue)
        return Outgoing(own, key, body, headers, held.sent, priority=priority)


def _message(exchange: str, key: str, letters: Sequence[Letter]) -> Outgoing:
    """One letter is a message in binary mode; several are a batch."""
    if len(letters) > 1:
        return Outgoing(exchange, key, write_bundle(letters), {}, kind=BATCH)
    (letter,) = letters
    return Outgoing(exchange, key, letter.body, letter_headers(letter))
