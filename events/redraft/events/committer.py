"""Group commit: appends that wait are written together, in one transaction, by one thread.

Appends of one turn of the event loop, and those that come while a commit is under way, make the next group. Each comes
encoded, and chained to the event that it was decided on; that this is the last event of its run, the database makes
sure. Where there is a `DirectWriter`, the thread has only what that does not take, or could not do.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from typing import Final, ParamSpec, TypeAlias, TypeVar

import msgspec

from redraft.events.appends import Encoded, Landed, landed
from redraft.events.envelope import Recorded
from redraft.events.errors import Conflict, StoreError
from redraft.events.recorders import ApplicationRecorder, DirectWriter, PersistenceError
from redraft.events.underway import Underway
from redraft.events.writer import Entry, commit, rows_of, went_together

_P = ParamSpec("_P")
_T = TypeVar("_T")

GROUP_EVENTS: Final = 512
GROUP_BYTES: Final = 4 * 1024 * 1024
"""Events and their bytes in one transaction; what was handed in at once is never split, whatever its size."""

Result: TypeAlias = tuple[Recorded, ...] | Conflict | StoreError
Tell: TypeAlias = Callable[[Sequence[Landed]], None]
"""Told of the appends that were recorded, in the order of the log."""


class Batch(msgspec.Struct, frozen=True, eq=False):
    """What was handed in at once, how many events and bytes these are, and the future that gets its results."""

    entries: list[Entry]
    events: int
    size: int
    done: asyncio.Future[list[Result]]
    number: int


class Inline(Executor):
    """Does what is submitted at once, on the caller's thread."""

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        done: Future[_T] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001  what an executor does: the caller gets it from the future
            done.set_exception(error)
        return done


class Committer:
    def __init__(
        self,
        recorder: ApplicationRecorder,
        where: str,
        executor: Executor,
        tell: Tell,
        direct: DirectWriter | None = None,
    ) -> None:
        """The executor does what `direct` cannot. `where` names the store in errors."""
        self.underway = Underway()
        self._recorder = recorder
        self._where = where
        self._executor = executor
        self._direct = direct
        self._tell = tell
        self._waiting: deque[Batch] = deque()
        self._busy = False
        self._idle = asyncio.Event()
        self._idle.set()

    def submit(self, appends: Sequence[Encoded], *, at_once: bool = False) -> asyncio.Future[list[Result]]:
        """One result for each append, in their order. What waits is bounded by those who wait for it.

        `at_once`: do not wait for what else this turn of the loop may bring, so that deciding and writing overlap.
        """
        loop = asyncio.get_running_loop()
        entries = [Entry(append) for append in appends]
        events, size = sum(len(append.rows) for append in appends), sum(append.size for append in appends)
        batch = Batch(entries, events, size, loop.create_future(), self.underway.begin())
        self._waiting.append(batch)
        self._idle.clear()
        if at_once:
            self._start(loop)
        elif len(self._waiting) == 1 and not self._busy:
            loop.call_soon(self._start, loop)
        return batch.done

    async def drain(self) -> None:
        """Returns when all that was handed in has its results."""
        await self._idle.wait()

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._busy or not self._waiting:
            return
        group = [self._waiting.popleft()]
        events, size = group[0].events, group[0].size
        while (
            self._waiting
            and (events := events + self._waiting[0].events) <= GROUP_EVENTS
            and (size := size + self._waiting[0].size) <= GROUP_BYTES
        ):
            group.append(self._waiting.popleft())
        self._busy = True
        entries = [entry for batch in group for entry in batch.entries]
        if not self._begun_directly(loop, group, entries):
            self._execute(loop, group, entries)

    def _begun_directly(
        self, loop: asyncio.AbstractEventLoop, group: Sequence[Batch], entries: Sequence[Entry]
    ) -> bool:
        if self._direct is None:
            return False

        def then(told: Sequence[int] | PersistenceError) -> None:
            if isinstance(told, PersistenceError):
                self._execute(loop, group, entries, told)
            else:
                went_together(entries, told)
                self._finish(loop, group, None)

        return self._direct.begin(rows_of(entries), then)

    def _execute(
        self,
        loop: asyncio.AbstractEventLoop,
        group: Sequence[Batch],
        entries: Sequence[Entry],
        failed: PersistenceError | None = None,
    ) -> None:
        written = self._executor.submit(commit, self._recorder, self._where, entries, failed)
        if written.done():
            self._finish(loop, group, written.exception())
        else:
            written.add_done_callback(
                lambda done: loop.call_soon_threadsafe(self._finish, loop, group, done.exception())
            )

    def _finish(self, loop: asyncio.AbstractEventLoop, group: Sequence[Batch], fault: BaseException | None) -> None:
        there: list[Landed] = []
        self._busy = False
        if not isinstance(self._executor, Inline):
            self._start(loop)
        for batch in group:
            self.underway.end(batch.number)
            results = [self._result(entry, there) for entry in batch.entries]
            if batch.done.done():
                continue  # Who handed it in no longer waits.
            if fault is None:
                batch.done.set_result(results)
            else:
                batch.done.set_exception(fault)
        there.sort(key=lambda each: each.events[0].position)
        self._tell(there)
        if self._waiting:
            loop.call_soon(self._start, loop)
        elif not self._busy:
            self._idle.set()

    def _result(self, entry: Entry, there: list[Landed]) -> Result:
        if not isinstance(entry.outcome, tuple):
            run = entry.encoded.append.run
            return entry.outcome or StoreError(f"store {self._where}: the append of run {run} got lost")
        there.append(landed(entry.encoded, entry.outcome))
        return there[-1].events
