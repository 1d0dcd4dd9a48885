"""Dead letters on RabbitMQ, in the queue `redraft.dead-letters`, and redelivery.

Dead letters come from consumers that refuse them, and from the server after too many deliveries. To list them, they are
taken and given back, which keeps their order; their bodies are not kept. One process at a time may browse: it owns the
queue `redraft.looking`, which the server deletes with its connection. So `dead_letters`, `retry` and `discard` see all
dead letters, in any number of processes; new ones come behind. If a browsing process dies, all are there again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, TypeVar

import msgspec
from aiormq import Channel
from aiormq.abc import DeliveredMessage
from aiormq.exceptions import ChannelAccessRefused, ChannelLockedResource

from redraft.events.bus.port import LARGEST_BODY, DeadLetter, is_inbox
from redraft.events.errors import BusError, BusUnusable, InputError, MessageTooLarge, NoRoom, NotAllowed
from redraft.events.messages.plan import ACTOR_ROLES
from redraft.events.rabbit.channel_consumer import Session, UnsettledDelivery
from redraft.events.rabbit.cloudevents import (
    BODY,
    PIECES,
    QUEUE,
    REASON,
    SHORTENED,
    Headers,
    headers_of,
    message_id,
    named_users,
    read_message,
    sendable,
    users_of,
)
from redraft.events.rabbit.connection import LOST, Link, Lost, answer, close_channel, explain, retrieve_error
from redraft.events.rabbit.fast_publish import Outgoing
from redraft.events.rabbit.publisher import Destination, Publisher
from redraft.events.rabbit.survey import QueueBrowser
from redraft.events.rabbit.topology import Names, Topology


class Redelivery(msgspec.Struct, frozen=True, gc=False):
    """A message to send again, with the number of its deliveries so far."""

    held: UnsettledDelivery
    delivered: int


class Redeliveries:
    """Messages that this process sends again itself.

    `send` sends them again; `park` makes one a dead letter, as one with `limit` deliveries is, whatever there is room.
    """

    def __init__(
        self,
        send: Callable[[Sequence[Redelivery]], Awaitable[None]],
        park: Callable[[UnsettledDelivery, str, bool], Awaitable[None]],
        limit: int,
    ) -> None:
        self._send = send
        self._park = park
        self._limit = limit
        self._waiting: deque[Redelivery] = deque()
        self._sending: asyncio.Task[None] | None = None

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, bus_messages: Sequence[UnsettledDelivery], *, begun: bool) -> None:
        """Adds the messages of one AMQP message. If work on them was `begun`, this delivery counts."""
        self._waiting += [Redelivery(held, held.delivered - (not begun)) for held in bus_messages]

    def forget(self, session: Session) -> None:
        """Drops the messages of a session that ended: the server redelivers them."""
        self._waiting = deque(each for each in self._waiting if each.held.session is not session)

    async def sent(self) -> None:
        """Sends all waiting messages again, and settles them. Raises BusError; messages that it could not send stay.

        Cancelling the caller does not stop it, so that no message is sent and left unsettled.
        """
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send_all())
            self._sending.add_done_callback(retrieve_error)
        await asyncio.shield(self._sending)

    async def end(self) -> None:
        """Stops sending."""
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.wait({self._sending})

    async def _send_all(self) -> None:
        bus_messages = list(self._waiting)
        reasons = [self._refusal_reason(each) for each in bus_messages]
        again = [each for each, reason in zip(bus_messages, reasons, strict=True) if not reason]
        if again:
            await self._send(again)
            self._settle(again)
        for each, reason in zip(bus_messages, reasons, strict=True):
            if reason:
                await self._dead_letter(each, reason)
        for session in {each.held.session for each in bus_messages}:
            session.send_soon()

    def _refusal_reason(self, bus_message: Redelivery) -> str:
        """Returns why a message is not sent again; empty when it is."""
        size = len(bus_message.held.delivery.bus_message.body)
        if size > LARGEST_BODY:
            return f"it came back, and is too large to be sent again: {size:,} bytes"
        if SHORTENED in bus_message.held.headers:
            return "it came back, and its headers are too large to be sent again"
        if bus_message.delivered >= self._limit and bus_message.held.batch is None:
            return f"delivered {bus_message.delivered} times; the last consumer left before it was settled"
        return ""

    async def _dead_letter(self, bus_message: Redelivery, reason: str) -> None:
        try:
            await self._park(bus_message.held, reason, True)
        except (MessageTooLarge, NotAllowed):  # the server has it, and can move it all the same
            with suppress(*LOST):
                bus_message.held.session.dead_letter(bus_message.held.message)
            self._forget([bus_message])
        else:
            self._settle([bus_message])

    def _settle(self, bus_messages: Sequence[Redelivery]) -> None:
        self._forget(bus_messages)
        for each in bus_messages:
            each.held.settle()

    def _forget(self, bus_messages: Sequence[Redelivery]) -> None:
        done = {id(each) for each in bus_messages}
        self._waiting = deque(each for each in self._waiting if id(each) not in done)


T = TypeVar("T")

_LONGEST_REASON: Final = 4_000

_HELD: Final = 16 * 1024 * 1024
"""Bytes of bodies that are held at once, unless a single body is larger."""


class DeadLetters:
    """The queue of dead letters. Consumers may add up to `capacity`; those delivered too often come on top."""

    def __init__(self, link: Link, topology: Topology, names: Names, publisher: Publisher, capacity: int) -> None:
        self._link = link
        self._topology = topology
        self._names = names
        self._publisher = publisher
        self._capacity = capacity
        self._one = asyncio.Lock()

    async def put(self, headers: Headers, body: bytes, queue: str, reason: str, *, on_top: bool) -> None:
        """Adds a message as it is, with its queue and the reason; it is safe when this returns.

        Raises MessageTooLarge, NotAllowed where the user has no right to, NoRoom when there are too many dead letters
        already or their queue is somebody else's, unless it comes `on_top`, and BusError.
        """
        place = self._names.there(queue)
        try:
            waiting = await self._link.persist(
                self._topology.dead_letters if on_top else self._topology.own_dead_letters
            )
        except BusUnusable as error:
            raise NoRoom(f"cannot keep a message from {place} as a dead letter ({reason}): {error}") from None
        if not self._topology.makes:
            raise NotAllowed(f"a message from {queue} is set aside by the server: {reason}")
        if waiting >= self._capacity and not on_top:
            raise NoRoom(
                f"cannot keep a message from {place} as a dead letter ({reason}): there are {waiting} already; "
                "fix the cause of these failures, then retry or discard them"
            )
        if SHORTENED in headers:
            reason = f"its headers had {headers[SHORTENED]!s} bytes and are shortened here; {reason}"
        told = {name: value for name, value in headers.items() if name != "x-death"}
        headers = {**told, QUEUE: queue, REASON: reason[:_LONGEST_REASON]}
        destination = Destination(self._names.dead_letters, self._topology.dead_letters)
        await self._publisher.send(destination, [Outgoing("", self._names.dead_letters, body, headers)])

    async def ready(self) -> None:
        """Waits until the queue accepts messages that the server itself moves. Raises BusError.

        A classic queue forgets a message that it moves; a quorum queue without a leader, as after a restart, drops it.
        A leader is there when it answers a request for a message; a user without that right does not wait.
        """

        async def query() -> None:
            await self._topology.dead_letters()
            channel = await self._link.channel()
            try:
                with suppress(ChannelAccessRefused):
                    await answer(channel.basic_get(self._names.dead_letters))
            finally:
                await close_channel(channel)  # gives a received message back

        await self._link.persist(query)

    async def all(self, keep: Callable[[DeadLetter], T]) -> Sequence[T]:
        """Returns `keep(dead_letter)` for each dead letter, oldest first."""
        async with self._browse() as browser:
            return await browser.all(lambda message: keep(self._read_dead_letter(message)))

    async def retry(self, dead_letter_id: str) -> bool:
        """Puts a dead letter back into its queue; returns False when none has this id."""
        async with self._browse() as browser:
            found = await _find(browser, dead_letter_id)
            if found is None:
                return False
            queue = self._way_back(found)
            if not queue:
                raise BusError(f"the queue of dead letter {dead_letter_id} is not known; it can only be discarded")
            await self._put_back(found, queue)
            await browser.take(found.delivery_tag)
            return True

    async def discard(self, dead_letter_id: str) -> bool:
        """Deletes a dead letter; returns False when none has this id."""
        async with self._browse() as browser:
            found = await _find(browser, dead_letter_id)
            if found is not None:
                await browser.take(found.delivery_tag)
            return found is not None

    async def retry_all(self) -> Sequence[str]:
        """Puts every dead letter back into its queue, except those of unknown and unusable queues; returns the ids."""
        done: list[str] = []
        async with self._browse() as browser:
            sizes = await browser.all(lambda message: len(message.body))
            await browser.end()
            for number in _page_sizes(sizes):
                page = await browser.next(lambda message: message, number)
                while page:
                    message = page.pop(0)
                    if (queue := self._way_back(message)) and await self._can_put_back(message, queue):
                        await browser.take(message.delivery_tag)
                        done.append(message_id(message))
        return done

    async def discard_all(self) -> Sequence[str]:
        """Deletes every dead letter; returns their ids."""
        done: list[str] = []
        async with self._browse() as browser:
            for tag, dead_letter_id in await browser.all(lambda message: (message.delivery_tag, message_id(message))):
                await browser.take(tag)
                done.append(dead_letter_id)
        return done

    def _way_back(self, message: DeliveredMessage) -> str:
        """Returns the queue that a dead letter goes back into; empty where it names none, or what cannot be one."""
        queue = self._read_dead_letter(message).queue
        try:
            role = self._names.key(queue).partition(".")[0]
        except InputError:  # anybody who may publish can write the header
            return ""
        return queue if is_inbox(queue) or role in ACTOR_ROLES else ""

    async def _can_put_back(self, message: DeliveredMessage, queue: str) -> bool:
        """Puts a dead letter back; returns False where its queue has other settings than ours."""
        try:
            await self._put_back(message, queue)
        except BusUnusable:
            return False
        return True

    async def _put_back(self, message: DeliveredMessage, queue: str) -> None:
        place = Destination(queue, lambda: self._topology.queue(queue))
        headers = {**_original_headers(message), **named_users(users_of(message, self._link.user))}
        exchange, key = self._names.asking(queue), self._names.key(queue)
        await self._publisher.send(place, [Outgoing(exchange, key, message.body, headers)])

    def _read_dead_letter(self, message: DeliveredMessage) -> DeadLetter:
        headers = headers_of(message)
        queue, reason = self._fate(headers)
        *behalf, user = users_of(message, self._link.user)
        return DeadLetter(message_id(message), read_message(message), queue, reason, user, tuple(behalf))

    def _fate(self, headers: Mapping[str, object]) -> tuple[str, str]:
        """Returns the queue and the reason: from the server for what it moved itself, otherwise from our headers."""
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
    async def _browse(self) -> AsyncIterator[QueueBrowser]:
        """Opens an exclusive browser of the queue; messages that the block does not take are given back after it."""
        async with self._one:
            channel = await self._link.persist(self._own_browsing)
            browser = QueueBrowser(channel, self._names.dead_letters, self._topology.dead_letters)
            try:
                await browser.begin()
                yield browser
                await browser.end()
            except LOST as error:
                raise BusError(f"dead letters cannot be read: {explain(error)}") from None
            except Exception:
                with suppress(*LOST):
                    await browser.end()  # else the next browser could find the queue without them
                raise
            finally:
                with suppress(*LOST):
                    await answer(channel.queue_delete(self._names.looking))
                await close_channel(channel)

    async def _own_browsing(self) -> Channel:
        """Returns a channel whose connection owns the right to browse; raises Lost while another's does."""
        channel = await self._link.channel()
        try:
            await answer(channel.queue_declare(self._names.looking, exclusive=True))
        except ChannelLockedResource:
            raise Lost("another process is reading the dead letters") from None
        except BaseException:
            await close_channel(channel)
            raise
        return channel


async def _find(browser: QueueBrowser, dead_letter_id: str) -> DeliveredMessage | None:
    found = await browser.all(lambda message: message if message_id(message) == dead_letter_id else None)
    return next((each for each in found if each is not None), None)


def _page_sizes(sizes: Iterable[int]) -> Iterator[int]:
    """Yields how many of the messages, with bodies of these sizes, each page holds at once."""
    number = held = 0
    for size in sizes:
        if number and held + size > _HELD:
            yield number
            number = held = 0
        number, held = number + 1, held + size
    if number:
        yield number


def _original_headers(message: DeliveredMessage) -> Headers:
    """Returns the headers with which it was first sent, without those of its redelivery."""
    fate = ("x-", "redraft-")
    found = sendable(headers_of(message)).items()
    return {name: value for name, value in found if name in (BODY, PIECES) or not name.startswith(fate)}
