"""Publishes with confirmations: many messages at once, in order, on one channel."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import count, zip_longest
from typing import Final

import msgspec
from aiormq.exceptions import ChannelPreconditionFailed, DeliveryError, PublishError

from redraft.events.errors import MessageTooLarge
from redraft.events.rabbit.connection import Link, Lost, close_channel, explain
from redraft.events.rabbit.fast_publish import FrameWriter, Outgoing

_FIRST_PAUSE: Final = 0.005
_LONGEST_PAUSE: Final = 0.25


class QueueCapacity:
    """Limits one queue to `capacity` messages. It asks the server for the depth again when the free room is used up.

    It uses half of the free room before that, so that several publishers do not exceed the capacity together.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._free = 0
        self._asking = asyncio.Lock()

    async def enter(self, limit: int, waiting: Callable[[], Awaitable[int]]) -> int:
        """Returns how many messages, 1 to `limit`, may be put, once there is room. `waiting` returns the depth."""
        pause = _FIRST_PAUSE
        while self._free < 1:
            async with self._asking:
                if self._free < 1:
                    self._free = (self._capacity - await waiting() + 1) // 2
            if self._free < 1:
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
        number = min(limit, self._free)
        self._free -= number
        return number


WINDOW: Final = 256
"""The most messages without a confirmation."""

CONFIRM: Final = 15.0
"""Seconds without any confirmation, while some are due, after which the channel is closed; at most the patience."""

_SURELY_ALLOWED: Final = 16 * 1024 * 1024
"""The largest body, in bytes, that every server accepts by default: 16 MiB in 4.x, 128 MiB in 3.x."""


def _same(message: Outgoing) -> Outgoing:
    return message


class Destination(msgspec.Struct, frozen=True):
    """The queue or exchange for messages; `prepare` makes it, before the first message and whenever it may be gone.

    `readdress` returns what is sent in place of a message that was not confirmed.
    """

    name: str
    prepare: Callable[[], Awaitable[object]]
    readdress: Callable[[Outgoing], Outgoing] = _same


class Burst:
    """Unconfirmed messages on one channel, in order, and the first fault among them. Each holds one of the `slots`."""

    def __init__(self, slots: asyncio.Semaphore, patience: float, returned: set[str] | None) -> None:
        self.fault: BaseException | None = None
        self._returned = returned
        self._slots = slots
        self._patience = patience
        self._confirmations: list[asyncio.Future[None]] = []

    def add(self, message: Outgoing, sent: asyncio.Future[None]) -> None:
        confirmation = (
            sent if self._returned is None or not message.exchange else _passed_over(sent, message.key, self._returned)
        )
        confirmation.add_done_callback(self._on_answer)
        self._confirmations.append(confirmation)

    async def wait_settled(self) -> None:
        """Waits until each message is confirmed or refused; raises Lost when no answer arrives any more."""
        waiting: set[asyncio.Future[None]] = {each for each in self._confirmations if not each.done()}
        while waiting:
            done, waiting = await asyncio.wait(waiting, timeout=self._patience)
            if not done:
                raise Lost(f"no message was confirmed for {self._patience:g} seconds")

    def stop(self) -> None:
        for confirmation in self._confirmations:
            confirmation.cancel()

    def list_unsent(self, messages: Sequence[Outgoing], strictly: bool) -> list[Outgoing]:
        """Returns the messages to send again, in order."""
        list_unsent = []
        for message, confirmation in zip_longest(messages, self._confirmations):
            if confirmation is None or isinstance(_find_fault(confirmation), DeliveryError):
                list_unsent.append(message)  # the server does not have it
            elif _find_fault(confirmation):
                list_unsent.append(msgspec.structs.replace(message, sent=message.sent + 1))
            elif strictly and list_unsent:
                list_unsent.append(message)
        return list_unsent

    def _on_answer(self, confirmation: asyncio.Future[None]) -> None:
        self._slots.release()
        self.fault = self.fault or _find_fault(confirmation)


def _passed_over(sent: asyncio.Future[None], key: str, returned: set[str]) -> asyncio.Future[None]:
    """Returns a confirmation that also counts a message that no queue is bound for; adds its key to `returned`."""
    confirmation: asyncio.Future[None] = sent.get_loop().create_future()

    def answered(_: asyncio.Future[None]) -> None:
        if confirmation.done():
            return
        if sent.cancelled():
            confirmation.cancel()
        elif isinstance(fault := sent.exception(), PublishError):
            returned.add(key)
            confirmation.set_result(None)
        elif fault is not None:
            confirmation.set_exception(fault)
        else:
            confirmation.set_result(None)

    sent.add_done_callback(answered)
    confirmation.add_done_callback(lambda _: sent.cancel())
    return confirmation


