"""Following the log: from memory for readers that keep up, from the recorder for those that fall behind.

Readers are woken by commits of this process. Commits of other processes are found by asking for the end of the log now
and then, once for all readers, and where the recorder can listen, as soon as they happen.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, TypeAlias

from redraft.events.appends import Landed
from redraft.events.envelope import Entry, Recorded
from redraft.events.errors import StoreError
from redraft.events.recorders import Listen

RING_EVENTS: Final = 16_384
RING_BYTES: Final = 16 * 1024 * 1024

ReadLog: TypeAlias = Callable[[int, int], Awaitable[Sequence[Entry]]]
"""The events after a position, at most so many."""


class Ring:
    """The newest events of the log, without a gap, as far as this process wrote them; bounded in number and bytes."""

    def __init__(self, most_events: int = RING_EVENTS, most_bytes: int = RING_BYTES) -> None:
        self._most_events = most_events
        self._most_bytes = most_bytes
        self._events: list[Recorded] = []
        self._pieces: deque[tuple[int, int]] = deque()
        self._bytes = 0
        self._last = 0

    def add(self, events: Sequence[Recorded], size: int) -> None:
        """Takes events that follow each other, and their size in bytes. A gap before them starts the ring anew.

        Those that are older than what it has are passed over.
        """
        if events[0].position <= self._last:
            return
        if events[0].position != self._last + 1:
            self._events.clear()
            self._pieces.clear()
            self._bytes = 0
        self._events += events
        self._pieces.append((len(events), size))
        self._bytes += size
        self._last = events[-1].position
        self._trim()

    def clear(self) -> None:
        """Lets go of all that is held."""
        self._events.clear()
        self._pieces.clear()
        self._bytes = 0

    def after(self, position: int, most: int) -> Sequence[Recorded]:
        """The events that follow a position, or nothing when the first of them is not held."""
        start = len(self._events) - (self._last - position)
        return self._events[start : start + most] if 0 <= start < len(self._events) else ()

    def _trim(self) -> None:
        """Lets go of the oldest, a sixteenth at a time: to cut the front off a long list moves all the rest of it."""
        if len(self._events) <= self._most_events and self._bytes <= self._most_bytes:
            return
        events, size = (most - most // 16 for most in (self._most_events, self._most_bytes))
        surplus = 0
        while len(self._events) - surplus > events or self._bytes > size:
            number, gone = self._pieces.popleft()
            surplus += number
            self._bytes -= gone
        del self._events[:surplus]


class Bell:
    """Wakes all who wait. Each ring counts, so that one who looked away does not miss it."""

    def __init__(self) -> None:
        self.count = 0
        self._broken = ""
        self._waiting: set[asyncio.Future[str]] = set()

    def ring(self, fault: str = "") -> None:
        """Wakes everyone; with a fault, by a StoreError."""
        self.count += 1
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(fault)
        self._waiting.clear()

    def take_down(self, fault: str) -> None:
        """From now on whoever waits gets a StoreError."""
        self._broken = fault
        self.ring(fault)

    async def wait(self, seen: int) -> None:
        """Returns when the bell has rung more often than `seen`; raises StoreError if it rings with a fault."""
        if self._broken:
            raise StoreError(self._broken)
        if self.count != seen:
            return
        waiter: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        try:
            fault = await waiter
        finally:
            self._waiting.discard(waiter)
        if fault:
            raise StoreError(fault)


class Tail:
    """`read` and `end` ask the recorder for events and for the end of the log; `poll` is in seconds.

    `listen` is run while there are readers; see `Opened`.
    """

    def __init__(
        self, read: ReadLog, end: Callable[[], Awaitable[int]], poll: float, listen: Listen | None = None
    ) -> None:
        self._read = read
        self._ask_end = end
        self._poll = poll
        self._listen = listen
        self._ring = Ring()
        self._bell = Bell()
        self._end: int | None = None
        self._readers = 0
        self._watches: list[asyncio.Task[None]] = []

    def landed(self, appends: Sequence[Landed]) -> None:
        """Takes what this process has recorded, in the order of the log."""
        for append in appends:
            self._ring.add(append.events, append.size)
        if appends:
            self._moved(appends[-1].events[-1].position)

    def forget(self) -> None:
        """Lets go of the events that are held in memory; they are read again when they are asked for."""
        self._ring.clear()

    async def after(self, position: int, most: int) -> AsyncGenerator[Sequence[Entry], None]:
        """Batches of what follows a position, up to the end of the log."""
        while batch := self._ring.after(position, most) or await self._read(position, most):
            yield batch
            position = batch[-1].position

    async def follow(self, position: int, most: int) -> AsyncGenerator[Sequence[Entry], None]:
        """Batches of what follows a position, and of what will; never ends by itself."""
        self._enter()
        try:
            while True:
                seen = self._bell.count
                batch: Sequence[Entry] = self._ring.after(position, most)
                if not batch and (self._end is None or position < self._end):
                    batch = await self._read(position, most)
                if batch:
                    position = batch[-1].position
                    yield batch
                else:
                    await self._bell.wait(seen)
        finally:
            self._leave()

    async def close(self, fault: str) -> None:
        """Ends every reader with a StoreError."""
        for watch in self._stop_watching():
            with suppress(asyncio.CancelledError):
                await watch
        self._bell.take_down(fault)

    def _enter(self) -> None:
        self._readers += 1
        if not self._watches:
            watches = [self._watch_end()] if self._listen is None else [self._watch_end(), self._listen(self._moved)]
            loop = asyncio.get_running_loop()
            self._watches = [loop.create_task(watch, name="redraft-tail") for watch in watches]

    def _leave(self) -> None:
        self._readers -= 1
        if self._readers == 0:
            self._stop_watching()

    def _stop_watching(self) -> Sequence[asyncio.Task[None]]:
        watches, self._watches = self._watches, []
        for watch in watches:
            watch.cancel()
        return watches

    async def _watch_end(self) -> None:
        while True:
            await asyncio.sleep(self._poll)
            try:
                end = await self._ask_end()
            except StoreError as error:
                self._bell.ring(str(error))
            else:
                self._moved(end)

    def _moved(self, end: int) -> None:
        if self._end is None or end > self._end:
            self._end = end
            self._bell.ring()
