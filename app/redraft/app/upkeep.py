"""Keeping the parts of a process up while servers come and go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeVar

from redraft.app.together import together
from redraft.events.errors import BusError, StoreError, StoreUnusable, TooLarge

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

Part: TypeAlias = Callable[[], Coroutine[None, None, None]]
T = TypeVar("T")


class Drains(Protocol):
    """What takes nothing more once it is told so."""

    def drain(self) -> None: ...


LONGEST_WAIT: Final = 5.0
"""Seconds between two tries of what needs a server that is away, at most."""

PATIENCE: Final = 60.0
"""For how many seconds a server is tried at the start, unless told otherwise."""


@asynccontextmanager
async def opened(
    entering: Callable[[], AbstractAsyncContextManager[T]], patience: float, log: FilteringBoundLogger
) -> AsyncIterator[T]:
    """What a context gives; entering it is tried again for `patience` seconds while its server is away.

    Raises the last BusError or StoreError after that.
    """
    async with AsyncExitStack() as stack:
        yield await _entered(stack, entering, patience, log)


async def _entered(
    stack: AsyncExitStack,
    entering: Callable[[], AbstractAsyncContextManager[T]],
    patience: float,
    log: FilteringBoundLogger,
) -> T:
    import stamina  # it takes a while, and only those who serve need it

    attempts = stamina.retry_context(
        may_pass, attempts=None if patience else 1, timeout=patience or None, wait_max=LONGEST_WAIT
    )
    async for attempt in attempts:
        with attempt:
            try:
                return await stack.enter_async_context(entering())
            except (BusError, StoreError) as error:
                log.warning("not reached", error=str(error))
                raise
    raise AssertionError("the last attempt either succeeds or raises")


async def all_kept_up(parts: dict[str, Part], log: FilteringBoundLogger) -> None:
    """Runs parts beside each other until one of them returns, or raises what does not pass by itself."""
    async with together([kept_up(name, part, log) for name, part in parts.items()]) as tasks:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)


async def kept_up(name: str, part: Part, log: FilteringBoundLogger) -> None:
    """Runs a part; when its server is away, tries again, first soon and then less and less often."""
    import stamina  # it takes a while, and only those who serve need it

    attempts = stamina.retry_context(may_pass, attempts=None, timeout=None, wait_max=LONGEST_WAIT)
    async for attempt in attempts:
        with attempt:
            try:
                async with together([part()]) as tasks:  # of a group of errors, the one that says why
                    await asyncio.wait(tasks)
            except (BusError, StoreError) as error:
                if may_pass(error):
                    log.warning("interrupted", part=name, error=str(error))
                raise


@asynccontextmanager
async def drained(part: Drains, drain: asyncio.Event | None) -> AsyncIterator[None]:
    """Drains the part when the event is set, if it is within the block."""

    async def wait() -> None:
        if drain is not None:
            await drain.wait()
            part.drain()

    draining = asyncio.create_task(wait())
    try:
        yield
    finally:
        draining.cancel()


def may_pass(error: Exception) -> bool:
    """Whether this may be over in a while: a server that cannot be reached, or a queue with the settings of somebody
    else, which may be mended; not a store that is not ours, or a letter that is too large.
    """
    return isinstance(error, BusError | StoreError) and not isinstance(error, StoreUnusable | TooLarge)
