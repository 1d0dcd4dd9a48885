"""Touches files that supervisors watch: one while the process reaches its servers and makes progress (readiness), and
one beside it while the event loop runs (liveness)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from redraft.app.process.lifecycle import together
from redraft.events.errors import BusError, InputError, StoreError

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

EVERY: Final = 5.0
"""Seconds between two touches."""

LATE: Final = 15.0
"""Seconds after which unfinished work shows that the process makes no progress."""

_ANSWER: Final = 10.0

Waits: TypeAlias = Mapping[str, Callable[[], float]]
"""For each kind of work, how many seconds the oldest of it has been under way."""

Told: TypeAlias = Callable[[bool, Mapping[str, float]], None]
"""Called with whether the process is healthy, and for how many seconds the oldest work of each kind is under way."""


@asynccontextmanager
async def health_file(
    path: Path | None,
    ping: Callable[[], Awaitable[object]],
    log: FilteringBoundLogger,
    waits: Waits = MappingProxyType({}),
    every: float = EVERY,
    told: Told | None = None,
) -> AsyncIterator[None]:
    """Touches the file within the block every `every` seconds, if `ping` succeeds and nothing of `waits` is late.

    The file `PATH.alive` is touched as often, whether `ping` succeeds or not: it grows old only in a process that
    hangs, and holds the process's id. `told` is called with every result. Nothing is done without a path and `told`.
    Raises InputError when a file cannot be written.
    """
    if path is None:
        async with together([_keep_fresh(None, ping, log, waits, every, told)] if told else []):
            yield
        return
    alive = alive_beside(path)
    for each in (path, alive):
        await _touch(each)
    await asyncio.to_thread(alive.write_text, f"{os.getpid()}\n")
    try:
        async with together([_keep_fresh(path, ping, log, waits, every, told), _keep_alive(alive, log, every)]):
            yield
    finally:
        for each in (path, alive):
            await asyncio.to_thread(each.unlink, missing_ok=True)


def alive_beside(path: Path) -> Path:
    """Returns the file that is fresh while the process with the health file `path` is alive."""
    return path.with_name(f"{path.name}.alive")


async def _keep_alive(path: Path, log: FilteringBoundLogger, every: float) -> None:
    while True:
        try:
            await _touch(path)
        except InputError as error:
            log.warning("not touched", error=str(error))
        await asyncio.sleep(every)


async def _keep_fresh(
    path: Path | None,
    ping: Callable[[], Awaitable[object]],
    log: FilteringBoundLogger,
    waits: Waits,
    every: float,
    told: Told | None,
) -> None:
    well = True
    while True:
        fault = _late_work(waits) or await _ping_error(path, ping)
        if fault and well:
            log.warning("not healthy", error=fault)
        elif not fault and not well:
            log.info("healthy again")
        well = not fault
        if told is not None:
            told(well, {what: wait() for what, wait in waits.items()})
        await asyncio.sleep(every)


def _late_work(waits: Waits) -> str:
    late = [f"{what} for {seconds:.0f} s" for what, wait in waits.items() if (seconds := wait()) > LATE]
    return "; ".join(late)


async def _ping_error(path: Path | None, ping: Callable[[], Awaitable[object]]) -> str:
    try:
        async with asyncio.timeout(_ANSWER):
            await ping()
        if path is not None:
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
