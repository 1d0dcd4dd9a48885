"""Verifies the log beside the pages: one verification at a time, again once the log has grown."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Final

import msgspec

from redraft.app.server.service import Service
from redraft.events.errors import RedraftError
from redraft.events.store.verification import Report

PAUSE: Final = 60.0
"""Seconds from the end of a verification to the beginning of the next."""


class ChainShown(msgspec.Struct, frozen=True):
    """Up to where and when (UTC) the log was verified by this process, and what was found.

    `error` says why it could not be verified; `underway` that a verification goes on.
    """

    head: int
    report: Report | None
    time: datetime | None
    error: str
    underway: bool


class ChainCheck:
    """Keeps the last verification, and begins the next when somebody looks."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._report: Report | None = None
        self._time: datetime | None = None
        self._error = ""
        self._ended = -PAUSE
        self._task: asyncio.Task[None] | None = None

    async def look(self) -> ChainShown:
        """Returns the last verification; begins another unless the last is of this log, or has just ended."""
        head = await self._service.runtime.store.head()
        is_behind = self._report is None or self._report.position < head
        if self._task is None and is_behind and time.monotonic() - self._ended >= PAUSE:
            self._task = asyncio.create_task(self._verify(), name="redraft-verify")
        return ChainShown(head, self._report, self._time, self._error, self._task is not None)

    async def _verify(self) -> None:
        try:
            self._report, self._error = await self._service.runtime.store.verify_all(), ""
            self._time = datetime.now(UTC)
        except RedraftError as error:
            self._error = str(error)
        finally:
            self._ended = time.monotonic()
            self._task = None
