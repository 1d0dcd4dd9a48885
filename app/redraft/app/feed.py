"""What subscribers read: the events that they want, in log order, from the store or from the broker alone."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from redraft.events.envelope import Entry, Recorded, Unreadable
from redraft.events.errors import InputError, StoreUnusable
from redraft.events.filters import EVERYTHING, About, EventFilter, Sieve, about
from redraft.events.store import EventStore

if TYPE_CHECKING:
    from redraft.events.rabbit_bus import RabbitBus

BATCH: Final = 100
"""How many events are held for a reader at most, however slow it is."""


class Batch(msgspec.Struct, frozen=True, gc=False):
    """Events that are wanted, maybe none; what is wanted up to `position` was in this batch or an earlier one.

    `unreadable` are what cannot be read of runs that are asked for by name.
    """

    events: Sequence[Recorded]
    position: int
    unreadable: Sequence[Unreadable] = ()


class Feed(Protocol):
    """Where events come from, each once, in log order."""

    def read(self, after: int, wanted: EventFilter, *, follow: bool = True) -> AsyncGenerator[Batch, None]:
        """What is wanted of the log after a position; `follow` waits for more. Close it (`contextlib.aclosing`)."""
        ...

    async def require(self, position: int, name: str) -> None:
        """Makes sure that there can be a subscription of this name at this position."""
        ...


class StoreFeed:
    """Events from a store. Reading one run's goes by its own index, not through the whole log."""

    def __init__(self, store: EventStore) -> None:
        self._store = store

    async def require(self, position: int, name: str) -> None:
        """Raises StoreUnusable when the log is shorter than a subscription of this name has seen it."""
        head = await self._store.head()
        if position > head:
            raise StoreUnusable(
                f"subscription {name!r} is at {position}, but the log of {self._store.where} ends at {head}: it is "
                f"another log, or a part of one; go on in it with `redraft subscriptions reset {name}`"
            )

    async def read(self, after: int, wanted: EventFilter, *, follow: bool = True) -> AsyncGenerator[Batch, None]:
        sieve = Sieve(wanted, self.about)
        if len(wanted.runs) == 1:
            (run,) = wanted.runs
            async with aclosing(self._of_run(after, run, sieve)) as batches:
                async for batch in batches:
                    after = batch.position
                    yield batch
            if not follow:
                return
        async with aclosing(self._store.tail(after, follow=follow, limit=BATCH)) as tail:
            async for events in tail:
                yield Batch(await _passed(sieve, events), events[-1].position, _unread(wanted, events))

    async def _of_run(self, after: int, run: str, sieve: Sieve) -> AsyncGenerator[Batch, None]:
        """Yields the events of one run. Nothing of it is left out up to the position of the last batch."""
        head = max(after, await self._store.head())
        version = 0
        while events := await self._store.entries(run, upto=version + BATCH, after=version):
            reached = max(event.version for event in events)
            later = [event for event in events if event.position > after]
            if later:
                yield Batch(await _passed(sieve, later), later[-1].position, _unread(sieve.wanted, later))
                head = max(head, later[-1].position)
            if reached <= version:
                break  # only a row whose version is no number is left
            version = reached
        yield Batch((), head)

    async def about(self, run: str) -> About:
        """Returns the workflow and tags of a run; nothing for one that is not known, or whose start cannot be read."""
        first = [event for event in await self._store.entries(run, upto=1) if isinstance(event, Recorded)]
        return (first and about(first[0])) or About()


class BrokerFeed:
    """Events from the stream on RabbitMQ, for those who have the broker alone."""

    def __init__(self, bus: RabbitBus) -> None:
        self._bus = bus

    async def read(self, after: int, wanted: EventFilter, *, follow: bool = True) -> AsyncGenerator[Batch, None]:
        """Raises InputError unless it is to `follow`: a stream does not say where it ends."""
        if not follow:
            raise InputError("the broker alone does not say where the log ends: follow it, or read it from the store")
        async with aclosing(self._bus.subscribe_stream(after, wanted)) as events:
            async for event in events:
                yield Batch((event,), event.position)

    async def require(self, position: int, name: str) -> None:
        """Raises InputError: a broker keeps no positions."""
        raise InputError(f"subscription {name!r}: the broker alone keeps no positions; open a client with the store")


async def _passed(sieve: Sieve, entries: Sequence[Entry]) -> Sequence[Recorded]:
    """The events that are wanted; what cannot be read as one is passed over."""
    events = [event for event in entries if isinstance(event, Recorded)]
    return events if sieve.wanted == EVERYTHING else [event for event in events if await sieve.passes(event)]


def _unread(wanted: EventFilter, entries: Sequence[Entry]) -> Sequence[Unreadable]:
    return [each for each in entries if isinstance(each, Unreadable) and each.run in wanted.runs]
