"""Values by run, as many as fit in a number of bytes; those that were used last stay."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, Generic, TypeVar

MOST_BYTES: Final = 32 * 1024 * 1024
"""The default size of a cache, in bytes."""

T = TypeVar("T")


class Recent(Generic[T]):
    """A cache of at most `most` bytes; the value that was kept last stays even if it is larger than that."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most = most
        self._bytes = 0
        self._held: OrderedDict[str, tuple[T, int]] = OrderedDict()

    def get(self, run: str) -> T | None:
        """Returns the value of a run, which counts as used; None when it is not held."""
        held = self._held.get(run)
        if held is None:
            return None
        self._held.move_to_end(run)
        return held[0]

    def keep(self, run: str, value: T, size: int) -> None:
        """Holds a value of so many bytes in place of what was held of its run; lets go of those used longest ago."""
        held = self._held.get(run)
        if held is not None:
            self._bytes -= held[1]
            self._held.move_to_end(run)
        self._held[run] = value, size
        self._bytes += size
        while self._bytes > self._most and len(self._held) > 1:
            self._bytes -= self._held.popitem(last=False)[1][1]

    def drop(self, run: str) -> None:
        """Lets go of what is held of a run, if anything is."""
        held = self._held.pop(run, None)
        if held is not None:
            self._bytes -= held[1]

    def clear(self) -> None:
        """Lets go of all."""
        self._held.clear()
        self._bytes = 0
