"""What was set aside on RabbitMQ: put into `redraft.parked`, looked at, put back to work, or thrown away.

Letters come there from consumers that refuse them, and from the server when they were delivered too often. To look at
them they are taken and given back, which keeps their order; their bodies pass by and are not kept. One at a time may
look: whoever does owns the queue `redraft.looking`, which the server takes away with its connection. So `parked`,
`retry` and `discard` see all that is parked, in any number of processes; what is parked meanwhile comes behind. If one
who looks dies, all is there again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, TypeVar

from aiormq import Channel
from aiormq.abc import DeliveredMessage
from aiormq.exceptions import ChannelAccessRefused, ChannelLockedResource

from redraft.events.bus import Parked
from redraft.events.errors import BusError, NotAllowed
from redraft.events.rabbit_letters import (
    QUEUE,
    REASON,
    SHORTENED,
    USER,
    Headers,
    headers_of,
    message_id,
    read_letter,
    sendable,
    user_of,
)
from redraft.events.rabbit_link import LOST, Link, Lost, answer, explain, let_go
from redraft.events.rabbit_look import Look
from redraft.events.rabbit_publisher import Place, Publisher
from redraft.events.rabbit_topology import Names, Topology
from redraft.events.rabbit_wire import Outgoing

T = TypeVar("T")

_LONGEST_REASON: Final = 4_000

_HELD: Final = 16 * 1024 * 1024
"""How many bytes of bodies are held at once, unless one alone is larger."""


class Parking:
    """`capacity` is how many letters consumers may park (at least 1); what was delivered too often comes on top."""

    def __init__(self, link: Link, topology: Topology, names: Names, publisher: Publisher, capacity: int) -> None:
        self._link = link
        self._topology = topology
        self._names = names
        self._publisher = publisher
        self._capacity = capacity
        self._one = asyncio.Lock()

    async def put(self, headers: Headers, body: bytes, queue: str, reason: str, *, on_top: bool) -> None:
        """Sets a message aside as it is, with the queue that it was in and the reason; it is safe when this returns.

        Raises TooLarge, NotAllowed where the user has no right to, and BusError: when too many are set aside already,
        unless it comes `on_top`.
        """
        waiting = await self._link.persist(self._topology.parked)
        if not self._topology.makes:
            raise NotAllowed(f"a letter from {queue} is set aside by the server: {reason}")
        if waiting >= self._capacity and not on_top:
            raise BusError(
                f"cannot park a letter from {queue} ({reason}): {waiting} letters are parked already; "
                "mend what made them fail, then retry or discard them"
            )
        if SHORTENED in headers:
            reason = f"its headers had {headers[SHORTENED]!s} bytes and are shortened here; {reason}"
        told = {name: value for name, value in headers.items() if name != "x-death"}
        headers = {**told, QUEUE: queue, REASON: reason[:_LONGEST_REASON]}
        place = Place(self._names.parked, self._topology.parked)
        await self._publisher.send(place, [Outgoing("", self._names.parked, body, headers)])

    async def ready(self) -> None:
        """Waits until what the server itself moves here arrives. Raises BusError.

        A classic queue hands over what it moves and forgets it; a quorum queue without a leader drops that, as in the
        moment after a restart. To be asked for a message it needs one. Who may not ask does not wait.
        """

        async def asked() -> None:
            await self._topology.parked()
            channel = await self._link.channel()
            try:
                with suppress(ChannelAccessRefused):
                    await answer(channel.basic_get(self._names.parked))
            finally:
                await let_go(channel)  # which gives back what it got

        await self._link.persist(asked)

    async def all(self, keep: Callable[[Parked], T]) -> Sequence[T]:
        """What `keep` makes of each letter that is set aside, oldest first."""
        async with self._looking() as look:
            return await look.all(lambda message: keep(self._parked(message)))

    async def retry(self, parked_id: str) -> bool:
        """Puts a letter into the queue that it came from; False when none has this id."""
        async with self._looking() as look:
            found = await _find(look, parked_id)
            if found is None:
                return False
            queue = self._parked(found).queue
            if not queue:
                raise BusError(f"the parked letter {parked_id} came from no queue that is known; it can be discarded")
            await self._put_back(found, queue)
            await look.take(found.delivery_tag)
            return True

    async def discard(self, parked_id: str) -> bool:
        """Throws a letter away; False when none has this id."""
        async with self._looking() as look:
            found = await _find(look, parked_id)
            if found is not None:
                await look.take(found.delivery_tag)
            return found is not None

    async def retry_all(self) -> Sequence[str]:
        """Puts every letter into the queue that it came from; one that came from none that is known stays. The ids."""
        done: list[str] = []
        async with self._looking() as look:
            sizes = await look.all(lambda message: len(message.body))
            await look.end()
            for number in _pages(sizes):
                page = await look.next(lambda message: message, number)
                while page:
                    message = page.pop(0)
                    if queue := self._parked(message).queue:
                        await self._put_back(message, queue)
                        await look.take(message.delivery_tag)
                        done.append(message_id(message))
        return done

    async def discard_all(self) -> Sequence[str]:
        """Throws every letter away; gives their ids."""
        done: list[str] = []
        async with self._looking() as look:
            for tag, parked_id in await look.all(lambda message: (message.delivery_tag, message_id(message))):
                await look.take(tag)
                done.append(parked_id)
        return done

    async def _put_back(self, message: DeliveredMessage, queue: str) -> None:
        place = Place(queue, lambda: self._topology.queue(queue))
        headers = {**_original(message), USER: user_of(message, self._link.user)}
        exchange, key = self._names.asking(queue), self._names.key(queue)
        await self._publisher.send(place, [Outgoing(exchange, key, message.body, headers)])

    def _parked(self, message: DeliveredMessage) -> Parked:
        headers = headers_of(message)
        queue, reason = self._fate(headers)
        return Parked(message_id(message), read_letter(message), queue, reason, user_of(message, self._link.user))

    def _fate(self, headers: Mapping[str, object]) -> tuple[str, str]:
        """The queue and the reason: the server's for what it set aside itself, before what a header says of it."""
        match headers.get("x-death"):
            case [{"queue": str() as name, "reason": "delivery_limit"}, *_]:
                return self._names.here(name), "delivered too often; the last consumer left before it was settled"
            case [{"queue": str() as name, "reason": reason}, *_]:
                return self._names.here(name), f"set aside by RabbitMQ: {reason}"
            case _:
                queue, told = headers.get(QUEUE), headers.get(REASON)
                known = isinstance(queue, str) and isinstance(told, str)
                return (str(queue), str(told)) if known else ("", "put here by somebody else")

    @asynccontextmanager
    async def _looking(self) -> AsyncIterator[Look]:
        """A look at what is set aside, for us alone; what the block does not take is given back after it."""
        async with self._one:
            channel = await self._link.persist(self._alone)
            try:
                look = Look(channel, self._names.parked, self._topology.parked)
                yield look
                await look.end()
            except LOST as error:
                raise BusError(f"what is parked cannot be looked at: {explain(error)}") from None
            finally:
                with suppress(*LOST):
                    await answer(channel.queue_delete(self._names.looking))
                await let_go(channel)

    async def _alone(self) -> Channel:
        """A channel whose connection owns the right to look; raises Lost while another's does."""
        channel = await self._link.channel()
        try:
            await answer(channel.queue_declare(self._names.looking, exclusive=True))
        except ChannelLockedResource:
            raise Lost("another process is looking at what is parked") from None
        except BaseException:
            await let_go(channel)
            raise
        return channel


async def _find(look: Look, parked_id: str) -> DeliveredMessage | None:
    found: list[DeliveredMessage] = []

    def keep(message: DeliveredMessage) -> None:
        if not found and message_id(message) == parked_id:
            found.append(message)

    await look.all(keep)
    return found[0] if found else None


def _pages(sizes: Iterable[int]) -> Iterator[int]:
    """How many of the letters with bodies of these sizes are held at once, for one page after the other."""
    number = held = 0
    for size in sizes:
        if number and held + size > _HELD:
            yield number
            number = held = 0
        number, held = number + 1, held + size
    if number:
        yield number


def _original(message: DeliveredMessage) -> Headers:
    """The headers that it was first sent with, without those of its fate."""
    fate = ("x-", "redraft-")
    return {name: value for name, value in sendable(headers_of(message)).items() if not name.startswith(fate)}
