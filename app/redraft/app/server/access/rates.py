"""The rate limits of callers: a token bucket for each, which fills again with time."""

from __future__ import annotations

from typing import Final

from cachetools import LRUCache

KNOWN: Final = 10_000
"""The number of those who ask that are remembered; who was forgotten begins with a full bucket."""


class Rates:
    """Gives each so many turns at once, which come again within a minute."""

    def __init__(self, per_minute: int) -> None:
        self._per_second = per_minute / 60
        self._most = float(per_minute)
        self._left: LRUCache[str, tuple[float, float]] = LRUCache(KNOWN)

    def wait(self, who: str, now: float) -> float:
        """Takes a turn at this time (seconds); returns 0, or after how many seconds there will be one."""
        left, then = self._left.get(who, (self._most, now))
        left = min(self._most, left + max(0.0, now - then) * self._per_second)
        taken = left >= 1
        self._left[who] = (left - 1 if taken else left, now)
        return 0.0 if taken else (1 - left) / self._per_second
