"""A read model that is brought up to date when a coordinator asks for it, and not before."""

from __future__ import annotations

import asyncio
from typing import Final

from redraft.events.errors import StoreError
from redraft.projections.backends import ReadModels
from redraft.projections.engine.projection import Projection
from redraft.projections.engine.views import Views

PATIENCE: Final = 5.0
"""Seconds that a decision waits for the read model, as on the first read of a long log."""


class CaughtUp:
    """Gives the views of one projection. `run` keeps them up to date, beside the coordinator."""

    def __init__(self, models: ReadModels, projection: Projection, patience: float = PATIENCE) -> None:
        self._models = models
        self._projection = projection
        self._patience = patience
        self._views: Views | None = None
        self._wanted = asyncio.Event()
        self._read = asyncio.Event()
        self.late = False
        """True once it could not be read, or did not catch up within the patience: until it has, nobody waits again."""

    async def views(self) -> Views | None:
        """Returns the views, up to date unless `late`; None while they could not be read at all."""
        reading = self._read
        self._wanted.set()
        try:
            async with asyncio.timeout(0 if self.late else self._patience):
                await reading.wait()
        except TimeoutError:
            self.late = True
        return self._views

    async def run(self) -> None:
        """Brings the read model up to date whenever it is wanted, until it is cancelled. Raises StoreError."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                self._views = await self._models.of(self._projection)
                self.late = False
            except StoreError:
                self.late = True
                raise
            finally:  # where it cannot be read, nobody waits for it in vain
                done, self._read = self._read, asyncio.Event()
                done.set()
