"""Runs a process: its event loop, its parts, which go on while servers come and go, and how it gives memory back."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import gc
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from math import inf
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeVar

from redraft.events.errors import BusError, IncompatibleStore, MessageTooLarge, RedraftError, StoreError

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger
    from tenacity import AsyncRetrying


@asynccontextmanager
async def together(parts: Iterable[Coroutine[None, None, None]]) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Runs the parts beside the block and stops them after it; the first error of a part ends the block.

    Raises CancelledError where the caller was cancelled at the same moment: before Python 3.13 a TaskGroup raises the
    errors alone (https://github.com/python/cpython/issues/116720), and who tries again would go on for ever.
    """
    caller = asyncio.current_task()
    cancelled_before = caller.cancelling() if caller is not None else 0
    has_ended = False
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(part) for part in parts]
            yield tasks
            has_ended = True
            for task in tasks:
                task.cancel()
    except BaseExceptionGroup as errors:
        if caller is not None and caller.cancelling() > cancelled_before:
            if not has_ended:
                raise asyncio.CancelledError from errors
            caller.uncancel()  # it was the group, for an error after the block, which before 3.13 it does not take back
        raise _first(errors) from None


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """Returns the one of several errors that people can act on."""
    plain = [_first(each) if isinstance(each, BaseExceptionGroup) else each for each in errors.exceptions]
    return next((each for each in plain if isinstance(each, RedraftError)), plain[0])


Part: TypeAlias = Callable[[], Coroutine[None, None, None]]
T = TypeVar("T")


class Drains(Protocol):
    """A part that takes no more work once `drain` was called."""

    def drain(self) -> Awaitable[None] | None: ...


FIRST_WAIT: Final = 0.1
"""The pause, in seconds, after the first attempt to reach a server; to each up to a second is added, by chance."""

LONGEST_WAIT: Final = 5.0
"""The longest pause, in seconds, between two attempts to reach a server."""

PATIENCE: Final = 60.0
"""Seconds for which a server is tried at the start, by default."""


@asynccontextmanager
async def opened(
    entering: Callable[[], AbstractAsyncContextManager[T]], patience: float, log: FilteringBoundLogger
) -> AsyncIterator[T]:
    """Yields what a context yields; retries entering it for `patience` seconds while its server is away.

    Raises the last BusError or StoreError after that.
    """
    async with AsyncExitStack() as stack:

        async def enter() -> T:
            try:
                return await stack.enter_async_context(entering())
            except (BusError, StoreError) as error:
                log.warning("not reached", error=str(error))
                raise

        yield await _retrying(patience)(enter)


async def all_kept_up(parts: dict[str, Part], log: FilteringBoundLogger) -> None:
    """Runs parts beside each other until one of them returns, or raises what does not pass by itself."""
    async with together([retry_forever(name, part, log) for name, part in parts.items()]) as tasks:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)


async def retry_forever(name: str, part: Part, log: FilteringBoundLogger) -> None:
    """Runs a part; when its server is away, tries again, first soon and then less and less often."""
    async for attempt in _retrying(inf):
        with attempt:
            try:
                async with together([part()]) as tasks:  # of a group of errors, the one that says why
                    await asyncio.wait(tasks)
            except (BusError, StoreError, OSError) as error:
                is_over_soon(name, log, error)
                raise


def _retrying(patience: float) -> AsyncRetrying:
    """Returns what tries again, first soon and then less and less often, for so many seconds after the first time."""
    import tenacity  # it takes a while, and only those who serve need it

    return tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception(may_pass),
        stop=tenacity.stop_after_delay(patience) if patience else tenacity.stop_after_attempt(1),
        wait=tenacity.wait_exponential_jitter(FIRST_WAIT, LONGEST_WAIT),
        reraise=True,
    )


@asynccontextmanager
async def drained(part: Drains, drain: asyncio.Event | None) -> AsyncIterator[None]:
    """Drains the part when the event is set, if it is within the block."""

    async def wait() -> None:
        if drain is not None:
            await drain.wait()
            if (draining := part.drain()) is not None:
                await draining

    waiting = asyncio.create_task(wait())
    try:
        yield
    finally:
        waiting.cancel()


_SCARCE: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


def may_pass(error: BaseException) -> bool:
    """Returns whether this error may be over in a while: not for a store not made by Redraft, or a large message.

    So may a want of file descriptors or of memory, which any part may meet.
    """
    if isinstance(error, OSError):
        return error.errno in _SCARCE
    return isinstance(error, BusError | StoreError) and not isinstance(error, IncompatibleStore | MessageTooLarge)


def is_over_soon(name: str, log: FilteringBoundLogger, error: Exception) -> bool:
    """Returns whether this error may be over in a while; logs then that it interrupts this part."""
    if passes := may_pass(error):
        log.warning("interrupted", part=name, error=str(error))
    return passes


LARGE: Final = 256 * 1024
"""Bytes of a block of memory from which on it is given back as soon as it is free."""

_MMAP_THRESHOLD: Final = -3
"""glibc's `M_MMAP_THRESHOLD`, see mallopt(3)."""


def give_back_large_blocks() -> None:
    """Has the C library give each large block back when it is free; nothing is done where it is not glibc.

    Otherwise glibc raises its own limit to the largest block that was freed, up to 32 MiB, and keeps what lies between
    blocks that are still used: after drafts of 1 MB a coordinator had a quarter more memory than it used.
    """
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, LARGE)


COLLECT: Final = (20_000, 50, 1000)
"""The thresholds of the collector of cycles: it runs seldom, as events and states have none."""

GRACE: Final = 2.0
"""Seconds that tasks have to end once they are cancelled; then the program ends without them."""


def run(main: Coroutine[None, None, T]) -> T:
    """Runs a coroutine to its end, on uvloop except on Windows, and returns what it returns.

    Unlike `asyncio.run` it does not wait for ever for a task that swallows its cancellation.
    """
    gc.set_threshold(*COLLECT)
    runner = asyncio.Runner(loop_factory=_new_loop)
    try:
        return runner.run(main)
    finally:
        if runner.run(_end_all()):
            runner.close()


async def _end_all() -> bool:
    """Cancels every other task; returns whether all have ended in time."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if not others:
        return True
    _, stubborn = await asyncio.wait(others, timeout=GRACE)
    return not stubborn


def _new_loop() -> asyncio.AbstractEventLoop:
    if sys.platform == "win32":
        return asyncio.new_event_loop()
    import uvloop

    return uvloop.new_event_loop()
