"""What the timekeeper looks at: the read model of steps, for the runs of this process."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from redraft.actors.roles import Seat
from redraft.actors.timekeeper import DueStep
from redraft.projections.step_list import StepLine, asked_of, due, next_due, unanswered, waited_for
from redraft.projections.views import Views

_Rows: TypeAlias = tuple[int, int, frozenset[str] | None]
"""The position of the read models, how often they were written, and the runs that are looked for.

While these stay equal, a query finds the same rows.
"""


class _Calm(msgspec.Struct, frozen=True):
    """At `since` nothing was due in these rows, and nothing falls due before `until` (None: ever)."""

    rows: _Rows
    since: datetime
    until: datetime | None = None


class StepsAgenda:
    """Steps that are due among `runs`, which may change, or (None) among all.

    Read models that lag are behind by no more than a batch. While they stay as they are, nothing is read twice.
    """

    def __init__(self, views: Views, runs: Collection[str] | None) -> None:
        self._views = views
        self._runs = runs
        self._seen = 0
        self._idle: _Calm | None = None
        self._calm: _Calm | None = None
        self._asked: tuple[_Rows, Sequence[Seat]] | None = None

    async def due(self, now: datetime, limit: int, behind: DueStep | None = None) -> Sequence[DueStep]:
        rows = self._rows()
        if behind is None:
            self._seen = self._views.position
            if self._is_calm(rows, now):
                return ()
        after = (behind.timer, behind.run, behind.path) if behind and behind.timer else None
        found = await due(self._views, now, limit, self._runs, after)
        self._idle = None if found or behind else _Calm(rows, now)
        return [_due_step(each) for each in found]

    async def actors(self) -> Sequence[Seat]:
        rows = self._rows()
        if self._asked is None or self._asked[0] != rows:
            self._asked = rows, await asked_of(self._views, self._runs)
        return self._asked[1]

    async def waited(
        self, actor: Seat, now: datetime, unserved: timedelta, wait: timedelta, limit: int
    ) -> Sequence[DueStep]:
        lengths = unserved.total_seconds(), wait.total_seconds()
        found = await waited_for(self._views, actor, now, *lengths, limit, self._runs)
        return [replace(_due_step(each), unserved=True) for each in found]

    async def unanswered(self, actor: Seat, upto: int, limit: int) -> Sequence[DueStep]:
        return [_due_step(each) for each in await unanswered(self._views, actor, upto, limit, self._runs)]

    async def next_due(self, after: datetime) -> datetime | None:
        rows = self._rows()
        if self._calm is not None and self._is_calm(rows, after):
            return self._calm.until
        until = await next_due(self._views, self._runs, after=after)
        self._calm = _Calm(rows, after, until) if self._idle == _Calm(rows, after) else None
        return until

    async def changed(self) -> None:
        await self._views.changed(self._seen)

    def _rows(self) -> _Rows:
        runs = None if self._runs is None else frozenset(self._runs)
        return self._views.position, self._views.progress.writes, runs

    def _is_calm(self, rows: _Rows, now: datetime) -> bool:
        """Whether it is known without reading that nothing is due."""
        calm = self._calm
        return calm is not None and calm.rows == rows and (calm.until is None or now < calm.until)


def _due_step(line: StepLine) -> DueStep:
    waits = line.status == "waiting"
    actor = None if line.role == "approver" or line.role == "clock" else (line.role, line.actor)
    timer = line.retry_at if waits else line.due
    return DueStep(line.run, line.path, line.attempt, waits, line.cause, timer, actor, line.requested)
