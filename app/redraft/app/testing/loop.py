"""An event loop with virtual time, which draws what runs next: the same seed gives the same history.

Every callback belongs to a process, by its context. Within a process callbacks run in the order of their creation, as
on any event loop; between processes the order is random, as between computers. When no callback is ready, the clock
moves on to the next timer.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future
from contextvars import Context, ContextVar, copy_context
from datetime import UTC, datetime, timedelta
from functools import partial
from heapq import heappop, heappush
from inspect import CORO_CREATED, getcoroutinestate
from itertools import count
from random import Random
from types import CoroutineType
from typing import Any, Final, NoReturn, ParamSpec, TypeVar, TypeVarTuple, Unpack

import redraft.actors.deciding.decider
import redraft.actors.deciding.forking
import redraft.events.messages.plan
from redraft.events.messages.plan import RULES

P = ParamSpec("P")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")

NOON: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)
"""The time of clocks when a history begins."""

OF_RELEASE: Final = (redraft.events.messages.plan, redraft.actors.deciding.decider, redraft.actors.deciding.forking)
"""The modules whose `RULES` is replaced while a process of an older release runs."""

BURST: Final = 12
"""The maximum number of callbacks of a process before another process may run."""

MAX_CALLBACKS: Final = 3_000_000
"""The number of callbacks after which a history counts as an endless loop."""

POLLS: Final = 20_000
"""The number of bursts of callbacks after which somebody polls, and the clock moves on to timers all the same."""


class Stuck(Exception):
    """Nothing can happen any more, or what happens never ends."""


class Process:
    """A simulated operating system process: killing or pausing it affects all its tasks.

    `skew` is the offset of its clock from true time; `rules` are the newest that its release knows.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.skew = timedelta()
        self.rules = RULES
        self.is_dead = False
        self.is_able = False
        self.wakes = 0.0
        self.ready: deque[SimHandle] = deque()
        self.tasks: list[asyncio.Task[Any]] = []
        self.context: Context = copy_context()
        self.context.run(_OWNER.set, self)

    def __repr__(self) -> str:
        return self.name


_OWNER: ContextVar[Process | None] = ContextVar("owner", default=None)


def owner() -> Process | None:
    """Returns the process that the calling code belongs to; None outside of all processes."""
    return _OWNER.get()


class SimHandle(asyncio.TimerHandle):
    """A callback of a process, which may have to wait until `when`; like asyncio's handles, without debugging."""

    __slots__ = ("process",)

    def __init__(
        self, when: float, callback: Callable[..., object], args: tuple[Any, ...], loop: SimLoop, context: Context
    ) -> None:
        self._when = when
        self._callback = callback
        self._args = args
        self._loop = loop
        self._context = context
        self._cancelled = self._scheduled = False
        self._repr = self._source_traceback = None
        owned: Process | None = context.get(_OWNER)
        self.process = owned or loop.outside


class SimFuture(asyncio.Future[Any]):
    """A future whose hash is its `number`, not its address in memory: so sets have the same order in each run."""

    __slots__ = ("number",)

    number: int

    def __hash__(self) -> int:
        return self.number


class SimTask(asyncio.Task[Any]):
    """A task whose hash does not depend on its address in memory, and which no other process can cancel."""

    __slots__ = ("_number", "_process")

    def __init__(self, work: Coroutine[Any, Any, Any], loop: SimLoop, **options: Any) -> None:  # noqa: ANN401 - as a task has them
        self._number = next(loop.hashes)
        self._process = owner()
        super().__init__(work, loop=loop, **options)

    def cancel(self, msg: object = None) -> bool:
        """Cancels the task; does nothing in another process than its own, whose tasks only seem to be in reach."""
        caller = owner()
        return (caller is None or caller is self._process) and super().cancel(msg)

    def __hash__(self) -> int:
        return self._number


