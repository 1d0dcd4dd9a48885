"""Inspects a RabbitMQ server without changing anything: its version, the depth and the consumers of its queues.

It uses only AMQP itself: neither the management plugin nor an administrator's rights are needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar, cast

import aiormq
from aiormq import Channel, Connection
from aiormq.abc import DeliveredMessage
from aiormq.exceptions import (
    ChannelAccessRefused,
    ChannelLockedResource,
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
)
from pamqp.common import FieldTable

from redraft.events.bus.port import DEAD_LETTERS, DELIVERY_LIMIT, INBOX, Depth
from redraft.events.errors import BusUnusable
from redraft.events.rabbit.cloudevents import is_event
from redraft.events.rabbit.connection import ANSWER, LOST, answer, close_channel, hand_over, read_address, unreachable
from redraft.events.rabbit.event_batches import unpack
from redraft.events.rabbit.event_stream import StreamPosition, read_stream_position
from redraft.events.rabbit.topology import (
    DEAD_LETTER_ARGUMENTS,
    PREFIX,
    STREAM_ARGUMENTS,
    Kind,
    Names,
    queue_arguments,
)
from redraft.events.rabbit.wire import Wires

_T = TypeVar("_T")

_MOST: Final = 65_535
_PAUSE: Final = 0.005

_GIVEN_BACK_TOGETHER: Final = 32
"""Messages that are given back at once: a quorum queue of 3.10 confuses the order of more."""

_UNSEEN: Final = 16
"""Groups that are given back before a check whether they arrived: RabbitMQ merges groups that come faster."""


class QueueBrowser:
    """Reads all messages of a queue and gives them back. Nobody else may read from the queue meanwhile.

    `waiting` returns the queue's depth, without taken messages. Taken messages stay on the server until they are
    settled; here only the result of `keep` for each is kept.
    """

    def __init__(self, channel: Channel, queue: str, waiting: Callable[[], Awaitable[int]]) -> None:
        self._channel = channel
        self._queue = queue
        self._waiting = waiting
        self._pages: list[list[int]] = []
        self._taken: set[int | None] = set()
        self._strangers = 0

    async def begin(self) -> None:
        """Makes the queue, and waits until no earlier consumer holds messages, as that of a dead process may.

        A quorum queue counts a consumer until its messages are back or deleted, also one that was cancelled. A consumer
        that stays is a stranger's, which the queue is read beside.
        """
        await self._waiting()
        self._strangers = await self._wait_unread(0)

    async def all(self, keep: Callable[[DeliveredMessage], _T]) -> list[_T]:
        """Returns `keep(message)` for each message that waits now, oldest first.

        Calls `keep` with one message after the other as they arrive; its errors are raised here.
        """
        found: list[_T] = []
        left = await self._waiting()
        while len(found) < left:
            found += await self.next(keep, min(left - len(found), _MOST))
        return found

    async def next(self, keep: Callable[[DeliveredMessage], _T], limit: int) -> list[_T]:
        """Returns `keep(message)` for each of the next `limit` messages (at least 1, at most 65,535).

        The consumer is cancelled when this returns, and brings no more when some are settled.
        """
        found: list[_T] = []
        tags: list[int] = []
        arrived = asyncio.Event()
        faults: list[Exception] = []

        async def deliver(message: DeliveredMessage) -> None:
            tags.append(message.delivery_tag or 0)
            try:
                found.append(keep(message))
            except Exception as error:  # noqa: BLE001 - the client would only log it
                faults.append(error)
            arrived.set()

        self._pages.append(tags)
        await answer(self._channel.basic_qos(prefetch_count=limit))
        consuming = self._channel.basic_consume(self._queue, deliver)
        consumer = (await answer(consuming)).consumer_tag or ""
        while len(tags) < limit:
            arrived.clear()
            await answer(arrived.wait())
        await answer(self._channel.basic_cancel(consumer))
        if faults:
            raise faults[0]
        return found

    async def take(self, tag: int | None) -> None:
        """Deletes the message with this delivery tag."""
        await hand_over(self._channel.basic_ack(tag or 0, wait=True))
        self._taken.add(tag)

    async def end(self) -> None:
        """Gives back the messages that were not taken, and waits until they are back and the taken ones are deleted.

        A channel that is closed earlier may lose acknowledgements: a busy quorum queue holds them back there.
        """
        if not self._pages:
            return
        arrived = await self._waiting()
        for number, given in enumerate(self._left(), start=1):
            await hand_over(self._channel.basic_nack(given[-1], multiple=True, wait=False))
            arrived += len(given)
            if number % _UNSEEN == 0:
                await self._wait_seen(arrived)
        await self._wait_unread(self._strangers)
        self._pages.clear()

    def _left(self) -> Iterator[list[int]]:
        """Yields the tags of messages that were not taken, oldest first, in groups of one consumer each."""
        for page in self._pages:
            left = [tag for tag in page if tag not in self._taken]
            yield from (
                left[start : start + _GIVEN_BACK_TOGETHER] for start in range(0, len(left), _GIVEN_BACK_TOGETHER)
            )

    async def _wait_seen(self, number: int) -> None:
        """Waits until `number` messages are in the queue again."""
        with suppress(TimeoutError):  # another reader may have taken one; the others are there
            async with asyncio.timeout(ANSWER):
                while await self._waiting() < number:  # noqa: ASYNC110 - the server has no notification for it
                    await asyncio.sleep(_PAUSE)

    async def _wait_unread(self, number: int) -> int:
        """Waits until the queue has at most `number` consumers, or for `ANSWER` seconds; returns how many it has."""
        consumers = await self._consumers()
        with suppress(TimeoutError):
            async with asyncio.timeout(ANSWER):
                while consumers > number:
                    await asyncio.sleep(_PAUSE)
                    consumers = await self._consumers()
        return consumers

    async def _consumers(self) -> int:
        return (await answer(self._channel.queue_declare(self._queue, passive=True))).consumer_count or 0


EVENTS: Final = "redraft.events"

_TOGETHER: Final = 256
"""The prefetch of messages of the stream."""


class Survey:
    """A connection of its own to one server, made when it is first needed, and again after it broke.

    `where` names the server, without the password. Every method raises BusError when it cannot be reached or does not
    answer.
    """

    def __init__(self, url: str, prefix: str = PREFIX) -> None:
        """Raises InputError for a URL or prefix that cannot be used."""
        self._address = read_address(url)
        self.where = self._address.where
        self._names = Names(prefix)
        self._connection: Connection | None = None

    async def server(self) -> str:
        """Returns the server's name and version, such as `RabbitMQ 3.10.8`."""
        connection = await self._ask(self._connected)
        properties = connection.server_properties or {}
        return f"{_text(properties.get('product'))} {_text(properties.get('version'))}".strip()

    async def ping(self) -> None:
        """Checks that the server answers."""
        await self._on_channel(lambda _: asyncio.sleep(0))  # the server answered when the channel was opened

    def there(self, queue: str) -> str:
        """Returns the name of a queue on the server. Raises InputError for one that cannot be a queue's."""
        names = self._names
        return {DEAD_LETTERS: names.dead_letters, EVENTS: names.events}.get(queue) or names.there(queue)

    async def queue(self, queue: str) -> Depth | None:
        """Returns the depth of a queue, the dead letters and events included; None when it does not exist.

        Raises BusUnusable for one that only another connection may look at.
        """
        there = self.there(queue)

        async def query(channel: Channel) -> Depth | None:
            try:
                found = await answer(channel.queue_declare(there, passive=True))
            except ChannelNotFoundEntity:
                return None
            except ChannelLockedResource:
                raise BusUnusable(
                    f"the queue {there} is another connection's own (exclusive): end the program that declared it, or "
                    "have it use another name"
                ) from None
            return Depth(found.message_count or 0, found.consumer_count or 0)

        return await self._on_channel(query)

    async def fits(self, queue: str, kind: Kind) -> bool:
        """Returns whether an existing queue has the settings of this type; True for a user who may not ask."""
        names = self._names
        arguments = queue_arguments(queue, kind, names, DELIVERY_LIMIT)
        return await self._on_channel(partial(_fits_queue, names.there(queue), arguments))

    async def exchange_fits(self, queue: str) -> bool:
        """Returns whether the exchange of a queue's readers has our settings; True where there is none."""
        return await self._on_channel(partial(_fits_exchange, self._names.own(queue), "direct"))

    async def newest(self) -> StreamPosition | None:
        """Returns the place in the log of the last event in the stream; None when the user may not read one.

        The server sends the last chunk of a stream, of any number of messages, before it answers the next request.
        """
        name = self._names.events
        received: list[DeliveredMessage] = []

        async def deliver(message: DeliveredMessage) -> None:
            received.append(message)

        async def query(channel: Channel) -> StreamPosition | None:
            steps: list[StreamPosition] = []
            with suppress(ChannelAccessRefused, ChannelNotFoundEntity):
                await answer(channel.basic_qos(prefetch_count=_TOGETHER))
                await answer(channel.basic_consume(name, deliver, arguments={"x-stream-offset": "last"}))
                await answer(channel.queue_declare(name, passive=True))
                while received:
                    found = [each for message in received for each in unpack(message)]
                    steps += [read_stream_position(message) for message in found if is_event(message)]
                    await hand_over(channel.basic_ack(received[-1].delivery_tag or 0, multiple=True, wait=False))
                    received.clear()
                    await answer(channel.queue_declare(name, passive=True))
            return max(steps, key=lambda step: step.position, default=None)

        return await self._on_channel(query)

    async def missing(self) -> list[str]:
        """Returns the exchanges and queues of every deployment that are missing."""
        exchanges = [each for each in self._exchanges() if not await self._on_channel(partial(_has_exchange, each))]
        found = [f"exchange {exchange}" for exchange in exchanges]
        queues = [self.there(each) for each in (INBOX, DEAD_LETTERS, EVENTS) if await self.queue(each) is None]
        return [*found, *(f"queue {queue}" for queue in queues)]

    async def unfit(self) -> list[str]:
        """Returns the exchanges and queues of every deployment, except the inbox, that have other settings."""
        found: list[str] = []
        for exchange, kind in self._exchanges().items():
            if not await self._on_channel(partial(_fits_exchange, exchange, kind)):
                found.append(f"exchange {exchange}")
        for queue, arguments in ((EVENTS, STREAM_ARGUMENTS), (DEAD_LETTERS, DEAD_LETTER_ARGUMENTS)):
            name = self.there(queue)
            if await self.queue(queue) and not await self._on_channel(partial(_fits_queue, name, arguments)):
                found.append(f"queue {name}")
        return found

    def _exchanges(self) -> dict[str, str]:
        names = self._names
        topics = {names.events: "topic", names.cancellations: "topic"}
        return {names.commands: "direct", names.incoming: "direct", **topics}

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
        async def query() -> _T:
            connection = await self._connected()
            channel = cast("Channel", await answer(connection.channel()))
            try:
                return await asking(channel)
            finally:
                await close_channel(channel)

        return await self._ask(query)

    async def _ask(self, asking: Callable[[], Awaitable[_T]]) -> _T:
        try:
            return await asking()
        except LOST as error:
            await self.close()
            raise unreachable(self.where, error) from None

    async def _connected(self) -> Connection:
        if self._connection is None or self._connection.is_closed:
            connecting = aiormq.connect(self._address.url, context=self._address.tls, transport_factory=Wires())
            self._connection = await answer(connecting)
        return self._connection


async def _has_exchange(name: str, channel: Channel) -> bool:
    try:
        await answer(channel.exchange_declare(name, passive=True))
    except ChannelNotFoundEntity:
        return False
    return True


async def _fits_exchange(name: str, kind: str, channel: Channel) -> bool:
    """Returns whether an exchange is of this kind; True if it is missing, or the user may not ask.

    To declare what exists changes nothing; the server refuses it where a setting differs.
    """
    try:
        with suppress(ChannelNotFoundEntity, ChannelAccessRefused):
            await answer(channel.exchange_declare(name, passive=True))
            await answer(channel.exchange_declare(name, exchange_type=kind, durable=True))
    except ChannelPreconditionFailed:
        return False
    return True


async def _fits_queue(name: str, arguments: FieldTable, channel: Channel) -> bool:
    try:
        with suppress(ChannelAccessRefused):
            await answer(channel.queue_declare(name, durable=True, arguments=arguments))
    except ChannelPreconditionFailed:
        return False
    return True


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value or "")
