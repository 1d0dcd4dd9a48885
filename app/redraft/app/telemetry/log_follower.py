"""Follows the log, and exports what the recorded events of runs add up to: spans and metrics."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, Protocol

from cachetools import LRUCache

from redraft.app.telemetry.run_spans import RunSpans
from redraft.app.telemetry.telemetry import Telemetry
from redraft.events.errors import StoreError
from redraft.events.messages.domain_events import RunEnded, RunQuarantined
from redraft.events.messages.envelope import Entry, Recorded

RUNS: Final = 4096
"""The number of runs that are followed at the same time; others are read again from the log."""

LAST: Final = 2.0
"""Seconds for what was recorded last, when a process ends."""

AGAIN: Final = 5.0
"""Seconds between two attempts to follow a log that cannot be read."""

_LOG: Final = logging.getLogger(__name__)


class FollowedLog(Protocol):
    """The reading side of an event store."""

    def tail(self, after: int, *, follow: bool = True) -> AsyncIterator[Sequence[Entry]]: ...

    async def read(self, run: str, upto: int | None = None, after: int = 0) -> Sequence[Recorded]: ...


class LogFollower:
    """Exports the spans and metrics of the runs that this process `owns`, from the position `after` on.

    A run that cannot be read is left out; nothing that goes wrong here reaches the runs.
    """

    def __init__(self, log: FollowedLog, telemetry: Telemetry, owns: Callable[[str], bool], after: int) -> None:
        self.reached = after
        self._log = log
        self._telemetry = telemetry
        self._owns = owns
        self._runs: LRUCache[str, RunSpans] = LRUCache(RUNS)

    async def run(self) -> None:
        """Follows until it is cancelled. Raises StoreError when the log cannot be read."""
        await self._follow(follow=True)

    async def catch_up(self) -> None:
        """Exports what is in the log by now."""
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(LAST):
                await self._follow(follow=False)

    async def _follow(self, *, follow: bool) -> None:
        async for batch in self._log.tail(self.reached, follow=follow):
            for event in batch:
                if isinstance(event, Recorded) and self._owns(event.run):
                    await self._take(event)
                self.reached = event.position
            await asyncio.sleep(0)

    async def _take(self, event: Recorded) -> None:
        try:
            spans = await self._spans_before(event)
            for span in spans.add(event):
                self._telemetry.export(span, spans.workflow)
            self._telemetry.note_run(event.run, spans.trace_id)
            if isinstance(event.data, RunEnded | RunQuarantined):
                self._runs.pop(event.run, None)
        except StoreError as error:
            _LOG.warning("run %s is left out of the telemetry: %s", event.run, error)
        except Exception as error:  # noqa: BLE001 - whatever is wrong here is no fault of the run
            _LOG.warning("run %s is left out of the telemetry: %s", event.run, type(error).__name__)

    async def _spans_before(self, event: Recorded) -> RunSpans:
        """Returns what is known of the event's run, read from the log where it was not followed so far."""
        spans = self._runs.get(event.run)
        if spans is None or spans.version != event.version - 1:
            spans = RunSpans()
            if event.version > 1:
                for earlier in await self._log.read(event.run, upto=event.version - 1):
                    spans.add(earlier)
            self._runs[event.run] = spans
        return spans


@asynccontextmanager
async def followed(
    log: FollowedLog, telemetry: Telemetry | None, owns: Callable[[str], bool], after: int
) -> AsyncIterator[None]:
    """Exports what is recorded while the block runs, and until its end; does nothing without telemetry."""
    if telemetry is None:
        yield
        return
    follower = LogFollower(log, telemetry, owns, after)
    following = asyncio.create_task(_until_it_fails(follower))
    try:
        yield
    finally:
        following.cancel()
        await asyncio.wait({following})
        await follower.catch_up()


async def _until_it_fails(follower: LogFollower) -> None:
    while True:
        try:
            await follower.run()
        except StoreError as error:
            _LOG.warning("telemetry cannot follow the log: %s", error)
            await asyncio.sleep(AGAIN)
