"""Verifies the log beside the pages: one verification at a time, again once the log has grown."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec

from redraft.app.server.api.answers import beside
from redraft.app.server.service import Service
from redraft.app.settings.settings import Settings
from redraft.events.errors import RedraftError
from redraft.events.store.verification import Fault

if TYPE_CHECKING:
    from redraft.app.record.auditing.checkpoint import Checkpoint

PAUSE: Final = 60.0
"""Seconds from the end of a verification to the beginning of the next."""


class Verified(msgspec.Struct, frozen=True):
    """The result of a verification at a time (UTC) of all events up to `position`; some of the faults are listed.

    `signed` are the time and the events of the checkpoint that the log was compared with, if there is one.
    """

    time: datetime
    position: int
    events: int
    runs: int
    digest: str
    count: int
    faults: tuple[Fault, ...]
    signed: tuple[datetime, int] | None = None


class ChainShown(msgspec.Struct, frozen=True):
    """The last verification of this process; `error` says why there is none, `underway` that one goes on."""

    head: int
    verified: Verified | None
    error: str
    underway: bool


class ChainCheck:
    """Keeps the last verification, and begins the next when somebody looks."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._verified: Verified | None = None
        self._error = ""
        self._ended = -PAUSE
        self._task: asyncio.Task[None] | None = None

    async def look(self) -> ChainShown:
        """Returns the last verification; begins another unless the last is of this log, or has just ended."""
        head = await self._service.runtime.store.head()
        is_behind = self._verified is None or self._verified.position < head
        if self._task is None and is_behind and time.monotonic() - self._ended >= PAUSE:
            self._task = asyncio.create_task(self._verify(), name="redraft-verify")
        return ChainShown(head, self._verified, self._error, self._task is not None)

    async def _verify(self) -> None:
        try:
            self._verified, self._error = await self._look_at_all(), ""
        except RedraftError as error:
            self._error = str(error)
        finally:
            self._ended = time.monotonic()
            self._task = None

    async def _look_at_all(self) -> Verified:
        from redraft.app.record.auditing.checkpoint import (  # `cryptography` takes a while
            find_differences,
            positions_of,
        )

        held = await beside(lambda: _read_held(self._service.settings))
        report = await self._service.runtime.store.verify_all([*positions_of(held)] if held else ())
        faults = (*report.faults, *(find_differences(held, report) if held else ()))
        return Verified(
            *(datetime.now(UTC), report.position, report.events, report.runs, report.digest),
            *(report.count + len(faults) - len(report.faults), faults, (held.time, held.events) if held else None),
        )


def _read_held(settings: Settings) -> Checkpoint | None:
    """Returns the checkpoint of the settings. Raises InputError, and Tampered when its signature does not fit."""
    from redraft.app.record.auditing.checkpoint import read_checkpoint, read_public

    if settings.checkpoint is None:
        return None
    return read_checkpoint(settings.checkpoint, read_public(settings.public_key, "REDRAFT_PUBLIC_KEY"))
