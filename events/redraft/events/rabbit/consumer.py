"""One reader of a queue on RabbitMQ: it has a session, and a new one whenever the old one ends."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import count
from typing import Final

from aiormq.abc import DeliveredMessage
from msgspec.structs import replace

from redraft.events.bus.port import INBOX, Delivery, is_inbox, require_at_least_one
from redraft.events.errors import BusError, MessageTooLarge, NotAllowed
from redraft.events.messages.memory import memory_decoded
from redraft.events.rabbit.channel_consumer import Batch, Prefetch, Session, UnsettledDelivery, tag_of
from redraft.events.rabbit.cloudevents import DELIVERED, SENT, headers_of, number, read_message, users_of
from redraft.events.rabbit.connection import LOST, Link, close_channel
from redraft.events.rabbit.dead_letters import Redeliveries, Redelivery
from redraft.events.rabbit.large_bodies import LargeBodies, refers
from redraft.events.rabbit.structured_events import read_batch
from redraft.events.rabbit.topology import Topology

ACK_DELAY: Final = 0.05
"""Seconds for which an acknowledgement waits for others: each costs a quorum queue a write, which delays messages."""

TAKEN_BYTES: Final = 4 * 1024 * 1024
"""The memory of the messages, decoded, that one `take` returns, unless a single message has more."""

_LEAVE: Final = 5.0


class RabbitConsumer:
    """Reads one queue. The server redelivers a message of a session that ended; settling it does nothing.

    From the first `take` on, the server sends up to `prefetch` messages ahead, and fewer where they are large (see
    `Prefetch`). Acknowledgements wait for `ACK_DELAY`, unless a `take` waits and half of the prefetch is used up.
    """

    def __init__(
        self,
        queue: str,
        name: str,
        ahead: Prefetch,
        link: Link,
        topology: Topology,
        park: Callable[[UnsettledDelivery, str, bool], Awaitable[None]],
        again: Callable[[Sequence[Redelivery]], Awaitable[None]],
        delivery_limit: int,
        bodies: LargeBodies,
    ) -> None:
        self._queue = queue
        self._name = name
        self._prefetch = ahead.limit
        self._ahead = ahead
        self._link = link
        self._topology = topology
        self._park = park
        self._send_again = again
        self._limit = delivery_limit
        self._bodies = bodies
        self._tags = count(1)
        self._ready: deque[UnsettledDelivery] = deque()
        self._held: dict[int, UnsettledDelivery] = {}
        self._redeliveries = Redeliveries(again, park, delivery_limit)
        self._session: Session | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._waiting = 0
        self._older = 0
        self._end = ""

    async def take(self, limit: int) -> Sequence[Delivery]:
        require_at_least_one("limit", limit)
        while True:
            taken = await self._take(limit)
            if not any(refers(held.message, self._name) for held in taken):
                return [held.delivery for held in taken]
            if whole := await self._fetch_bodies(taken):
                return whole

    async def _take(self, limit: int) -> Sequence[UnsettledDelivery]:
        self._require_presence()
        self._waiting += 1
        try:
            while True:
                while self._redeliveries:
                    await self._redeliveries.sent()
                room = min(limit, self._prefetch - len(self._held))
                if room > 0 and self._ready:
                    break
                self._keep_session()
                self._changed.clear()
                await self._changed.wait()
                self._require_presence()
        finally:
            self._waiting -= 1
        taken: list[UnsettledDelivery] = []
        size = 0
        while self._ready and len(taken) < room and size < TAKEN_BYTES:
            taken.append(self._ready.popleft())
            size += memory_decoded(taken[-1].delivery.bus_message.body)
        for held in taken:
            self._held[held.delivery.tag] = held
            if held.batch is not None:
                held.batch.taken = True
        return taken

    async def _fetch_bodies(self, taken: Sequence[UnsettledDelivery]) -> list[Delivery]:
        """Returns these deliveries with their bodies; one whose body is not there any more is given up as lost.

        Whoever sent it finds that, and sends it again.
        """
        whole: list[Delivery] = []
        try:
            for held in taken:
                delivery = held.delivery
                if refers(held.message, self._name):
                    body = await self._bodies.fetch(headers_of(held.message))
                    if body is None:
                        self._dismiss(held)
                        continue
                    delivery = replace(delivery, bus_message=replace(delivery.bus_message, body=body))
                whole.append(delivery)
        except BaseException:
            back = [held for held in taken if self._held.pop(held.delivery.tag, None) is not None]
            self._ready.extendleft(reversed(back))
            raise
        return whole

    def ahead(self) -> Sequence[str]:
        return [held.delivery.bus_message.origin.id for held in self._ready]

    async def ack(self, deliveries: Sequence[Delivery]) -> None:
        self._require_presence()
        for delivery in deliveries:
            held = self._held.pop(delivery.tag, None)
            if held is not None:
                held.settle()
                if name := refers(held.message, self._name):
                    self._bodies.delete(name)
        self._send_acks()

    async def reject(self, delivery: Delivery, *, requeue: bool, reason: str = "") -> None:
        self._require_presence()
        held = self._held.get(delivery.tag)
        if held is None:
            return
        if held.session.ended and (not requeue or held.delivered >= self._limit):
            self._held.pop(delivery.tag)  # the server took it back, and delivers it again: that one is dead-lettered
        elif not requeue:
            await self._dead_letter(held, reason or "rejected")
        elif held.delivered >= self._limit:
            times = f"delivered {held.delivered} times, the last time"
            await self._dead_letter(held, f"{times}: {reason or 'rejected'}")
        elif held.batch is not None:
            await self._send_again([Redelivery(held, held.delivered)])
            self._dismiss(held)
        elif self._held.pop(delivery.tag, None):
            with suppress(*LOST):  # when the session ends, the server takes the message back
                held.session.give_back(held.message)
        self._changed.set()

    async def leave(self) -> None:
        """Gives back every unsettled message."""
        self.close(f"this consumer has left {self._queue}; its unsettled messages are delivered again")
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        session, self._session = self._session, None
        if session is not None:
            with suppress(*LOST):
                async with asyncio.timeout(_LEAVE):
                    await self._leave(session)
        await self._redeliveries.end()

    def close(self, why: str) -> None:
        """Makes every waiting and later call raise BusError."""
        self._end = self._end or why
        self._changed.set()

    async def _leave(self, session: Session) -> None:
        try:
            await session.stop()
            if not self._topology.counts(self._queue):
                await self._send_back(session)
        finally:
            mine = self._unsettled(session)
            begun = [held for held in mine if self._is_held(held) or (held.batch and held.batch.taken)]
            await session.leave({tag_of(held.message) for held in begun})

    async def _send_back(self, session: Session) -> None:
        """Sends all messages again, each with its own count; a classic queue would count the unread ones too."""
        for held in self._unsettled(session):
            self._redeliveries.add([held], begun=self._is_held(held))
        with suppress(BusError):
            while self._redeliveries:
                await self._redeliveries.sent()

    def _unsettled(self, session: Session) -> Sequence[UnsettledDelivery]:
        """Returns the unsettled messages of a session, in the order of the queue."""
        mine = (held for held in (*self._held.values(), *self._ready) if held.session is session)
        return sorted(mine, key=lambda held: held.delivery.tag)

    def _is_held(self, held: UnsettledDelivery) -> bool:
        return held.delivery.tag in self._held

    async def _dead_letter(self, held: UnsettledDelivery, reason: str) -> None:
        try:
            await self._park(held, reason, False)
        except (MessageTooLarge, NotAllowed):  # the server has it, and can move it all the same
            if held.batch is not None:
                await self._send_again([Redelivery(held, held.delivered)])  # sent alone, it can be moved
                self._dismiss(held)
                return
            self._held.pop(held.delivery.tag, None)
            with suppress(*LOST):
                held.session.dead_letter(held.message)
        else:
            self._dismiss(held)

    def _dismiss(self, held: UnsettledDelivery) -> None:
        """Settles a message that is safe elsewhere."""
        if self._held.pop(held.delivery.tag, None):
            held.settle()
            held.session.send_soon()

    def _require_presence(self) -> None:
        if self._end:
            raise BusError(self._end)

    def _send_acks(self) -> None:
        """Sends acknowledgements: at once if a `take` may wait for them, soon if not."""
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

    def _keep_session(self) -> None:
        """Makes sure that there is a session, and that it sends acknowledgements when it needs room."""
        if self._keeper is None:
            self._keeper = asyncio.create_task(self._read_on())
        elif self._keeper.done():
            keeper, self._keeper = self._keeper, None
            keeper.result()
        elif self._session is not None and self._needs_room(self._session):
            self._session.send_soon()

    async def _read_on(self) -> None:
        """Serves one session after the other. Ends with BusError when the server cannot be used any more."""
        try:
            while True:
                session = await self._link.persist(self._open)
                await session.serve()
                self._drop(session)
        finally:
            self._changed.set()

    async def _open(self) -> Session:
        self._older = await self._topology.queue(self._queue)
        if not is_inbox(self._queue):
            await self._topology.queue(INBOX)  # nobody takes a request whose answer could not be put there
        channel = await self._link.channel()
        session = Session(channel, self._link.wire)

        def arrived(message: DeliveredMessage) -> None:
            self._arrived(session, message)

        self._session = session  # messages may arrive and be settled before the server confirms the consumer
        try:
            await session.read(self._name, self._ahead.now, arrived)
        except LOST:
            self._drop(session)
            await close_channel(channel)
            raise
        return session

    def _arrived(self, session: Session, message: DeliveredMessage) -> None:
        if prefetch := self._ahead.see(len(message.body)):
            session.resize(prefetch)
        headers = headers_of(message)
        back = self._count_redeliveries(message)
        delivered = 1 + number(headers, DELIVERED) + back
        times = delivered + number(headers, SENT)
        waited = self._older > 0
        self._older -= waited
        bus_messages = read_batch(message)
        batch = Batch(len(bus_messages)) if bus_messages else None
        *behalf, user = users_of(message, self._link.user)
        arrived = [
            UnsettledDelivery(
                Delivery(bus_message, self._queue, next(self._tags), times, waited, user, tuple(behalf)),
                session,
                message,
                delivered,
                batch,
            )
            for bus_message in bus_messages or (read_message(message),)
        ]
        if (back and not self._topology.counts(self._queue)) or (batch is not None and times > 1):
            self._redeliveries.add(arrived, begun=False)
        else:
            self._ready += arrived
        self._changed.set()

    def _count_redeliveries(self, message: DeliveredMessage) -> int:
        """Returns the server's count of earlier deliveries; a classic queue knows only whether there was one."""
        if self._topology.counts(self._queue):
            return number(headers_of(message), "x-delivery-count")
        return int(bool(message.redelivered))

    def _drop(self, session: Session) -> None:
        """Drops untaken messages of a session that ended. Taken ones stay until they are settled."""
        self._session = None
        self._ready = deque(held for held in self._ready if held.session is not session)
        self._redeliveries.forget(session)
