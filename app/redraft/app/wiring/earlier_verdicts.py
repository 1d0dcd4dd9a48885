"""Finds verdicts that earlier runs of the store recorded, for critics with `reuse: always`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

from redraft.events.errors import StoreError
from redraft.events.messages.domain_events import EventRef
from redraft.projections.backends import ReadModels
from redraft.projections.engine.views import Views
from redraft.projections.read_models.verdicts import VERDICTS, verdicts

PATIENCE: Final = 5.0
"""Seconds that a decision waits for the read model, as on the first read of a long log; then the critic is asked."""


class EarlierVerdicts:
    """Gives the events that may have a verdict. `run` keeps the read model up to date, beside the coordinator.

    It is brought up to date whenever a verdict is looked for, and not before. Runs that came from an archive have none
    to give: somebody else may have written them.
    """

    def __init__(
        self, models: ReadModels, is_imported: Callable[[str], Awaitable[bool]], patience: float = PATIENCE
    ) -> None:
        self._models = models
        self._is_imported = is_imported
        self._patience = patience
        self._views: Views | None = None
        self._wanted = asyncio.Event()
        self._read = asyncio.Event()
        self._late = False

    async def __call__(self, key: str) -> Sequence[EventRef]:
        """Returns events that may have a verdict with this key, the latest first; none while they cannot be read."""
        reading = self._read
        self._wanted.set()
        try:
            async with asyncio.timeout(0 if self._late else self._patience):
                await reading.wait()
        except TimeoutError:
            self._late = True  # until it has caught up, nobody waits for it again
        with suppress(StoreError):
            found = await verdicts(self._views, key) if self._views is not None else ()
            return [each for each in found if not await self._is_imported(each.run)]
        return ()

    async def run(self) -> None:
        """Brings the read model up to date whenever it is wanted, until it is cancelled. Raises StoreError."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                self._views = await self._models.of(VERDICTS)
                self._late = False
            finally:  # where it cannot be read, nobody waits for it in vain
                done, self._read = self._read, asyncio.Event()
                done.set()
