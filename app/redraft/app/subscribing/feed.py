"""Feeds of events for subscribers: filtered, in log order, from the store or from the broker alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from redraft.events.errors import IncompatibleStore, InputError, StoreError
from redraft.events.messages.envelope import Entry, Recorded, Unreadable
from redraft.events.messages.filters import EVERYTHING, EventFilter, RunFacts, Sieve, about
from redraft.events.store.event_store import EventStore
from redraft.events.subscriptions.subscriptions import Subscription, Subscriptions

if TYPE_CHECKING:
    from redraft.events.rabbit.bus import RabbitBus

BATCH: Final = 100
"""The largest number of events held for a reader, however slow it is."""


class Batch(msgspec.Struct, frozen=True, gc=False):
    """Events that are wanted, maybe none; what is wanted up to `position` was in this batch or an earlier one.

    `unreadable` are what cannot be read of runs that are asked for by name.
    """

    events: Sequence[Recorded]
    position: int
    unreadable: Sequence[Unreadable] = ()


class Feed(Protocol):
    """A source of events, each once, in log order."""

    def read(self, after: int, criteria: EventFilter, *, follow: bool = True) -> AsyncGenerator[Batch, None]:
        """Yields the events after a position that fit the filter; `follow` waits for more. Close it (`aclosing`)."""


class StoreFeed:
    """Events from a store. Reading one run's goes by its own index, not through the whole log."""

    def __init__(self, store: EventStore) -> None:
        self._store = store

    async def require(self, position: int, name: str) -> None:
        """Raises IncompatibleStore when the log is shorter than a subscription of this name has seen it."""
        head = await self._store.head()
        if position > head:
            raise IncompatibleStore(
                f"subscription {name!r} is at {position}, but the log of {self._store.where} ends at {head}: this is "
                f"another log, or only a part of it; to go on with this log, call `redraft subscriptions reset {name}`"
            )

    async def read(self, after: int, criteria: EventFilter, *, follow: bool = True) -> AsyncGenerator[Batch, None]:
        sieve = Sieve(criteria, self.about)
        if len(criteria.runs) == 1:
            (run,) = criteria.runs
            async with aclosing(self._of_run(after, run, sieve)) as batches:
                async for batch in batches:
                    after = batch.position
                    yield batch
            if not follow:
                return
        async with aclosing(self._store.tail(after, follow=follow, limit=BATCH)) as tail:
            async for events in tail:
                yield Batch(await _passed(sieve, events), events[-1].position, _unread(criteria, events))

    async def _of_run(self, after: int, run: str, sieve: Sieve) -> AsyncGenerator[Batch, None]:
        """Yields the events of one run. Nothing of it is left out up to the position of the last batch."""
        head = max(after, await self._store.head())
        version = 0
        while events := await self._store.entries(run, upto=version + BATCH, after=version):
            reached = max(event.version for event in events)
            later = [event for event in events if event.position > after]
            if later:
                yield Batch(await _passed(sieve, later), later[-1].position, _unread(sieve.criteria, later))
                head = max(head, later[-1].position)
            if reached <= version:
                break  # only a row whose version is no number is left
            version = reached
        yield Batch((), head)

    async def about(self, run: str) -> RunFacts:
        """Returns the workflow and tags of a run; nothing for one that is not known, or whose start cannot be read."""
        first = [event for event in await self._store.entries(run, upto=1) if isinstance(event, Recorded)]
        return (first and about(first[0])) or RunFacts()


class BrokerFeed:
    """Events from the stream on RabbitMQ, for those who have the broker alone."""

    def __init__(self, bus: RabbitBus) -> None:
        self._bus = bus

    async def read(self, after: int, criteria: EventFilter, *, follow: bool = True) -> AsyncGenerator[Batch, None]:
        """Raises InputError unless it is to `follow`: a stream does not say where it ends."""
        if not follow:
            raise InputError("the broker alone does not say where the log ends: follow it, or read it from the store")
        async with aclosing(self._bus.subscribe_stream(after, criteria)) as events:
            async for event in events:
                yield Batch((event,), event.position)


async def _passed(sieve: Sieve, entries: Sequence[Entry]) -> Sequence[Recorded]:
    """The events that are wanted; what cannot be read as one is passed over."""
    events = [event for event in entries if isinstance(event, Recorded)]
    return events if sieve.criteria == EVERYTHING else [event for event in events if await sieve.passes(event)]


def _unread(criteria: EventFilter, entries: Sequence[Entry]) -> Sequence[Unreadable]:
    return [each for each in entries if isinstance(each, Unreadable) and each.run in criteria.runs]


SAVE_SECONDS: Final = 0.1
"""Seconds between saves of a position while events follow each other without a pause."""


class Cursor:
    """The position of a subscription that was taken. What saves it raises LeaseLost when its epoch is over."""

    def __init__(self, subscriptions: Subscriptions, taken: Subscription) -> None:
        self.taken = taken
        self._subscriptions = subscriptions
        self._position = self._saved = taken.position
        self._since = _seconds()

    async def events(self, feed: Feed, criteria: EventFilter) -> AsyncGenerator[Recorded, None]:
        """Yields the events that the name has not had. One is done with when the next is asked for; close it."""
        async with aclosing(feed.read(self.taken.position, criteria)) as batches:
            async for batch in batches:
                for event in batch.events:
                    yield event
                    self.passed(event.position)
                    if _seconds() - self._since >= SAVE_SECONDS:
                        await self.save()
                self.passed(batch.position)
                await self.save()

    def passed(self, position: int) -> None:
        """Everything up to this position is done with."""
        self._position = max(self._position, position)

    async def save(self) -> None:
        """Saves the position if it has changed."""
        position = self._position
        if position != self._saved:
            await self._subscriptions.save(self.taken, position)
            self.set_to(position)

    def set_to(self, position: int) -> None:
        """Takes note of a position that was saved with something else."""
        self.passed(position)
        self._saved, self._since = position, _seconds()


@asynccontextmanager
async def take_up(
    feed: StoreFeed, subscriptions: Subscriptions, name: str, criteria: EventFilter, target: str, start: int
) -> AsyncIterator[Cursor]:
    """Takes a name whose lease is held; saves its position at the end. Raises IncompatibleStore, StoreError."""
    taken = await subscriptions.take(name, filter_text(criteria), target, start)
    await feed.require(taken.position, name)
    cursor = Cursor(subscriptions, taken)
    try:
        yield cursor
    finally:
        with suppress(StoreError):  # then what was done since the last save comes again
            await cursor.save()


async def read_named(
    feed: StoreFeed, subscriptions: Subscriptions, name: str, criteria: EventFilter, start: int
) -> AsyncGenerator[Recorded, None]:
    """Yields the events that a name has not had yet, and those to come, once nobody else has it; opens and closes."""
    async with subscriptions as names, names.lease(name) as lease:
        await lease.acquire()
        async with take_up(feed, names, name, criteria, "a program", start) as cursor:
            keeping = asyncio.create_task(lease.keep())
            try:
                async with aclosing(cursor.events(feed, criteria)) as events:
                    async for event in events:
                        if keeping.done():
                            keeping.result()
                        yield event
            finally:
                keeping.cancel()
                await asyncio.gather(keeping, return_exceptions=True)


def _seconds() -> float:
    return asyncio.get_running_loop().time()


def filter_text(criteria: EventFilter) -> str:
    """Returns a filter as it is kept with a subscription: what it asks for, as JSON."""
    given = {name: value for name, value in msgspec.structs.asdict(criteria).items() if value}
    return msgspec.json.encode(given, order="deterministic").decode()
