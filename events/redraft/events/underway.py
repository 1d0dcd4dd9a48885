"""Measures how long operations have been running: one that takes too long shows that a process is stuck."""

from __future__ import annotations

import asyncio


class Underway:
    """Keeps the start time of each running operation, by the clock of the event loop."""

    def __init__(self) -> None:
        self._last = 0
        self._since: dict[int, float] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def begin(self) -> int:
        """Notes the start of an operation, and returns its number."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        self._last += 1
        self._since[self._last] = self._loop.time()
        return self._last

    def end(self, number: int) -> None:
        """Notes the end of this operation."""
        self._since.pop(number, None)

    def age(self, number: int) -> float:
        """Returns for how many seconds this operation has been running; 0 when it is not."""
        since = self._since.get(number)
        return 0.0 if since is None else asyncio.get_running_loop().time() - since

    def longest(self) -> float:
        """Returns for how many seconds the oldest operation has been running; 0 when none is."""
        oldest = next(iter(self._since.values()), None)
        return 0.0 if oldest is None else asyncio.get_running_loop().time() - oldest
