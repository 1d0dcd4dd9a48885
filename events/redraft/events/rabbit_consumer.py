"""One reader of a queue on RabbitMQ: it has a session, and a new one whenever the old one ends."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import count
from typing import Final

from aiormq.abc import DeliveredMessage

from redraft.events.bus import Delivery
from redraft.events.errors import BusError, InputError, NotAllowed, TooLarge
from redraft.events.rabbit_bundle import read_bundle
from redraft.events.rabbit_held import Bundle, Held
from redraft.events.rabbit_letters import DELIVERED, SENT, headers_of, number, read_letter, user_of
from redraft.events.rabbit_link import LOST, Link, let_go
from redraft.events.rabbit_prefetch import Prefetch
from redraft.events.rabbit_returns import Return, Returns
from redraft.events.rabbit_session import Session, tag_of
from redraft.events.rabbit_topology import Topology

ACK_DELAY: Final = 0.05
"""Seconds for which an acknowledgement waits for company, as long as the server may send more without it.

Each that a quorum queue gets costs it a write to its log, at the expense of the messages that somebody waits for.
"""

TAKEN_BYTES: Final = 4 * 1024 * 1024
"""Bytes of letters that are given at once, unless a single one has more."""

_MOST: Final = 65_535
_LEAVE: Final = 5.0


class RabbitConsumer:
    """Reads one queue. A letter of a session that ended is delivered again by the server; settling it does nothing.

    The server sends up to `prefetch` letters ahead, from the first `take` on, and fewer where they are large (see
    `rabbit_prefetch`). Acknowledgements are kept back for `ACK_DELAY`, unless somebody waits in `take` and half of the
    prefetch is used up.
    """

    def __init__(
        self,
        queue: str,
        name: str,
        prefetch: int,
        link: Link,
        topology: Topology,
        park: Callable[[Held, str, bool], Awaitable[None]],
        again: Callable[[Sequence[Return]], Awaitable[None]],
        delivery_limit: int,
    ) -> None:
        self._queue = queue
        self._name = name
        self._prefetch = min(prefetch, _MOST)
        self._ahead = Prefetch(self._prefetch)
        self._link = link
        self._topology = topology
        self._park = park
        self._send_again = again
        self._limit = delivery_limit
        self._tags = count(1)
        self._ready: deque[Held] = deque()
        self._held: dict[int, Held] = {}
        self._returns = Returns(again, park, delivery_limit)
        self._session: Session | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._waiting = 0
        self._older = 0
        self._end = ""

    async def take(self, most: int) -> Sequence[Delivery]:
        if most < 1:
            raise InputError(f"most is {most}: it must be at least 1")
        self._require_presence()
        self._waiting += 1
        try:
            while self._returns:
                await self._returns.sent()
            while (room := min(most, self._prefetch - len(self._held))) < 1 or not self._ready:
                self._keep()
                self._changed.clear()
                await self._changed.wait()
                self._require_presence()
                while self._returns:
                    await self._returns.sent()
        finally:
            self._waiting -= 1
        taken: list[Held] = []
        size = 0
        while self._ready and len(taken) < room and size < TAKEN_BYTES:
            taken.append(self._ready.popleft())
            size += len(taken[-1].delivery.letter.body)
        for held in taken:
            self._held[held.delivery.tag] = held
            if held.bundle is not None:
                held.bundle.taken = True
        return [held.delivery for held in taken]

    def ahead(self) -> Sequence[str]:
        return [held.delivery.letter.origin.id for held in self._ready]

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
        elif held.delivered >= self._limit:
            times = f"delivered {held.delivered} times, the last time"
            await self._set_aside(held, f"{times}: {reason or 'rejected'}")
        elif held.bundle is not None:
            await self._send_again([Return(held, held.delivered)])
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
            with suppress(*LOST):
                async with asyncio.timeout(_LEAVE):
                    await self._leave(session)
        await self._returns.end()

    def close(self, why: str) -> None:
        """Everybody who waits, and every call from now on, gets BusError."""
        self._end = self._end or why
        self._changed.set()

    async def _leave(self, session: Session) -> None:
        try:
            await session.stop()
            if self._topology.kind == "classic":
                await self._send_back(session)
        finally:
            mine = self._unsettled(session)
            await session.leave({tag_of(held.message) for held in mine if self._is_held(held) or held.comes_with_taken})

    async def _send_back(self, session: Session) -> None:
        """A classic queue would mark what was never begun as well: all is sent again, each with its own count."""
        for held in self._unsettled(session):
            self._returns.add([held], begun=self._is_held(held))
        with suppress(BusError):
            while self._returns:
                await self._returns.sent()

    def _unsettled(self, session: Session) -> Sequence[Held]:
        """What a session brought, and who reads may have had, in the order of the queue."""
        mine = (held for held in (*self._held.values(), *self._ready) if held.session is session)
        return sorted(mine, key=lambda held: held.delivery.tag)

    def _is_held(self, held: Held) -> bool:
        return held.delivery.tag in self._held

    async def _set_aside(self, held: Held, reason: str) -> None:
        try:
            await self._park(held, reason, False)
        except (TooLarge, NotAllowed):  # the server has it, and can move it all the same
            if held.bundle is not None:
                await self._send_again([Return(held, held.delivered)])  # by itself it can be moved
                self._dismiss(held)
                return
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
        return session.unsettled >= self._ahead.now // 2

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
        self._older = await self._topology.queue(self._queue)
        channel = await self._link.channel()
        session = Session(channel)

        def arrived(message: DeliveredMessage) -> None:
            self._arrived(session, message)

        self._session = session  # what arrives may be taken and settled before we hear that we may read
        try:
            await session.read(self._name, self._ahead.now, arrived)
        except LOST:
            self._drop(session)
            await let_go(channel)
            raise
        return session

    def _arrived(self, session: Session, message: DeliveredMessage) -> None:
        if prefetch := self._ahead.see(len(message.body)):
            session.resize(prefetch)
        headers = headers_of(message)
        back = self._came_back(message)
        delivered = 1 + number(headers, DELIVERED) + back
        times = delivered + number(headers, SENT)
        waited = self._older > 0
        self._older -= waited
        letters = read_bundle(message)
        bundle = Bundle(len(letters)) if letters else None
        user = user_of(message, self._link.user)
        arrived = [
            Held(
                Delivery(letter, self._queue, next(self._tags), times, waited, user),
                session,
                message,
                delivered,
                bundle,
            )
            for letter in letters or (read_letter(message),)
        ]
        if (back and self._topology.kind == "classic") or (bundle is not None and times > 1):
            self._returns.add(arrived, begun=False)
        else:
            self._ready += arrived
        self._changed.set()

    def _came_back(self, message: DeliveredMessage) -> int:
        """How often the server says that it delivered a message before; a classic queue knows only whether it did."""
        if self._topology.kind == "classic":
            return int(bool(message.redelivered))
        return number(headers_of(message), "x-delivery-count")

    def _drop(self, session: Session) -> None:
        """Forgets what was sent ahead by a session that ended. What is held stays held until it is settled."""
        self._session = None
        self._ready = deque(held for held in self._ready if held.session is not session)
        self._returns.forget(session)
