"""The bus of many machines: RabbitMQ. See `rabbit.topology` for its queues, `rabbit.cloudevents` for its messages.

A message is safe once `publish` returns: its queue has confirmed it. Every message arrives at least once; a message
that was published again without a confirmation arrives with a `count` above 1. Messages of one `publish` keep their
order unless a failure occurred in between.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from random import randrange
from typing import Final, Self
from uuid import uuid4

from redraft.events.bus.port import (
    DELIVERY_LIMIT,
    INBOX,
    LARGEST_BODY,
    LARGEST_REQUEST,
    BusMessage,
    Consumer,
    DeadLetter,
    is_inbox,
    is_partition,
    require_at_least_one,
    require_size,
)
from redraft.events.errors import BusError, MessageTooLarge, NotAllowed
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.filters import EVERYTHING, EventFilter, RunFacts
from redraft.events.rabbit.channel_consumer import MOST_BYTES, Prefetch, UnsettledDelivery
from redraft.events.rabbit.cloudevents import DELIVERED, Headers, message_headers
from redraft.events.rabbit.connection import HEARTBEAT, Link, answer, close_channel, read_address
from redraft.events.rabbit.consumer import RabbitConsumer
from redraft.events.rabbit.coordination import Cancellations, PeerNotes, Semaphore
from redraft.events.rabbit.dead_letters import DeadLetters, Redelivery, T
from redraft.events.rabbit.event_stream import Stream
from redraft.events.rabbit.event_topic import EventTopic
from redraft.events.rabbit.fast_publish import Outgoing
from redraft.events.rabbit.inbox import PartitionedInbox
from redraft.events.rabbit.large_bodies import LargeBodies
from redraft.events.rabbit.publisher import Destination, Publisher, QueueCapacity
from redraft.events.rabbit.structured_events import BATCH, group_messages, write_batch
from redraft.events.rabbit.topology import PREFIX, Kind, Names, Topology

_CLOSED = "the bus is closed"


class Lifetime:
    """Ends calls that are running when the bus is closed."""

    def __init__(self) -> None:
        self._ended = False
        self._scopes: set[asyncio.Timeout] = set()

    def require_open(self) -> None:
        """Raises BusError after the end."""
        if self._ended:
            raise BusError(_CLOSED)

    @asynccontextmanager
    async def during(self) -> AsyncIterator[None]:
        """Runs the block; raises BusError when the end comes before it is done, or came already."""
        self.require_open()
        scope = asyncio.timeout(None)
        try:
            async with scope:
                self._scopes.add(scope)
                yield
        except TimeoutError:
            if scope.expired():
                raise BusError(_CLOSED) from None
            raise
        finally:
            self._scopes.discard(scope)

    def end(self) -> None:
        self._ended = True
        for scope in self._scopes:
            scope.reschedule(asyncio.get_running_loop().time())


CAPACITY: Final = 10_000
"""The default number of messages that wait in a queue before publishers wait."""

INBOX_BATCH: Final = 64
"""The most messages for the inbox that travel in one batch."""

_PARTITION_BYTES: Final = MOST_BYTES // 4
"""Bytes that the server may send ahead from one partition: as a rule one of a coordinator's brings most messages."""

PATIENCE: Final = 60.0
"""The default number of seconds for which calls wait for a server that was reached before."""