def _find_fault(confirmation: asyncio.Future[None]) -> BaseException | None:
    """Returns why a message is not confirmed; None if it is."""
    if not confirmation.done() or confirmation.cancelled():
        return Lost("no message was confirmed")
    fault = confirmation.exception()
    return Lost("the connection was given up") if isinstance(fault, asyncio.CancelledError) else fault


class Publisher:
    """Sends messages until they are confirmed. `token` makes the ids of its attempts unique."""

    def __init__(self, link: Link, token: str) -> None:
        self._link = link
        self._token = token
        self._confirm = min(CONFIRM, link.patience)
        self._attempts = count(1)
        self._slots = asyncio.Semaphore(WINDOW)
        self._opening = asyncio.Lock()
        self._writer: FrameWriter | None = None
        self._prepared: set[str] = set()
        self._closing: set[asyncio.Task[None]] = set()

    async def send(
        self,
        place: Destination,
        messages: Sequence[Outgoing],
        *,
        strictly: bool = False,
        returned: set[str] | None = None,
    ) -> None:
        """Sends messages in order; returns when the server has confirmed all.

        Sends unconfirmed messages again, after the confirmed ones. `strictly` sends all from the first unconfirmed one
        again, so that after each message comes every one that follows it. With `returned`, a message to an exchange
        where no queue is bound for it is not sent again, and its key is added there. Raises BusError when nothing was
        confirmed for the patience of the link, or when the server refuses a message for its size.
        """
        rest, first = list(messages), True

        async def attempted() -> None:
            """Raises the fault when not one was confirmed; `rest` counts this attempt all the same."""
            nonlocal rest, first
            writer = await self._ready(place)
            before = rest if first else [place.readdress(message) for message in rest]
            first = False
            rest, fault = await self._attempt(writer, place, before, strictly, returned)
            if fault is not None and len(rest) == len(before):
                raise _final_error(fault, before)

        while rest:
            await self._link.persist(attempted)

    async def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        for task in self._closing:
            task.cancel()
        await asyncio.gather(*self._closing, return_exceptions=True)

    async def _attempt(
        self,
        writer: FrameWriter,
        place: Destination,
        messages: Sequence[Outgoing],
        strictly: bool,
        returned: set[str] | None,
    ) -> tuple[list[Outgoing], BaseException | None]:
        """Sends all, and returns those to send again, with the first fault among them."""
        burst = Burst(self._slots, self._confirm, returned)
        try:
            for message in messages:
                await self._acquire_slot()
                if burst.fault:
                    self._slots.release()
                    break
                burst.add(message, writer.put(message, f"{self._token}-{next(self._attempts)}"))
            await burst.wait_settled()
        except Lost as stuck:
            burst.fault = stuck
            self._give_up(writer)
        finally:
            burst.stop()
        if burst.fault:
            self._prepared.discard(place.name)
        return burst.list_unsent(messages, strictly), burst.fault

    async def _acquire_slot(self) -> None:
        if not self._slots.locked():
            await self._slots.acquire()
            return
        try:
            async with asyncio.timeout(self._confirm):
                await self._slots.acquire()
        except TimeoutError:
            raise Lost(f"no message was confirmed for {self._confirm:g} seconds") from None

    async def _ready(self, place: Destination) -> FrameWriter:
        async with self._opening:
            writer = await self._open_writer()
            while place.name not in self._prepared:
                await place.prepare()
                if self._writer is writer:
                    self._prepared.add(place.name)
                else:  # another sender has given it up meanwhile
                    writer = await self._open_writer()
            return writer

    async def _open_writer(self) -> FrameWriter:
        """Returns the writer on the open channel; opens one, for which nothing is prepared yet, where there is none."""
        if self._writer is not None and self._writer.channel.is_closed:
            self._writer.close()
            self._writer = None
        if self._writer is None:
            self._prepared.clear()
            self._writer = FrameWriter(await self._link.channel(), self._link.wire, self._link.user)
        return self._writer

    def _give_up(self, writer: FrameWriter) -> None:
        writer.close()
        if self._writer is writer:
            self._writer = None
        closing = asyncio.create_task(close_channel(writer.channel))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)


def _final_error(fault: BaseException, messages: Sequence[Outgoing]) -> BaseException:
    """Returns the fault, or MessageTooLarge when a retry is useless."""
    largest = max(len(message.body) for message in messages)
    if isinstance(fault, ChannelPreconditionFailed) and largest > _SURELY_ALLOWED:
        return MessageTooLarge(f"RabbitMQ refuses a message of {largest:,} bytes: {explain(fault)}")
    return fault
