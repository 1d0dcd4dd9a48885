"""Turns what is due into commands: waits that are over, answers that are overdue. Nothing is kept but in the log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final, Protocol

import msgspec

from redraft.actors.crews import WATCH, Crews
from redraft.actors.interpreter import GRACE
from redraft.actors.roles import Seat
from redraft.actors.trouble import LeftOut, Tell, told, untold
from redraft.events.bus import INBOX, Bus, Letter
from redraft.events.codec import encode_message
from redraft.events.commands import ExpireStep, RetryStep
from redraft.events.envelope import Origin
from redraft.events.errors import TooLarge

AGAIN: Final = timedelta(seconds=5)
"""How long the timekeeper waits before it says the same thing again; twice as long each time after that."""

SELDOM: Final = timedelta(minutes=10)
"""How long it waits at most. What nobody can handle, as in a run that cannot be decided on, stays due for ever."""

PACE: Final = timedelta(milliseconds=50)
"""How long it lets pass between two looks, however much changes meanwhile."""

MOST: Final = 500
"""How many due steps are looked at, and said, at once."""

SHARE: Final = 10
"""A look that took long is followed by a rest of so many times as long: looking never takes more than a part."""

REMEMBERED: Final = 100_000
"""Of how many steps it is remembered when they were said."""


class DueStep(msgspec.Struct, frozen=True):
    """A step whose wait is over (`retry`), or whose answer is overdue, since `timer`.

    `cause` is the id of the event that said when. Of a request for work, `actor` is who was asked, and `requested` is
    when. `unserved`: it has waited as long as it may for a worker of that actor, whatever its `timer` says.
    """

    run: str
    path: str
    attempt: int
    retry: bool
    cause: str = ""
    timer: datetime | None = None
    actor: Seat | None = None
    requested: datetime | None = None
    unserved: bool = False


class Said(msgspec.Struct, frozen=True):
    """When a step was said last, and how long to wait before it is said again.

    One whose request was `queued` then is said again once that cannot be in its queue any more.
    """

    at: datetime
    pause: timedelta
    queued: bool = False


class Agenda(Protocol):
    """What is due, as a projection knows it."""

    async def due(self, now: datetime, limit: int, behind: DueStep | None = None) -> Sequence[DueStep]:
        """At most `limit` steps, the longest due first; those that come behind this one, if it is given."""
        ...

    async def actors(self) -> Sequence[Seat]:
        """The actors of whom something is asked and not answered."""
        ...

    async def waited(
        self, actor: Seat, now: datetime, unserved: timedelta, wait: timedelta, limit: int
    ) -> Sequence[DueStep]:
        """At most `limit` requests of an actor that nobody has served so long, that have waited as long as they may.

        That is what their plan says, or `wait`.
        """
        ...

    async def next_due(self, after: datetime) -> datetime | None:
        """When the next step falls due after this time; None when none will."""
        ...

    async def changed(self) -> None:
        """Returns when the agenda may have changed since it was last asked."""
        ...


class Timekeeper:
    """What is wrong with one due step concerns that one: it is said seldom, and never stands before others.

    `crews` know which actors are served: requests to others are given up before they are due, and what may still wait
    in its queue is not overdue. `tell` is told of a step that cannot be said.
    """

    def __init__(
        self,
        agenda: Agenda,
        bus: Bus,
        clock: Callable[[], datetime],
        new_id: Callable[[], str],
        crews: Crews,
        tell: Tell = untold,
    ) -> None:
        self._agenda = agenda
        self._bus = bus
        self._clock = clock
        self._new_id = new_id
        self._tell = tell
        self._crews = crews
        self._said: dict[DueStep, Said] = {}

    async def run(self) -> None:
        """Keeps time until it is cancelled."""
        elapsed = asyncio.get_running_loop().time
        while True:
            now, began = self._clock(), elapsed()
            await self._look(now)
            await self._rest(now, timedelta(seconds=elapsed() - began))

    async def _look(self, now: datetime) -> None:
        """Says all that is due and was not said lately, page by page."""
        seen: dict[DueStep, Said] = {}
        if self._crews.is_due(now):
            await self._crews.look(await self._agenda.actors(), now)
        for actor, unserved in self._crews.unserved(now):
            page = await self._agenda.waited(actor, now, unserved, self._crews.wait, MOST)
            seen |= await self._told(page, now)
        last: DueStep | None = None
        while True:
            page = await self._agenda.due(now, MOST, last)
            seen |= await self._told(page, now)
            if len(page) < MOST or len(seen) >= REMEMBERED:
                break
            last = page[-1]
        self._said = seen

    async def _told(self, page: Sequence[DueStep], now: datetime) -> dict[DueStep, Said]:
        """Says what was not said lately; returns when each was said."""
        fresh = [step for step in page if not self._was_said(step, now)]
        if fresh:
            await self._say(fresh, now)
        return {step: self._said[step] for step in page}

    def _was_said(self, step: DueStep, now: datetime) -> bool:
        said = self._said.get(step)
        if said is None:
            return False
        return self._is_queued(step, now) if said.queued else now - said.at < said.pause

    def _is_queued(self, step: DueStep, now: datetime) -> bool:
        """Whether a request past its due time may still wait in its queue."""
        if step.retry or step.unserved or step.actor is None or step.requested is None or step.timer is None:
            return False
        timeout = max(step.timer - step.requested - GRACE, timedelta())
        return self._crews.may_wait(step.actor, step.requested, timeout, now)

    def _unserved(self, step: DueStep, now: datetime) -> float:
        """For how many seconds nobody has served the actor of a request since it was made; 0 for one that is due."""
        if step.actor is None or step.requested is None or not step.unserved:
            return 0.0
        since = self._crews.since(step.actor)
        return (now - max(since, step.requested)).total_seconds() if since else 0.0

    async def _say(self, steps: Sequence[DueStep], now: datetime) -> None:
        letters = [letter for step in steps if (letter := self._letter(step, now))]
        try:
            await self._bus.publish(INBOX, letters)
        except TooLarge:
            for letter in letters:
                await self._say_alone(letter)
        for step in steps:
            said = self._said.get(step)
            pause = min(SELDOM, 2 * said.pause) if said and not said.queued else AGAIN
            self._said[step] = Said(now, pause, self._is_queued(step, now))

    async def _say_alone(self, letter: Letter) -> None:
        try:
            await self._bus.publish(INBOX, [letter])
        except TooLarge as error:
            self._tell(LeftOut(letter.run, 0, told(error)))

    async def _rest(self, now: datetime, took: timedelta) -> None:
        """Sleeps until something falls due, or may have come to be due; no shorter than `PACE`."""
        upcoming = await self._agenda.next_due(now)
        longest = min([WATCH, *(said.at + said.pause - now for said in self._said.values() if not said.queued)])
        wait = min(longest, upcoming - now) if upcoming else longest
        pace = max(PACE, SHARE * took)
        await asyncio.sleep(max(min(wait, PACE), SHARE * took).total_seconds())
        try:
            async with asyncio.timeout(max(wait - pace, timedelta()).total_seconds()):
                await self._agenda.changed()
        except TimeoutError:
            return

    def _letter(self, step: DueStep, now: datetime) -> Letter | None:
        """Returns the letter that says a step is due; None, and tells why, where it cannot be encoded."""
        message: RetryStep | ExpireStep = RetryStep(step.run, step.path, step.attempt)
        if not step.retry:
            queued, unserved = self._is_queued(step, now), self._unserved(step, now)
            message = ExpireStep(step.run, step.path, step.attempt, queued, unserved)
        try:
            name, body = encode_message(message)
        except (msgspec.MsgspecError, UnicodeEncodeError) as error:
            self._tell(LeftOut(step.run, 0, told(error)))
            return None
        return Letter(name, body, Origin(self._new_id(), "timekeeper", step.cause, step.run), step.run)
