"""Finds the lessons that runs are given as they begin."""

from __future__ import annotations

from redraft.app.wiring.caught_up import PATIENCE, CaughtUp
from redraft.events.errors import StoreError
from redraft.events.messages.lessons import Lessons, fitting
from redraft.projections.backends import ReadModels
from redraft.projections.read_models.issues import ISSUES
from redraft.projections.read_models.lessons import lessons_for


class EarlierLessons:
    """Gives the lessons of a workflow. `run` keeps the ledger of issues up to date, beside the coordinator.

    It is brought up to date whenever a run begins that asks for lessons, and not before.
    """

    def __init__(self, models: ReadModels, patience: float = PATIENCE) -> None:
        self._model = CaughtUp(models, ISSUES, patience)
        self.run = self._model.run

    async def __call__(self, workflow: str, limit: int) -> Lessons:
        """Returns at most `limit` lessons; those of a ledger that lags where it does not catch up in time.

        Where it cannot be read there are none, and `why` says so: no run fails for want of lessons.
        """
        views = await self._model.views()
        if views is None:
            return Lessons(workflow, why="the read model of issues could not be read in time")
        position = views.position
        why = "the read model of issues lagged behind" if self._model.late else ""
        try:
            found = await lessons_for(views, workflow, limit)
        except StoreError as error:
            return Lessons(workflow, position, why=f"the read model of issues could not be read: {error}")
        return Lessons(workflow, position, fitting(found, limit), why)
