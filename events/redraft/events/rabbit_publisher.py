"""Publishing with confirmation: many messages under way at once, in order, on one channel."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from itertools import count, zip_longest
from typing import Final

import msgspec
from aiormq import Channel
from aiormq.exceptions import ChannelPreconditionFailed, DeliveryError
from pamqp.commands import Basic

from redraft.events.errors import BusError
from redraft.events.rabbit_letters import SENT, Headers
from redraft.events.rabbit_link import Link, Lost, explain, let_go

WINDOW: Final = 256
"""How many messages may be under way without a confirmation."""

CONFIRM: Final = 15.0
"""Seconds without any confirmation, while some are due, after which the channel is given up; at most the patience."""

_SURELY_ALLOWED: Final = 16 * 1024 * 1024
"""Bytes of the largest body that a server takes unless it is told to take less: 16 MiB in 4.x, 128 MiB in 3.x."""

_JSON: Final = "application/json"
_PERSISTENT: Final = 2


class Outgoing(msgspec.Struct, frozen=True, gc=False):
    """A message to send. `sent` is how often it was sent without an answer: it may have arrived."""

    exchange: str
    key: str
    body: bytes
    headers: Headers
    sent: int = 0


class Place(msgspec.Struct, frozen=True):
    """Where messages go, by a name of it; `prepare` makes it, before the first message and whenever it may be gone."""

    name: str
    prepare: Callable[[], Awaitable[object]]


class Burst:
    """Messages under way on one channel, in order, and the first fault among them. Each holds one of the `slots`."""

    def __init__(self, slots: asyncio.Semaphore, patience: float) -> None:
        self.fault: BaseException | None = None
        self._patience = patience
        self._slots = slots
        self._tasks: list[asyncio.Task[None]] = []

    def add(self, publishing: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(publishing)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    async def settled(self) -> None:
        """Waits until each message has its answer; raises Lost when none comes any more."""
        waiting: set[asyncio.Task[None]] = set(self._tasks)
        while waiting:
            done, waiting = await asyncio.wait(waiting, timeout=self._patience)
            if not done:
                raise Lost(f"no message was confirmed for {self._patience:g} seconds")

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    def again(self, messages: Sequence[Outgoing], strictly: bool) -> list[Outgoing]:
        """What is to be sent again, in order."""
        again = []
        for message, task in zip_longest(messages, self._tasks):
            if task is None or _refused(task):
                again.append(message)
            elif not _confirmed(task):
                again.append(msgspec.structs.replace(message, sent=message.sent + 1))
            elif strictly and again:
                again.append(message)
        return again

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._slots.release()
        fault = Lost("the connection was given up") if task.cancelled() else task.exception()
        self.fault = self.fault or fault


def _confirmed(task: asyncio.Task[None]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


def _refused(task: asyncio.Task[None]) -> bool:
    """The server said that it does not have the message; otherwise it may."""
    return task.done() and not task.cancelled() and isinstance(task.exception(), DeliveryError)


class Publisher:
    """Sends messages until they are confirmed. `token` makes the ids of its attempts unlike those of any other."""

    def __init__(self, link: Link, token: str) -> None:
        self._link = link
        self._token = token
        self._confirm = min(CONFIRM, link.patience)
        self._attempts = count(1)
        self._slots = asyncio.Semaphore(WINDOW)
        self._opening = asyncio.Lock()
        self._channel: Channel | None = None
        self._prepared: set[str] = set()
        self._closing: set[asyncio.Task[None]] = set()

    async def send(self, place: Place, messages: Sequence[Outgoing], *, strictly: bool = False) -> None:
        """Sends messages in order; returns when the server has confirmed all.

        What is not confirmed is sent again, after what was. `strictly` sends again all from there on, so that after
        each message comes every one that follows it. Raises BusError when nothing was confirmed for the patience of the
        link, or when the server refuses a message for its size.
        """
        rest = list(messages)
        while rest:
            rest = await self._link.persist(partial(self._attempt, place, rest, strictly))

    async def close(self) -> None:
        for task in self._closing:
            task.cancel()
        await asyncio.gather(*self._closing, return_exceptions=True)

    async def _attempt(self, place: Place, messages: Sequence[Outgoing], strictly: bool) -> list[Outgoing]:
        """Sends all, and gives those that are to be sent again; raises the fault when not one was confirmed."""
        channel = await self._ready(place)
        burst = Burst(self._slots, self._confirm)
        try:
            for message in messages:
                await self._slot()
                if burst.fault:
                    self._slots.release()
                    break
                burst.add(self._publish(channel, message))
            await burst.settled()
        except Lost as stuck:
            burst.fault = stuck
            self._give_up(channel)
        finally:
            burst.stop()
        again = burst.again(messages, strictly)
        if burst.fault:
            self._prepared.discard(place.name)
            if len(again) == len(messages):
                raise _final(burst.fault, messages)
        return again

    async def _slot(self) -> None:
        if not self._slots.locked():
            await self._slots.acquire()
            return
        try:
            async with asyncio.timeout(self._confirm):
                await self._slots.acquire()
        except TimeoutError:
            raise Lost(f"no message was confirmed for {self._confirm:g} seconds") from None

    async def _publish(self, channel: Channel, message: Outgoing) -> None:
        headers = {**message.headers, SENT: message.sent} if message.sent else message.headers
        await channel.basic_publish(
            message.body,
            exchange=message.exchange,
            routing_key=message.key,
            properties=Basic.Properties(
                content_type=_JSON,
                delivery_mode=_PERSISTENT,
                headers=headers,
                message_id=f"{self._token}-{next(self._attempts)}",
            ),
            mandatory=True,
            wait=False,
        )

    async def _ready(self, place: Place) -> Channel:
        async with self._opening:
            if self._channel is None or self._channel.is_closed:
                self._prepared.clear()
                self._channel = await self._link.channel()
            if place.name not in self._prepared:
                await place.prepare()
                self._prepared.add(place.name)
            return self._channel

    def _give_up(self, channel: Channel) -> None:
        if self._channel is channel:
            self._channel = None
        closing = asyncio.create_task(let_go(channel))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)


def _final(fault: BaseException, messages: Sequence[Outgoing]) -> BaseException:
    """The fault, or BusError when it is of no use to try again."""
    largest = max(len(message.body) for message in messages)
    if isinstance(fault, ChannelPreconditionFailed) and largest > _SURELY_ALLOWED:
        return BusError(f"RabbitMQ refuses a message of {largest} bytes: {explain(fault)}")
    return fault
