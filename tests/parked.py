"""All that is parked on a bus, with the bodies: as much as the tests park fits into memory."""

from __future__ import annotations

from collections.abc import Sequence

from redraft.events.bus import Bus, Parked


async def parked_on(bus: Bus) -> Sequence[Parked]:
    return await bus.parked(lambda each: each)
