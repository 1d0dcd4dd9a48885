"""Feeds the log into the read models: once (`catch_up`), continuously (`follow`), or from the beginning (`rebuild`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Sequence
from contextlib import aclosing
from typing import Final, Protocol

from redraft.events.errors import ReadModelCorrupt
from redraft.events.messages.envelope import Entry, Recorded
from redraft.projections.engine.views import Views

BATCH: Final = 2_000
"""The maximum number of events projected in one transaction."""

FOLLOW_BATCH: Final = 8_000
"""The maximum when following: rows that appear and vanish within one transaction are never written."""

FAR_BEHIND: Final = 5 * BATCH
"""A projection more than this many events behind catches up separately, so that the others need not wait for it."""

ASIDE_RETRIED: Final = 20
"""How many of the latest unreadable events are tried again whenever the read models are opened."""

REST_SECONDS: Final = 0.2
"""How long a follower lets events accumulate after a batch while no caller is waiting.

A row that changes ten times in one transaction is written once.
"""


class ReadableLog(Protocol):
    """The reading side of an event store."""

    def tail(self, after: int, *, follow: bool = True, limit: int = 500) -> AsyncGenerator[Sequence[Entry], None]:
        """Yields batches of events in log order, starting after the position `after`."""
        ...

    async def head(self) -> int:
        """Returns the position of the last event; 0 for an empty log."""
        ...


async def catch_up(views: Views, log: ReadableLog) -> int:
    """Projects all events that are in the log now; returns the position reached. Several processes may do so."""
    await _check_log(views, log)
    await _retry_aside(views, log)
    return await _project(views, log, views.names, follow=False)


async def follow(views: Views, log: ReadableLog) -> None:
    """Projects the events in the log and every later one, until cancelled."""
    with views.progress.follow():
        await _check_log(views, log)
        await _retry_aside(views, log)
        while apart := await _find_far_behind(views):
            following = asyncio.create_task(_project(views, log, set(views.names) - apart, follow=True))
            building = asyncio.create_task(_project(views, log, apart, follow=False))
            await _wait_for_first(building, following)
        await _project(views, log, views.names, follow=True)


async def rebuild(views: Views, log: ReadableLog, name: str | None = None) -> int:
    """Builds the rows of one projection, or of all, again in shadow tables; returns the position reached.

    When both count the same events, the new rows are compared with the old ones (`views` reports the result) and
    replace them. Another process may follow the same read models meanwhile. Old rows that are damaged are dropped
    first. Raises InputError for an unknown name.
    """
    chosen = views.names if name is None else (name,)
    try:
        await _check_log(views, log)
        await views.begin_shadow(chosen)
        return await _project(views, log, chosen, follow=False)
    except ReadModelCorrupt:
        await views.reset(chosen)
        return await catch_up(views, log)


async def _project(views: Views, log: ReadableLog, names: Collection[str], *, follow: bool) -> int:
    """Projects for these names; without `follow` to the end of the log, where shadow tables replace the live ones."""
    while True:
        begun = await views.begin(names)
        after = min((each.position for each in begun.values()), default=await log.head())
        end = await _project_tail(views, log, names, after, follow=follow)
        if end is None:
            continue
        if any(each.in_shadow for each in begun.values()):
            await views.write((), end, names)
            if end != after and any(each.in_shadow for each in (await views.begin(names)).values()):
                continue  # the rows that are read have moved on meanwhile
        return end


async def _project_tail(
    views: Views, log: ReadableLog, names: Collection[str], after: int, *, follow: bool
) -> int | None:
    """Projects the events after a position; returns the end of the log, or None when the log must be read again."""
    batch_size = FOLLOW_BATCH if follow else BATCH
    async with (
        aclosing(log.tail(after, follow=follow, limit=batch_size)) as batches,
        aclosing(batches if follow else _read_ahead(batches)) as coming,
    ):
        async for batch in coming:
            reached = await views.write(batch, after, names)
            after = batch[-1].position
            if reached != after:
                return None
            if follow and len(batch) < batch_size:
                await views.progress.rest(REST_SECONDS)
    return after


async def _find_far_behind(views: Views) -> set[str]:
    """Returns the projections that the others should not wait for."""
    begun = await views.begin()
    top = max((each.position for each in begun.values()), default=0)
    return {name for name, each in begun.items() if top - each.position > FAR_BEHIND}


async def _wait_for_first(*tasks: asyncio.Task[int]) -> None:
    """Waits until the first task ends, cancels the others, and raises what a task raised."""
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)  # not each by itself: our own cancellation looks as theirs does
    for error in [task.exception() for task in tasks if not task.cancelled()]:
        if error is not None:
            raise error


async def _check_log(views: Views, log: ReadableLog) -> None:
    """Drops the rows if they were made from another log, or from a longer copy of this one."""
    checkpoints = await views.checkpoints()
    if max((checkpoint.position for checkpoint in checkpoints.values()), default=0) > await log.head():
        await views.reset()
    first: str | None = None
    async with aclosing(log.tail(0, follow=False, limit=1)) as batches:
        async for batch in batches:
            first = batch[0].hash
            break
    await views.belong_to(first)


async def _retry_aside(views: Views, log: ReadableLog) -> None:
    """Rebuilds the projections that set a run aside at an event that can be read now."""
    waiting: dict[int, set[str]] = {}
    for each in await views.aside():
        if each.again and each.checkpoint_name in views.names:
            waiting.setdefault(each.position, set()).add(each.checkpoint_name)
    names: set[str] = set()
    for position in list(waiting)[:ASIDE_RETRIED]:
        async with aclosing(log.tail(position - 1, follow=False, limit=1)) as batches:
            async for batch in batches:
                if isinstance(batch[0], Recorded) and batch[0].position == position:
                    names |= waiting[position]
                break
    if names:
        await views.begin_shadow(names)


async def _read_ahead(batches: AsyncIterator[Sequence[Entry]]) -> AsyncGenerator[Sequence[Entry], None]:
    """Yields the same batches, reading each one while its predecessor is projected."""
    coming = asyncio.ensure_future(anext(batches, None))
    try:
        while (batch := await coming) is not None:
            coming = asyncio.ensure_future(anext(batches, None))
            yield batch
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)
