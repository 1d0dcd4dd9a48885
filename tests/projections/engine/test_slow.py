"""The function of a projection may take its time: the others are written meanwhile, and nothing is counted twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence

import pytest
from msgspec.structs import replace
from tests.projections.logs import ListLog, busy_log, contents

from redraft.events.messages.envelope import Entry, Recorded, Unreadable
from redraft.projections.backends import open_views
from redraft.projections.engine.projection import Change, Projection, Set, Table
from redraft.projections.engine.projector import catch_up, rebuild
from redraft.projections.engine.storage import StorageLocation
from redraft.projections.engine.views import Views
from redraft.projections.read_models.runs import RUNS

LOG = busy_log(12)
NAMES = Table("names", {"name": "TEXT NOT NULL", "count": "INTEGER NOT NULL"})
UNREADABLE = Unreadable(LOG[4].run, LOG[4].version, LOG[4].position, LOG[4].name, "damaged")


def counted(event: Recorded) -> Iterable[Change]:
    return (Set("names", (event.name,), {}, {"count": 1}, new={"name": event.name, "count": 0}),)


MINE = Projection("names", 1, (NAMES,), counted)


def working(at: int, work: Callable[[], Coroutine[None, None, object]], *, fails: bool = False) -> Projection:
    """A projection whose function does something on the event loop, and waits for it, at each position from `at`."""
    loop = asyncio.get_running_loop()

    def apply(event: Recorded) -> Iterable[Change]:
        if event.position >= at:
            asyncio.run_coroutine_threadsafe(work(), loop).result(60)
            if fails:
                raise LookupError("no such thing")
        return counted(event)

    return replace(MINE, apply=apply)


async def total(views: Views) -> int:
    ((count,),) = await views.query("SELECT sum(count) FROM names")
    return int(count or 0)


@pytest.mark.parametrize("first", [LOG[0:1], [*LOG[0:4], UNREADABLE]])
@pytest.mark.parametrize("fails", [False, True])
async def test_others_are_written_while_a_function_is_at_work(
    place: StorageLocation, first: Sequence[Entry], fails: bool
) -> None:
    """It would wait for itself within the transaction, and so it stops at the event at which it fails, or nowhere."""
    async with open_views(place, (RUNS,)) as other:
        mine = working(30, lambda: other.reset(["runs"]), fails=fails)
        async with open_views(place, (mine,)) as views:
            reached = await views.write(first, 0)
            assert reached == first[-1].position
            assert await views.write(LOG[reached:40], reached) == 40
            mark = (await views.checkpoints())["names"]
            assert (mark.position, mark.failed) == ((29, 30) if fails else (40, 0))
            assert "no such thing" in mark.error if fails else not mark.error


async def test_others_are_written_while_a_function_is_at_work_on_a_new_version(place: StorageLocation) -> None:
    async with open_views(place, (MINE, RUNS)) as other:
        await catch_up(other, ListLog(LOG[:60]))
        mine = replace(working(50, lambda: other.reset(["runs"])), version=2)
        async with open_views(place, (mine,)) as views:
            await catch_up(views, ListLog(LOG[:80]))
            assert await total(views) == 80
            assert (await views.checkpoints())["names"].version == 2


@pytest.mark.parametrize("times", [1, 2, 3, 4, 9])
async def test_what_another_process_has_written_meanwhile_counts_once(place: StorageLocation, times: int) -> None:
    """It moves on whenever the function is called, more often than changes are found anew."""
    moved: list[int] = []

    async with open_views(place, (MINE,)) as other:

        async def move() -> None:
            if len(moved) < times:
                at = len(moved) * 5 + 20
                moved.append(await other.write(LOG[at : at + 5], at))

        async with open_views(place, (MINE,)) as views:
            await views.write(LOG[:20], 0)
        async with open_views(place, (working(21, move),)) as views:
            assert await views.write(LOG[20:100], 20) == 100
            assert await catch_up(views, ListLog(LOG)) == len(LOG)
            assert await total(views) == len(LOG)
            found = await contents(views, (MINE,))
            await rebuild(other, ListLog(LOG))
            assert found == await contents(other, (MINE,))
    assert len(moved) == times


async def test_changes_are_found_anew_once_where_another_process_moved_once(place: StorageLocation) -> None:
    """Also beside a run that was set aside in the transaction that was given up."""
    calls: list[int] = []

    def noted(event: Recorded) -> Iterable[Change]:
        calls.append(event.position)
        return ()

    first = Projection("first", 1, (Table("first", {"name": "TEXT NOT NULL"}),), noted, lambda entry: ())
    mine = replace(MINE, aside=lambda entry: ())
    async with open_views(place, (mine,)) as other:

        async def move() -> None:
            if not await total(other):
                await other.write(LOG[:1], 0)

        async with open_views(place, (first, replace(working(0, move), aside=mine.aside))) as views:
            assert await views.write([*LOG[:4], UNREADABLE, LOG[5]], 0) == LOG[5].position
            assert await total(views) == sum(each.run != UNREADABLE.run for each in LOG[4:6]) + 4
    assert calls.count(LOG[1].position) == 2
