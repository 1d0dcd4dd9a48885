"""Delivering events to the handler of a name: in order, one at a time, again when it fails, then parked."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import aclosing, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import msgspec

from redraft.actors.threads import in_thread
from redraft.app.feed import Feed
from redraft.app.settings import redacted
from redraft.app.standing import Standing, wanted_text
from redraft.app.together import together
from redraft.events.envelope import Recorded
from redraft.events.errors import DeliveryError, InputError, LeaseLost, StoreError
from redraft.events.filters import EVERYTHING, EventFilter
from redraft.events.lease import Held
from redraft.events.subscription_book import NameLease
from redraft.events.subscriptions import Failing, ParkedEvent, Subscription, Subscriptions
from redraft.projections.plain import error_text

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

T = TypeVar("T")
Handler: TypeAlias = Callable[[Recorded], Awaitable[None] | None]
"""What takes an event. A plain function runs in a thread. It is called again with an event that it has taken when its
process ended before that was noted: it has to bear that."""

WATCH_SECONDS: Final = 0.5
"""How often it is looked for what people asked: to go on elsewhere, to try a parked event again."""

LONGEST_RETRY_AFTER: Final = 3600.0
"""How many seconds a handler can ask to be left alone, at most."""


class Retry(msgspec.Struct, frozen=True):
    """How often a handler is tried with one event, and how long apart: `first` seconds, twice that, up to `most`.

    `attempts` is at least 1; after the last the event is parked. `timeout` is how many seconds one try of an
    asynchronous handler may take; a thread cannot be ended.
    """

    attempts: int = 5
    first: float = 1.0
    most: float = 300.0
    timeout: float = 60.0

    def wait(self, failures: int, asked: float | None = None) -> float:
        """Seconds until the next try, after so many failures (at least 1); `asked` is what the handler asked for."""
        usual = min(self.most, self.first * 2.0 ** min(failures - 1, 60))
        return usual if asked is None else max(usual, min(asked, LONGEST_RETRY_AFTER))

    def checked(self) -> Retry:
        """Itself. Raises InputError when a number in it cannot be."""
        if self.attempts < 1 or not all(0 <= each < float("inf") for each in (self.first, self.most, self.timeout)):
            raise InputError(f"{self} cannot be: attempts are at least 1, and seconds are numbers from 0 on")
        return self


class Delivery:
    """What serves a name until it is cancelled or drained. One process does so at a time; others stand by."""

    def __init__(
        self,
        feed: Feed,
        subscriptions: Subscriptions,
        name: str,
        handler: Handler,
        log: FilteringBoundLogger,
        *,
        wanted: EventFilter = EVERYTHING,
        target: str = "a handler",
        start: int = 0,
        retry: Retry | None = None,
    ) -> None:
        self._feed = feed
        self._subscriptions = subscriptions
        self._name = name
        self._handler = handler
        self._log = log.bind(subscription=name)
        self._wanted = wanted
        self._target = target
        self._start = start
        self._retry = (retry or Retry()).checked()
        self._turn = asyncio.Lock()
        self._serving: asyncio.Task[None] | None = None
        self._drained = False

    async def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Serves the name; `ready` is called when its lease was acquired. Raises StoreError when the store is away."""
        async with self._subscriptions.lease(self._name) as lease:
            while await self._acquired(lease):
                wants = wanted_text(self._wanted)
                taken = await self._subscriptions.take(self._name, wants, self._target, self._start)
                await self._feed.require(taken.position, self._name)
                ready()
                self._log.info("delivering", after=taken.position)
                try:
                    await self._serve(Standing(self._subscriptions, taken), lease)
                except LeaseLost as error:
                    self._log.warning("begins again", reason=str(error))

    async def drain(self) -> None:
        """Lets the handler end what it is at, and `run` return."""
        self._drained = True
        async with self._turn:
            if self._serving is not None:
                self._serving.cancel()

    async def _acquired(self, lease: NameLease) -> bool:
        """Stands by until the lease is ours; False when it is drained meanwhile."""

        def waits(held: Held) -> None:
            self._log.info("standing by", holder=held.holder, since=held.since)

        async def acquire() -> None:
            await lease.acquire(waits)

        if not self._drained:
            async with together([acquire()]) as tasks:
                self._serving = tasks[0]
                await asyncio.wait(tasks)
        return not self._drained

    async def _serve(self, standing: Standing, lease: NameLease) -> None:
        try:
            async with together([self._follow(standing), self._watch(standing.taken), lease.keep()]) as tasks:
                self._serving = tasks[0]
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._serving = None
            with suppress(StoreError):  # then what was done since the last save comes again
                await standing.save()

    async def _follow(self, standing: Standing) -> None:
        async with aclosing(self._feed.read(standing.taken.position, self._wanted)) as batches:
            async for batch in batches:
                for event in batch.events:
                    await self._deliver(event, standing)
                    if standing.is_due:
                        await standing.save()
                standing.passed(batch.position)
                await standing.save()

    async def _deliver(self, event: Recorded, standing: Standing) -> None:
        """Tries until the handler has taken the event, or it is parked."""
        taken = standing.taken
        failures = taken.failing.attempts if taken.failing and taken.failing.position == event.position else 0
        while (fault := await self._tried(event, standing)) is not None:
            failures += 1
            if fault.permanent or failures >= self._retry.attempts:
                await self._park(event, standing, failures, str(fault))
                return
            wait = self._retry.wait(failures, fault.retry_after)
            self._log.warning("not delivered", **_told(event), attempt=failures, error=str(fault), next_in=wait)
            again = datetime.now(UTC) + timedelta(seconds=wait)
            await self._subscriptions.failed(taken, Failing(event.position, failures, str(fault), again))
            standing.set_to(event.position - 1)
            await asyncio.sleep(wait)

    async def _tried(self, event: Recorded, standing: Standing | None = None) -> DeliveryError | None:
        """Calls the handler, one call at a time; gives why it failed. What it has taken is passed before a drain."""
        async with self._turn:
            try:
                await self._called(event)
            except DeliveryError as error:
                return error
            except asyncio.CancelledError:
                if _is_being_cancelled():
                    raise
                return DeliveryError("CancelledError: something that it waited for was cancelled")
            except TimeoutError as error:
                return DeliveryError(str(error) or f"it took longer than {self._retry.timeout:g} s")
            except Exception as error:  # noqa: BLE001 - whatever a handler raises: the event is tried again
                return DeliveryError(redacted(error_text(error)))
            if standing is not None:
                standing.passed(event.position)
            return None

    async def _called(self, event: Recorded) -> None:
        handler = self._handler
        if _is_async(handler):
            given = handler(event)
        else:
            given = await _to_its_end(in_thread(lambda: handler(event), f"redraft-{self._name}"))
        if inspect.isawaitable(given):
            async with asyncio.timeout(self._retry.timeout or None):
                await given

    async def _park(self, event: Recorded, standing: Standing, failures: int, error: str) -> None:
        now = datetime.now(UTC)
        parked = ParkedEvent(
            self._name, event.position, event.id, event.run, event.version, event.name, failures, error, now
        )
        await self._subscriptions.park(standing.taken, parked)
        standing.set_to(event.position)
        self._log.error("parked", **_told(event), attempts=failures, error=error)

    async def _watch(self, taken: Subscription) -> None:
        """Tries again what people asked for. Raises LeaseLost when the subscription was moved."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            for parked in await self._subscriptions.asked_again(taken):
                await self._again(parked)

    async def _again(self, parked: ParkedEvent) -> None:
        """Tries a parked event once."""
        event = await self._event_at(parked.position)
        fault = DeliveryError("it is in the log no longer") if event is None else await self._tried(event)
        if fault is None:
            await self._subscriptions.discard(parked)
            self._log.info("delivered", position=parked.position, type=parked.event, run=parked.run)
        else:
            tried = parked.attempts + 1
            await self._subscriptions.still_parked(msgspec.structs.replace(parked, attempts=tried, error=str(fault)))
            self._log.error("still parked", position=parked.position, attempts=tried, error=str(fault))

    async def _event_at(self, position: int) -> Recorded | None:
        async with aclosing(self._feed.read(position - 1, EVERYTHING, follow=False)) as batches:
            async for batch in batches:
                return batch.events[0] if batch.events and batch.events[0].position == position else None
        return None


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


async def _to_its_end(call: Coroutine[None, None, T]) -> T:
    """What a call in a thread gives. It cannot be ended: when the wait is cancelled, it is waited for all the same."""
    calling = asyncio.create_task(call)
    try:
        return await asyncio.shield(calling)
    finally:
        if not calling.done():
            await asyncio.wait({calling})


def _is_async(handler: Handler) -> bool:
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))  # noqa: B004


def _told(event: Recorded) -> dict[str, object]:
    return {"position": event.position, "type": event.name, "run": event.run}
