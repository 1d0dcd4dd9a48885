"""What is known of the arms of choices, kept at hand for a coordinator: read only while there are choices to make."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from redraft.actors.thompson import Tallies
from redraft.projections.choices import CHOICES, tallies
from redraft.projections.read_models import ReadModels

FRESH_SECONDS: Final = 1.0
"""How old may be what a choice is made by, at most: a run that ended since may not be counted in it."""

SHARE: Final = 20
"""It is read again sooner where that is quick: after so many times as long as it took to read, so 1/20 of the time."""

PATIENCE: Final = 5.0
"""Seconds that a choice waits for newer tallies, as where a long log is read for the first time; then old ones do."""


class KnownArms:
    """Every choice is made by tallies of a second ago or less. `run` is what reads them, beside the coordinator.

    The read model is brought up to date when a choice is to be made, and not before.
    """

    def __init__(
        self, models: ReadModels, fresh: float = FRESH_SECONDS, patience: float = PATIENCE, share: float = SHARE
    ) -> None:
        self._models = models
        self._fresh = fresh
        self._share = share
        self._patience = patience
        self._known: Mapping[str, Tallies] = {}
        self._until = -float("inf")
        self._wanted = asyncio.Event()
        self._read = asyncio.Event()

    async def __call__(self, workflow: str) -> Tallies:
        """What is known of the arms of a workflow."""
        if time.monotonic() > self._until:
            reading = self._read
            self._wanted.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._patience):
                    await reading.wait()
        return self._known.get(workflow, {})

    async def run(self) -> None:
        """Reads whenever it is wanted, until it is cancelled. Raises StoreError."""
        while True:
            await self._wanted.wait()
            began = time.monotonic()
            try:
                self._known = await tallies(await self._models.of(CHOICES))
                ended = time.monotonic()
                self._until = min(began + self._fresh, ended + self._share * (ended - began))
            finally:  # where it cannot be read, nobody waits for it in vain
                self._wanted.clear()
                done, self._read = self._read, asyncio.Event()
                done.set()
