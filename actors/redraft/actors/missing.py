"""Requests that lie nowhere: a broker confirmed them, or their answers, and has lost them. They are sent again.

A request is missing when it was put into its queue, has no answer, its queue is empty, and all who take from it say
that they do not have it. A single look may come while it is handed over, or while its answer is recorded. Where not
everybody says what he has (a worker of an older release, or in another language) nobody can know, and the deadline of
the step looks after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol, TypeAlias

from redraft.actors.roles import Seat
from redraft.actors.timekeeper import DueStep
from redraft.actors.whereabouts import held_by
from redraft.events.bus import INBOX, Neighbours, Queues, work_queue
from redraft.events.commands import request_id
from redraft.events.errors import InputError

EVERY: Final = 10.0
"""Seconds between two looks."""

LOOKS: Final = 4
"""After so many looks that found it missing a request is sent again, and after twice, four times as many."""

MOST: Final = 10_000
"""How many requests of an actor are looked at, the oldest."""

Asked: TypeAlias = tuple[str, str, int]
"""Run, path and attempt of a request."""


class Agenda(Protocol):
    """Reads the requests that have no answer from the read model of steps."""

    async def actors(self) -> Sequence[Seat]: ...

    async def unanswered(self, actor: Seat, upto: int, limit: int) -> Sequence[DueStep]:
        """At most `limit` requests of an actor, the oldest, recorded up to this position; none of paused runs."""
        ...


class Missing:
    """`put` gives the position up to which all requests are in their queues, `resend` sends one again if it is still
    unanswered, `me` is how we are called among those who are asked what they have.

    A look that finds a queue in use, or does not learn what everybody has, counts for nothing.
    """

    def __init__(
        self,
        agenda: Agenda,
        queues: Queues,
        neighbours: Neighbours,
        put: Callable[[], int],
        resend: Callable[[str, str], Awaitable[object]],
        me: str,
    ) -> None:
        self._agenda = agenda
        self._queues = queues
        self._neighbours = neighbours
        self._put = put
        self._resend = resend
        self._me = me
        self._looks: dict[Asked, int] = {}

    async def run(self) -> None:
        """Looks now and then, until it is cancelled. Raises BusError, StoreError."""
        while True:
            await asyncio.sleep(EVERY)
            await self.look()

    async def look(self) -> None:
        """Looks for every request once, and sends again what is missing. Raises BusError, StoreError."""
        inbox = await self._queues.queue(INBOX)
        if inbox is not None and inbox.waiting:
            return
        looks: dict[Asked, int] = {}
        for actor in await self._agenda.actors():
            looks |= await self._looked(actor)
        self._looks = looks
        for (run, path, _), times in looks.items():
            if times >= LOOKS and times.bit_count() == 1:
                await self._resend(run, path)

    async def _looked(self, actor: Seat) -> dict[Asked, int]:
        """In how many looks each unanswered request of an actor was missing; this one counts if it can tell."""
        queue, put = work_queue(*actor), self._put()
        try:
            depth = await self._queues.queue(queue)
        except InputError:  # no queue can have its name; the relay says so
            return {}
        asked = {_key(each): each for each in await self._agenda.unanswered(actor, put, MOST)}
        before = {key: self._looks[key] for key in asked if key in self._looks}
        if depth is not None and depth.waiting:
            return before
        has: set[str] = set()
        if depth is not None and depth.consumers and before:
            said = await held_by(self._neighbours, queue, self._me, depth.consumers)
            if len(said) < depth.consumers:
                return before
            has = {each for note in said for each in note.has}
        return {
            key: before.get(key, 0) + 1
            for key, each in asked.items()
            if request_id(*key) not in has and each.cause not in has
        }


def _key(step: DueStep) -> Asked:
    return step.run, step.path, step.attempt
