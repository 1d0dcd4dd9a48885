"""Files that supervisors look at: one is fresh while the process reaches its servers and gets on (readiness), the
other, beside it, while its event loop turns (liveness)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from redraft.events.errors import BusError, InputError, StoreError

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

EVERY: Final = 5.0
"""Seconds between two touches."""

LATE: Final = 15.0
"""Seconds after which work that was begun, and has not come to its end, shows that the process does not get on."""

_ANSWER: Final = 10.0

Waits: TypeAlias = Mapping[str, Callable[[], float]]
"""For each kind of work, how many seconds the oldest of it has been under way."""


@asynccontextmanager
async def health_file(
    path: Path | None,
    ping: Callable[[], Awaitable[None]],
    log: FilteringBoundLogger,
    waits: Waits = MappingProxyType({}),
    every: float = EVERY,
) -> AsyncIterator[None]:
    """Touches the file every so many seconds in which `ping` succeeds and nothing of `waits` is late, while the block
    lasts; then takes it away.

    The file `PATH.alive` is touched as often, whether `ping` succeeds or not: it grows old only in a process that
    hangs, and holds the process's id. Nothing is done without a path. Raises InputError when a file cannot be written.
    """
    if path is None:
        yield
        return
    alive = alive_beside(path)
    for each in (path, alive):
        await _touch(each)
    await asyncio.to_thread(alive.write_text, f"{os.getpid()}\n")
    touching = [
        asyncio.create_task(_kept_fresh(path, ping, log, waits, every)),
        asyncio.create_task(_kept_alive(alive, log, every)),
    ]
    try:
        yield
    finally:
        for task in touching:
            task.cancel()
        await asyncio.gather(*touching, return_exceptions=True)
        for each in (path, alive):
            await asyncio.to_thread(each.unlink, missing_ok=True)


def alive_beside(path: Path) -> Path:
    """Returns the file that is fresh while the process with the health file `path` is alive."""
    return path.with_name(f"{path.name}.alive")


async def _kept_alive(path: Path, log: FilteringBoundLogger, every: float) -> None:
    while True:
        try:
            await _touch(path)
        except InputError as error:
            log.warning("not touched", error=str(error))
        await asyncio.sleep(every)


async def _kept_fresh(
    path: Path, ping: Callable[[], Awaitable[None]], log: FilteringBoundLogger, waits: Waits, every: float
) -> None:
    well = True
    while True:
        fault = _late(waits) or await _fault(path, ping)
        if fault and well:
            log.warning("not healthy", error=fault)
        elif not fault and not well:
            log.info("healthy again")
        well = not fault
        await asyncio.sleep(every)


def _late(waits: Waits) -> str:
    """What has been under way for too long; empty when nothing has."""
    late = [f"{what} for {seconds:.0f} s" for what, wait in waits.items() if (seconds := wait()) > LATE]
    return "; ".join(late)


async def _fault(path: Path, ping: Callable[[], Awaitable[None]]) -> str:
    try:
        async with asyncio.timeout(_ANSWER):
            await ping()
        await _touch(path)
    except (BusError, StoreError, InputError) as error:
        return str(error)
    except TimeoutError:
        return f"no answer within {_ANSWER:g} seconds"
    return ""


async def _touch(path: Path) -> None:
    try:
        await asyncio.to_thread(path.touch)
    except OSError as error:
        raise InputError(f"--health-file {path}: {error.strerror}; name a file in a folder that is there") from None
