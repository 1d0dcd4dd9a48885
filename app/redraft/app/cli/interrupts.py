"""SIGINT and SIGTERM as something to wait for: the first asks to finish, the second to stop at once."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

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
