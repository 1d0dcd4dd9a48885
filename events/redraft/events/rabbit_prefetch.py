"""How many messages a server may send ahead, so that what it sent has a bounded number of bytes. Pure.

AMQP counts what is sent ahead in messages alone. So it is counted by the largest of the latest: as many as would fit if
all had its size. A reader begins with few, and lets more come once it has seen that they are small.
"""

from __future__ import annotations

from typing import Final

MOST_BYTES: Final = 32 * 1024 * 1024
"""Bytes that may be sent ahead to one reader."""

FIRST: Final = 16
"""Messages that may be sent ahead before any was seen."""

LATEST: Final = 1024
"""Of how many messages at least the largest counts."""


class Prefetch:
    """`most` is how many messages may be sent ahead at most; `now` is how many may be at present."""

    def __init__(self, most: int, most_bytes: int = MOST_BYTES) -> None:
        self.now = min(most, FIRST)
        self._most = most
        self._most_bytes = most_bytes
        self._seen = 0
        self._largest = 0
        self._before = 0

    def see(self, size: int) -> int:
        """Takes note of a message of so many bytes; returns the new number when it ought to change, else 0.

        It shrinks at once, and grows when as many as may be sent ahead were small enough.
        """
        self._largest = max(self._largest, size)
        self._seen += 1
        fits = max(1, min(self._most, self._most_bytes // max(self._largest, self._before, 1)))
        is_more = fits >= 2 * self.now or fits == self._most > self.now
        shrinks, grows = 2 * fits <= self.now, is_more and self._seen >= self.now
        if self._seen >= LATEST:
            self._seen, self._before, self._largest = 0, self._largest, 0
        if not (shrinks or grows):
            return 0
        self.now = fits
        return fits
