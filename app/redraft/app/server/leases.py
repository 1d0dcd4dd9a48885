"""Requests that are leased to workers who ask by HTTP: each is one consumer of its queue, for as long as it is held."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from cachetools import LRUCache, TTLCache

from redraft.actors.runtime.admission import Admission
from redraft.actors.runtime.working.in_flight import InFlightRequests
from redraft.actors.workflow.actor import ActorKey
from redraft.app.process.lifecycle import retry_forever
from redraft.app.server.access.identity import Identity
from redraft.app.server.problems import Refused
from redraft.events.bus.local import LocalBus
from redraft.events.bus.port import INBOX, Bus, BusMessage, Consumer, Delivery, PeerChannel, work_queue
from redraft.events.errors import CodecError, InputError, StoreError
from redraft.events.messages.commands import ROLES, Work
from redraft.events.presence import PRESENT, HttpWorkers, Presence

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


OFTEN: Final = 20.0
"""Seconds for which it is not noted again that somebody works for an actor."""


ASSURED: Final = 10.0
"""Seconds to wait until an answer is recorded, where the bus would lose it with this process."""


class Accepted(NamedTuple):
    """An answer that was taken: whether its lease went on, and whether it is `safe`: this process may be killed now."""

    in_time: bool
    safe: bool


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


class _Roll:
    """Answers, for all consumers of an actor's queue that this server is, what they hold, as other workers do."""

    def __init__(self, actor: ActorKey, me: str, peers: PeerChannel, log: FilteringBoundLogger) -> None:
        self.consumers: set[Consumer] = set()
        self._in_flight = InFlightRequests(work_queue(*actor), me, peers)
        self._answering = asyncio.create_task(self._answer(log))

    @contextmanager
    def holding(self, request: str) -> Iterator[None]:
        """Says of a request that it is held here, while the block lasts."""
        is_first = self._in_flight.begin(request)
        try:
            yield
        finally:
            if is_first:
                self._in_flight.end(request)

    async def _answer(self, log: FilteringBoundLogger) -> None:
        with self._in_flight.serving(self._ahead, lambda: len(self.consumers)):
            await retry_forever("peers", self._in_flight.answer_peers, log)

    def _ahead(self) -> Sequence[str]:
        return [message for consumer in self.consumers for message in consumer.ahead()]

    async def close(self) -> None:
        self._answering.cancel()
        await asyncio.wait({self._answering})


class Leases:
    """Leases requests of this bus. `limit` is the largest draft; `new_id` makes ids that nobody can guess.

    `workers` keeps who works here, for other processes too; without it only this one knows. Through `peers` others
    hear which requests are leased. A lease that ends gives
    its request back, which counts as a delivery, as it does when a worker's connection breaks. All end with the block
    that this is the context of.
    """

    def __init__(
        self,
        bus: Bus,
        limit: int,
        new_id: Callable[[], str],
        log: FilteringBoundLogger,
        workers: HttpWorkers | None = None,
        peers: PeerChannel | None = None,
    ) -> None:
        self._bus = bus
        self._peers = peers
        self._rolls: dict[ActorKey, _Roll] = {}
        self._admission = Admission(limit, bus.largest)
        self._requests = Admission(limit, bus.largest_request)
        self._new_id = new_id
        self._log = log
        self._held: dict[str, Lease] = {}
        self._ended: LRUCache[str, Lease] = LRUCache(ENDED)
        self._tasks: set[asyncio.Task[None]] = set()
        self._each: Counter[str] = Counter()
        self._workers = workers
        self._noted: TTLCache[tuple[ActorKey, str], bool] = TTLCache(10_000, OFTEN)
        self._present: TTLCache[tuple[ActorKey, str], Presence] = TTLCache(10_000, PRESENT)

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
        await self._note(identity, actor)
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

    async def present(self) -> Mapping[ActorKey, Sequence[Presence]]:
        """Returns who works for each actor, those first who have for longest. Raises StoreError."""
        if self._workers is not None:
            return await self._workers.present()
        found: dict[ActorKey, list[Presence]] = {}
        for (actor, _), each in sorted(self._present.items(), key=lambda item: item[1].since):
            found.setdefault(actor, []).append(each)
        return found

    async def _note(self, identity: Identity, actor: ActorKey) -> None:
        """Notes that somebody works for an actor. Where the store does not answer, the work goes on all the same."""
        key = actor, identity.how
        self._present[key] = self._present.get(key) or Presence(identity.signature, datetime.now(UTC))
        if self._workers is None or key in self._noted:
            return
        self._noted[key] = True
        try:
            await self._workers.note(actor, identity.how, identity.signature)
        except StoreError as error:
            self._log.warning("presence not noted", error=str(error))

    async def extend(self, identity: Identity, key: str, seconds: float) -> datetime:
        """Has a lease go on for so many seconds from now; returns when it ends. Raises Refused as `held` does."""
        until = self.held(identity, key).extend(seconds)
        await self._note(identity, self.held(identity, key).actor)
        return until

    def drop(self, identity: Identity, key: str) -> None:
        """Ends a lease whose request nobody wants an answer to any more. Raises Refused as `held` does."""
        self.held(identity, key).settled.set()

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
        async with (
            self._bus.consume(work_queue(*actor), 1) as requests,
            self._on_roll(actor, requests) as roll,
        ):
            delivery, work = await self._next(requests, actor)
            lease = Lease(self._new_id(), identity.how, actor, delivery, work, seconds)
            self._held[lease.id] = lease
            opened.set_result(lease)
            try:
                with roll.holding(work.request.id) if roll else nullcontext():
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

    @asynccontextmanager
    async def _on_roll(self, actor: ActorKey, requests: Consumer) -> AsyncIterator[_Roll | None]:
        """Notes one more consumer of an actor's queue, while the block lasts; yields what answers for all of them."""
        if self._peers is None:
            yield None
            return
        roll = self._rolls.get(actor)
        if roll is None:
            roll = self._rolls[actor] = _Roll(actor, self._new_id(), self._peers, self._log)
        roll.consumers.add(requests)
        try:
            yield roll
        finally:
            roll.consumers.discard(requests)
            if not roll.consumers:
                del self._rolls[actor]
                await roll.close()

    async def _next(self, requests: Consumer, actor: ActorKey) -> tuple[Delivery, Work]:
        """Returns the next readable request; those that no worker could read become dead letters."""
        while True:
            for delivery in await requests.take(1):
                try:
                    work = _require_for(actor, self._requests.work(delivery.bus_message))
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

    async def answer(self, identity: Identity, key: str, answer: Callable[[Lease], BusMessage]) -> Accepted:
        """Sends an answer, which may come after the lease ended; returns once it is safe, or after `ASSURED` seconds.

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
        with self._noticing(bus_message) as recorded:
            await self._bus.publish(INBOX, [bus_message])
            lease.settled.set()
            self._ended.pop(key, None)
            in_time = key in self._held
            with suppress(TimeoutError):
                async with asyncio.timeout(ASSURED):
                    await recorded.wait()
            return Accepted(in_time, recorded.is_set())

    @contextmanager
    def _noticing(self, bus_message: BusMessage) -> Iterator[asyncio.Event]:
        """Yields what is set once a message that is published in the block outlives this process.

        On a broker it does from then on; one on the bus of this process does as soon as it is recorded.
        """
        if isinstance(self._bus, LocalBus):
            with self._bus.noticing(INBOX, bus_message.origin.id) as recorded:
                yield recorded
            return
        durable = asyncio.Event()
        durable.set()
        yield durable

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
