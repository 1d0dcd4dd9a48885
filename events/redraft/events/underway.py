"""How long things have been under way: what takes too long shows that a process does not get on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count


class Underway:
    """Keeps since when each thing is under way, by the clock of the event loop."""

    def __init__(self) -> None:
        self._numbers = count()
        self._since: dict[int, float] = {}

    def begin(self) -> int:
        """Takes note of one more thing, and returns its number."""
        number = next(self._numbers)
        self._since[number] = asyncio.get_running_loop().time()
        return number

    def end(self, number: int) -> None:
        """Takes note that this is done with."""
        self._since.pop(number, None)

    def longest(self) -> float:
        """Seconds for which the oldest of all has been under way; 0 when there is nothing."""
        oldest = next(iter(self._since.values()), None)
        return 0.0 if oldest is None else asyncio.get_running_loop().time() - oldest

    @contextmanager
    def during(self) -> Iterator[None]:
        """Something is under way while the block lasts."""
        number = self.begin()
        try:
            yield
        finally:
            self.end(number)