class RabbitBus:
    """The bus on one server; all of it is used from one event loop. See `Bus`.

    It has two connections: when the server is short of memory or disk it blocks publishing connections, and consumers
    go on. It connects when it is entered (BusError when that fails) or first used. While the server is away, every call
    waits for it, for `patience` seconds; then it raises BusError, as does every call after `close`.
    """

    largest: int = LARGEST_BODY
    largest_request: int = LARGEST_REQUEST

    def __init__(
        self,
        url: str,
        *,
        delivery_limit: int = DELIVERY_LIMIT,
        prefix: str = PREFIX,
        capacity: int = CAPACITY,
        patience: float = PATIENCE,
        batch: int = 1,
        partitions: int = 0,
        queues: Kind = "quorum",
        heartbeat: int = HEARTBEAT,
    ) -> None:
        """`url` is `amqp://user:password@host:port/vhost`, or `amqps://` with TLS (`read_address`).

        `delivery_limit` (at least 1) is the number of deliveries before a message becomes a dead letter, and `queues`
        the type of the inbox and its partitions (`Kind`): both the same for all who use the server. `prefix` is the
        beginning of all names there. Publishers wait while `capacity` messages wait in the queue: each one's count is a
        moment old, so several together may exceed it. `batch` (at least 1) is how many messages of one `publish` to a
        work queue travel together, see `rabbit.cloudevents`: then one worker gets all of them. `partitions` is the
        number of those of the inbox, which `prepare` makes: see `rabbit.inbox`. After one or two times `heartbeat`
        seconds without a heartbeat the server drops the connection and redelivers our unsettled messages to others.
        Raises InputError for a URL or number that cannot be used.
        """
        self._limit = require_at_least_one("delivery_limit", delivery_limit)
        self._capacity = require_at_least_one("capacity", capacity)
        self._batch = require_at_least_one("batch", batch)
        address, token = read_address(url), uuid4().hex
        self._names = names = Names(prefix)
        self._life = Lifetime()
        self._out = Link(address, "publishes", patience, heartbeat)
        self._in = Link(address, "consumes", patience, heartbeat)
        self._out_topology = Topology(self._out, names, delivery_limit, queues)
        self._inbox = PartitionedInbox(self._out_topology, names, partitions)
        self._partitions = partitions
        self._in_topology = Topology(self._in, names, delivery_limit, queues)
        self._publisher = Publisher(self._out, f"{token}-c")
        self._event_publisher = Publisher(self._out, f"{token}-e")
        self._bodies = LargeBodies(self._out, self._in, names, self._publisher)
        self._events = EventTopic(self._event_publisher, self._out_topology, names)
        self._capacities: defaultdict[str, QueueCapacity] = defaultdict(lambda: QueueCapacity(capacity))
        self._dead_letters = DeadLetters(self._in, self._in_topology, names, self._publisher, capacity)
        self._stream = Stream(self._in, self._in_topology, names.events)
        self._cancellations = Cancellations(self._in, names, token)
        self.turns = Semaphore(self._in, names, randrange)
        self._notes = PeerNotes(self._in, self._out_topology, names, self._publisher, token)
        self._consumers: set[RabbitConsumer] = set()
        self._leaving: set[asyncio.Task[None]] = set()

    async def publish(self, queue: str, bus_messages: Sequence[BusMessage]) -> None:
        """Puts messages into a queue, in order, and returns when the server has confirmed them. See `Bus`.

        Raises InputError for an invalid queue name.
        """
        require_size(queue, bus_messages, LARGEST_BODY if is_inbox(queue) else LARGEST_REQUEST)
        place, room = self._destination(queue), self._capacities[queue]
        rest = list(bus_messages)

        def depth() -> Awaitable[int]:
            asked = self._inbox.count_waiting if queue == INBOX else partial(self._out_topology.waiting, queue)
            return self._out.persist(asked)

        async with self._life.during():
            while rest:
                number = await room.enter(len(rest), depth)
                ready, rest = rest[:number], rest[number:]
                await self._publisher.send(place, [each async for each in self._outgoing(queue, ready)])

    async def _outgoing(self, queue: str, bus_messages: Sequence[BusMessage]) -> AsyncIterator[Outgoing]:
        """Yields what is sent for messages to a queue; those to the inbox may go to several."""
        chosen: Mapping[str, Sequence[BusMessage]] = {queue: bus_messages}
        if queue == INBOX:
            chosen = await self._out.persist(lambda: self._inbox.find_queues(bus_messages))
        limit = self._batch_limit(queue)
        for each, messages in chosen.items():
            exchange, key = self._names.asking(each), self._names.key(each)
            for group in group_messages(messages, limit):
                referring: Headers = {}
                if len(group[0].body) > LARGEST_BODY:  # it is alone
                    referring = await self._bodies.put(queue, group[0].body)
                yield _message(exchange, key, group, referring, transient=not is_inbox(each))

    @asynccontextmanager
    async def consume(self, queue: str, prefetch: int) -> AsyncIterator[Consumer]:
        require_at_least_one("prefetch", prefetch)
        self._life.require_open()
        name = self._names.there(queue)
        ahead = Prefetch(prefetch, _PARTITION_BYTES, 2) if is_partition(queue) else Prefetch(prefetch)
        consumer = RabbitConsumer(
            queue, name, ahead, self._in, self._in_topology, self._park, self._send_again, self._limit, self._bodies
        )
        self._consumers.add(consumer)
        try:
            yield consumer
        finally:
            self._consumers.discard(consumer)
            leaving = asyncio.create_task(consumer.leave())
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)
            await asyncio.shield(leaving)  # it gives everything back even if we are cancelled

    async def dead_letters(self, keep: Callable[[DeadLetter], T]) -> Sequence[T]:
        """Returns `keep(dead_letter)` for each dead letter, oldest first; see `rabbit.dead_letters`."""
        async with self._life.during():
            return await self._dead_letters.all(keep)

    async def retry(self, dead_letter_id: str) -> bool:
        async with self._life.during():
            return await self._dead_letters.retry(dead_letter_id)

    async def discard(self, dead_letter_id: str) -> bool:
        async with self._life.during():
            return await self._dead_letters.discard(dead_letter_id)

    async def retry_all(self) -> Sequence[str]:
        async with self._life.during():
            return await self._dead_letters.retry_all()

    async def discard_all(self) -> Sequence[str]:
        async with self._life.during():
            return await self._dead_letters.discard_all()

    async def prepare(self) -> None:
        """Makes the missing parts that every deployment has: exchanges, inbox, queue of dead letters, stream."""

        async def made() -> None:
            try:
                await self._inbox.prepare()
            finally:
                await self._out_topology.events()

        async with self._life.during():
            await self._out.persist(made)

    async def clear_stream(self) -> None:
        """Deletes all events that the stream keeps."""

        async def cleared() -> None:
            channel = await self._out.channel()
            try:
                await answer(channel.queue_delete(self._names.events))
            finally:
                await close_channel(channel)
            await self._out_topology.events()

        async with self._life.during():
            await self._out.persist(cleared)

    async def publish_events(self, events: Sequence[Recorded], facts: Mapping[str, RunFacts]) -> None:
        """Publishes events, given in log order, to the topic and stream `redraft.events`. See `EventPublisher`."""
        async with self._life.during():
            await self._events.publish(events, facts)

    def subscribe_stream(self, after: int = 0, criteria: EventFilter = EVERYTHING) -> AsyncGenerator[Recorded, None]:
        """Yields recorded events after this position of the log, once and in order: first the kept ones, then new ones.

        Yields only those that match `criteria`. For clients that have RabbitMQ alone; close it after use
        (`contextlib.aclosing`). Raises BusError when events after the position are no longer kept, or the server cannot
        be used; CodecError for an event that this release cannot read.
        """
        self._life.require_open()
        return self._stream.read(after, criteria)

    def cancellations(self, listening: Callable[[], None] = lambda: None) -> AsyncGenerator[str, None]:
        """Yields the ids of runs that people cancel, for workers; close it after use.

        Calls `listening` when it can miss none from then on.
        """
        self._life.require_open()
        return self._cancellations.read(listening)

    def read_broadcasts(self, queue: str) -> AsyncGenerator[bytes, None]:
        """See `PeerChannel`; close it after use."""
        self._life.require_open()
        return self._notes.read(queue)

    async def broadcast(self, queue: str, note: bytes) -> None:
        """See `PeerChannel`."""
        async with self._life.during():
            await self._notes.tell(queue, note)

    @contextmanager
    def reconnects(self, tell: Callable[[], None]) -> Iterator[None]:
        """Calls `tell`, while the block lasts, each time that the connection was made again after it broke.

        The server may have restarted meanwhile, and lost the requests that it had.
        """
        self._out.reconnected.add(tell)
        try:
            yield
        finally:
            self._out.reconnected.discard(tell)

    async def close(self) -> None:
        """Ends every waiting call with BusError. Unsettled messages of consumers go back to their queues."""
        self._life.end()
        await self.turns.close()
        for consumer in self._consumers:
            consumer.close("the bus is closed")
        await asyncio.gather(*self._leaving, self._bodies.close(), return_exceptions=True)
        await self._publisher.close()
        await self._event_publisher.close()
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

    async def _park(self, held: UnsettledDelivery, reason: str, on_top: bool) -> None:
        """Makes a message a dead letter; after MessageTooLarge and NotAllowed the server can move it."""
        async with self._life.during():
            bus_message = held.delivery.bus_message
            body = bus_message.body if held.batch else held.message.body
            try:
                await self._dead_letters.put(held.headers, body, held.delivery.queue, reason, on_top=on_top)
            except (MessageTooLarge, NotAllowed):
                if not self._in_topology.counts(held.delivery.queue):
                    await self._dead_letters.ready()
                raise

    def _batch_limit(self, queue: str) -> int:
        """Returns the size of batches: with a low limit, a batch that comes back once would be a dead letter."""
        limit = INBOX_BATCH if is_inbox(queue) else self._batch
        return limit if self._limit > 2 else 1

    async def _send_again(self, bus_messages: Sequence[Redelivery]) -> None:
        """Sends messages of one queue again, each by itself."""
        queue = bus_messages[0].held.delivery.queue
        messages = [self._to_outgoing(self._names.key(queue), each) for each in bus_messages]
        async with self._life.during():
            await self._publisher.send(self._destination(queue), messages)

    def _destination(self, queue: str) -> Destination:
        if queue == INBOX:
            return Destination(queue, self._inbox.remake, self._inbox.readdress)
        return Destination(queue, partial(self._out_topology.queue, queue))

    def _to_outgoing(self, key: str, bus_message: Redelivery) -> Outgoing:
        held = bus_message.held
        headers = {**held.headers, DELIVERED: bus_message.delivered} if bus_message.delivered else held.headers
        queue = held.delivery.queue
        body = held.delivery.bus_message.body if held.batch else held.message.body  # a large one is elsewhere
        priority = int(not self._out_topology.counts(queue))
        own, transient = self._names.own(queue), not is_inbox(queue)
        return Outgoing(own, key, body, headers, held.sent, priority=priority, transient=transient)


def _message(
    exchange: str, key: str, bus_messages: Sequence[BusMessage], referring: Headers, *, transient: bool
) -> Outgoing:
    """Returns one message in binary mode, or several as a batch; `referring` are its headers if it has no body."""
    if len(bus_messages) > 1:
        return Outgoing(exchange, key, write_batch(bus_messages), {}, kind=BATCH, transient=transient)
    (bus_message,) = bus_messages
    body = b"" if referring else bus_message.body
    return Outgoing(exchange, key, body, {**message_headers(bus_message), **referring}, transient=transient)
