"""Publishes recorded events, decoupled from the relay so that requests never wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from redraft.actors.runtime.relaying.queue_publisher import Blocked, Freed, LeftOut, OnTrouble
from redraft.events.bus.port import EventPublisher
from redraft.events.errors import BusUnusable, MessageTooLarge
from redraft.events.messages.envelope import Entry, Recorded
from redraft.events.messages.filters import RunFacts
from redraft.events.messages.memory import memory_of

MAX_WAITING_BYTES: Final = 8 * 1024 * 1024
"""The approximate memory of events that may wait to be published, unless a single batch has more."""

AT_ONCE: Final = 4 * 1024 * 1024
"""The approximate memory of events that are published at once, unless a single event has more."""

GATHER: Final = 0.1
"""Seconds for which events gather before they are published together."""

AGAIN: Final = 2.0
"""Seconds between two attempts to publish events."""

TOPIC: Final = "redraft.events"


class LogReader(Protocol):
    """Follows the whole log, and reads the events of a run."""

    def tail(self, after: int, *, follow: bool = True) -> AsyncIterator[Sequence[Entry]]: ...

    async def read(self, run: str, upto: int | None = None, after: int = 0) -> Sequence[Recorded]: ...

    async def entries(self, run: str, upto: int | None = None, after: int = 0) -> Sequence[Entry]: ...


class SentBatch(msgspec.Struct, frozen=True):
    """Events whose requests are sent, with their runs' facts, and the position in the log that they reach."""

    events: Sequence[Recorded]
    facts: Mapping[str, RunFacts]
    position: int


class EventAnnouncer:
    """Publishes events in the order of the log; all up to the position `reached` are published.

    While publishing is impossible, as when the topic or stream has other settings or accepts nothing, events are
    skipped, and read from the log again afterwards: requests wait at most `slow` seconds. `facts` returns those of an
    event's run.
    """

    def __init__(
        self,
        log: LogReader,
        publisher: EventPublisher | None,
        owns: Callable[[str], bool],
        facts: Callable[[Recorded], Awaitable[RunFacts]],
        on_trouble: OnTrouble,
        slow: float,
    ) -> None:
        self.reached = 0
        self._slow = slow
        self._log = log
        self._publisher = publisher
        self._owns = owns
        self._facts = facts
        self._on_trouble = on_trouble
        self._sent: asyncio.Queue[SentBatch] = asyncio.Queue()
        self._bytes = 0
        self._room = asyncio.Event()
        self._seen = 0
        self._skips = False

    @property
    def has_publisher(self) -> bool:
        """Returns whether events are published at all."""
        return self._publisher is not None

    async def add(self, sent: SentBatch) -> None:
        """Queues the next events for publishing. Waits at most `slow` seconds for room."""
        self._seen = sent.position
        if self._bytes <= MAX_WAITING_BYTES and not self._skips:  # as a rule, with no timer
            self._put(sent)
            return
        try:
            async with asyncio.timeout(self._slow):
                while self._bytes > MAX_WAITING_BYTES and not self._skips:
                    self._room.clear()
                    await self._room.wait()
        except TimeoutError:
            self._skip(f"it took nothing within {self._slow:g} seconds")
        else:
            if not self._skips:
                self._put(sent)

    async def run(self, check: Callable[[], Awaitable[None]] | None = None) -> None:
        """Publishes queued events until it is cancelled; calls `check` before each attempt. Raises BusError."""
        while True:
            ready = [self._take(await self._sent.get())]
            await asyncio.sleep(GATHER)
            ready += self._take_all()
            events = [event for each in ready for event in each.events]
            facts = {run: known for each in ready for run, known in each.facts.items()}
            for some in _split(events):
                await self._announce(some, facts, check)
            self.reached = ready[-1].position
            if self._skips:
                await self._catch_up(check)

    def _put(self, sent: SentBatch) -> None:
        self._bytes += _size(sent.events)
        self._sent.put_nowait(sent)

    def _take_all(self) -> list[SentBatch]:
        return [self._take(self._sent.get_nowait()) for _ in range(self._sent.qsize())]

    def _take(self, sent: SentBatch) -> SentBatch:
        self._bytes -= _size(sent.events)
        self._room.set()
        return sent

    async def _announce(
        self, events: Sequence[Recorded], facts: Mapping[str, RunFacts], check: Callable[[], Awaitable[None]] | None
    ) -> None:
        """Publishes events, repeating until it succeeds; calls `check` before each attempt.

        An event that no broker takes is left out, and those beside it are published one by one.
        """
        if self._publisher is None or not events:
            return
        while True:
            if check is not None:
                await check()
            try:
                await self._publisher.publish_events(events, facts)
            except MessageTooLarge as error:
                await self._announce_singly(events, facts, check, error)
            except BusUnusable as error:
                self._skip(str(error))
                await asyncio.sleep(AGAIN)
                continue
            return

    async def _announce_singly(
        self,
        events: Sequence[Recorded],
        facts: Mapping[str, RunFacts],
        check: Callable[[], Awaitable[None]] | None,
        error: MessageTooLarge,
    ) -> None:
        """Publishes events one by one, as one of them is too large; reports a single event, which is left out."""
        if len(events) == 1:
            self._on_trouble(LeftOut(events[0].run, events[0].position, f"its event is not published: {error}"))
            return
        for each in events:
            await self._announce([each], facts, check)

    def _skip(self, fault: str) -> None:
        """Drops what is queued and skips new events until publishing works again; callers of `add` go on."""
        if not self._skips:
            self._on_trouble(Blocked(TOPIC, fault))
        self._skips = True
        self._take_all()
        self._bytes = 0
        self._room.set()

    async def _catch_up(self, check: Callable[[], Awaitable[None]] | None) -> None:
        """Publishes the skipped events from the log."""
        self._take_all()
        while self.reached < self._seen:
            async for batch in self._log.tail(self.reached, follow=False):
                events = [event for event in batch if isinstance(event, Recorded) and self._owns(event.run)]
                facts = {event.run: await self._facts(event) for event in events}
                await self._announce(events, facts, check)
                self.reached = batch[-1].position
        self._skips = False
        self._on_trouble(Freed(TOPIC))


def _split(events: Sequence[Recorded]) -> Iterator[Sequence[Recorded]]:
    """Yields the events in parts of at most `AT_ONCE` bytes each, or of a single event."""
    start, size = 0, 0
    for at, event in enumerate(events):
        size += _size([event])
        if size > AT_ONCE and at > start:
            yield events[start:at]
            start, size = at, _size([event])
    if start < len(events):
        yield events[start:]


def _size(events: Sequence[Recorded]) -> int:
    """Returns the approximate memory of events in bytes."""
    return sum(memory_of(event.data) for event in events)
