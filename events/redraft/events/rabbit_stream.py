"""Recorded events for those who have RabbitMQ alone: their history from its stream, in order, without doubles."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

import msgspec
from aiormq import Channel
from aiormq.abc import DeliveredMessage
from pamqp.common import FieldTable

from redraft.events.envelope import Recorded
from redraft.events.errors import BusError
from redraft.events.filters import About, EventFilter
from redraft.events.rabbit_letters import (
    event_headers,
    event_key,
    follows,
    headers_of,
    is_event,
    number,
    position,
    read_wanted,
    step_of,
)
from redraft.events.rabbit_link import LOST, Link, Lost, answer, let_go, tell
from redraft.events.rabbit_publisher import Place, Publisher
from redraft.events.rabbit_timeline import Timeline
from redraft.events.rabbit_topology import Names, Topology
from redraft.events.rabbit_wire import Outgoing

AHEAD: Final = 256
"""How many messages of the stream are read ahead."""

_GUESSES: Final = 4
_NOTHING_KNOWN: Final = About()


async def announce(
    publisher: Publisher, topology: Topology, names: Names, events: Sequence[Recorded], facts: Mapping[str, About]
) -> None:
    """Publishes events in order. One that must be sent again is followed again by all that come after it."""
    outgoing = []
    before = 0
    for event in events:
        known = facts.get(event.run, _NOTHING_KNOWN)
        headers = event_headers(event, known, before)
        body = msgspec.json.encode(event.data)
        outgoing.append(Outgoing(names.events, event_key(event, known.workflow), body, headers))
        before = event.position
    await publisher.send(Place(names.events, topology.events), outgoing, strictly=True)


class Reading:
    """One channel that reads a queue, or a stream from an offset on. It passes over what is not `wanted`."""

    def __init__(self, channel: Channel, wanted: Callable[[DeliveredMessage], bool] | None = None) -> None:
        self._channel = channel
        self._wanted = wanted
        self._waiting: deque[DeliveredMessage] = deque()
        self._arrived = asyncio.Event()
        self._ended = False
        self._unsaid = 0

    async def start(self, queue: str, arguments: FieldTable | None = None) -> None:
        """Asks for what is in a queue or, from an `x-stream-offset` on, a stream."""
        channel = self._channel
        channel.on_consumer_cancel_callbacks.add(lambda _: self._end())
        channel.closing.add_done_callback(lambda _: self._end())
        await answer(channel.basic_qos(prefetch_count=AHEAD))
        await answer(channel.basic_consume(queue, self._deliver, arguments=arguments))

    async def next(self) -> DeliveredMessage:
        """Waits for the next message; raises Lost when none comes any more on this channel."""
        while True:
            message = await self._next()
            if self._wanted is None or self._wanted(message):
                return message

    async def _next(self) -> DeliveredMessage:
        while not self._waiting:
            if self._ended:
                raise Lost("the stream is read no more")
            self._arrived.clear()
            await self._arrived.wait()
        message = self._waiting.popleft()
        self._unsaid += 1
        if self._unsaid >= AHEAD // 4:
            self._unsaid = 0
            await tell(self._channel.basic_ack(message.delivery_tag or 0, multiple=True, wait=False))
        return message

    async def close(self) -> None:
        await let_go(self._channel)

    async def _deliver(self, message: DeliveredMessage) -> None:
        self._waiting.append(message)
        self._arrived.set()

    def _end(self) -> None:
        self._ended = True
        self._arrived.set()


class Stream:
    """The stream of recorded events on the server."""

    def __init__(self, link: Link, topology: Topology, name: str) -> None:
        self._link = link
        self._topology = topology
        self._name = name

    async def read(self, after: int, wanted: EventFilter) -> AsyncGenerator[Recorded, None]:
        """What is wanted after the position `after`, once and in log order: of what is kept, then of what comes.

        Raises BusError when events after it are not kept, when the log was set back meanwhile, or when the server
        cannot be used; CodecError for an event that this release cannot read.
        """
        last, timeline = after, Timeline()
        while True:
            try:
                offset = await self._offset_for(last)
            except LOST:
                continue
            async with self._reading(offset) as reading:
                async for message in self._without_gaps(reading, offset):
                    timeline.follow(step_of(message))
                    if position(message) > last >= follows(message):  # else it was seen, or comes again in its place
                        last = position(message)
                        if (event := read_wanted(message, wanted)) is not None:
                            yield event

    async def _offset_for(self, last: int) -> int:
        """Where to begin for what comes after the position `last`: at any message not above it, a late one if possible.

        After each message come all that follow it in the log, some of them more than once. Waits for the first message.
        """
        first = await self._peek("first")
        lowest, place = _offset(first), position(first)
        if place > last + 1 and not 0 < follows(first) <= last:
            raise BusError(_gone(place))
        if last - place < AHEAD:
            return lowest
        newest = await self._peek("last", wanted=None)
        guess = min(lowest + last - place, _offset(newest))
        for _ in range(_GUESSES):
            if guess <= lowest or not is_event(found := await self._peek(guess, wanted=None)):
                break
            above = position(found) - last
            if above <= 0:
                return guess
            guess -= above
        return lowest

    async def _without_gaps(self, reading: Reading, offset: int) -> AsyncGenerator[DeliveredMessage, None]:
        """The messages from an offset on, until the channel ends. Raises BusError when some are not kept any more."""
        expected = offset
        while True:
            try:
                message = await reading.next()
            except LOST:
                return
            if _offset(message) > expected:
                await self._require_kept(expected)
            expected = _offset(message) + 1
            yield message

    async def _require_kept(self, offset: int) -> None:
        with suppress(*LOST):
            first = await self._peek("first")
            if _offset(first) > offset:
                raise BusError(_gone(position(first)))

    async def _peek(
        self, offset: str | int, wanted: Callable[[DeliveredMessage], bool] | None = is_event
    ) -> DeliveredMessage:
        async with self._reading(offset, wanted) as reading:
            return await reading.next()

    @asynccontextmanager
    async def _reading(
        self, offset: str | int, wanted: Callable[[DeliveredMessage], bool] | None = is_event
    ) -> AsyncIterator[Reading]:
        """What was put into the stream by somebody else is passed over: nobody can take it out."""
        reading = await self._link.persist(lambda: self._started(offset, wanted))
        try:
            yield reading
        finally:
            await reading.close()

    async def _started(self, offset: str | int, wanted: Callable[[DeliveredMessage], bool] | None) -> Reading:
        await self._topology.events()
        channel = await self._link.channel()
        reading = Reading(channel, wanted)
        try:
            await reading.start(self._name, {"x-stream-offset": offset})
        except BaseException:
            await let_go(channel)
            raise
        return reading


def _gone(place: int) -> str:
    return (
        f"the stream of events is kept from position {place} on: read what is older from the store, or subscribe after "
        f"position {place - 1}"
    )


def _offset(message: DeliveredMessage) -> int:
    return number(headers_of(message), "x-stream-offset")
