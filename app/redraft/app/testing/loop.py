"""An event loop in which time is a number and what happens next is drawn: the same seed, the same history.

Every callback belongs to a process, by the context that it runs in. Within a process they run in the order in which
they were made, as on any event loop; between processes the order is drawn, as between computers. When nobody has
anything to do, the clock moves on to what comes next.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any, Final, NoReturn, ParamSpec, TypeVar, TypeVarTuple, Unpack
from warnings import catch_warnings, simplefilter

import redraft.actors.decider
import redraft.actors.forking
import redraft.events.rules
from redraft.events.rules import RULES

P = ParamSpec("P")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")

NOON: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)
"""What clocks show when a history begins."""

OF_RELEASE: Final = (redraft.events.rules, redraft.actors.decider, redraft.actors.forking)
"""The modules whose `RULES` is replaced while a process of an older release runs."""

BURST: Final = 12
"""How many callbacks of a process run, at most, before another process may have its turn."""

PASSES: Final = 10
"""How often it is looked for garbage after a history, at most."""

MOST: Final = 3_000_000
"""Callbacks after which a history is taken to go round in circles."""


class Stuck(Exception):
    """Nothing can happen any more, or what happens has no end."""


class Process:
    """A simulated operating system process: killing or pausing it concerns all its tasks.

    `skew` is what its clock shows beyond the true time; `rules` are the latest that its release knows.
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
    """The process that the code that calls this belongs to; None for what is outside of all."""
    return _OWNER.get()


class SimHandle(asyncio.TimerHandle):
    """A callback of a process, which may have to wait until `when`. As asyncio makes them, but for its debugging."""

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
    """A future whose place in a set does not depend on where in memory it lies, but on its `number`."""

    number: int

    def __hash__(self) -> int:
        return self.number


class SimTask(asyncio.Task[Any]):
    """A task whose place in a set does not depend on where in memory it lies."""

    def __init__(self, work: Coroutine[Any, Any, Any], loop: SimLoop, **options: Any) -> None:  # noqa: ANN401 - as a task has them
        self._number = next(loop.hashes)
        super().__init__(work, loop=loop, **options)

    def __hash__(self) -> int:
        return self._number


