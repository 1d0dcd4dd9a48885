"""What the verbs that serve have in common: a log, signals, a health file, and an end that is said."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import stamina.instrumentation
from structlog.typing import FilteringBoundLogger

from redraft.app.cli.interrupts import Interrupts, interrupts
from redraft.app.logs import libraries, new_log
from redraft.app.loop import run
from redraft.app.memory import give_back_large_blocks
from redraft.app.settings import Settings

AT_ONCE: Final = 3.0
"""Seconds that a process which is told to stop at once has to let go of what it holds."""


@dataclass(frozen=True, slots=True)
class Serving:
    """What a part is given: when to drain, whom to tell that it serves, where to log, how long to wait for servers."""

    drain: asyncio.Event
    ready: Callable[[], None]
    log: FilteringBoundLogger


def serve(
    settings: Settings, name: str, part: Callable[[Serving], Coroutine[None, None, None]], *, tied: bool, **told: object
) -> int:
    """Runs a part until it ends or is told to; gives the exit code. Raises RedraftError.

    `told` is logged when it begins to serve. The first SIGTERM or SIGINT drains it, the second stops it.
    """
    give_back_large_blocks()
    log = new_log(sys.stderr, settings.log, name)
    stamina.instrumentation.set_on_retry_hooks(())  # what is tried again is told here, once
    with libraries(log):
        return run(_served(part, log, told, tied=tied))


async def _served(
    part: Callable[[Serving], Coroutine[None, None, None]],
    log: FilteringBoundLogger,
    told: dict[str, object],
    *,
    tied: bool,
) -> int:
    is_ready = asyncio.Event()

    def ready() -> None:
        is_ready.set()
        log.info("serving", pid=os.getpid(), **told)

    drain = asyncio.Event()
    with interrupts() as signals:
        watching = asyncio.create_task(_end_of_input(signals)) if tied else None
        task = asyncio.create_task(part(Serving(drain, ready, log)))
        try:
            return await _until_told(task, signals, drain, is_ready, log)
        finally:
            if watching is not None:
                watching.cancel()
                await asyncio.wait({watching})


async def _until_told(
    task: asyncio.Task[None],
    signals: Interrupts,
    drain: asyncio.Event,
    is_ready: asyncio.Event,
    log: FilteringBoundLogger,
) -> int:
    await asyncio.wait({task, signals.first}, return_when=asyncio.FIRST_COMPLETED)
    if not task.done():
        log.info("draining")
        drain.set()
        if not is_ready.is_set():
            task.cancel()
        await asyncio.wait({task, signals.second}, return_when=asyncio.FIRST_COMPLETED)
    if not task.done():
        return await _stopped(task, 128 + signals.number, log)
    with suppress(asyncio.CancelledError):
        task.result()
    log.info("ended")
    return 0


async def _stopped(task: asyncio.Task[None], code: int, log: FilteringBoundLogger) -> int:
    """Stops it at once: what was under way is done again by somebody else."""
    log.warning("stopped at once")
    task.cancel()
    await asyncio.wait({task}, timeout=AT_ONCE)
    if not task.done():
        os._exit(code)
    return code


async def _end_of_input(signals: Interrupts) -> None:
    """Takes the end of standard input, which a parent holds open, for the first signal: so nobody outlives it.

    It is no second signal: a supervisor may tell every process by itself.
    """
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    pipe, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    try:
        while await reader.read(4096):
            pass
    finally:
        pipe.close()
    if not signals.first.done():
        signals.came(signal.SIGTERM)
