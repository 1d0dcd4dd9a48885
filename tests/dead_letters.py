"""All that is dead-lettered on a bus, with the bodies: as much as the tests dead-letter fits into memory."""

from __future__ import annotations

from collections.abc import Sequence

from redraft.events.bus.port import Bus, DeadLetter


async def dead_letters_on(bus: Bus) -> Sequence[DeadLetter]:
    return await bus.dead_letters(lambda each: each)
