"""How far the read models have come, as this process knows it, and who waits for them to come further."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

POLL_SECONDS: Final = 0.05
"""How often those who wait look for what another process has projected, when this one does not follow the log."""


class Progress:
    """The position that every projection has reached. `look` reads it from the file, and reports it here."""

    def __init__(self, look: Callable[[], Awaitable[int]]) -> None:
        self.position = 0
        self.reports = 0
        self.writes = 0
        self._look = look
        self._moved = asyncio.Event()
        self._hurry = asyncio.Event()
        self._hurried = 0
        self._followers = 0

    def report(self, position: int, *, written: bool = False) -> int:
        """Takes the position that a transaction or a look at the file found, and wakes who waits if it is another.

        `written`: some rows have changed, even if the position of all has not.
        """
        self.reports += 1
        self.writes += written
        if written or position != self.position:
            self.position = position
            self._wake()
        return position

    async def changed(self, seen: int) -> int:
        """Returns the position, once it is above `seen` or rows have changed in this process."""
        writes = self.writes
        while self.position <= seen and self.writes == writes:
            await self._news()
        return self.position

    async def _news(self) -> None:
        moved = self._moved
        try:
            async with asyncio.timeout(None if self._followers else POLL_SECONDS):
                await moved.wait()
        except TimeoutError:
            await self._look()

    @contextmanager
    def followed(self) -> Iterator[None]:
        """While it is entered the log is followed here, so that nobody who waits need look into the file."""
        self._followers += 1
        try:
            yield
        finally:
            self._followers -= 1
            self._wake()

    @contextmanager
    def hurried(self) -> Iterator[None]:
        """While it is entered nobody rests."""
        self._hurried += 1
        self._hurry.set()
        try:
            yield
        finally:
            self._hurried -= 1
            if not self._hurried:
                self._hurry.clear()

    async def rest(self, most: float) -> None:
        """Waits this many seconds, or until somebody is in a hurry."""
        with suppress(TimeoutError):
            async with asyncio.timeout(most):
                await self._hurry.wait()

    def _wake(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()
