"""Takes the signals that end a verb: the first lets it drain, the second stops it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Thread, Timer
from typing import Any, Final, TypeVar

T = TypeVar("T")

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


LATEST: Final = 10.0
"""Seconds after the second signal at which the process ends, whatever it waits for: a thread, or code that hangs.

Code that keeps Python's lock, as a regular expression that backtracks does, keeps it from ending too.
"""


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
    """Takes both signals for as long as the block lasts; two of them end the process at the latest after `LATEST`."""
    loop = asyncio.get_running_loop()
    box = Interrupts(loop.create_future(), loop.create_future())
    for number in _SIGNALS:
        loop.add_signal_handler(number, box.came, number)
    try:
        with _counted():
            yield box
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


@contextmanager
def _counted() -> Iterator[None]:
    """Counts the signals in a thread, on their way to the event loop, which may stand still."""
    read, written = socket.socketpair()
    written.setblocking(False)
    to_loop = signal.set_wakeup_fd(written.fileno(), warn_on_full_buffer=False)
    Thread(target=_pass_on, args=(read, to_loop), daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(to_loop)
        written.close()


def _pass_on(read: socket.socket, to_loop: int) -> None:
    """Passes on the number of each signal; `LATEST` seconds after two that are to end the process, it ends."""
    came: list[int] = []
    with read:
        while number := read.recv(1):
            with suppress(OSError):  # the loop may be closed, or have more than it can take
                os.write(to_loop, number)
            came += [each for each in number if each in _SIGNALS]
            if len(came) == 2:
                end_soon(128 + came[0])


def end_soon(code: int) -> None:
    """Ends the process with this exit code after `LATEST` seconds, if it has not ended by then."""
    end = Timer(LATEST, os._exit, (code,))
    end.daemon = True
    end.start()


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
