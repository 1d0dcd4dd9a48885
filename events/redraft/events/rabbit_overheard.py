"""What goes through an exchange from now on, heard by everybody who listens: nothing is kept for those who are away."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from itertools import count

from aiormq.abc import DeliveredMessage

from redraft.events.rabbit_letters import headers_of
from redraft.events.rabbit_link import LOST, Link, answer, let_go
from redraft.events.rabbit_publisher import Place, Publisher
from redraft.events.rabbit_stream import Reading
from redraft.events.rabbit_topology import Names, Topology
from redraft.events.rabbit_wire import Outgoing


def _silent() -> None:
    """Nobody is told."""


class Overheard:
    """`names` are those of the queues that it reads, one after the other, and that are for it alone."""

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
        """The messages with one of these keys, from when `listening` is called. Raises BusError."""
        while True:
            reading = await self._link.persist(self._started)
            listening()
            try:
                while True:
                    yield await reading.next()
            except LOST:
                continue
            finally:
                await reading.close()

    async def _started(self) -> Reading:
        await self._prepare()
        channel = await self._link.channel()
        reading = Reading(channel)
        try:
            queue = next(self._names)  # the one of a lost connection may linger, and is for that one alone
            await answer(channel.queue_declare(queue, exclusive=True, auto_delete=True))
            for key in self._keys:
                await answer(channel.queue_bind(queue, self._exchange, key))
            await reading.start(queue)
        except BaseException:
            await let_go(channel)
            raise
        return reading


async def _nothing() -> None:
    """The exchange of cancellations is made by coordinators; who listens may not, and waits until it is there."""


class Cancellations:
    """Which runs people cancel or set aside, or are over their budget.

    What is announced while the server is away is not heard of.
    """

    def __init__(self, link: Link, names: Names, token: str) -> None:
        queues = (f"{names.cancellations}.{token}-{number}" for number in count())
        self._overheard = Overheard(link, _nothing, names.cancellations, ["#"], queues)

    async def read(self, listening: Callable[[], None] = _silent) -> AsyncGenerator[str, None]:
        """The ids of these runs, from when `listening` is called. Raises BusError when the server cannot be used."""
        async with aclosing(self._overheard.read(listening)) as messages:
            async for message in messages:
                yield str(headers_of(message).get("cloudEvents:subject", ""))


class Notes:
    """What those who serve a queue tell each other, through an exchange of its own: see `Neighbours`."""

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
        overheard = Overheard(
            self._link, lambda: self._topology.queue(queue), self._names.own(queue), [self._key(queue)], queues
        )
        async with aclosing(overheard.read()) as messages:
            async for message in messages:
                yield message.body

    async def tell(self, queue: str, note: bytes) -> None:
        place = Place(queue, lambda: self._topology.queue(queue))
        await self._publisher.send(place, [Outgoing(self._names.own(queue), self._key(queue), note, {})])

    def _key(self, queue: str) -> str:
        return f"{self._names.key(queue)}.notes"