class SimLoop(asyncio.BaseEventLoop):
    """Runs callbacks without waiting, without threads, and without the system's clock."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._random = random
        self._now = 0.0
        self._numbers = count()
        self.hashes = count()
        self.outside = Process("world")
        self._all = [self.outside]
        self._able: list[Process] = []
        self._rules = RULES
        self._due: list[tuple[float, int, SimHandle]] = []
        self.set_task_factory(_kept_task)  # type: ignore[arg-type]  # its type says less than it takes

    def time(self) -> float:
        """Returns the seconds since the history began."""
        return self._now

    def create_future(self) -> asyncio.Future[Any]:
        future = SimFuture(loop=self)
        future.number = next(self.hashes)
        return future

    def process(self, name: str) -> Process:
        """Returns a new process."""
        process = Process(name)
        self._all.append(process)
        return process

    def spawn(self, process: Process, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Starts a task of a process."""
        return process.context.copy().run(self.create_task, work)

    def kill(self, process: Process) -> None:
        """Stops a process for good, without any cleanup of its own."""
        process.is_dead = True
        process.ready.clear()
        if process.is_able:
            process.is_able = False
            self._able.remove(process)

    def pause(self, process: Process, seconds: float) -> None:
        """Stops a process for `seconds`, without its noticing."""
        process.wakes = self._now + seconds
        self.call_at(process.wakes, lambda: None, context=self.outside.context)  # time is to move on

    def clock(self, process: Process) -> datetime:
        """Returns the time on the clock of a process."""
        return NOON + timedelta(seconds=self._now) + process.skew

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = SimHandle(0.0, callback, args, self, copy_context() if context is None else context)
        process = handle.process
        if not process.is_dead:
            process.ready.append(handle)
            if not process.is_able:
                self._wake(process)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = SimHandle(when, callback, args, self, copy_context() if context is None else context)
        if not handle.process.is_dead:
            heappush(self._due, (when, next(self._numbers), handle))
        return handle

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Runs a function in the simulated executor; without an executor at once, as there are no threads here."""
        if isinstance(executor, SimExecutor):
            return executor.run(func, *args)
        if executor is not None:
            return asyncio.wrap_future(executor.submit(func, *args), loop=self)
        done = self.create_future()
        _outcome_of(func, args)(done)
        return done

    def add_reader(self, fd: Any, callback: Callable[..., object], *args: object) -> NoReturn:  # noqa: ANN401
        """Raises NotImplementedError, as asyncio's base loop does for unsupported calls, after an audit event."""
        sys.audit("redraft.wait_for_file", fd)
        raise NotImplementedError("a simulated loop waits for no socket or pipe")

    add_writer = add_reader

    def stop(self) -> None:
        """Stops the loop, after an audit event: it is no actor's."""
        sys.audit("redraft.stop_loop")
        super().stop()

    async def _make_subprocess_transport(self, *args: object, **options: object) -> NoReturn:
        """Raises NotImplementedError, as asyncio's base loop does for unsupported calls, after an audit event."""
        sys.audit("subprocess.Popen", *args)
        raise NotImplementedError("a simulated loop waits for no program")

    def dispose(self) -> None:
        """Drops all unfinished tasks and timers silently; none of them runs again."""
        self._turn_to(RULES)
        for process in self._all:
            process.is_dead = True
            process.ready.clear()
            for task in process.tasks:
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                task._log_traceback = False  # who awaited it may have been killed
                work = task.get_coro()
                if isinstance(work, CoroutineType) and getcoroutinestate(work) == CORO_CREATED:
                    work.close()  # it never began, and Python would say so
            process.tasks.clear()
        self._due.clear()
        if not self.is_closed():
            self.close()

    def _run_once(self) -> None:
        """Runs callbacks until the loop is told to stop."""
        draw, numbers, able, busy = self._random.random, self._numbers, self._able, 0
        while True:
            if next(numbers) > MAX_CALLBACKS:
                raise Stuck(f"more than {MAX_CALLBACKS:,} things have happened, and there is no end of it")
            while not (drawn := [each for each in able if each.wakes <= self._now]):
                self._move_on()
                busy = 0
            busy += 1
            if busy > POLLS and self._due:
                self._move_on()
            process = drawn[0] if len(drawn) == 1 else drawn[int(draw() * len(drawn))]
            if process.rules != self._rules:
                self._turn_to(process.rules)
            self._now += 1e-6
            self._run_burst(process, int(draw() * BURST) + 1)
            if self._stopping:  # type: ignore[attr-defined]  # what `stop` sets
                return

    def _run_burst(self, process: Process, most: int) -> None:
        """Runs up to so many callbacks of a process, unless it is paused or killed."""
        ready = process.ready
        while most and ready and process.wakes <= self._now:
            most -= 1
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()
        if not ready and process.is_able:
            process.is_able = False
            self._able.remove(process)

    def _turn_to(self, rules: int) -> None:
        """Sets the newest rules that the shipped code knows, for the process that runs next."""
        self._rules = rules
        for module in OF_RELEASE:
            module.RULES = rules  # type: ignore[attr-defined]

    def _wake(self, process: Process) -> None:
        process.is_able = True
        self._able.append(process)

    def _move_on(self) -> None:
        while self._due:
            when, _, handle = heappop(self._due)
            if handle._cancelled or handle.process.is_dead:
                continue
            self._now = max(self._now, when)
            process = handle.process
            process.ready.append(handle)
            if not process.is_able:
                self._wake(process)
            return
        if asleep := [each.wakes for each in self._able if each.ready]:
            self._now = min(asleep)
            return
        raise Stuck("nothing is due, and nobody has anything to do")


