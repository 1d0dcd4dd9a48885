"""What carries the log into the read models: once, for ever, or from the beginning."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final, Protocol

from redraft.events.envelope import Recorded
from redraft.projections.views import Views

BATCH: Final = 2_000
"""How many events one transaction projects at most."""

REST_SECONDS: Final = 0.2
"""How long a follower lets events gather after a batch, as long as nobody waits for them.

A page that changes ten times in one transaction is written once.
"""


class Log(Protocol):
    """What is read of an event store."""

    def tail(self, after: int, *, follow: bool = True, limit: int = 500) -> AsyncIterator[Sequence[Recorded]]:
        """Batches of events in log order, from the one that follows the position `after`."""
        ...

    async def head(self) -> int:
        """The position of the last event; 0 when there is none."""
        ...


async def catch_up(views: Views, log: Log) -> int:
    """Projects what is in the log now; returns the position reached. Several processes may do so at once."""
    return await _project(views, log, follow=False)


async def follow(views: Views, log: Log) -> None:
    """Projects what is in the log and what comes, until cancelled."""
    with views.progress.followed():
        await _project(views, log, follow=True)


async def rebuild(views: Views, log: Log, name: str | None = None) -> int:
    """Drops the rows of one projection, or of all, and makes them anew; returns the position reached.

    Another process that follows the same file meanwhile starts from the beginning too, and both count each event once.
    Raises InputError for a name that no projection has.
    """
    await views.begin_anew(None if name is None else [name])
    return await _project(views, log, follow=False)


async def _project(views: Views, log: Log, *, follow: bool) -> int:
    await _check_log(views, log)
    while True:
        after = await views.look()
        async with _closing(log.tail(after, follow=follow, limit=BATCH)) as batches:
            async for batch in batches:
                reached = await views.write(batch, after)
                after = batch[-1].position
                if reached != after:
                    break
                if follow and len(batch) < BATCH:
                    await views.progress.rest(REST_SECONDS)
            else:
                return after


async def _check_log(views: Views, log: Log) -> None:
    """Makes sure that the rows are of this log, and not of one that lay here before, or of a longer copy of it."""
    marks = await views.marks()
    if max((mark.position for mark in marks.values()), default=0) > await log.head():
        await views.begin_anew()
    first: str | None = None
    async with _closing(log.tail(0, follow=False, limit=1)) as batches:
        async for batch in batches:
            first = batch[0].hash
            break
    await views.belong_to(first)


@asynccontextmanager
async def _closing(batches: AsyncIterator[Sequence[Recorded]]) -> AsyncIterator[AsyncIterator[Sequence[Recorded]]]:
    """Ends a generator at once when it is left early, not when it happens to be collected."""
    try:
        yield batches
    finally:
        if isinstance(batches, AsyncGenerator):
            await batches.aclose()
