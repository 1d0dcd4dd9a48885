"""Delivering events to the handler of a name: in order, one at a time, again when it fails, then parked."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import msgspec

from redraft.actors.runtime.failures import awaited, said_by, without_end
from redraft.actors.runtime.working.threads import MOST_HUNG, count_hung, run_in_thread
from redraft.actors.workflow.actor import is_async
from redraft.app.process.lifecycle import together
from redraft.app.process.logs import redacted
from redraft.app.subscribing.feed import Cursor, StoreFeed, take_up
from redraft.events.errors import DeliveryError, InputError, LeaseLost
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.filters import EVERYTHING, EventFilter
from redraft.events.messages.plan import Retry
from redraft.events.store.lease import LeaseHolder
from redraft.events.subscriptions.subscriptions import Failing, NameLease, ParkedEvent, Subscription, Subscriptions
from redraft.projections.display import error_text

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

T = TypeVar("T")
Handler: TypeAlias = Callable[[Recorded], Awaitable[None] | None]
"""Takes an event. A plain function runs in a thread, which runs on when its call takes too long. A handler must be
idempotent: if its process ends before the progress is saved, it is called again with an event that it has taken."""

LONGEST_RETRY_AFTER: Final = 3600.0
"""The longest pause, in seconds, that a handler can ask for."""

RETRY: Final = Retry(attempts=5, maximum=300.0)
"""The attempts of a handler at one event, unless others are given; after the last the event is parked."""

TIMEOUT: Final = 60.0
"""Seconds that a call of a handler may take, unless others are given."""

HUNG_POLL: Final = 1.0
"""Seconds between two looks whether one of too many calls that were given up has ended."""


class Fault(msgspec.Struct, frozen=True):
    """Why an event was not taken. `retry_after` is as the handler gave it: people's code may give anything."""

    said: str
    retry_after: object = None
    permanent: bool = False


def backoff(retry: Retry, failures: int, retry_after: object = None) -> float:
    """Returns the seconds until the next attempt; `failures` is at least 1.

    They are at least `retry_after`, up to an hour; what is no finite number of 0 or more counts as none given.
    """
    usual = min(retry.maximum, retry.initial * retry.factor ** min(failures - 1, 60))
    match retry_after:
        case bool():
            return usual
        case int() | float() if 0 <= retry_after < math.inf:
            return max(usual, min(retry_after, LONGEST_RETRY_AFTER))
        case _:
            return usual


def check_retry(retry: Retry, timeout: float) -> None:
    """Raises InputError when a number in it cannot be."""
    seconds = (retry.initial, retry.maximum, timeout)
    if retry.attempts < 1 or not 1 <= retry.factor <= 1000 or not all(0 <= each < math.inf for each in seconds):
        raise InputError(
            f"{retry} with a timeout of {timeout} is not valid: give at least 1 attempt, and seconds of 0 or more"
        )


