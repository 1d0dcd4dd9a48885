"""Follows the log: from memory for readers that keep up, from the recorder for those that fall behind.

Commits of this process wake the readers. A poll of the end of the log, shared by all readers, finds commits of other
processes; where the recorder can listen, it reports them as soon as they happen.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, TypeAlias

from redraft.events.errors import StoreError
from redraft.events.messages.envelope import Entry, Recorded
from redraft.events.store.append import CommittedAppend
from redraft.events.store.recorder import Listen

RING_EVENTS: Final = 16_384
RING_BYTES: Final = 16 * 1024 * 1024

ReadLog: TypeAlias = Callable[[int, int], Awaitable[Sequence[Entry]]]
"""Returns the events after a position, up to a limit."""


class Ring:
    """The newest events of the log, without a gap, that this process wrote; bounded in number and bytes."""

    def __init__(self, max_events: int = RING_EVENTS, max_bytes: int = RING_BYTES) -> None:
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._events: list[Recorded] = []
        self._pieces: deque[tuple[int, int]] = deque()
        self._bytes = 0
        self._last = 0

    def add(self, events: Sequence[Recorded], size: int) -> None:
        """Adds consecutive events, and their memory in bytes. A gap before them empties the ring first.

        Ignores events that are older than its last one.
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
        if len(self._events) > self._max_events or self._bytes > self._max_bytes:
            self._trim()

    def clear(self) -> None:
        """Drops all events."""
        self._events.clear()
        self._pieces.clear()
        self._bytes = 0

    def after(self, position: int, limit: int) -> Sequence[Recorded]:
        """Returns the events that follow a position, or () when the ring does not hold the first of them."""
        start = len(self._events) - (self._last - position)
        return self._events[start : start + limit] if 0 <= start < len(self._events) else ()

    def _trim(self) -> None:
        """Drops the oldest events, a sixteenth at a time: each cut at the front of a long list moves its rest."""
        events, size = (limit - limit // 16 for limit in (self._max_events, self._max_bytes))
        surplus = 0
        while len(self._events) - surplus > events or self._bytes > size:
            number, gone = self._pieces.popleft()
            surplus += number
            self._bytes -= gone
        del self._events[:surplus]


class Bell:
    """Wakes all waiting tasks. It counts each ring, so that a task that was busy does not miss one."""

    def __init__(self) -> None:
        self.count = 0
        self._broken = ""
        self._waiting: set[asyncio.Future[str]] = set()

    def ring(self, fault: str = "") -> None:
        """Wakes every waiting task; with a fault, `wait` raises it as a StoreError."""
        self.count += 1
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(fault)
        self._waiting.clear()

    def take_down(self, fault: str) -> None:
        """Makes every present and later `wait` raise a StoreError."""
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
    """`read` and `end` query the recorder for events and for the end of the log; `poll` is in seconds.

    `listen` runs while there are readers; see `Opened`.
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

    def add_committed(self, appends: Sequence[CommittedAppend]) -> None:
        """Adds the appends that this process has recorded, in the order of the log."""
        for append in appends:
            self._ring.add(append.events, append.size)
        if appends:
            self._move_end(appends[-1].events[-1].position)

    def forget(self) -> None:
        """Drops the events held in memory; later readers get them from the recorder."""
        self._ring.clear()

    async def after(self, position: int, limit: int) -> AsyncGenerator[Sequence[Entry], None]:
        """Yields batches of the events after a position, up to the end of the log."""
        while batch := self._ring.after(position, limit) or await self._read(position, limit):
            yield batch
            position = batch[-1].position

    async def follow(self, position: int, limit: int) -> AsyncGenerator[Sequence[Entry], None]:
        """Yields batches of the events after a position, present and future; never ends by itself."""
        self._enter()
        try:
            while True:
                seen = self._bell.count
                batch: Sequence[Entry] = self._ring.after(position, limit)
                if not batch and (self._end is None or position < self._end):
                    batch = await self._read(position, limit)
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
            watches = [self._watch_end()] if self._listen is None else [self._watch_end(), self._listen(self._move_end)]
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
            except Exception as error:  # noqa: BLE001 - whatever it is: else all readers would wait for ever
                self._bell.ring(str(error) or repr(error))
            else:
                self._move_end(end)

    def _move_end(self, end: int) -> None:
        if self._end is None or end > self._end:
            self._end = end
            self._bell.ring()
