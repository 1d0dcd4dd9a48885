"""Making recorded events known, behind the relay: requests never wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from redraft.actors.trouble import Blocked, Freed, Tell
from redraft.events.bus import Announcer
from redraft.events.domain_events import DraftEdited, DraftGenerated, DraftRefined, RunStarted
from redraft.events.envelope import Entry, Recorded
from redraft.events.errors import BusUnusable
from redraft.events.filters import About

WINDOW: Final = 64
"""How many batches may be sent and not yet made known."""

MOST_BYTES: Final = 8 * 1024 * 1024
"""Bytes of texts, about, that may wait to be made known, unless a single batch has more."""

AT_ONCE: Final = 4 * 1024 * 1024
"""Bytes of texts, about, that are made known at once, unless a single event has more."""

GATHER: Final = 0.02
"""Seconds for which events gather before they are made known, once for all of them."""

SLOW: Final = 5.0
"""Seconds for which what was sent waits for room here; a topic or stream that is slower is left to itself."""

AGAIN: Final = 2.0
"""Seconds between two tries where events cannot be made known."""

TOPIC: Final = "redraft.events"


class Log(Protocol):
    def tail(self, after: int, *, follow: bool = True) -> AsyncIterator[Sequence[Entry]]: ...


class Sent(msgspec.Struct, frozen=True):
    """Events whose requests are sent, the facts of each of their runs, and the position in the log that they reach."""

    events: Sequence[Recorded]
    facts: Mapping[str, About]
    position: int


class Herald:
    """Makes events known in the order of the log; `reached` is the position up to which all are.

    While that cannot be done, as where topic or stream are there with the settings of somebody else, or take nothing,
    what comes is passed over, and read from the log again afterwards: requests wait for it `slow` seconds at most.
    `facts` gives those of an event's run.
    """

    def __init__(
        self,
        log: Log,
        announcer: Announcer | None,
        owns: Callable[[str], bool],
        facts: Callable[[Recorded], Awaitable[About]],
        tell: Tell,
        slow: float = SLOW,
    ) -> None:
        self.reached = 0
        self._slow = slow
        self._log = log
        self._announcer = announcer
        self._owns = owns
        self._facts = facts
        self._tell = tell
        self._sent: asyncio.Queue[Sent] = asyncio.Queue(WINDOW)
        self._bytes = 0
        self._room = asyncio.Event()
        self._seen = 0
        self._passes_over = False

    @property
    def is_heard(self) -> bool:
        """Whether there is anybody to make events known to."""
        return self._announcer is not None

    async def add(self, sent: Sent) -> None:
        """Takes in the next events. Waits a while where too much is to be made known."""
        self._seen = sent.position
        try:
            async with asyncio.timeout(self._slow):
                while self._bytes > MOST_BYTES and not self._passes_over:
                    self._room.clear()
                    await self._room.wait()
                if not self._passes_over:
                    self._bytes += _size(sent.events)
                    await self._sent.put(sent)
        except TimeoutError:
            self._pass_over(f"{TOPIC} took nothing within {self._slow:g} seconds")

    async def run(self, check: Callable[[], Awaitable[None]] | None = None) -> None:
        """Makes known what comes in, until it is cancelled; calls `check` each time before. Raises BusError."""
        while True:
            ready = [self._taken(await self._sent.get())]
            await asyncio.sleep(GATHER)
            ready += self._drained()
            events = [event for each in ready for event in each.events]
            facts = {run: known for each in ready for run, known in each.facts.items()}
            for some in _in_parts(events):
                await self._announce(some, facts, check)
            self.reached = ready[-1].position
            if self._passes_over:
                await self._catch_up(check)

    def _drained(self) -> list[Sent]:
        return [self._taken(self._sent.get_nowait()) for _ in range(self._sent.qsize())]

    def _taken(self, sent: Sent) -> Sent:
        self._bytes -= _size(sent.events)
        self._room.set()
        return sent

    async def _announce(
        self, events: Sequence[Recorded], facts: Mapping[str, About], check: Callable[[], Awaitable[None]] | None
    ) -> None:
        """Makes events known, once that can be done; calls `check` before each try."""
        if self._announcer is None or not events:
            return
        while True:
            if check is not None:
                await check()
            try:
                await self._announcer.announce(events, facts)
            except BusUnusable as error:
                self._pass_over(str(error))
                await asyncio.sleep(AGAIN)
            else:
                return

    def _pass_over(self, fault: str) -> None:
        """Keeps nothing more until all that can be made known again is; whoever waits to add goes on."""
        if not self._passes_over:
            self._tell(Blocked(TOPIC, fault))
        self._passes_over = True
        self._drained()
        self._bytes = 0
        self._room.set()

    async def _catch_up(self, check: Callable[[], Awaitable[None]] | None) -> None:
        """Makes known what was passed over."""
        self._drained()
        while self.reached < self._seen:
            async for batch in self._log.tail(self.reached, follow=False):
                events = [event for event in batch if isinstance(event, Recorded) and self._owns(event.run)]
                facts = {event.run: await self._facts(event) for event in events}
                await self._announce(events, facts, check)
                self.reached = batch[-1].position
        self._passes_over = False
        self._tell(Freed(TOPIC))


def _in_parts(events: Sequence[Recorded]) -> Iterator[Sequence[Recorded]]:
    """The events in parts of at most `AT_ONCE` bytes, or of a single event."""
    start, size = 0, 0
    for at, event in enumerate(events):
        size += _size([event])
        if size > AT_ONCE and at > start:
            yield events[start:at]
            start, size = at, _size([event])
    if start < len(events):
        yield events[start:]


def _size(events: Iterable[Recorded]) -> int:
    """The bytes of the drafts and briefs of events, about."""
    return sum(
        len(event.data.brief.text if isinstance(event.data, RunStarted) else event.data.draft.text)
        for event in events
        if isinstance(event.data, RunStarted | DraftGenerated | DraftRefined | DraftEdited)
    )
