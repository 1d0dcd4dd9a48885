"""Takes the signals that end a verb: the first lets it drain, the second stops it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

T = TypeVar("T")

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@dataclass(slots=True)
class Interrupts:
    """Done once the first and the second signal came; `number` is that of the first."""

    first: asyncio.Future[None]
    second: asyncio.Future[None]
    number: int = 0

    def came(self, number: int) -> None:
        if not self.first.done():
            self.number = number
            self.first.set_result(None)
        elif not self.second.done():
            self.second.set_result(None)


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """Takes both signals for as long as the block lasts."""
    loop = asyncio.get_running_loop()
    box = Interrupts(loop.create_future(), loop.create_future())
    for number in _SIGNALS:
        loop.add_signal_handler(number, box.came, number)
    try:
        yield box
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


async def until_done(
    work: asyncio.Task[T],
    signals: Interrupts,
    drain: Callable[[], None],
    idle: Callable[[], Coroutine[None, None, None]] | None = None,
    grace: float | None = None,
) -> bool:
    """Waits for a task and returns whether it has ended. The first signal drains it, the second ends the wait.

    Once it is drained the wait also ends when `idle` returns, and after `grace` seconds.
    """
    ends: set[asyncio.Future[Any]] = {work, signals.first}
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    if not work.done():
        drain()
        resting = {asyncio.create_task(idle())} if idle else set()
        ends = {work, signals.second, *resting}
        await asyncio.wait(ends, timeout=grace, return_when=asyncio.FIRST_COMPLETED)
        for task in resting:
            task.cancel()
    return work.done()
