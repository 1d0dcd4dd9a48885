"""How many letters may still be put into a queue: the bound on what waits there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

_FIRST_PAUSE: Final = 0.005
_LONGEST_PAUSE: Final = 0.25


class Room:
    """Knows about one queue of at most `capacity` letters. The server is asked again when what was free is used up.

    Half of what is free is given out before that, so that several publishers do not fill it together.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._free = 0
        self._asking = asyncio.Lock()

    async def enter(self, wanted: int, waiting: Callable[[], Awaitable[int]]) -> int:
        """Waits for room; how many letters, from 1 to `wanted`, may be put now. `waiting` asks how many are there."""
        pause = _FIRST_PAUSE
        while self._free < 1:
            async with self._asking:
                if self._free < 1:
                    self._free = (self._capacity - await waiting() + 1) // 2
            if self._free < 1:
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
        number = min(wanted, self._free)
        self._free -= number
        return number
