"""Finds verdicts that earlier runs of the store recorded, for critics with `reuse: always`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from redraft.app.wiring.caught_up import PATIENCE, CaughtUp
from redraft.events.errors import CodecError, StoreError
from redraft.events.messages.domain_events import EventRef
from redraft.projections.backends import ReadModels
from redraft.projections.read_models.verdicts import VERDICTS, verdicts


class EarlierVerdicts:
    """Gives the events that may have a verdict. `run` keeps the read model up to date, beside the coordinator.

    It is brought up to date whenever a verdict is looked for, and not before. Runs that came from an archive have none
    to give: somebody else may have written them.
    """

    def __init__(
        self, models: ReadModels, is_imported: Callable[[str], Awaitable[bool]], patience: float = PATIENCE
    ) -> None:
        self._model = CaughtUp(models, VERDICTS, patience)
        self._is_imported = is_imported
        self.run = self._model.run

    async def __call__(self, key: str) -> Sequence[EventRef]:
        """Returns events that may have a verdict with this key, the latest first; none while they cannot be read."""
        views = await self._model.views()
        with suppress(StoreError, CodecError):  # whatever is wrong with it, or with an earlier run, this run goes on
            found = await verdicts(views, key) if views is not None else ()
            return [each for each in found if not await self._is_imported(each.run)]
        return ()