class SubscriptionServer:
    """Serves a name until it is cancelled or drained. One process does so at a time; others stand by."""

    def __init__(
        self,
        feed: StoreFeed,
        subscriptions: Subscriptions,
        name: str,
        handler: Handler,
        log: FilteringBoundLogger,
        criteria: EventFilter = EVERYTHING,
        target: str = "a handler",
        start: int = 0,
        retry: Retry = RETRY,
        timeout: float = TIMEOUT,
    ) -> None:
        check_retry(retry, timeout)
        self._feed = feed
        self._subscriptions = subscriptions
        self._name = name
        self._thread = f"subscription {name}"  # no actor has such a name
        self._handler = handler
        self._log = log.bind(subscription=name)
        self._criteria = criteria
        self._target = target
        self._start = start
        self._retry = retry
        self._timeout = timeout
        self._turn = asyncio.Lock()
        self._serving: asyncio.Task[None] | None = None
        self._drained = False

    async def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Serves the name; `ready` is called when its lease was acquired. Raises StoreError when the store is away."""
        async with self._subscriptions.lease(self._name) as lease:
            while await self._acquire(lease):
                named = self._feed, self._subscriptions, self._name, self._criteria
                async with take_up(*named, self._target, self._start) as cursor:
                    ready()
                    self._log.info("delivering", after=cursor.taken.position)
                    try:
                        await self._serve(cursor, lease)
                    except LeaseLost as error:
                        self._log.warning("begins again", reason=str(error))

    async def drain(self) -> None:
        """Lets the handler finish its call, then lets `run` return."""
        self._drained = True
        async with self._turn:
            if self._serving is not None:
                self._serving.cancel()

    async def _acquire(self, lease: NameLease) -> bool:
        """Waits for the lease; returns False when it is drained meanwhile."""

        def waits(held: LeaseHolder) -> None:
            self._log.info(
                "standing by", holder=held.holder, since=held.since and held.since.isoformat(timespec="seconds")
            )

        async def acquire() -> None:
            await lease.acquire(waits)

        if not self._drained:
            async with together([acquire()]) as tasks:
                self._serving = tasks[0]
                await asyncio.wait(tasks)
        return not self._drained

    async def _serve(self, cursor: Cursor, lease: NameLease) -> None:
        try:
            async with together([self._follow(cursor), self._watch(cursor.taken), lease.keep()]) as tasks:
                self._serving = tasks[0]
                if self._drained:  # while the name was taken up
                    self._serving.cancel()
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._serving = None

    async def _follow(self, cursor: Cursor) -> None:
        async with aclosing(cursor.events(self._feed, self._criteria)) as events:
            async for event in events:
                await self._deliver(event, cursor)

    async def _deliver(self, event: Recorded, cursor: Cursor) -> None:
        """Calls the handler until it has taken the event, or the event is parked."""
        taken = cursor.taken
        failures = taken.failing.attempts if taken.failing and taken.failing.position == event.position else 0
        while (fault := await self._try_once(event, cursor)) is not None:
            failures += 1
            if fault.permanent or failures >= self._retry.attempts:
                await self._park(event, cursor, failures, fault.said)
                return
            wait = backoff(self._retry, failures, fault.retry_after)
            self._log.warning("not delivered", **_log_fields(event), attempt=failures, error=fault.said, next_in=wait)
            again = datetime.now(UTC) + timedelta(seconds=wait)
            await self._subscriptions.failed(taken, Failing(event.position, failures, fault.said, again))
            cursor.set_to(event.position - 1)
            await asyncio.sleep(wait)

    async def _try_once(self, event: Recorded, cursor: Cursor | None = None) -> Fault | None:
        """Calls the handler, one call at a time; returns the fault, None after success. A drain waits for the call."""
        async with self._take_turn():
            try:
                await self._call(event)
            except asyncio.CancelledError:
                if _is_being_cancelled():
                    raise
                return Fault("CancelledError: something that it waited for was cancelled")
            except Exception as error:  # whatever a handler raises: the event is tried again
                if _is_being_cancelled():  # it made an error of its cancellation
                    raise asyncio.CancelledError from error
                return _fault_of(error, event, self._timeout)
            if cursor is not None:
                cursor.passed(event.position)
            return None

    async def _call(self, event: Recorded) -> None:
        handler = self._handler
        if is_async(handler):
            given = handler(event)
        else:
            given = await _wait_for_thread(run_in_thread(lambda: handler(event), self._thread), self._timeout)
        if inspect.isawaitable(given):
            task = asyncio.current_task()
            async with asyncio.timeout(self._timeout or None):
                try:
                    await awaited(given)
                except GeneratorExit as error:
                    if not _is_at_work(task):  # it is closed from outside
                        raise
                    raise without_end(error) from error

    @asynccontextmanager
    async def _take_turn(self) -> AsyncIterator[None]:
        """Lets one call at a time begin, and none while too many that took too long still run in their threads."""
        is_told = False
        while True:
            async with self._turn:
                if (hung := count_hung(self._thread)) < MOST_HUNG:
                    yield
                    return
            if not is_told:
                is_told = True
                remedy = "give timeouts to what the handler calls; to go on at once, restart this process"
                reason = f"{hung} earlier calls of the handler still run"
                self._log.error("waits for earlier calls", reason=reason, remedy=remedy)
            await asyncio.sleep(HUNG_POLL)

    async def _park(self, event: Recorded, cursor: Cursor, failures: int, error: str) -> None:
        now = datetime.now(UTC)
        parked = ParkedEvent(
            self._name, event.position, event.id, event.run, event.version, event.name, failures, error, now
        )
        await self._subscriptions.park(cursor.taken, parked)
        cursor.set_to(event.position)
        self._log.error("parked", **_log_fields(event), attempts=failures, error=error)

    async def _watch(self, taken: Subscription) -> None:
        """Tries again what people asked for. Raises LeaseLost when the subscription was moved."""
        while True:
            await asyncio.sleep(self._subscriptions.poll)
            for parked in await self._subscriptions.asked_again(taken):
                await self._retry_parked(parked)

    async def _retry_parked(self, parked: ParkedEvent) -> None:
        event = await self._event_at(parked.position)
        fault = Fault("it is in the log no longer") if event is None else await self._try_once(event)
        if fault is None:
            await self._subscriptions.discard(parked)
            self._log.info("delivered", position=parked.position, type=parked.event, run=parked.run)
        else:
            tried = parked.attempts + 1
            await self._subscriptions.still_parked(msgspec.structs.replace(parked, attempts=tried, error=fault.said))
            self._log.error("still parked", position=parked.position, attempts=tried, error=fault.said)

    async def _event_at(self, position: int) -> Recorded | None:
        async with aclosing(self._feed.read(position - 1, EVERYTHING, follow=False)) as batches:
            async for batch in batches:
                return batch.events[0] if batch.events and batch.events[0].position == position else None
        return None


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _is_at_work(task: asyncio.Task[object] | None) -> bool:
    """Returns whether this task is what the event loop does now."""
    try:
        return asyncio.current_task() is task
    except RuntimeError:  # there is no event loop any more
        return False


async def _wait_for_thread(call: Coroutine[None, None, T], timeout: float) -> T:
    """Returns the result of a call in a thread. A cancelled wait goes on, as a thread cannot be stopped.

    Raises TimeoutError after `timeout` seconds (0: never). The thread then runs on, and nobody waits for it.
    """
    calling = asyncio.create_task(call)
    calling.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # told to whoever waits, if anybody
    waiting = asyncio.create_task(asyncio.wait({calling}, timeout=timeout or None))
    try:
        await asyncio.shield(waiting)
    finally:
        await asyncio.wait({waiting})
        is_late = calling.cancel()
        await asyncio.wait({calling})
    if is_late:
        raise TimeoutError
    return calling.result()


def _log_fields(event: Recorded) -> dict[str, object]:
    return {"position": event.position, "type": event.name, "run": event.run}


def _fault_of(error: Exception, event: Recorded, timeout: float) -> Fault:
    """Returns the fault that an error of a handler is. The error may be of any kind, and unable to say what it is."""
    said = said_by(error)
    match error:
        case DeliveryError():  # a subclass may have left out what `__init__` sets
            asked, permanent = getattr(error, "retry_after", None), bool(getattr(error, "permanent", False))
            return Fault(redacted(said or type(error).__name__), asked, permanent)
        case TimeoutError() if not said:
            return Fault(f"it took longer than {timeout:g} s")
        case _ if event.encrypted:  # what it says may quote a text
            return Fault(f"{type(error).__name__}: what it says is left out, as the run is encrypted")
        case TimeoutError():
            return Fault(redacted(said))
        case _:
            return Fault(redacted(error_text(error)))
