"""Reads the values of gauges from time to time: lags, queues, dead letters."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from redraft.app.telemetry.instruments import Values
from redraft.events.errors import RedraftError

if TYPE_CHECKING:
    from redraft.app.telemetry.meters import Meters

EVERY: Final = 5.0
"""Seconds between two readings."""

Readings: TypeAlias = Mapping[str, Callable[[], Awaitable[Values]]]
"""For each gauge, what reads its values."""


async def sample(meters: Meters, readings: Readings, every: float = EVERY) -> None:
    """Sets the gauges every `every` seconds until it is cancelled; one that cannot be read has no value."""
    while True:
        for name, read in readings.items():
            try:
                meters.set(name, await read())
            except (RedraftError, TimeoutError):
                meters.set(name, {})
        await asyncio.sleep(every)
