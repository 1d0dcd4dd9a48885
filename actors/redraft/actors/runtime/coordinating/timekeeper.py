"""Sends commands for due steps: retries whose wait is over, and answers that are overdue.

All its data is in the log.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final, Protocol, TypeAlias

import msgspec

from redraft.actors.deciding.requests import GRACE
from redraft.actors.runtime.relaying.queue_publisher import LeftOut, OnTrouble, UnusableQueues, error_message
from redraft.actors.values import ignore
from redraft.actors.workflow.actor import ActorKey
from redraft.events.bus.port import INBOX, Bus, BusMessage, Queues, work_queue
from redraft.events.errors import BusError, BusUnusable, InputError, MessageTooLarge
from redraft.events.messages.codec import encode_message
from redraft.events.messages.commands import ExpireStep, RetryStep
from redraft.events.messages.envelope import Origin
from redraft.events.messages.tracing import step_context

TraceOf: TypeAlias = Callable[[str], Awaitable[str]]
"""Returns the trace that the first event of a run names, as a W3C traceparent; empty for none."""

WATCH: Final = timedelta(seconds=10)
"""The time between two looks at the queues."""

QUEUE_WAIT: Final = timedelta(minutes=10)
"""How long a request waits while no worker serves its actor, unless the plan or the settings say otherwise."""

QUEUE_LIMIT: Final = timedelta(days=1)
"""How long a request waits in a queue that workers serve, unless the settings say otherwise."""

ARRIVAL: Final = timedelta(minutes=1)
"""The time within which a recorded request reaches its queue: a queue found empty later has delivered it."""

LEEWAY: Final = timedelta(minutes=15)
"""How long beyond its timeout a delivered request is awaited: its worker may have died, and another have it now."""

_APART: Final = timedelta(minutes=1)
"""The least time between two recorded times at which a queue was empty."""

_KEPT: Final = 2_880
"""The number of such times kept for each queue: those of two days."""


class QueueMonitor:
    """Records which actors are served and when their queues were empty.

    `wait` and `limit` are the settings `queue_wait` and `queue_limit`. Before the first look, if the bus could not be
    asked within `PATIENCE` seconds, or if its own queue cannot be looked at, an actor counts as served and a queue as
    never empty.
    """

    def __init__(self, queues: Queues, wait: timedelta = QUEUE_WAIT, limit: timedelta = QUEUE_LIMIT) -> None:
        self.wait = wait
        self._queues = queues
        self._limit = limit
        self._looked: datetime | None = None
        self._unserved: dict[ActorKey, datetime] = {}
        self._empty: dict[ActorKey, list[datetime]] = {}

    def is_due(self, now: datetime) -> bool:
        """Returns whether it is time for another look."""
        return self._looked is None or now - self._looked >= WATCH

    async def look(self, actors: Iterable[ActorKey], now: datetime) -> None:
        """Looks at the queues of these actors, and forgets all others."""
        self._looked = now
        watched = tuple(actors)
        self._empty = {actor: times for actor, times in self._empty.items() if actor in watched}
        unserved: dict[ActorKey, datetime] = {}
        try:
            async with asyncio.timeout(PATIENCE):
                for actor in watched:
                    if not await self._is_served(actor, now):
                        unserved[actor] = self._unserved.get(actor, now)
        except (BusError, TimeoutError):
            unserved = {}
        self._unserved = unserved

    async def _is_served(self, actor: ActorKey, now: datetime) -> bool:
        try:
            depth = await self._queues.queue(work_queue(*actor))
        except (InputError, BusUnusable):  # no queue can have its name, or it is somebody else's: the relay says so
            return True
        if depth is None or depth.waiting == 0:
            times = self._empty.setdefault(actor, [])
            if not times or now - times[-1] >= _APART:
                times.append(now)
                del times[:-_KEPT]
        return depth is not None and depth.consumers > 0

    def unserved(self, now: datetime) -> Sequence[tuple[ActorKey, timedelta]]:
        """Returns the actors that no worker serves, and for how long."""
        return [(actor, now - since) for actor, since in self._unserved.items()]

    def since(self, actor: ActorKey) -> datetime | None:
        """Returns since when no worker serves an actor; None for one that is served."""
        return self._unserved.get(actor)

    def may_wait(self, actor: ActorKey, requested: datetime, timeout: timedelta, now: datetime) -> bool:
        """Returns whether a request may still be in its queue, or left it too lately for its answer to be overdue."""
        if now >= requested + self._limit + timeout:
            return False
        times = self._empty.get(actor, [])
        place = bisect_right(times, requested + ARRIVAL)
        return place == len(times) or now < times[place] + timeout + LEEWAY


AGAIN: Final = timedelta(seconds=5)
"""How long the timekeeper waits before it sends the same command again; twice as long each time after that."""

MAX_PAUSE: Final = timedelta(minutes=10)
"""The longest such wait. A step that cannot be handled, as in a run that cannot be decided on, stays due for ever."""

PACE: Final = timedelta(milliseconds=50)
"""The least time between two looks, however much changes meanwhile."""

PAGE: Final = 500
"""The number of due steps that are read, and sent, at once."""

SHARE: Final = 10
"""After a look it rests at least this many times as long as the look took, up to `MAX_REST`."""

MAX_REST: Final = timedelta(seconds=5)
"""The longest such rest. A look that took long may have waited for a store or broker that stood still."""

PATIENCE: Final = 2.0
"""Seconds that a look waits for the broker, which may answer for one queue and not for another. Then it goes on."""

REMEMBERED: Final = 100_000
"""The number of steps for which it is remembered when they were sent."""


class DueStep(msgspec.Struct, frozen=True):
    """A step whose wait is over (`retry`), or whose answer is overdue, since `timer`.

    `cause` is the id of the event that set the timer. For a request for work, `actor` is whom it was sent to and
    `requested` when. `unserved`: it has waited since `requested`, or since its run was resumed later, as long as it may
    for a worker of that actor, whatever its `timer` is.
    """

    run: str
    path: str
    attempt: int
    retry: bool
    cause: str = ""
    timer: datetime | None = None
    actor: ActorKey | None = None
    requested: datetime | None = None
    unserved: bool = False


class Reminder(msgspec.Struct, frozen=True):
    """The time at which a step's command was last sent, and the wait before it is sent again.

    If the request was `queued` then, the command is sent again once it cannot be in its queue any more.
    """

    at: datetime
    pause: timedelta
    queued: bool = False


class Agenda(Protocol):
    """Reads due steps and unanswered requests from the read model of steps."""

    async def due(self, now: datetime, limit: int, behind: DueStep | None = None) -> Sequence[DueStep]:
        """Returns at most `limit` steps, the longest due first; those after `behind`, if it is given."""
        ...

    async def actors(self) -> Sequence[ActorKey]:
        """Returns the actors that have unanswered requests."""
        ...

    async def waited(
        self, actor: ActorKey, now: datetime, unserved: timedelta, wait: timedelta, limit: int
    ) -> Sequence[DueStep]:
        """Returns at most `limit` requests of an actor, unserved for so long, that have waited as long as they may.

        Their plan limits the wait, or else `wait`; the time up to the end of a pause does not count. They have waited
        since `requested`.
        """
        ...

    async def unanswered(self, actor: ActorKey, upto: int, limit: int) -> Sequence[DueStep]:
        """Returns at most `limit` requests of an actor, oldest first, recorded up to `upto`; none of paused runs."""
        ...

    async def next_due(self, after: datetime) -> datetime | None:
        """Returns when the next step falls due after this time; None when none will."""
        ...

    async def changed(self) -> None:
        """Returns when the agenda may have changed since it was last asked."""
        ...


class Timekeeper:
    """Sends a command for each due step. A wrong step does not delay others: its command is sent ever less often.

    What the broker does not confirm in time is sent again every few seconds; its coordinator ignores a second one.

    `monitor` knows which actors are served: requests to others are given up before they are due, and a request that may
    still be in its queue is not overdue. `on_trouble` is called for a step whose command cannot be sent. `trace_of`
    returns the trace that a run's first event names; commands for its steps then carry the trace of their attempt.
    """

    def __init__(
        self,
        agenda: Agenda,
        bus: Bus,
        clock: Callable[[], datetime],
        new_id: Callable[[], str],
        monitor: QueueMonitor,
        on_trouble: OnTrouble = ignore,
        trace_of: TraceOf | None = None,
    ) -> None:
        self._trace_of = trace_of
        self._agenda = agenda
        self._bus = bus
        self._clock = clock
        self._new_id = new_id
        self._on_trouble = on_trouble
        self._unusable = UnusableQueues(on_trouble)
        self._monitor = monitor
        self._reminders: dict[DueStep, Reminder] = {}

    async def run(self) -> None:
        """Sends commands for due steps until it is cancelled."""
        elapsed = asyncio.get_running_loop().time
        while True:
            now, began = self._clock(), elapsed()
            await self._look(now)
            await self._rest(now, timedelta(seconds=elapsed() - began))

    async def _look(self, now: datetime) -> None:
        """Sends commands for all due steps that were not sent lately, page by page."""
        seen: dict[DueStep, Reminder] = {}
        if self._monitor.is_due(now):
            await self._monitor.look(await self._agenda.actors(), now)
        for actor, unserved in self._monitor.unserved(now):
            page = await self._agenda.waited(actor, now, unserved, self._monitor.wait, PAGE)
            seen |= await self._send_page(page, now)
        last: DueStep | None = None
        while True:
            page = await self._agenda.due(now, PAGE, last)
            seen |= await self._send_page(page, now)
            if len(page) < PAGE or len(seen) >= REMEMBERED:
                break
            last = page[-1]
        self._reminders = seen

    async def _send_page(self, page: Sequence[DueStep], now: datetime) -> dict[DueStep, Reminder]:
        """Sends commands for the steps that were not sent lately; returns when each was sent."""
        fresh = [step for step in page if not self._was_sent(step, now)]
        if fresh:
            await self._send(fresh, now)
        return {step: self._reminders[step] for step in page}

    def _was_sent(self, step: DueStep, now: datetime) -> bool:
        reminder = self._reminders.get(step)
        if reminder is None:
            return False
        return self._is_queued(step, now) if reminder.queued else now - reminder.at < reminder.pause

    def _is_queued(self, step: DueStep, now: datetime) -> bool:
        """Returns whether a request past its due time may still be in its queue."""
        if step.retry or step.unserved or step.actor is None or step.requested is None or step.timer is None:
            return False
        timeout = max(step.timer - step.requested - GRACE, timedelta())
        return self._monitor.may_wait(step.actor, step.requested, timeout, now)

    def _unserved_seconds(self, step: DueStep, now: datetime) -> float:
        """Returns for how many seconds the actor of a request was unserved since it was made; 0 for a due one."""
        if step.actor is None or step.requested is None or not step.unserved:
            return 0.0
        since = self._monitor.since(step.actor)
        return (now - max(since, step.requested)).total_seconds() if since else 0.0

    async def _send(self, steps: Sequence[DueStep], now: datetime) -> None:
        bus_messages = [bus_message for step in steps if (bus_message := await self._message_for(step, now))]
        try:
            async with asyncio.timeout(PATIENCE):
                await self._bus.publish(INBOX, bus_messages)
        except MessageTooLarge:
            for bus_message in bus_messages:
                await self._send_alone(bus_message)
        except TimeoutError:
            self._unusable.block(INBOX, f"the broker did not confirm what falls due within {PATIENCE:g} s")
            self._reminders |= dict.fromkeys(steps, Reminder(now, AGAIN))
            return
        self._unusable.free(INBOX)
        for step in steps:
            reminder = self._reminders.get(step)
            pause = min(MAX_PAUSE, 2 * reminder.pause) if reminder and not reminder.queued else AGAIN
            self._reminders[step] = Reminder(now, pause, self._is_queued(step, now))

    async def _send_alone(self, bus_message: BusMessage) -> None:
        try:
            await self._bus.publish(INBOX, [bus_message])
        except MessageTooLarge as error:
            self._on_trouble(LeftOut(bus_message.run, 0, error_message(error)))

    async def _rest(self, now: datetime, took: timedelta) -> None:
        """Sleeps until a step falls due or the agenda may have changed; at least `PACE`."""
        upcoming = await self._agenda.next_due(now)
        longest = min(
            [
                WATCH,
                *(reminder.at + reminder.pause - now for reminder in self._reminders.values() if not reminder.queued),
            ]
        )
        wait = min(longest, upcoming - now) if upcoming else longest
        share = min(SHARE * took, MAX_REST)
        pace = max(PACE, share)
        await asyncio.sleep(max(min(wait, PACE), share).total_seconds())
        try:
            async with asyncio.timeout(max(wait - pace, timedelta()).total_seconds()):
                await self._agenda.changed()
        except TimeoutError:
            return

    async def _message_for(self, step: DueStep, now: datetime) -> BusMessage | None:
        """Returns the command for a due step; None, after calling `on_trouble`, if it cannot be encoded."""
        message: RetryStep | ExpireStep = RetryStep(step.run, step.path, step.attempt)
        if not step.retry:
            queued, unserved = self._is_queued(step, now), self._unserved_seconds(step, now)
            message = ExpireStep(step.run, step.path, step.attempt, queued, unserved)
        try:
            name, body = encode_message(message)
        except (msgspec.MsgspecError, UnicodeEncodeError) as error:
            self._on_trouble(LeftOut(step.run, 0, error_message(error)))
            return None
        origin = Origin(self._new_id(), "timekeeper", step.cause, step.run, await self._traceparent(step))
        return BusMessage(name, body, origin, step.run)

    async def _traceparent(self, step: DueStep) -> str:
        """Returns the trace context of the attempt that a step is at; empty for a run that nobody traces."""
        recorded = await self._trace_of(step.run) if self._trace_of else ""
        return step_context(step.run, recorded, step.path, step.attempt).traceparent if recorded else ""
