"""Publishing with confirmation: many messages under way at once, in order, on one channel."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import count, zip_longest
from typing import Final

import msgspec
from aiormq.exceptions import ChannelPreconditionFailed, DeliveryError

from redraft.events.errors import TooLarge
from redraft.events.rabbit_link import Link, Lost, explain, let_go
from redraft.events.rabbit_wire import Outgoing, Wire

WINDOW: Final = 256
"""How many messages may be under way without a confirmation."""

CONFIRM: Final = 15.0
"""Seconds without any confirmation, while some are due, after which the channel is given up; at most the patience."""

_SURELY_ALLOWED: Final = 16 * 1024 * 1024
"""Bytes of the largest body that a server takes unless it is told to take less: 16 MiB in 4.x, 128 MiB in 3.x."""


class Place(msgspec.Struct, frozen=True):
    """Where messages go, by a name of it; `prepare` makes it, before the first message and whenever it may be gone."""

    name: str
    prepare: Callable[[], Awaitable[object]]


class Burst:
    """Messages under way on one channel, in order, and the first fault among them. Each holds one of the `slots`."""

    def __init__(self, slots: asyncio.Semaphore, patience: float) -> None:
        self.fault: BaseException | None = None
        self._slots = slots
        self._patience = patience
        self._confirmations: list[asyncio.Future[None]] = []

    def add(self, confirmation: asyncio.Future[None]) -> None:
        confirmation.add_done_callback(self._ended)
        self._confirmations.append(confirmation)

    async def settled(self) -> None:
        """Waits until each message has its answer; raises Lost when none comes any more."""
        waiting: set[asyncio.Future[None]] = {each for each in self._confirmations if not each.done()}
        while waiting:
            done, waiting = await asyncio.wait(waiting, timeout=self._patience)
            if not done:
                raise Lost(f"no message was confirmed for {self._patience:g} seconds")

    def stop(self) -> None:
        for confirmation in self._confirmations:
            confirmation.cancel()

    def again(self, messages: Sequence[Outgoing], strictly: bool) -> list[Outgoing]:
        """What is to be sent again, in order."""
        again = []
        for message, confirmation in zip_longest(messages, self._confirmations):
            if confirmation is None or isinstance(_fault(confirmation), DeliveryError):
                again.append(message)  # the server does not have it
            elif _fault(confirmation):
                again.append(msgspec.structs.replace(message, sent=message.sent + 1))
            elif strictly and again:
                again.append(message)
        return again

    def _ended(self, confirmation: asyncio.Future[None]) -> None:
        self._slots.release()
        self.fault = self.fault or _fault(confirmation)


def _fault(confirmation: asyncio.Future[None]) -> BaseException | None:
    """Why a message is not confirmed; None if it is."""
    if not confirmation.done() or confirmation.cancelled():
        return Lost("no message was confirmed")
    fault = confirmation.exception()
    return Lost("the connection was given up") if isinstance(fault, asyncio.CancelledError) else fault


class Publisher:
    """Sends messages until they are confirmed. `token` makes the ids of its attempts unlike those of any other."""

    def __init__(self, link: Link, token: str) -> None:
        self._link = link
        self._token = token
        self._confirm = min(CONFIRM, link.patience)
        self._attempts = count(1)
        self._slots = asyncio.Semaphore(WINDOW)
        self._opening = asyncio.Lock()
        self._wire: Wire | None = None
        self._prepared: set[str] = set()
        self._closing: set[asyncio.Task[None]] = set()

    async def send(self, place: Place, messages: Sequence[Outgoing], *, strictly: bool = False) -> None:
        """Sends messages in order; returns when the server has confirmed all.

        What is not confirmed is sent again, after what was. `strictly` sends again all from there on, so that after
        each message comes every one that follows it. Raises BusError when nothing was confirmed for the patience of the
        link, or when the server refuses a message for its size.
        """
        rest = list(messages)

        async def attempted() -> None:
            """Raises the fault when not one was confirmed; `rest` counts this attempt all the same."""
            nonlocal rest
            before = rest
            rest, fault = await self._attempt(place, before, strictly)
            if fault is not None and len(rest) == len(before):
                raise _final(fault, before)

        while rest:
            await self._link.persist(attempted)

    async def close(self) -> None:
        if self._wire is not None:
            self._wire.close()
        for task in self._closing:
            task.cancel()
        await asyncio.gather(*self._closing, return_exceptions=True)

    async def _attempt(
        self, place: Place, messages: Sequence[Outgoing], strictly: bool
    ) -> tuple[list[Outgoing], BaseException | None]:
        """Sends all, and returns those that are to be sent again, with the first fault among them."""
        wire = await self._ready(place)
        burst = Burst(self._slots, self._confirm)
        try:
            for message in messages:
                await self._slot()
                if burst.fault:
                    self._slots.release()
                    break
                burst.add(wire.put(message, f"{self._token}-{next(self._attempts)}"))
            await burst.settled()
        except Lost as stuck:
            burst.fault = stuck
            self._give_up(wire)
        finally:
            burst.stop()
        if burst.fault:
            self._prepared.discard(place.name)
        return burst.again(messages, strictly), burst.fault

    async def _slot(self) -> None:
        if not self._slots.locked():
            await self._slots.acquire()
            return
        try:
            async with asyncio.timeout(self._confirm):
                await self._slots.acquire()
        except TimeoutError:
            raise Lost(f"no message was confirmed for {self._confirm:g} seconds") from None

    async def _ready(self, place: Place) -> Wire:
        async with self._opening:
            if self._wire is not None and self._wire.channel.is_closed:
                self._wire.close()
                self._wire = None
            if self._wire is None:
                self._prepared.clear()
                self._wire = Wire(await self._link.channel(), self._link.user)
            if place.name not in self._prepared:
                await place.prepare()
                self._prepared.add(place.name)
            return self._wire

    def _give_up(self, wire: Wire) -> None:
        wire.close()
        if self._wire is wire:
            self._wire = None
        closing = asyncio.create_task(let_go(wire.channel))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)


def _final(fault: BaseException, messages: Sequence[Outgoing]) -> BaseException:
    """The fault, or BusError when it is of no use to try again."""
    largest = max(len(message.body) for message in messages)
    if isinstance(fault, ChannelPreconditionFailed) and largest > _SURELY_ALLOWED:
        return TooLarge(f"RabbitMQ refuses a message of {largest:,} bytes: {explain(fault)}")
    return fault
