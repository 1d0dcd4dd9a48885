"""One reader of a queue on RabbitMQ: it has a session, and a new one whenever the old one ends."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import count
from typing import Final

import msgspec
from aiormq.abc import DeliveredMessage

from redraft.events.bus import Delivery
from redraft.events.errors import BusError, InputError, TooLarge
from redraft.events.rabbit_bundle import read_bundle
from redraft.events.rabbit_letters import SENT, Headers, headers_of, letter_headers, number, read_letter, sendable
from redraft.events.rabbit_link import LOST, Link, let_go
from redraft.events.rabbit_session import Session
from redraft.events.rabbit_topology import Topology

ACK_DELAY: Final = 0.05
"""Seconds for which an acknowledgement waits for company, as long as the server may send more without it.

Each that a quorum queue gets costs it a write to its log, at the expense of the messages that somebody waits for.
"""

_MOST: Final = 65_535
_LEAVE: Final = 5.0


class Bundle:
    """How many letters of one message are not settled, and whether some reader has had one of them."""

    __slots__ = ("open", "taken")

    def __init__(self, letters: int) -> None:
        self.open = letters
        self.taken = False


class Held(msgspec.Struct, frozen=True, gc=False):
    """A delivery, and the session and message that it came with: neither is that of another connection.

    `bundle` is there if the message holds several letters.
    """

    delivery: Delivery
    session: Session
    message: DeliveredMessage
    bundle: Bundle | None = None

    @property
    def headers(self) -> Headers:
        """Those of a message that would hold this letter alone."""
        return letter_headers(self.delivery.letter) if self.bundle else sendable(headers_of(self.message))

    def settle(self) -> None:
        """Has the message settled, once all its letters are."""
        if self.bundle is not None:
            self.bundle.open -= 1
        if self.bundle is None or self.bundle.open == 0:
            self.session.settle(self.message)


class RabbitConsumer:
    """Reads one queue. A letter of a session that ended is delivered again by the server; settling it does nothing.

    The server sends up to `prefetch` letters ahead, from the first `take` on. Acknowledgements are kept back for
    `ACK_DELAY`, unless somebody waits in `take` and half of the prefetch is used up.
    """

    def __init__(
        self,
        queue: str,
        name: str,
        prefetch: int,
        link: Link,
        topology: Topology,
        park: Callable[[Held, str], Awaitable[None]],
        part: Callable[[Sequence[Held], int], Awaitable[None]],
        delivery_limit: int,
    ) -> None:
        self._queue = queue
        self._name = name
        self._prefetch = min(prefetch, _MOST)
        self._link = link
        self._topology = topology
        self._park = park
        self._part = part
        self._limit = delivery_limit
        self._tags = count(1)
        self._ready: deque[Held] = deque()
        self._held: dict[int, Held] = {}
        self._again: deque[Sequence[Held]] = deque()
        self._session: Session | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._waiting = 0
        self._end = ""

    async def take(self, most: int) -> Sequence[Delivery]:
        if most < 1:
            raise InputError(f"most is {most}: it must be at least 1")
        self._require_presence()
        self._waiting += 1
        try:
            while self._again:
                await self._take_apart()
            while (room := min(most, self._prefetch - len(self._held))) < 1 or not self._ready:
                self._keep()
                self._changed.clear()
                await self._changed.wait()
                self._require_presence()
                while self._again:
                    await self._take_apart()
        finally:
            self._waiting -= 1
        taken = [self._ready.popleft() for _ in range(min(room, len(self._ready)))]
        for held in taken:
            self._held[held.delivery.tag] = held
            if held.bundle is not None:
                held.bundle.taken = True
        return [held.delivery for held in taken]

    async def ack(self, deliveries: Sequence[Delivery]) -> None:
        self._require_presence()
        for delivery in deliveries:
            held = self._held.pop(delivery.tag, None)
            if held is not None:
                held.settle()
        self._tell()

    async def reject(self, delivery: Delivery, *, requeue: bool, reason: str = "") -> None:
        self._require_presence()
        held = self._held.get(delivery.tag)
        if held is None:
            return
        if not requeue:
            await self._set_aside(held, reason or "rejected")
        elif delivery.count >= self._limit:
            times = f"delivered {delivery.count} times, the last time"
            await self._set_aside(held, f"{times}: {reason or 'rejected'}")
        elif held.bundle is not None:
            await self._part([held], delivery.count)
            self._dismiss(held)
        elif self._held.pop(delivery.tag, None):
            with suppress(*LOST):  # a session that ended has given it back
                await held.session.give_back(held.message)
        self._changed.set()

    async def leave(self) -> None:
        """Gives back what is not settled."""
        self.close(f"this consumer has left {self._queue}; what it had not settled is delivered again")
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        session, self._session = self._session, None
        if session is not None:
            seen = [*self._held.values(), *(held for held in self._ready if held.bundle and held.bundle.taken)]
            held = {tag for held in seen if held.session is session if (tag := held.message.delivery_tag)}
            with suppress(*LOST):
                async with asyncio.timeout(_LEAVE):
                    await session.leave(held)

    def close(self, why: str) -> None:
        """Everybody who waits, and every call from now on, gets BusError."""
        self._end = self._end or why
        self._changed.set()

    async def _set_aside(self, held: Held, reason: str) -> None:
        try:
            await self._park(held, reason)
        except TooLarge:  # the server has it, and takes no longer what is so large: it can move it all the same
            self._held.pop(held.delivery.tag, None)
            with suppress(*LOST):
                await held.session.dead_letter(held.message)
        else:
            self._dismiss(held)

    def _dismiss(self, held: Held) -> None:
        """Settles a letter that is safe elsewhere."""
        if self._held.pop(held.delivery.tag, None):
            held.settle()
            held.session.send_soon()

    async def _take_apart(self) -> None:
        """Letters that came together and came back are sent again one by one: one of them may be what stops readers."""
        bundle = self._again[0]
        await self._part(bundle, bundle[0].delivery.count - 1)
        if self._again and self._again[0] is bundle:
            self._again.popleft()
            for held in bundle:
                held.settle()
            bundle[0].session.send_soon()

    def _require_presence(self) -> None:
        if self._end:
            raise BusError(self._end)

    def _tell(self) -> None:
        """Has acknowledgements sent: now if somebody may wait for them, soon if not."""
        self._changed.set()
        session = self._session
        if session is None:
            return
        if self._waiting and self._needs_room(session):
            session.send_soon()
        else:
            session.send_after(ACK_DELAY)

    def _needs_room(self, session: Session) -> bool:
        return session.unsettled >= self._prefetch // 2

    def _keep(self) -> None:
        """Sees to it that there is a session, or will be, and that it has nothing to tell."""
        if self._keeper is None:
            self._keeper = asyncio.create_task(self._read_on())
        elif self._keeper.done():
            keeper, self._keeper = self._keeper, None
            keeper.result()
        elif self._session is not None and self._needs_room(self._session):
            self._session.send_soon()

    async def _read_on(self) -> None:
        """Has one session after the other. Ends with BusError when the server cannot be used any more."""
        try:
            while True:
                session = await self._link.persist(self._open)
                await session.serve()
                self._drop(session)
        finally:
            self._changed.set()

    async def _open(self) -> Session:
        await self._topology.queue(self._queue)
        channel = await self._link.channel()
        session = Session(channel)

        def arrived(message: DeliveredMessage) -> None:
            self._arrived(session, message)

        self._session = session  # what arrives may be taken and settled before we hear that we may read
        try:
            await session.read(self._name, self._prefetch, arrived)
        except LOST:
            self._drop(session)
            await let_go(channel)
            raise
        return session

    def _arrived(self, session: Session, message: DeliveredMessage) -> None:
        headers = headers_of(message)
        times = 1 + number(headers, SENT) + number(headers, "x-delivery-count")
        letters = read_bundle(message)
        bundle = Bundle(len(letters)) if letters else None
        arrived = [
            Held(Delivery(letter, self._queue, next(self._tags), times), session, message, bundle)
            for letter in letters or (read_letter(message),)
        ]
        if bundle is not None and times > 1:
            self._again.append(arrived)
        else:
            self._ready += arrived
        self._changed.set()

    def _drop(self, session: Session) -> None:
        """Forgets what was sent ahead by a session that ended. What is held stays held until it is settled."""
        self._session = None
        self._ready = deque(held for held in self._ready if held.session is not session)
        self._again = deque(bundle for bundle in self._again if bundle[0].session is not session)
