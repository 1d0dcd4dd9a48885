"""Requests that are leased to workers who ask by HTTP: each is one consumer of its queue, for as long as it is held."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Self

from cachetools import LRUCache

from redraft.actors.runtime.admission import Admission
from redraft.actors.workflow.actor import ActorKey
from redraft.app.server.access.identity import Identity
from redraft.app.server.problems import Refused
from redraft.events.bus.port import INBOX, Bus, BusMessage, Consumer, Delivery, work_queue
from redraft.events.errors import CodecError, InputError
from redraft.events.messages.commands import ROLES, Work

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

MOST: Final = 500
"""The most requests that are leased, or waited for, at the same time."""

MOST_EACH: Final = 128
"""The most of them for one who asks."""

ENDED: Final = 4_096
"""The number of leases that ended without an answer and are remembered: an answer that comes late still counts."""

LEEWAY: Final = 30.0
"""Seconds beyond its step's timeout for which a lease can be extended."""


class Lease:
    """A request that a worker holds until `ends`, and can hold until `last` (both by the loop's clock)."""

    def __init__(self, key: str, holder: str, actor: ActorKey, delivery: Delivery, work: Work, seconds: float) -> None:
        self.id = key
        self.holder = holder
        self.actor = actor
        self.delivery = delivery
        self.work = work
        self._loop = asyncio.get_running_loop()
        self.last = self._loop.time() + work.request.timeout + LEEWAY
        self.ends = 0.0
        self.settled = asyncio.Event()
        self.requeue = True
        self.reason = ""
        self.extend(seconds)

    def extend(self, seconds: float) -> datetime:
        """Has it end so many seconds from now, or at its last moment if that is earlier; returns when that is."""
        now = self._loop.time()
        self.ends = min(now + seconds, self.last)
        return datetime.now(UTC) + timedelta(seconds=self.ends - now)

    async def over(self) -> bool:
        """Waits until it is settled, and returns True; returns False when it ended before that."""
        while (left := self.ends - self._loop.time()) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self.settled.wait()
                    return True
        return self.settled.is_set()


class Leases:
    """Leases requests of this bus. `limit` is the largest draft; `new_id` makes ids that nobody can guess.

    A lease that ends gives its request back, which counts as a delivery, as it does when a worker's connection breaks.
    All end with the block that this is the context of.
    """

    def __init__(self, bus: Bus, limit: int, new_id: Callable[[], str], log: FilteringBoundLogger) -> None:
        self._bus = bus
        self._admission = Admission(limit, bus.largest)
        self._new_id = new_id
        self._log = log
        self._held: dict[str, Lease] = {}
        self._ended: LRUCache[str, Lease] = LRUCache(ENDED)
        self._tasks: set[asyncio.Task[None]] = set()
        self._each: Counter[str] = Counter()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def take(self, identity: Identity, actor: ActorKey, wait: float, seconds: float) -> Lease | None:
        """Leases a request of an actor for so many seconds; returns None when none came within `wait` seconds.

        Raises Refused when too many are leased, BusError when the bus cannot be reached. A call that is cancelled
        leases none.
        """
        self._require_room(identity)
        opened: asyncio.Future[Lease] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._hold(identity, actor, seconds, opened))
        self._tasks.add(task)
        self._each[identity.how] += 1
        task.add_done_callback(lambda _: self._forget(identity, task))
        waiting: set[asyncio.Future[Any]] = {opened, task}
        try:
            await asyncio.wait(waiting, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if opened.done():
            return opened.result()
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            task.result()  # why none could be taken
        return None

    def _require_room(self, identity: Identity) -> None:
        if self._each[identity.how] >= MOST_EACH:
            again = {"Retry-After": "5"}
            raise Refused(429, "leases", f"you hold or wait for {MOST_EACH} requests already; answer some first", again)
        if len(self._tasks) >= MOST:
            again = {"Retry-After": "5"}
            raise Refused(503, "leases", f"{MOST} requests are held or waited for; ask again in a while", again)

    def _forget(self, identity: Identity, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._each[identity.how] -= 1
        if not self._each[identity.how]:
            del self._each[identity.how]
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.warning("lease lost", error=str(error))

    async def _hold(self, identity: Identity, actor: ActorKey, seconds: float, opened: asyncio.Future[Lease]) -> None:
        """Takes one request, and holds it until its lease is settled or ends."""
        async with self._bus.consume(work_queue(*actor), 1) as requests:
            delivery, work = await self._next(requests, actor)
            lease = Lease(self._new_id(), identity.how, actor, delivery, work, seconds)
            self._held[lease.id] = lease
            opened.set_result(lease)
            try:
                settled = await lease.over()
            finally:
                del self._held[lease.id]
            if settled and not lease.reason:
                await requests.ack([delivery])
                return
            if not settled:
                self._ended[lease.id] = lease
                self._log.warning("lease ended", run=work.request.run, path=work.request.path, holder=lease.holder)
            await requests.reject(delivery, requeue=lease.requeue, reason=lease.reason or "its lease ended")

    async def _next(self, requests: Consumer, actor: ActorKey) -> tuple[Delivery, Work]:
        """Returns the next readable request; those that no worker could read become dead letters."""
        while True:
            for delivery in await requests.take(1):
                try:
                    work = _require_for(actor, self._admission.work(delivery.bus_message))
                except (CodecError, InputError) as error:
                    await requests.reject(delivery, requeue=False, reason=str(error))
                else:
                    return delivery, work

    def held(self, identity: Identity, key: str) -> Lease:
        """Returns a lease that goes on. Raises Refused where there is none of this id that is theirs."""
        lease = self._held.get(key)
        if lease is None or lease.holder != identity.how:
            raise _over(key)
        return lease

    async def answer(self, identity: Identity, key: str, answer: Callable[[Lease], BusMessage]) -> bool:
        """Sends an answer, which may come after the lease ended; returns whether it came in time.

        Raises Refused as `held` does, and for what cannot be read; BusError, and the lease goes on.
        """
        lease = self._held.get(key) or self._ended.get(key)
        if lease is None or lease.holder != identity.how:
            raise _over(key)
        bus_message = answer(lease)
        try:
            self._admission.message(bus_message)
        except (CodecError, InputError) as error:
            raise Refused(422, "input", f"this answer cannot be: {error}") from None
        await self._bus.publish(INBOX, [bus_message])
        lease.settled.set()
        self._ended.pop(key, None)
        return key in self._held

    def give_back(self, identity: Identity, key: str, reason: str, *, requeue: bool) -> None:
        """Gives a request back, or (not `requeue`) makes it a dead letter. Raises Refused as `held` does."""
        lease = self.held(identity, key)
        lease.requeue, lease.reason = requeue, reason or "given back"
        lease.settled.set()


def _require_for(actor: ActorKey, work: Work) -> Work:
    """Returns the work. Raises InputError for that of another actor."""
    if (ROLES[type(work)], work.request.actor) != actor:
        raise InputError("it is for another actor than its queue")
    return work


def _over(key: str) -> Refused:
    told = f"you have no lease {key[:60]!r}: it ended and its request was given back, or it was answered"
    return Refused(409, "lease-ended", told)
