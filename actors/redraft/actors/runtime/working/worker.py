"""Takes requests from its actors' queues, runs them and reports. It keeps no state and has no database password."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Final

from cachetools import LRUCache

from redraft.actors.runtime.admission import Admission
from redraft.actors.runtime.coordinating.timekeeper import QUEUE_LIMIT
from redraft.actors.runtime.full_dead_letters import keeping_refused
from redraft.actors.runtime.relaying.queue_publisher import OnTrouble, UnusableQueues
from redraft.actors.runtime.working.absence import Absence
from redraft.actors.runtime.working.active_calls import (
    ActiveCalls,
    CallSettings,
    Clock,
    Differs,
    Finished,
    OnRestart,
    Signatures,
    StartIsolated,
    utc_now,
)
from redraft.actors.runtime.working.call import OnError
from redraft.actors.runtime.working.call_tracing import CallTracer
from redraft.actors.runtime.working.in_flight import InFlightRequests
from redraft.actors.values import ignore
from redraft.actors.workflow.actor import Actor
from redraft.events.bus.port import INBOX, Bus, BusMessage, Consumer, Delivery, PeerChannel, work_queue
from redraft.events.errors import ActorError, BusUnusable, CodecError, InputError, MessageTooLarge, RedraftError
from redraft.events.messages.content import MAX_DRAFT_BYTES
from redraft.events.underway import Underway

CONCURRENCY: Final = 64
"""The default number of requests that one actor runs at once."""

PROCESSES: Final = 8
"""The largest number of requests that an actor runs at once in processes of its own."""

AGAIN: Final = 2.0
"""Seconds between two attempts to use a queue."""

REMEMBERED: Final = 4096
"""The number of cancelled runs that are remembered, the latest: their requests may still be in a queue."""


class Worker:
    """Serves any number of actors.

    `new_id` makes the ids of its outcomes, unique for each piece of work done. `differs` is called for an actor whose
    code has another version than the plan of a run names. Through `peers` it asks other workers of its actors whether
    they hold a request that may be a duplicate; `answer_peers` answers them. `on_restart` is called for each request
    that is begun again because its earlier worker never answered. `on_trouble` is called for an unusable queue, which
    is retried while the others are served. A request that waited in a queue longer than `queue_limit`, by the `clock`,
    or before this process stood still for a while, may have been given up: the coordinator has to confirm it.
    `start_isolated` begins calls in processes of their own.
    `on_error` is called with each exception that a function raises, for a log. `tracer` begins a span for each call.
    Raises ActorError if an actor is isolated and there is no `start_isolated`.
    """

    def __init__(
        self,
        actors: Sequence[Actor],
        bus: Bus,
        new_id: Callable[[], str],
        concurrency: int = CONCURRENCY,
        limit: int = MAX_DRAFT_BYTES,
        differs: Differs = ignore,
        peers: PeerChannel | None = None,
        on_restart: OnRestart = ignore,
        on_trouble: OnTrouble = ignore,
        queue_limit: timedelta = QUEUE_LIMIT,
        clock: Clock = utc_now,
        start_isolated: StartIsolated | None = None,
        on_error: OnError = ignore,
        tracer: CallTracer | None = None,
    ) -> None:
        self._actors = tuple(actors)
        for actor in self._actors if start_isolated is None else ():
            if actor.isolation == "process":
                raise ActorError(f"the {actor.role} {actor.name} is isolated, and this worker can start no processes")
        self._bus = bus
        self._concurrency = concurrency
        self._settings = CallSettings(
            new_id, limit, bus.largest, on_restart, queue_limit, Absence(clock), start_isolated, on_error, tracer
        )
        self._admission = Admission(limit, bus.largest_request)
        self._signatures = Signatures(differs)
        self._unusable = UnusableQueues(on_trouble)
        me = new_id() if peers else ""
        self._in_flight = {
            (actor.role, actor.name): InFlightRequests(work_queue(actor.role, actor.name), me, peers)
            for actor in self._actors
        }
        self._draining = False
        self._taking: list[asyncio.Timeout] = []
        self._active: list[ActiveCalls] = []
        self._cancelled: LRUCache[str, None] = LRUCache(REMEMBERED)
        self._underway = Underway()

    def longest_wait(self) -> float:
        """Returns for how many seconds the oldest finished request has not been reported; 0 when all are."""
        return self._underway.longest()

    def drain(self) -> None:
        """Takes no new work; `run` returns once all calls are reported."""
        self._draining = True
        for taking in self._taking:
            taking.reschedule(asyncio.get_running_loop().time())

    def cancel_run(self, run: str) -> None:
        """Cancels the calls of a run that was cancelled or has ended, and begins no more for it.

        A function in a thread cannot be stopped; its result is not reported.
        """
        self._cancelled[run] = None
        for calls in self._active:
            calls.cancel_run(run)

    async def run(self) -> None:
        """Works until it is drained or cancelled. Raises BusError when the bus is closed."""
        async with asyncio.TaskGroup() as group:
            for actor in self._actors:
                group.create_task(self._serve(actor))

    async def watch_clock(self) -> None:
        """Notices when this process stood still, until it is cancelled: what it had then may have been given up."""
        await self._settings.absence.watch()

    async def answer_peers(self) -> None:
        """Answers other workers of the same actors until it is cancelled. Raises BusError."""
        async with asyncio.TaskGroup() as group:
            for in_flight in self._in_flight.values():
                group.create_task(in_flight.answer_peers())

    async def _serve(self, actor: Actor) -> None:
        """Serves the queue of an actor; retries while the queue exists with other settings."""
        queue = work_queue(actor.role, actor.name)
        while True:
            try:
                await self._serve_queue(actor)
            except* BusUnusable as errors:
                self._unusable.block(queue, str(_first_of(errors)))
            else:
                return
            if self._draining:
                return
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise asyncio.CancelledError  # before Python 3.13 the group raises the errors alone: see `together`
            await asyncio.sleep(AGAIN)

    async def _serve_queue(self, actor: Actor) -> None:
        in_flight = self._in_flight[actor.role, actor.name]
        calls = ActiveCalls(actor, self._settings, self._signatures, in_flight, self._cancelled)
        limit = min(self._concurrency, PROCESSES) if actor.isolation == "process" else self._concurrency
        async with (
            self._bus.consume(work_queue(actor.role, actor.name), limit) as consumer,
            keeping_refused(consumer, self._unusable) as requests,
        ):
            self._active.append(calls)
            try:
                with in_flight.serving(requests.ahead):
                    async with asyncio.TaskGroup() as group:
                        group.create_task(self._report(calls, requests))
                        await self._take(calls, requests)
                        calls.close()
            finally:
                self._active.remove(calls)
                await calls.abandon()

    async def _take(self, calls: ActiveCalls, requests: Consumer) -> None:
        """Begins the requests that come, until the worker is drained."""
        taking = asyncio.timeout(0 if self._draining else None)
        self._taking.append(taking)
        try:
            async with taking:
                while True:
                    taken = await requests.take(self._concurrency)
                    self._unusable.free(taken[0].queue)
                    unreadable = self._begin(calls, taken)
                    for delivery, error in unreadable:
                        await requests.reject(delivery, requeue=False, reason=str(error))
        except TimeoutError:
            if not self._draining:
                raise
        finally:
            self._taking.remove(taking)

    async def _report(self, calls: ActiveCalls, requests: Consumer) -> None:
        """Sends finished outcomes together and acknowledges their requests; returns once all calls are done."""
        while finished := await calls.take_finished():
            number = self._underway.begin()
            try:
                reports = [(each, report) for each in finished if (report := calls.bus_message(each))]
                refused = await self._send(reports)
                calls.mark_reported(finished)
                await requests.ack([each.delivery for each in finished if each.delivery.tag not in refused])
                for each in finished:
                    if error := refused.get(each.delivery.tag):
                        reason = f"its answer cannot be sent: {error}"
                        await requests.reject(each.delivery, requeue=False, reason=reason)
            finally:
                self._underway.end(number)

    async def _send(self, reports: Sequence[tuple[Finished, BusMessage]]) -> Mapping[int, RedraftError]:
        """Puts outcomes into the inbox; returns the errors of those that it never takes, by the tags of the requests.

        One that is refused keeps none of the others back: then each goes alone.
        """
        refused: dict[int, RedraftError] = {}
        try:
            if reports:
                await self._put([report for _, report in reports])
        except (InputError, MessageTooLarge):
            for each, report in reports:
                try:
                    await self._put([report])
                except (InputError, MessageTooLarge) as error:
                    refused[each.delivery.tag] = error
        return refused

    async def _put(self, bus_messages: Sequence[BusMessage]) -> None:
        """Puts outcomes into the inbox; retries until it succeeds, since the outcomes hold paid work.

        Raises InputError and MessageTooLarge, with which no retry would help.
        """
        while True:
            try:
                await self._bus.publish(INBOX, bus_messages)
            except BusUnusable as error:
                self._unusable.block(INBOX, str(error))
                await asyncio.sleep(AGAIN)
            else:
                self._unusable.free(INBOX)
                return

    def _begin(self, calls: ActiveCalls, deliveries: Iterable[Delivery]) -> Sequence[tuple[Delivery, RedraftError]]:
        """Begins the work on all readable requests; returns the others with their errors."""
        unreadable: list[tuple[Delivery, RedraftError]] = []
        now = self._settings.absence.look()
        for delivery in deliveries:
            try:
                work = self._admission.work(delivery.bus_message)
                calls.require_ours(work)
            except (CodecError, InputError) as error:
                unreadable.append((delivery, error))
            else:
                calls.begin(delivery, work, now)
        return unreadable


def _first_of(errors: BaseExceptionGroup[BusUnusable]) -> BusUnusable:
    """Returns one of the errors of a group, which may hold groups."""
    first = errors.exceptions[0]
    return _first_of(first) if isinstance(first, BaseExceptionGroup) else first
