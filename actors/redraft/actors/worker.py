"""Takes requests from its actors' queues, works, reports. It holds no state and no database password."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Final

from redraft.actors.admission import Admission
from redraft.actors.crews import QUEUE_LIMIT
from redraft.actors.desk import Again, Apart, Clock, Desk, untold, utc
from redraft.actors.roles import Actor
from redraft.actors.signatures import Differs, Signatures, unheard
from redraft.actors.trouble import Blocked, Freed, Tell
from redraft.actors.trouble import untold as quiet
from redraft.actors.whereabouts import Whereabouts
from redraft.events.bus import INBOX, Bus, Consumer, Delivery, Letter, Neighbours, work_queue
from redraft.events.content import MAX_DRAFT_BYTES
from redraft.events.errors import ActorError, BusUnusable, CodecError, InputError, RedraftError
from redraft.events.underway import Underway

CONCURRENCY: Final = 64
"""How many requests one actor works on at once, unless the worker is told otherwise."""

PROCESSES: Final = 8
"""How many requests at most an actor works on at once whose function runs in processes of its own."""

AGAIN: Final = 2.0
"""Seconds between two tries of a queue that cannot be used."""

REMEMBERED: Final = 4096
"""How many of the runs that were called off last are remembered: their requests may still be in a queue."""


class Worker:
    """Serves any number of actors. `new_id` makes the ids of its outcomes, unique for each piece of work done.

    `differs` is told of an actor whose code has another version than the plan of a run names. `neighbours` is how it
    asks other workers of its actors whether they are at work on what may be a duplicate; `mind` answers them. `again`
    is told of each request that is begun once more, since whoever had it before never answered. `tell` is told of a
    queue that cannot be used: it is tried again, and the others are served. What has waited in a queue longer than
    `queue_limit`, by the `clock`, may have been given up: it is asked about. `apart` begins calls in processes of their
    own. Raises ActorError where an actor is isolated and there is no such thing.
    """

    def __init__(
        self,
        actors: Sequence[Actor],
        bus: Bus,
        new_id: Callable[[], str],
        concurrency: int = CONCURRENCY,
        limit: int = MAX_DRAFT_BYTES,
        differs: Differs = unheard,
        neighbours: Neighbours | None = None,
        again: Again = untold,
        tell: Tell = quiet,
        queue_limit: timedelta = QUEUE_LIMIT,
        clock: Clock = utc,
        apart: Apart | None = None,
    ) -> None:
        self._actors = tuple(actors)
        self._apart = apart
        for actor in self._actors if apart is None else ():
            if actor.isolation == "process":
                raise ActorError(f"the {actor.role} {actor.name} is isolated, and this worker can start no processes")
        self._bus = bus
        self._new_id = new_id
        self._concurrency = concurrency
        self._limit = limit
        self._admission = Admission(limit, bus.largest)
        self._signatures = Signatures(differs)
        self._again = again
        self._queue_limit = queue_limit
        self._clock = clock
        self._tell = tell
        self._blocked: set[str] = set()
        me = new_id() if neighbours else ""
        self._whereabouts = {
            (actor.role, actor.name): Whereabouts(work_queue(actor.role, actor.name), me, neighbours)
            for actor in self._actors
        }
        self._draining = False
        self._taking: list[asyncio.Timeout] = []
        self._desks: list[Desk] = []
        self._off: dict[str, None] = {}
        self._underway = Underway()

    def longest_wait(self) -> float:
        """Seconds for which what came of the oldest request that was served has not been reported; 0 when all is."""
        return self._underway.longest()

    def drain(self) -> None:
        """Takes no new work; `run` returns once what is under way is reported."""
        self._draining = True
        for taking in self._taking:
            taking.reschedule(asyncio.get_running_loop().time())

    def call_off(self, run: str) -> None:
        """Stops what is under way for a run that was cancelled or has ended, and begins nothing more for it.

        A function in a thread cannot be stopped; what it returns is not told.
        """
        self._off[run] = None
        if len(self._off) > REMEMBERED:
            del self._off[next(iter(self._off))]
        for desk in self._desks:
            desk.call_off(run)

    async def run(self) -> None:
        """Works until it is drained, cancelled, or the bus is closed (BusError)."""
        async with asyncio.TaskGroup() as group:
            for actor in self._actors:
                group.create_task(self._serve(actor))

    async def mind(self) -> None:
        """Answers other workers of the same actors, until it is cancelled. Raises BusError."""
        async with asyncio.TaskGroup() as group:
            for whereabouts in self._whereabouts.values():
                group.create_task(_heard(whereabouts))

    async def _serve(self, actor: Actor) -> None:
        """Serves the queue of an actor; tries again while it is there with the settings of somebody else."""
        queue = work_queue(actor.role, actor.name)
        while True:
            try:
                await self._serve_queue(actor)
            except* BusUnusable as errors:
                self._block(queue, str(_first(errors)))
            else:
                return
            if self._draining:
                return
            await asyncio.sleep(AGAIN)

    def _block(self, queue: str, fault: str) -> None:
        if queue not in self._blocked:
            self._blocked.add(queue)
            self._tell(Blocked(queue, fault))

    def _free(self, queue: str) -> None:
        if queue in self._blocked:
            self._blocked.discard(queue)
            self._tell(Freed(queue))

    async def _serve_queue(self, actor: Actor) -> None:
        whereabouts = self._whereabouts[actor.role, actor.name]
        sizes = self._limit, self._bus.largest
        desk = Desk(
            *(actor, self._new_id, *sizes, self._signatures, whereabouts, self._off),
            again=self._again,
            queue_limit=self._queue_limit,
            clock=self._clock,
            apart=self._apart,
        )
        most = min(self._concurrency, PROCESSES) if actor.isolation == "process" else self._concurrency
        async with self._bus.consume(work_queue(actor.role, actor.name), most) as requests:
            self._desks.append(desk)
            try:
                with whereabouts.serving(requests.ahead):
                    async with asyncio.TaskGroup() as group:
                        group.create_task(self._report(desk, requests))
                        await self._take(desk, requests)
                        desk.close()
            finally:
                self._desks.remove(desk)
                await desk.abandon()

    async def _take(self, desk: Desk, requests: Consumer) -> None:
        """Begins what comes, until the worker is drained."""
        taking = asyncio.timeout(0 if self._draining else None)
        self._taking.append(taking)
        try:
            async with taking:
                while True:
                    taken = await requests.take(self._concurrency)
                    if self._blocked:
                        self._free(taken[0].queue)
                    unreadable = self._begun(desk, taken)
                    for delivery, error in unreadable:
                        await requests.reject(delivery, requeue=False, reason=str(error))
        except TimeoutError:
            if not self._draining:
                raise
        finally:
            self._taking.remove(taking)

    async def _report(self, desk: Desk, requests: Consumer) -> None:
        """Sends the outcomes that there are, together, and settles their requests; ends with the desk."""
        while finished := await desk.lift():
            with self._underway.during():
                if letters := [letter for each in finished if (letter := desk.letter(each))]:
                    await self._send(letters)
                desk.told(finished)
                await requests.ack([each.delivery for each in finished])

    async def _send(self, letters: Sequence[Letter]) -> None:
        """Puts outcomes, which hold paid work, into the inbox, once it can be used."""
        while True:
            try:
                await self._bus.publish(INBOX, letters)
            except BusUnusable as error:
                self._block(INBOX, str(error))
                await asyncio.sleep(AGAIN)
            else:
                self._free(INBOX)
                return

    def _begun(self, desk: Desk, deliveries: Iterable[Delivery]) -> Sequence[tuple[Delivery, RedraftError]]:
        """Begins the work on all that can be read; gives the others."""
        unreadable: list[tuple[Delivery, RedraftError]] = []
        for delivery in deliveries:
            try:
                work = self._admission.work(delivery.letter)
                desk.require_ours(work)
            except (CodecError, InputError) as error:
                unreadable.append((delivery, error))
            else:
                desk.begin(delivery, work)
        return unreadable


async def _heard(whereabouts: Whereabouts) -> None:
    """Answers others; where the queue is there with the settings of somebody else, once it is mended."""
    while True:
        try:
            await whereabouts.hear()
        except BusUnusable:
            await asyncio.sleep(AGAIN)
        else:
            return


def _first(errors: BaseExceptionGroup[BusUnusable]) -> BusUnusable:
    """One of the errors of a group, which may hold groups."""
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
