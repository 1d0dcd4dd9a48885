"""Turns what is due into commands: waits that are over, answers that are overdue. Nothing is kept but in the log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final, Protocol

import msgspec

from redraft.events.bus import INBOX, Bus, Letter
from redraft.events.codec import encode_message
from redraft.events.commands import ExpireStep, RetryStep
from redraft.events.envelope import Origin

AGAIN: Final = timedelta(seconds=5)
"""How long the timekeeper waits before it says the same thing again."""

PACE: Final = timedelta(milliseconds=50)
"""How long it lets pass between two looks, however much changes meanwhile."""

IDLE: Final = timedelta(seconds=30)
"""How long it sleeps at most when nothing is due and nothing changes."""

MOST: Final = 500
"""How many due steps are taken up at once."""


class DueStep(msgspec.Struct, frozen=True):
    """A step whose wait is over (`retry`), or whose answer is overdue. `cause`: the id of the event that said when."""

    run: str
    path: str
    attempt: int
    retry: bool
    cause: str = ""


class Agenda(Protocol):
    """What is due, as a projection knows it."""

    async def due(self, now: datetime, limit: int) -> Sequence[DueStep]: ...

    async def next_due(self, after: datetime) -> datetime | None:
        """When the next step falls due after this time; None when none will."""
        ...

    async def changed(self) -> None:
        """Returns when the agenda may have changed since it was last asked."""
        ...


class Timekeeper:
    def __init__(self, agenda: Agenda, bus: Bus, clock: Callable[[], datetime], new_id: Callable[[], str]) -> None:
        self._agenda = agenda
        self._bus = bus
        self._clock = clock
        self._new_id = new_id
        self._said: dict[DueStep, datetime] = {}

    async def run(self) -> None:
        """Keeps time until it is cancelled."""
        while True:
            now = self._clock()
            self._said = {step: at for step, at in self._said.items() if now - at < AGAIN}
            due = [step for step in await self._agenda.due(now, MOST) if step not in self._said]
            if due:
                await self._bus.publish(INBOX, [self._letter(step) for step in due])
                self._said |= dict.fromkeys(due, now)
            await self._rest(now)

    async def _rest(self, now: datetime) -> None:
        """Sleeps until something falls due, or may have come to be due; no shorter than `PACE`."""
        upcoming = await self._agenda.next_due(now)
        longest = AGAIN if self._said else IDLE
        wait = min(longest, upcoming - now) if upcoming else longest
        await asyncio.sleep(min(wait, PACE).total_seconds())
        try:
            async with asyncio.timeout(max(wait - PACE, timedelta()).total_seconds()):
                await self._agenda.changed()
        except TimeoutError:
            return

    def _letter(self, step: DueStep) -> Letter:
        message = (RetryStep if step.retry else ExpireStep)(step.run, step.path, step.attempt)
        name, body = encode_message(message)
        return Letter(name, body, Origin(self._new_id(), "timekeeper", step.cause, step.run), step.run)
