"""Group commit: one thread writes all waiting appends together, in one transaction.

Appends of one turn of the event loop, and those that arrive during a commit, form the next group. Each arrives encoded
and chained to the event on which it was decided; the database makes sure that this is the last event of its run. With a
`DirectWriter`, the thread gets only the groups that it does not accept or could not write.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from typing import Final, ParamSpec, TypeAlias, TypeVar

import msgspec

from redraft.events.errors import Conflict, StoreError
from redraft.events.messages.envelope import Recorded
from redraft.events.store.append import CommittedAppend, Encoded, to_committed
from redraft.events.store.commit import PendingAppend, commit, rows_of, set_outcomes
from redraft.events.store.recorder import DirectWriter, PersistenceError, Recorder
from redraft.events.underway import Underway

_P = ParamSpec("_P")
_T = TypeVar("_T")

GROUP_EVENTS: Final = 512
GROUP_BYTES: Final = 4 * 1024 * 1024
"""The limits of one transaction, in events and bytes. Appends of one `submit` are never split, whatever their size."""

Result: TypeAlias = tuple[Recorded, ...] | Conflict | StoreError
Notify: TypeAlias = Callable[[Sequence[CommittedAppend]], None]
"""Called with the recorded appends, in the order of the log."""


class Batch(msgspec.Struct, frozen=True, eq=False):
    """The appends of one `submit`, their number of events and bytes, and the future for their results."""

    entries: list[PendingAppend]
    events: int
    size: int
    done: asyncio.Future[list[Result]]
    number: int


class Inline(Executor):
    """Executes calls at once, on the caller's thread."""

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        done: Future[_T] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001  as executors do: the caller gets it from the future
            done.set_exception(error)
        return done


class Committer:
    """Collects appends into groups and has each group written. All of it is used from one event loop."""

    def __init__(
        self, recorder: Recorder, where: str, executor: Executor, notify: Notify, direct: DirectWriter | None = None
    ) -> None:
        """`executor` writes the groups that `direct` does not. `where` names the store in errors."""
        self.underway = Underway()
        self.on_append: Callable[[float], None] | None = None
        """Called with the seconds that each batch of appends took, from its arrival until it was on disk or failed."""
        self._recorder = recorder
        self._where = where
        self._executor = executor
        self._direct = direct
        self._notify = notify
        self._waiting: deque[Batch] = deque()
        self._busy = False
        self._idle = asyncio.Event()
        self._idle.set()

    def submit(self, appends: Sequence[Encoded], *, at_once: bool = False) -> asyncio.Future[list[Result]]:
        """Returns a future with one result for each append, in their order. Its callers bound the number of waiting
        appends.

        `at_once` starts writing without waiting for other appends of this turn of the loop, so that deciding and
        writing overlap.
        """
        loop = asyncio.get_running_loop()
        entries = [PendingAppend(append) for append in appends]
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
        """Returns when all submitted appends have their results."""
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
        try:
            is_begun = self._begin_directly(loop, group, entries)
        except Exception as error:  # noqa: BLE001 - whatever a writer raises: else all appends would wait for ever
            loop.call_soon(self._finish, loop, group, StoreError(f"store {self._where}: {str(error) or repr(error)}"))
        else:
            if not is_begun:
                self._execute(loop, group, entries)

    def _begin_directly(
        self, loop: asyncio.AbstractEventLoop, group: Sequence[Batch], entries: Sequence[PendingAppend]
    ) -> bool:
        if self._direct is None:
            return False

        def then(answer: Sequence[int] | PersistenceError) -> None:
            if isinstance(answer, PersistenceError):
                self._execute(loop, group, entries, answer)
            else:
                set_outcomes(entries, answer)
                self._finish(loop, group, None)

        return self._direct.begin(rows_of(entries), then)

    def _execute(
        self,
        loop: asyncio.AbstractEventLoop,
        group: Sequence[Batch],
        entries: Sequence[PendingAppend],
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
        recorded: list[CommittedAppend] = []
        self._busy = False
        if not isinstance(self._executor, Inline):
            self._start(loop)
        for batch in group:
            if self.on_append is not None:
                self.on_append(self.underway.age(batch.number))
            self.underway.end(batch.number)
            results = [self._result(entry, recorded) for entry in batch.entries]
            if batch.done.done():
                continue  # its caller no longer waits
            if fault is None:
                batch.done.set_result(results)
            else:
                batch.done.set_exception(fault)
        recorded.sort(key=lambda each: each.events[0].position)
        self._notify(recorded)
        if self._waiting:
            loop.call_soon(self._start, loop)
        elif not self._busy:
            self._idle.set()

    def _result(self, entry: PendingAppend, recorded: list[CommittedAppend]) -> Result:
        if not isinstance(entry.outcome, tuple):
            run = entry.encoded.append.run
            return entry.outcome or StoreError(f"store {self._where}: the append of run {run} got lost")
        recorded.append(to_committed(entry.encoded, entry.outcome))
        return recorded[-1].events