class SimLoop(asyncio.BaseEventLoop):
    """Runs what is given to it without waiting, without threads, and without the system's clock."""

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
        self.set_task_factory(_kept)  # type: ignore[arg-type]  # its type says less than it takes

    def time(self) -> float:
        """Seconds since the history began."""
        return self._now

    def create_future(self) -> asyncio.Future[Any]:
        future = SimFuture(loop=self)
        future.number = next(self.hashes)
        return future

    def process(self, name: str) -> Process:
        """A new process."""
        process = Process(name)
        self._all.append(process)
        return process

    def spawn(self, process: Process, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begins a task of a process."""
        return process.context.copy().run(self.create_task, work)

    def kill(self, process: Process) -> None:
        """Nothing of the process runs any more, not even what it does to clean up."""
        process.is_dead = True
        process.ready.clear()

    def pause(self, process: Process, seconds: float) -> None:
        """Nothing of the process runs for so many seconds, and it does not know."""
        process.wakes = self._now + seconds
        self.call_at(process.wakes, _nothing, context=self.outside.context)

    def clock(self, process: Process) -> datetime:
        """The time as the process has it."""
        return NOON + timedelta(seconds=self._now) + process.skew

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = SimHandle(0.0, callback, args, self, copy_context() if context is None else context)
        if not handle.process.is_dead:
            self._line_up(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = SimHandle(when, callback, args, self, copy_context() if context is None else context)
        heappush(self._due, (when, next(self._numbers), handle))
        return handle

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Without an executor it is done at once: there are no threads here."""
        if isinstance(executor, SimExecutor):
            return executor.run(func, *args)
        if executor is not None:
            return asyncio.wrap_future(executor.submit(func, *args), loop=self)
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - what an executor does: the caller gets it from the future
            done.set_exception(error)
        return done

    def add_reader(self, fd: Any, callback: Callable[..., object], *args: object) -> NoReturn:  # noqa: ANN401
        """Raises NotImplementedError, as asyncio's base loop does for what it cannot do, after an audit event."""
        sys.audit("redraft.wait_for_file", fd)
        raise NotImplementedError("a simulated loop waits for no socket or pipe")

    add_writer = add_reader

    async def _make_subprocess_transport(self, *args: object, **options: object) -> NoReturn:
        """Raises NotImplementedError, as asyncio's base loop does for what a loop cannot do."""
        sys.audit("subprocess.Popen", *args)
        raise NotImplementedError("a simulated loop waits for no program")

    def dispose(self) -> None:
        """Lets go of all that has not ended, without a word of complaint; nothing of it can do anything any more."""
        self._turn_to(RULES)
        for process in self._all:
            process.is_dead = True
            process.ready.clear()
            for task in process.tasks:
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                task._log_traceback = False  # who awaited it may have been killed
            process.tasks.clear()
        self._due.clear()
        if not self.is_closed():
            self.close()

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is passed over when its time comes."""

    def _write_to_self(self) -> None:
        """Nobody sleeps."""

    def _run_once(self) -> None:
        if next(self._numbers) > MOST:
            raise Stuck(f"more than {MOST:,} things have happened, and there is no end of it")
        while not (able := [each for each in self._able if each.wakes <= self._now and each.ready]):
            self._move_on()
        draw = self._random.random
        process = able[0] if len(able) == 1 else able[int(draw() * len(able))]
        if process.rules != self._rules:
            self._turn_to(process.rules)
        self._now += 1e-6
        ready = process.ready
        for _ in range(int(draw() * BURST) + 1):
            if process.wakes > self._now:
                return
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()
            if not ready:
                break
        if not ready:
            process.is_able = False
            self._able.remove(process)

    def _turn_to(self, rules: int) -> None:
        """Sets the newest rules that the shipped code knows, for the process that runs next."""
        self._rules = rules
        for module in OF_RELEASE:
            module.RULES = rules  # type: ignore[attr-defined]

    def _line_up(self, handle: SimHandle) -> None:
        """Its process is to run this, after what it has before."""
        process = handle.process
        if not process.is_able:
            process.is_able = True
            self._able.append(process)
        process.ready.append(handle)

    def _move_on(self) -> None:
        """Goes to the next moment at which anything is due."""
        while self._due:
            when, _, handle = heappop(self._due)
            if handle._cancelled or handle.process.is_dead:
                continue
            self._now = max(self._now, when)
            self._line_up(handle)
            return
        if asleep := [each.wakes for each in self._able if each.ready]:
            self._now = min(asleep)
            return
        raise Stuck("nothing is due, and nobody has anything to do")


class SimExecutor(Executor):
    """A thread of a process that does one call after the other, each taking as long as `takes` draws, in seconds.

    What was begun when the process is killed is done, or not, like a call to a server; nobody hears of it. With `near`
    the caller hears at once of what is done, as of a file of its own.
    """

    def __init__(self, loop: SimLoop, process: Process, takes: Callable[[], float], *, near: bool = False) -> None:
        self._loop = loop
        self._process = process
        self._takes = takes
        self._near = near
        self._free = 0.0

    def run(self, func: Callable[[Unpack[Ts]], T], *args: *Ts) -> asyncio.Future[T]:
        """Does a call for who awaits it. Does nothing if it is cancelled before its turn comes."""
        done = self._loop.create_future()
        begins, ends = self._turn()

        def call() -> None:
            if done.cancelled():
                return
            result, failed = None, None
            try:
                result = func(*args)
            except Exception as error:  # noqa: BLE001 - the caller gets it from the future
                failed = error
            if ends <= begins:
                _give(done, result, failed)
            else:
                self._loop.call_at(ends, _give, done, result, failed, context=self._process.context)

        self._loop.call_at(begins, call, context=self._process.context)
        return done

    def _turn(self) -> tuple[float, float]:
        """When the next call begins and ends."""
        begins = max(self._loop.time(), self._free) + self._takes()
        self._free = begins if self._near else begins + self._takes()
        return begins, self._free

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        done: Future[T] = Future()
        begins, ends = self._turn()

        def call() -> None:
            if not done.set_running_or_notify_cancel():
                return
            try:
                result = fn(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 - the caller gets it from the future
                self._loop.call_at(ends, done.set_exception, error, context=self._process.context)
            else:
                self._loop.call_at(ends, done.set_result, result, context=self._process.context)

        self._loop.call_at(begins, call, context=self._process.context)
        return done

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """There is nothing to let go of."""


def _give(done: asyncio.Future[Any], result: object, error: Exception | None) -> None:
    """Ends a future, unless whoever awaited it has given up."""
    if done.done():
        return
    if error is None:
        done.set_result(result)
    else:
        done.set_exception(error)


def _kept(loop: SimLoop, work: Coroutine[Any, Any, T], **options: Any) -> asyncio.Task[T]:  # noqa: ANN401
    """A task that stays until its process is let go of: what is killed must not clean up after itself."""
    task = SimTask(work, loop, **options)
    process = owner()
    if process is not None:
        process.tasks.append(task)
    return task


def _nothing() -> None:
    """What is called only so that time moves on."""


@contextmanager
def apart() -> Iterator[None]:
    """What is made within it, and let go of by then, is collected at its end, in silence.

    What was killed never cleans up: the loop is closed, and what it awaits never comes. Python tells of each such
    function that it ignores being closed.
    """
    heard, sys.unraisablehook = sys.unraisablehook, _unheard
    collects = gc.isenabled()
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        with catch_warnings():
            simplefilter("ignore", RuntimeWarning)  # of functions that were killed before they had begun
            for _ in range(PASSES):  # what was killed wakes once more to be closed, and is garbage only then
                if not gc.collect():
                    break
        gc.unfreeze()
        if collects:
            gc.enable()
        sys.unraisablehook = heard


def _unheard(fault: object) -> None:
    """Nothing is said of it."""
