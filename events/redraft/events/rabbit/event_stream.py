"""Recorded events for clients that have RabbitMQ alone: their history from its stream, in order, without duplicates."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

import msgspec
from aiormq import Channel
from aiormq.abc import DeliveredMessage
from cachetools import LRUCache
from pamqp.common import FieldTable

from redraft.events.errors import BusError
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.filters import EventFilter
from redraft.events.rabbit.cloudevents import _CE, _text, follows, headers_of, is_event, number, position, read_matching
from redraft.events.rabbit.connection import LOST, Link, Lost, answer, close_channel, hand_over
from redraft.events.rabbit.event_batches import unpack
from redraft.events.rabbit.topology import Topology

REMEMBERED: Final = 4096
"""The number of positions whose hash is remembered, and of runs whose last event is."""


class StreamPosition(msgspec.Struct, frozen=True, gc=False):
    """The place of a message's event: its position in the log, and its link in the chain of its run."""

    run: str
    position: int
    version: int
    hash: str
    previous: str


class Timeline:
    """Checks the events of a stream in the order in which they arrive, duplicates among them."""

    def __init__(self) -> None:
        self._places: LRUCache[int, str] = LRUCache(REMEMBERED)
        self._runs: LRUCache[str, StreamPosition] = LRUCache(REMEMBERED)

    def follow(self, step: StreamPosition) -> None:
        """Raises BusError for an event at the position of another one, or that does not follow the last of its run."""
        if not step.hash:
            return
        before = self._runs.get(step.run)
        there = self._places.get(step.position, step.hash)
        if there != step.hash or (before and step.version == before.version + 1 and step.previous != before.hash):
            raise BusError(
                f"the log was set back: event {step.version} of run {step.run}, at position {step.position}, does not "
                "continue the log that was announced before; discard what was read from that position on"
            )
        self._places[step.position] = step.hash
        if before is None or step.version > before.version:
            self._runs[step.run] = step


def read_stream_position(message: DeliveredMessage) -> StreamPosition:
    """Returns the place of the event in a message; raises CodecError when it has none."""
    headers = headers_of(message)
    version = number(headers, f"{_CE}version")
    hashes = _text(headers, "hash"), _text(headers, "previoushash")
    return StreamPosition(_text(headers, "subject"), position(message), version, *hashes)


AHEAD: Final = 64
"""The number of messages of the stream that are read ahead."""

_GUESSES: Final = 4


class Reading:
    """One channel that reads a queue, or a stream from an offset on. It skips what it does not accept."""

    def __init__(self, channel: Channel, accepts: Callable[[DeliveredMessage], bool] | None = None) -> None:
        self._channel = channel
        self._accepts = accepts
        self._waiting: deque[DeliveredMessage] = deque()
        self._unpacked: deque[DeliveredMessage] = deque()
        self._arrived = asyncio.Event()
        self._ended = False
        self._unacknowledged = 0

    async def start(self, queue: str, arguments: FieldTable | None = None) -> None:
        """Starts reading a queue or, from an `x-stream-offset` on, a stream."""
        channel = self._channel
        channel.on_consumer_cancel_callbacks.add(lambda _: self._end())
        channel.closing.add_done_callback(lambda _: self._end())
        await answer(channel.basic_qos(prefetch_count=AHEAD))
        await answer(channel.basic_consume(queue, self._deliver, arguments=arguments))

    async def next(self) -> DeliveredMessage:
        """Waits for the next message, those of a batch one by one; raises Lost when this channel brings no more."""
        while not self._unpacked:
            while not self._waiting:
                if self._ended:
                    raise Lost("the stream is read no more")
                self._arrived.clear()
                await self._arrived.wait()
            message = self._waiting.popleft()
            self._unacknowledged += 1
            if self._unacknowledged >= AHEAD // 4:
                self._unacknowledged = 0
                await hand_over(self._channel.basic_ack(message.delivery_tag or 0, multiple=True, wait=False))
            self._unpacked += [each for each in unpack(message) if self._accepts is None or self._accepts(each)]
        return self._unpacked.popleft()

    async def close(self) -> None:
        await close_channel(self._channel)

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

    async def read(self, after: int, criteria: EventFilter) -> AsyncGenerator[Recorded, None]:
        """Yields the matching events after the position `after`, once and in log order: kept ones, then new ones.

        Raises BusError when events after it are not kept, when the log was set back meanwhile, or when the server
        cannot be used; CodecError for an event that this release cannot read.
        """
        last, timeline = after, Timeline()
        while True:
            try:
                offset = await self._offset_for(last)
            except LOST:
                continue
            async with self._open_reading(offset) as reading:
                async for message in self._without_gaps(reading, offset):
                    timeline.follow(read_stream_position(message))
                    if position(message) > last >= follows(message):  # else it was seen, or comes again in order
                        last = position(message)
                        if (event := read_matching(message, criteria)) is not None:
                            yield event

    async def _offset_for(self, last: int) -> int:
        """Returns an offset from which no event after the position `last` is missed: a late one if possible.

        After each message come all that follow it in the log, some of them more than once. Waits for the first message.
        """
        first = await self._peek("first")
        lowest, place = _offset(first), position(first)
        if place > last + 1 and not 0 < follows(first) <= last:
            raise BusError(_gone_message(place))
        if last - place < AHEAD:
            return lowest
        low, high = (lowest, place), await self._peek("last", accepts=None)
        above = (_offset(high), position(high)) if is_event(high) else low
        for _ in range(_GUESSES):
            if above[1] <= last:
                return max(low, above)[0]
            guess = low[0] + (above[0] - low[0]) * (last - low[1]) // (above[1] - low[1])
            if guess <= low[0] or not is_event(found := await self._peek(guess, accepts=None)):
                break
            if position(found) > last:
                above = _offset(found), position(found)
            else:
                low = _offset(found), position(found)
        return low[0]

    async def _without_gaps(self, reading: Reading, offset: int) -> AsyncGenerator[DeliveredMessage, None]:
        """Yields the messages from an offset on, until the channel ends. Raises BusError when some are not kept."""
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
                raise BusError(_gone_message(position(first)))

    async def _peek(
        self, offset: str | int, accepts: Callable[[DeliveredMessage], bool] | None = is_event
    ) -> DeliveredMessage:
        async with self._open_reading(offset, accepts) as reading:
            return await reading.next()

    @asynccontextmanager
    async def _open_reading(
        self, offset: str | int, accepts: Callable[[DeliveredMessage], bool] | None = is_event
    ) -> AsyncIterator[Reading]:
        """Opens a reading that skips foreign messages, which nobody can remove from the stream."""
        reading = await self._link.persist(lambda: self._start(offset, accepts))
        try:
            yield reading
        finally:
            await reading.close()

    async def _start(self, offset: str | int, accepts: Callable[[DeliveredMessage], bool] | None) -> Reading:
        await self._topology.events()
        channel = await self._link.channel()
        reading = Reading(channel, accepts)
        try:
            await reading.start(self._name, {"x-stream-offset": offset})
        except BaseException:
            await close_channel(channel)
            raise
        return reading


def _gone_message(place: int) -> str:
    return (
        f"the stream of events is kept from position {place} on: read what is older from the store, or subscribe after "
        f"position {place - 1}"
    )


def _offset(message: DeliveredMessage) -> int:
    return number(headers_of(message), "x-stream-offset")
