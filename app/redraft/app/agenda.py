"""What the timekeeper looks at: the read model of steps, for the runs of this process."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from redraft.actors.timekeeper import DueStep
from redraft.projections.step_list import due, next_due
from redraft.projections.views import Views


class StepsAgenda:
    """Steps that are due among `runs`, which may change, or (None) among all.

    Read models that lag are behind by no more than a batch.
    """

    def __init__(self, views: Views, runs: Collection[str] | None) -> None:
        self._views = views
        self._runs = runs
        self._seen = 0

    async def due(self, now: datetime, limit: int) -> Sequence[DueStep]:
        self._seen = self._views.position
        found = await due(self._views, now, limit, self._runs)
        return [DueStep(each.run, each.path, each.attempt, each.status == "waiting", each.cause) for each in found]

    async def next_due(self, after: datetime) -> datetime | None:
        return await next_due(self._views, self._runs, after=after)

    async def changed(self) -> None:
        await self._views.changed(self._seen)