class SimExecutor(Executor):
    """A thread of a process that runs one call after another, each taking as many seconds as `takes` draws.

    A call that has begun when the process is killed still completes, or not, like a call to a server; its result is
    dropped. With `near` the caller gets the result at once, as from a local file.
    """

    def __init__(self, loop: SimLoop, process: Process, takes: Callable[[], float], *, near: bool = False) -> None:
        self._loop = loop
        self._process = process
        self._takes = takes
        self._near = near
        self._free = 0.0

    def run(self, func: Callable[[Unpack[Ts]], T], *args: *Ts) -> asyncio.Future[T]:
        """Runs a call for the caller that awaits it. Does nothing if it is cancelled before it begins."""
        done = self._loop.create_future()
        begins, ends = self._turn()

        def call() -> None:
            if done.cancelled():
                return
            give = _outcome_of(func, args)
            if ends <= begins:
                give(done)
            else:
                self._loop.call_at(ends, give, done, context=self._process.context)

        self._loop.call_at(begins, call, context=self._process.context)
        return done

    def _turn(self) -> tuple[float, float]:
        begins = max(self._loop.time(), self._free) + self._takes()
        self._free = begins if self._near else begins + self._takes()
        return begins, self._free

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        done: Future[T] = Future()
        begins, ends = self._turn()

        def call() -> None:
            if done.set_running_or_notify_cancel():
                give = _outcome_of(partial(fn, **kwargs), args)
                self._loop.call_at(ends, give, done, context=self._process.context)

        self._loop.call_at(begins, call, context=self._process.context)
        return done


def _outcome_of(func: Callable[..., object], args: tuple[Any, ...]) -> Callable[[Any], None]:
    """Calls a function; returns what gives the result, or the error, to a future whose waiter has not given up."""
    result, failed = None, None
    try:
        result = func(*args)
    except Exception as error:  # noqa: BLE001 - what an executor does: the caller gets it from the future
        failed = error

    def give(done: asyncio.Future[object] | Future[object]) -> None:
        if not done.done():
            done.set_result(result) if failed is None else done.set_exception(failed)

    return give


def _kept_task(loop: SimLoop, work: Coroutine[Any, Any, T], **options: Any) -> asyncio.Task[T]:  # noqa: ANN401
    """Creates a task that is kept until the loop is disposed of: what is killed must not run cleanup code."""
    task = SimTask(work, loop, **options)
    process = owner()
    if process is not None:
        process.tasks.append(task)
    return task
