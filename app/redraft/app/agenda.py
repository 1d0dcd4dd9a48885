"""What the timekeeper looks at: the read model of steps, for the runs of this process."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from redraft.actors.timekeeper import DueStep
from redraft.events.plan import Role
from redraft.projections.step_list import StepLine, asked_of, due, next_due, unanswered, waited_for
from redraft.projections.views import Views


class StepsAgenda:
    """Steps that are due among `runs`, which may change, or (None) among all.

    Read models that lag are behind by no more than a batch.
    """

    def __init__(self, views: Views, runs: Collection[str] | None) -> None:
        self._views = views
        self._runs = runs
        self._seen = 0

    async def due(self, now: datetime, limit: int, behind: DueStep | None = None) -> Sequence[DueStep]:
        if behind is None:
            self._seen = self._views.position
        after = (behind.timer, behind.run, behind.path) if behind and behind.timer else None
        return [_due_step(each) for each in await due(self._views, now, limit, self._runs, after)]

    async def actors(self) -> Sequence[tuple[Role, str]]:
        return await asked_of(self._views, self._runs)

    async def waited(
        self, actor: tuple[Role, str], now: datetime, unserved: timedelta, wait: timedelta, limit: int
    ) -> Sequence[DueStep]:
        lengths = unserved.total_seconds(), wait.total_seconds()
        found = await waited_for(self._views, actor, now, *lengths, limit, self._runs)
        return [replace(_due_step(each), unserved=True) for each in found]

    async def unanswered(self, actor: tuple[Role, str], upto: int, limit: int) -> Sequence[DueStep]:
        return [_due_step(each) for each in await unanswered(self._views, actor, upto, limit, self._runs)]

    async def next_due(self, after: datetime) -> datetime | None:
        return await next_due(self._views, self._runs, after=after)

    async def changed(self) -> None:
        await self._views.changed(self._seen)


def _due_step(line: StepLine) -> DueStep:
    waits = line.status == "waiting"
    actor = None if line.role == "approver" or line.role == "clock" else (line.role, line.actor)
    timer = line.retry_at if waits else line.due
    return DueStep(line.run, line.path, line.attempt, waits, line.cause, timer, actor, line.requested)
