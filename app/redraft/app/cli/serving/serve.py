"""Shared behaviour of the long-running verbs: the log, signals, the health file, and a last log line."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeAlias

from structlog.typing import FilteringBoundLogger

from redraft.app.cli.shared.signals import Interrupts, interrupts, until_done
from redraft.app.process.lifecycle import give_back_large_blocks, run
from redraft.app.process.logs import libraries, new_log
from redraft.app.settings.settings import Settings
from redraft.app.telemetry.propagation import span_fields
from redraft.app.telemetry.sdk import exporting

AT_ONCE: Final = 3.0
"""Seconds that a process has to release what it holds after a signal to stop at once."""


@dataclass(frozen=True, slots=True)
class Serving:
    """The arguments of a part: when to drain, how to report that it serves, and its log."""

    drain: asyncio.Event
    ready: Callable[[], None]
    log: FilteringBoundLogger


Part: TypeAlias = Callable[[Serving], Coroutine[None, None, None]]
"""The work of a process until it is drained."""


def serve(
    settings: Settings,
    name: str,
    part: Part,
    *,
    tied: bool,
    **facts: object,
) -> int:
    """Runs a part until it ends or a signal stops it; returns the exit code. Raises RedraftError.

    `facts` are logged when it begins to serve. The first SIGTERM or SIGINT drains it, the second stops it.
    """
    give_back_large_blocks()
    log = new_log(sys.stderr, settings.log_format, name, fields=span_fields)
    with libraries(log), exporting(name, log.warning):
        return run(_serve_part(part, log, facts, tied=tied))


async def _serve_part(
    part: Part,
    log: FilteringBoundLogger,
    facts: dict[str, object],
    *,
    tied: bool,
) -> int:
    is_ready = asyncio.Event()

    def ready() -> None:
        is_ready.set()
        log.info("serving", pid=os.getpid(), **facts)

    drain = asyncio.Event()
    with interrupts() as signals:
        watching = asyncio.create_task(_end_of_input(signals)) if tied else None
        task = asyncio.create_task(part(Serving(drain, ready, log)))
        try:
            return await _until_stopped(task, signals, drain, is_ready, log)
        finally:
            if watching is not None:
                watching.cancel()
                await asyncio.wait({watching})


async def _until_stopped(
    task: asyncio.Task[None],
    signals: Interrupts,
    drain: asyncio.Event,
    is_ready: asyncio.Event,
    log: FilteringBoundLogger,
) -> int:
    def end() -> None:
        log.info("draining")
        drain.set()
        if not is_ready.is_set():
            task.cancel()

    if not await until_done(task, signals, end):
        return await _stop_at_once(task, 128 + signals.number, log)
    with suppress(asyncio.CancelledError):
        task.result()
    log.info("ended")
    return 0


async def _stop_at_once(task: asyncio.Task[None], code: int, log: FilteringBoundLogger) -> int:
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
