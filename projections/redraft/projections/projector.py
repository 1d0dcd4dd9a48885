"""What carries the log into the read models: once, for ever, or from the beginning."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, Protocol

from redraft.events.envelope import Entry, Recorded
from redraft.events.errors import Damaged
from redraft.projections.views import Views

BATCH: Final = 2_000
"""How many events one transaction projects at most."""

GATHERED: Final = 8_000
"""How many at most where they come as they happen: what begins and ends within a transaction is never written."""

APART: Final = 5 * BATCH
"""A projection that is so many events behind the others catches up by itself, and does not hold them up."""

LOOKED_AT: Final = 20
"""How many of the events that could not be read are looked at once more by who opens the read models, the latest."""

REST_SECONDS: Final = 0.2
"""How long a follower lets events gather after a batch, as long as nobody waits for them.

A page that changes ten times in one transaction is written once.
"""


class Log(Protocol):
    """What is read of an event store."""

    def tail(self, after: int, *, follow: bool = True, limit: int = 500) -> AsyncIterator[Sequence[Entry]]:
        """Batches of events in log order, from the one that follows the position `after`."""
        ...

    async def head(self) -> int:
        """The position of the last event; 0 when there is none."""
        ...


async def catch_up(views: Views, log: Log) -> int:
    """Projects what is in the log now; returns the position reached. Several processes may do so at once."""
    await _check_log(views, log)
    await _look_again(views, log)
    return await _project(views, log, views.names, follow=False)


async def follow(views: Views, log: Log) -> None:
    """Projects what is in the log and what comes, until cancelled."""
    with views.progress.followed():
        await _check_log(views, log)
        await _look_again(views, log)
        while apart := await _far_behind(views):
            following = asyncio.create_task(_project(views, log, set(views.names) - apart, follow=True))
            building = asyncio.create_task(_project(views, log, apart, follow=False))
            await _first_of(building, following)
        await _project(views, log, views.names, follow=True)


async def rebuild(views: Views, log: Log, name: str | None = None) -> int:
    """Makes the rows of one projection, or of all, once more beside those that there are; returns the position reached.

    Once they count the same events they are compared with the old rows, of which `views` tells, and take their place.
    Another process may follow the same place meanwhile. Old rows that are damaged are dropped first. Raises InputError
    for a name that no projection has.
    """
    chosen = views.names if name is None else (name,)
    try:
        await _check_log(views, log)
        await views.begin_beside(chosen)
        return await _project(views, log, chosen, follow=False)
    except Damaged:
        await views.begin_anew(chosen)
        return await catch_up(views, log)


async def _project(views: Views, log: Log, names: Collection[str], *, follow: bool) -> int:
    """Projects for these; without `follow` until the end of the log, with what was built beside in its place."""
    while True:
        begun = await views.begin(names)
        after = min((each.position for each in begun.values()), default=await log.head())
        end = await _tailed(views, log, names, after, follow=follow)
        if end is None:
            continue
        if any(each.beside for each in begun.values()):
            await views.write((), end, names)
            if end != after and any(each.beside for each in (await views.begin(names)).values()):
                continue  # the rows that are read have moved on meanwhile
        return end


async def _tailed(views: Views, log: Log, names: Collection[str], after: int, *, follow: bool) -> int | None:
    """Projects what follows a position; gives the end of the log, or None when it is to be read again."""
    most = GATHERED if follow else BATCH
    async with (
        _closing(log.tail(after, follow=follow, limit=most)) as batches,
        _closing(batches if follow else _ahead(batches)) as coming,
    ):
        async for batch in coming:
            reached = await views.write(batch, after, names)
            after = batch[-1].position
            if reached != after:
                return None
            if follow and len(batch) < most:
                await views.progress.rest(REST_SECONDS)
    return after


async def _far_behind(views: Views) -> set[str]:
    """The projections that the others should not wait for."""
    begun = await views.begin()
    top = max((each.position for each in begun.values()), default=0)
    return {name for name, each in begun.items() if top - each.position > APART}


async def _first_of(*tasks: asyncio.Task[int]) -> None:
    """Returns, or raises, when the first task has ended; ends the others."""
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task


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


async def _look_again(views: Views, log: Log) -> None:
    """Begins those projections beside their rows that have set a run aside whose event can be read now."""
    waiting: dict[int, set[str]] = {}
    for each in await views.aside():
        if each.again and each.track in views.names:
            waiting.setdefault(each.position, set()).add(each.track)
    names: set[str] = set()
    for position in list(waiting)[:LOOKED_AT]:
        async with _closing(log.tail(position - 1, follow=False, limit=1)) as batches:
            async for batch in batches:
                if isinstance(batch[0], Recorded) and batch[0].position == position:
                    names |= waiting[position]
                break
    if names:
        await views.begin_beside(names)


async def _ahead(batches: AsyncIterator[Sequence[Entry]]) -> AsyncGenerator[Sequence[Entry], None]:
    """The same batches, each read while the one before it is projected."""
    coming = asyncio.ensure_future(anext(batches, None))
    try:
        while (batch := await coming) is not None:
            coming = asyncio.ensure_future(anext(batches, None))
            yield batch
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)


@asynccontextmanager
async def _closing(batches: AsyncIterator[Sequence[Entry]]) -> AsyncIterator[AsyncIterator[Sequence[Entry]]]:
    """Ends a generator at once when it is left early, not when it happens to be collected."""
    try:
        yield batches
    finally:
        if isinstance(batches, AsyncGenerator):
            await batches.aclose()
