"""Looking at a RabbitMQ server without changing anything: is it there, which version, what waits where, who reads it.

Only what AMQP itself tells is used: neither the management plugin nor an administrator's rights are needed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar, cast

import aiormq
from aiormq import Channel, Connection
from aiormq.abc import DeliveredMessage
from aiormq.exceptions import ChannelAccessRefused, ChannelNotFoundEntity, ChannelPreconditionFailed

from redraft.events.bus import DELIVERY_LIMIT, INBOX, Depth
from redraft.events.rabbit_address import Address, read_address
from redraft.events.rabbit_letters import is_event, step_of
from redraft.events.rabbit_link import LOST, answer, let_go, tell, unreachable
from redraft.events.rabbit_timeline import Step
from redraft.events.rabbit_topology import PREFIX, Kind, Names, letter_queue

PARKED: Final = "redraft.parked"
EVENTS: Final = "redraft.events"

_TOGETHER: Final = 256
"""How many messages of the stream are on their way at once."""

_T = TypeVar("_T")


class Survey:
    """A connection of its own to one server, made when it is first needed, and again after it broke.

    Every method raises BusError when the server cannot be reached or does not answer.
    """

    def __init__(self, url: str, prefix: str = PREFIX) -> None:
        """Raises InputError for a URL or prefix that cannot be used."""
        self._address: Address = read_address(url)
        self._names = Names(prefix)
        self._connection: Connection | None = None

    @property
    def where(self) -> str:
        """The server, for people: without the password."""
        return self._address.where

    async def server(self) -> str:
        """What the server calls itself, such as `RabbitMQ 3.10.8`."""
        connection = await self._asked(self._connected)
        told = connection.server_properties or {}
        return f"{_text(told.get('product'))} {_text(told.get('version'))}".strip()

    async def ping(self) -> None:
        """Has the server answer a question."""

        async def asked(channel: Channel) -> None:
            """To open the channel was the question."""

        await self._on_channel(asked)

    async def queue(self, queue: str) -> Depth | None:
        """What is in a queue, which may also be `redraft.parked` or `redraft.events`; None when it is not there."""
        names = self._names
        there = {PARKED: names.parked, EVENTS: names.events}.get(queue) or names.there(queue)

        async def asked(channel: Channel) -> Depth | None:
            try:
                found = await answer(channel.queue_declare(there, passive=True))
            except ChannelNotFoundEntity:
                return None
            return Depth(found.message_count or 0, found.consumer_count or 0)

        return await self._on_channel(asked)

    async def fits(self, queue: str, kind: Kind) -> bool:
        """Whether a queue of letters that is there has the settings of this kind. Who may not ask is told that it has.

        To declare what is there changes nothing; the server refuses it where something differs.
        """
        names = self._names
        there, arguments = names.there(queue), letter_queue(kind, names, DELIVERY_LIMIT)

        async def asked(channel: Channel) -> bool:
            try:
                with suppress(ChannelAccessRefused):
                    await answer(channel.queue_declare(there, durable=True, arguments=arguments))
            except ChannelPreconditionFailed:
                return False
            return True

        return await self._on_channel(asked)

    async def newest(self) -> Step | None:
        """The place in the log of the last event in the stream; None when there is none, or the user may not read it.

        The server sends the last part of a stream, of any number of messages, before it answers what is asked next.
        """
        name = self._names.events
        came: list[DeliveredMessage] = []

        async def deliver(message: DeliveredMessage) -> None:
            came.append(message)

        async def asked(channel: Channel) -> Step | None:
            steps: list[Step] = []
            with suppress(ChannelAccessRefused, ChannelNotFoundEntity):
                await answer(channel.basic_qos(prefetch_count=_TOGETHER))
                await answer(channel.basic_consume(name, deliver, arguments={"x-stream-offset": "last"}))
                await answer(channel.queue_declare(name, passive=True))
                while came:
                    steps += [step_of(message) for message in came if is_event(message)]
                    await tell(channel.basic_ack(came[-1].delivery_tag or 0, multiple=True, wait=False))
                    came.clear()
                    await answer(channel.queue_declare(name, passive=True))
            return max(steps, key=lambda step: step.position, default=None)

        return await self._on_channel(asked)

    async def missing(self) -> list[str]:
        """The exchanges and queues that every deployment has, and that are not there, or are of another kind."""
        names = self._names
        found: list[str] = []
        exchanges = {names.commands: "direct", names.incoming: "direct", names.events: "topic"}
        for exchange, kind in {**exchanges, names.cancellations: "topic"}.items():
            if not await self._on_channel(partial(_has_exchange, exchange, kind)):
                found.append(f"exchange {exchange}")
        queues = [queue for queue in (INBOX, PARKED, EVENTS) if await self.queue(queue) is None]
        return [*found, *(f"queue {queue}" for queue in queues)]

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(*LOST):
                await answer(connection.close())

    async def __aenter__(self) -> Survey:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def _on_channel(self, asking: Callable[[Channel], Awaitable[_T]]) -> _T:
        async def asked() -> _T:
            connection = await self._connected()
            channel = cast("Channel", await answer(connection.channel()))
            try:
                return await asking(channel)
            finally:
                await let_go(channel)

        return await self._asked(asked)

    async def _asked(self, asking: Callable[[], Awaitable[_T]]) -> _T:
        try:
            return await asking()
        except LOST as error:
            await self.close()
            raise unreachable(self.where, error) from None

    async def _connected(self) -> Connection:
        if self._connection is None or self._connection.is_closed:
            self._connection = await answer(aiormq.connect(self._address.url, context=self._address.tls))
        return self._connection


async def _has_exchange(name: str, kind: str, channel: Channel) -> bool:
    try:
        await answer(channel.exchange_declare(name, exchange_type=kind, durable=True, passive=True))
    except (ChannelNotFoundEntity, ChannelPreconditionFailed):
        return False
    return True


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value or "")
