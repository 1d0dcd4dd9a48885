"""Reads what deciding needs from other runs: what they spent, and, only where it is asked for, tallies and verdicts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Final, TypeAlias

from redraft.actors.deciding.reusing import Earlier
from redraft.actors.runtime.coordinating.decisions import Tallies, thompson
from redraft.actors.runtime.relaying.queue_publisher import error_message
from redraft.events.errors import StoreError
from redraft.events.messages.content import DraftRef
from redraft.events.messages.domain_events import Choice, StepRequested
from redraft.events.messages.lessons import Lessons
from redraft.events.messages.usage import Usage

ReadSpent: TypeAlias = Callable[[str, datetime, str], Awaitable[Usage]]
"""Returns the summed usage of a workflow's runs that began on this day (UTC), without one run."""

ReadTallies: TypeAlias = Callable[[str], Awaitable[Tallies]]
"""Returns the tallies of a workflow's arms, possibly a little out of date."""

FindEarlier: TypeAlias = Callable[[str], Awaitable[Earlier | None]]
"""Returns a recorded verdict with this key; None when none is known."""


ReadLessons: TypeAlias = Callable[[str, int], Awaitable[Lessons]]
"""Returns at most so many lessons of a workflow as of now; none, with the reason, where they cannot be read."""


async def no_lessons(workflow: str, limit: int) -> Lessons:
    """Returns no lessons: no read model has any here."""
    return Lessons(workflow, why="no read model of issues is kept here")


UNREAD: Final = 1.0
"""Seconds after which what could not be read is tried again."""


class SpendingUnread(StoreError):
    """The usage of a day cannot be read. Runs with a daily budget have to wait; other runs are not affected."""


class Spending:
    """Reads what runs spent; after a failure not for a while, at least `UNREAD` seconds, as attempts may take long.

    All deciding waits for an attempt: they take a tenth of the time at most.
    """

    def __init__(self, read: ReadSpent) -> None:
        self._read = read
        self._why = ""
        self._until = -float("inf")

    async def of_others(self, workflow: str, day: datetime, run: str) -> Usage:
        """Returns what a workflow's other runs spent on a day.

        Raises SpendingUnread where that cannot be read, whatever is wrong: it is no fault of the run.
        """
        elapsed = asyncio.get_running_loop().time
        if elapsed() < self._until:
            raise SpendingUnread(self._why)
        began = elapsed()
        try:
            return await self._read(workflow, day, run)
        except Exception as error:
            self._why = f"runs with a daily budget wait: what the day has spent cannot be read: {error_message(error)}"
            self._until = elapsed() + max(UNREAD, 9 * (elapsed() - began))
            raise SpendingUnread(self._why) from error


class Deferred:
    """Stands in until it is read: takes the first arm, knows no verdict, and remembers that it was asked.

    Deciding is pure, so it can be repeated with what was read. Runs that choose nothing thus read no tallies, and those
    without `reuse: always` look no verdict up. There is one for each message.
    """

    def __init__(self, run: str, known: ReadTallies | None, earlier: FindEarlier | None) -> None:
        self._run = run
        self._known = known
        self._earlier = earlier
        self._chooses = False
        self._tallies: Tallies | None = None
        self._missing: list[str] = []
        self._found: dict[str, Earlier | None] = {}

    def choose(self, path: str, step: str, arms: Sequence[str], draft: DraftRef | None = None, /) -> Choice:
        """Returns the arm for a request, as `thompson` does, or the first one before the tallies are read."""
        if self._tallies is not None:
            return thompson(self._run, self._tallies, path, step, arms, draft)
        self._chooses = True
        return Choice(arms[0])

    def recall(self, request: StepRequested, /) -> Earlier | None:
        """Returns the verdict that was found under a request's key; None before it is looked up."""
        key = request.verdict_key
        if key not in self._found:
            self._missing.append(key)
        return self._found.get(key)

    @property
    def was_asked(self) -> bool:
        """Whether something was asked for that is not read yet."""
        return self._chooses or bool(self._missing)

    async def read(self, workflow: str, is_encrypted: Callable[[], Awaitable[bool]]) -> bool:
        """Reads what was asked for; returns whether a decision may be another now.

        An encrypted run takes no verdict from another, and none is looked up.
        """
        chooses, missing, self._chooses, self._missing = self._chooses, self._missing, False, []
        if chooses:
            self._tallies = await self._known(workflow) if self._known else {}
        find = self._earlier if missing and not await is_encrypted() else None
        for key in dict.fromkeys(missing):
            self._found[key] = await find(key) if find is not None else None
        return chooses or any(self._found[key] is not None for key in missing)
