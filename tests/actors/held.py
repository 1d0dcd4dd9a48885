"""Stores whose commits, results and reads wait until they are let go: a test decides in which order things happen.

Nothing runs in a thread. A commit waits before it is made, what came of it waits before it is told, and what was read
waits before it is given; meanwhile the event loop goes on, so whoever decides does so on what it knows by then.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Executor, Future
from typing import ParamSpec, TypeVar
from unittest.mock import patch

from msgspec.structs import replace

from redraft.events.backends import open_recorder
from redraft.events.errors import Conflict
from redraft.events.messages.envelope import Recorded
from redraft.events.store.append import Append, Encoded, NewRow
from redraft.events.store.event_store import EventStore
from redraft.events.store.recorder import DirectWriter, PersistenceError, Then

P = ParamSpec("P")
T = TypeVar("T")
Results = Sequence[tuple[Recorded, ...] | Conflict]


class Here(Executor):
    """Does what is submitted at once; while it `holds`, when it is told to."""

    def __init__(self, number: int = 1, *, thread_name_prefix: str = "") -> None:
        self.holds = False
        self.waiting: deque[Callable[[], None]] = deque()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        done: Future[T] = Future()

        def call() -> None:
            try:
                done.set_result(fn(*args, **kwargs))
            except Exception as error:  # noqa: BLE001  what an executor does
                done.set_exception(error)

        if self.holds:
            self.waiting.append(call)
        else:
            call()
        return done

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self.holds = False
        while self.waiting:
            self.waiting.popleft()()


class Directly:
    """A direct writer that begins when it is told to; `under_way` while the server has not answered."""

    def __init__(self, writer: DirectWriter, waiting: deque[Callable[[], None]]) -> None:
        self._writer = writer
        self._waiting = waiting
        self.under_way = False

    def begin(self, rows: Sequence[NewRow], then: Then) -> bool:
        def told(positions: Sequence[int] | PersistenceError) -> None:
            self.under_way = False
            then(positions)

        def call() -> None:
            self.under_way = True
            if not self._writer.begin(rows, told):
                told(PersistenceError("the direct writer does not take these rows"))

        self._waiting.append(call)
        return True

    def close(self) -> None:
        self._writer.close()


class Held:
    """A store as a coordinator sees it. What waits is in `commits`, `results` and `reads`, the oldest first."""

    def __init__(self, url: str) -> None:
        made: list[Here] = []

        def executor(number: int, *, thread_name_prefix: str = "") -> Here:
            here = Here()
            if thread_name_prefix.endswith("write"):
                made.append(here)
            return here

        opened = open_recorder(url)
        waiting: deque[Callable[[], None]] = deque()
        answers_later = opened.direct is not None and url.startswith("postgres")
        self._direct = Directly(opened.direct, waiting) if opened.direct and answers_later else None
        with patch("redraft.events.store.event_store.ThreadPoolExecutor", executor):
            self.store = EventStore(replace(opened, direct=self._direct))
        (writer,) = made
        writer.holds, writer.waiting = True, waiting
        self.commits = waiting
        self.holds_reads = False
        self._loop = asyncio.get_running_loop()
        self.results: list[asyncio.Event] = []
        self.reads: list[asyncio.Event] = []

    @property
    def under_way(self) -> bool:
        return self._direct is not None and self._direct.under_way

    def commit(self) -> None:
        """Begins the oldest commit when the event loop goes on."""
        self._loop.call_soon(self.commits.popleft())

    async def require_sealing(self) -> bool:
        return await self.store.require_sealing()

    async def encode(self, append: Append, *, looked: bool = False) -> Encoded:
        return await self.store.encode(append, looked=looked)

    async def has_key(self, run: str) -> bool:
        return await self.store.has_key(run)

    def hand_in(self, appends: Sequence[Encoded]) -> Coroutine[None, None, Results]:
        written = self.store.hand_in(appends)
        return self._told(written)

    async def _told(self, written: Coroutine[None, None, Results]) -> Results:
        results = await written
        await self._let_go(self.results)
        return results

    async def read(self, run: str, upto: int | None = None, after: int = 0) -> Sequence[Recorded]:
        found = await self.store.read(run, upto, after)
        if self.holds_reads:
            await self._let_go(self.reads)
        return found

    async def _let_go(self, line: list[asyncio.Event]) -> None:
        event = asyncio.Event()
        line.append(event)
        await event.wait()

    def let_all_go(self) -> bool:
        """Begins the oldest commit, or else lets go of all else that waits; False when nothing did."""
        if self.commits:
            self.commit()
            return True
        waiting = [*self.results, *self.reads]
        self.results.clear()
        self.reads.clear()
        for event in waiting:
            event.set()
        return bool(waiting)


class Clockwork(asyncio.SelectorEventLoop):
    """An event loop whose time stands still until it is told to move: who waits by the clock waits to be let go."""

    def __init__(self) -> None:
        super().__init__()
        self._elapsed = 0.0

    def time(self) -> float:
        return self._elapsed

    def move_on(self) -> bool:
        """Moves to when the next of those who wait by the clock goes on; False when nobody does."""
        waiting = [each.when() for each in self._scheduled if not each.cancelled()]  # type: ignore[attr-defined]
        self._elapsed = max(self._elapsed, min(waiting, default=0.0))
        return bool(waiting)


async def quiet(stores: Sequence[Held]) -> None:
    """Returns when everything waits to be let go: no callback of the event loop is left, and no server works."""
    ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
    await asyncio.sleep(0)
    while ready or any(store.under_way for store in stores):  # noqa: ASYNC110  the server sets no event
        await asyncio.sleep(0)
