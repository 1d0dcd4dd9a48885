"""Notices that this process stood still: it was stopped, its machine was suspended, or a function kept it busy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

TICK: Final = timedelta(seconds=5)
"""The time between two looks at the clock."""

LONGEST: Final = timedelta(seconds=10)
"""A longer time between two looks counts as an absence: the broker may have taken this worker for dead."""

NEVER: Final = datetime.min.replace(tzinfo=UTC)
"""A time before all others."""


class Absence:
    """`until` is when this process went on after its last absence, by its `clock`; `NEVER` if it had none.

    Absences are noticed while `watch` runs.
    """

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._seen: datetime | None = None
        self.until = NEVER

    def look(self) -> datetime:
        """Returns the time, and notes an absence if the last look was long ago."""
        now = self._clock()
        if self._seen is not None:
            if now - self._seen >= LONGEST:
                self.until = now
            self._seen = now
        return now

    async def watch(self) -> None:
        """Looks at the clock from time to time until it is cancelled."""
        self._seen = self._clock()
        try:
            while True:
                await asyncio.sleep(TICK.total_seconds())
                self.look()
        finally:
            self._seen = None
