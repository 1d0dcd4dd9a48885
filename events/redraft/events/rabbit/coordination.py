"""Coordination of processes on one broker: broadcasts that are not kept, and a semaphore."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from itertools import count
from typing import Final

from aiormq import Channel
from aiormq.abc import DeliveredMessage
from aiormq.exceptions import ChannelLockedResource

from redraft.events.rabbit.cloudevents import headers_of
from redraft.events.rabbit.connection import LOST, Link, answer, close_channel
from redraft.events.rabbit.event_stream import Reading
from redraft.events.rabbit.fast_publish import Outgoing
from redraft.events.rabbit.publisher import Destination, Publisher
from redraft.events.rabbit.topology import PREFIX, Names, Topology


def _silent() -> None:
    """Does nothing: the default callback."""


class BroadcastReader:
    """Reads broadcasts. `names` are those of its own queues, one for each connection."""

    def __init__(
        self,
        link: Link,
        prepare: Callable[[], Awaitable[object]],
        exchange: str,
        keys: Sequence[str],
        names: Iterator[str],
    ) -> None:
        self._link = link
        self._prepare = prepare
        self._exchange = exchange
        self._keys = keys
        self._names = names

    async def read(self, listening: Callable[[], None] = _silent) -> AsyncGenerator[DeliveredMessage, None]:
        """Yields the messages with one of the keys, from the call of `listening` on. Raises BusError."""
        while True:
            reading = await self._link.persist(self._start)
            listening()
            try:
                while True:
                    yield await reading.next()
            except LOST:
                continue
            finally:
                await reading.close()

    async def _start(self) -> Reading:
        await self._prepare()
        channel = await self._link.channel()
        reading = Reading(channel)
        try:
            await answer(channel.exchange_declare(self._exchange, passive=True))  # else each try would leave a queue
            queue = next(self._names)  # the queue of a lost connection may linger, exclusive to that connection
            await answer(channel.queue_declare(queue, exclusive=True, auto_delete=True))
            for key in self._keys:
                await answer(channel.queue_bind(queue, self._exchange, key))
            await reading.start(queue)
        except BaseException:
            await close_channel(channel)
            raise
        return reading


async def _nothing() -> None:
    """Does nothing: coordinators make the exchange of cancellations. Listeners may not, and wait until it is there."""


class Cancellations:
    """Broadcasts of runs that people cancel or quarantine, or that end and may have left steps.

    Those sent while the server is away are missed.
    """

    def __init__(self, link: Link, names: Names, token: str) -> None:
        queues = (f"{names.cancellations}.{token}-{number}" for number in count())
        self._reader = BroadcastReader(link, _nothing, names.cancellations, ["#"], queues)

    async def read(self, listening: Callable[[], None] = _silent) -> AsyncGenerator[str, None]:
        """Yields the ids of these runs, from the call of `listening` on. Raises BusError when the server cannot be
        used.
        """
        async with aclosing(self._reader.read(listening)) as messages:
            async for message in messages:
                yield str(headers_of(message).get("cloudEvents:subject", ""))


class PeerNotes:
    """Notes among the consumers of a queue, through an exchange of its own: see `PeerChannel`."""

    def __init__(self, link: Link, topology: Topology, names: Names, publisher: Publisher, token: str) -> None:
        self._link = link
        self._topology = topology
        self._names = names
        self._publisher = publisher
        self._token = token
        self._numbers = count()

    async def read(self, queue: str) -> AsyncGenerator[bytes, None]:
        there = self._names.there(queue)
        queues = (f"{there}.notes-{self._token}-{number}" for number in self._numbers)
        reader = BroadcastReader(
            self._link, lambda: self._topology.queue(queue), self._names.own(queue), [self._key(queue)], queues
        )
        async with aclosing(reader.read()) as messages:
            async for message in messages:
                yield message.body

    async def tell(self, queue: str, note: bytes) -> None:
        place = Destination(queue, lambda: self._topology.queue(queue))
        await self._publisher.send(place, [Outgoing(self._names.own(queue), self._key(queue), note, {})])

    def _key(self, queue: str) -> str:
        return f"{self._names.key(queue)}.notes"


MOST: Final = 200
"""The largest number of turns of one name: the search tries each in turn."""

_FIRST_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 0.5


class Semaphore:
    """A semaphore of all processes on the broker: each turn is an exclusive queue.

    `start` returns a number from 0 to below its argument: where the search for a free turn begins.
    """

    def __init__(self, link: Link, names: Names, start: Callable[[int], int]) -> None:
        self._link = link
        self._names = names
        self._start = start
        self._held: set[str] = set()
        self._kept: set[asyncio.Task[None]] = set()
        self._channel: Channel | None = None
        self._asking = asyncio.Lock()

    @asynccontextmanager
    async def take(self, name: str, turns: int, keep: float = 0.0) -> AsyncIterator[None]:
        """Waits for one of `turns` (1 to 200) of this name, and holds it through the block.

        If the block is shorter than `keep` seconds, holds it for `keep` seconds from its beginning. Raises BusError
        when the server cannot be used. While the connection is broken, another process may have the turn as well.
        """
        queue = await self._acquire(name, turns)
        until = asyncio.get_running_loop().time() + keep
        try:
            yield
        finally:
            giving = asyncio.create_task(self._give_back(queue, until))
            self._kept.add(giving)
            giving.add_done_callback(self._kept.discard)
            if not keep:
                await asyncio.shield(giving)

    async def close(self) -> None:
        """Frees every turn; the server deletes them with the connection."""
        for task in list(self._kept):
            task.cancel()

    async def _acquire(self, name: str, turns: int) -> str:
        pause = _FIRST_PAUSE
        while True:
            first = self._start(turns)
            for number in range(turns):
                queue = self._names.there(f"{PREFIX}.turn.{name}.{(first + number) % turns}")
                if queue not in self._held and await self._is_ours(queue):
                    return queue
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _is_ours(self, queue: str) -> bool:
        self._held.add(queue)
        try:
            if await self._link.persist(lambda: self._try_declare(queue)):
                return True
        except BaseException:
            self._held.discard(queue)
            raise
        self._held.discard(queue)
        return False

    async def _try_declare(self, queue: str) -> bool:
        """Returns whether the turn was free. A refusal ends the channel on which it arrives."""
        async with self._asking:
            channel = await self._open()
            try:
                await answer(channel.queue_declare(queue, exclusive=True))
            except ChannelLockedResource:
                self._channel = None
                return False
            except BaseException:
                self._channel = None
                await close_channel(channel)
                raise
            return True

    async def _open(self) -> Channel:
        if self._channel is None or self._channel.is_closed:
            self._channel = await self._link.channel()
        return self._channel

    async def _give_back(self, queue: str, until: float) -> None:
        try:
            await asyncio.sleep(max(0.0, until - asyncio.get_running_loop().time()))
            with suppress(*LOST):
                async with self._asking:
                    await answer((await self._open()).queue_delete(queue))
        finally:
            self._held.discard(queue)
