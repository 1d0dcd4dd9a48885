"""Read models keep their promises: each event counts once, however it comes, and a rebuild gives the same rows."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack
from pathlib import Path
from subprocess import DEVNULL, PIPE

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.forked import Forked, fork
from tests.projections.logs import PROJECTIONS, ListLog, busy_log, contents, fill, made_afresh, view_of

from redraft.events.backends import open_store
from redraft.events.errors import InputError, StoreError
from redraft.events.messages.envelope import Recorded
from redraft.projections.backends import open_views
from redraft.projections.engine import projector
from redraft.projections.engine.projection import Projection
from redraft.projections.engine.projector import catch_up, follow, rebuild
from redraft.projections.engine.storage import ProjectionCheckpoint, StorageLocation
from redraft.projections.engine.views import Views
from redraft.projections.read_models.runs import RUNS
from redraft.projections.read_models.steps import STEPS

PROJECTOR = Path(__file__).parents[1] / "projector_process.py"
"""A program that catches up with a store: STORE VIEWS [POSITION at which it kills itself]."""

LOG = busy_log(12)


def projecting(folder: Path, place: StorageLocation, *position: str, stdout: int = DEVNULL) -> Forked:
    """That program, with the store in this folder."""
    command = (str(PROJECTOR), str(folder / "log.db"), str(place), *position)
    return fork(*command, folder=folder, environment=os.environ, stdout=stdout)


@pytest.mark.check
@given(st.data())
async def test_a_log_in_any_batches_gives_equal_rows(data: st.DataObject) -> None:
    log = busy_log(data.draw(st.integers(1, 9)), data.draw(st.integers(0, 99)))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(log)), max_size=12)) | {len(log)})
    async with open_views(None, PROJECTIONS) as views:
        after = 0
        for cut in cuts:
            assert await views.write(log[after:cut], after) == cut
            after = cut
        assert await contents(views) == await made_afresh(log)


@pytest.mark.check
@given(st.integers(0, len(LOG)), st.integers(0, len(LOG)), st.booleans())
async def test_what_comes_twice_counts_once(first: int, again: int, anew: bool) -> None:
    async with open_views(None, PROJECTIONS) as views:
        if first:
            await views.write(LOG[:first], 0)
        again = min(again, first)
        await views.write(LOG[again:], again)
        if anew:
            await rebuild(views, ListLog(LOG), "runs")
        assert await contents(views) == await made_afresh(LOG)
        assert views.position == len(LOG)


async def test_a_batch_that_leaves_a_gap_is_not_written() -> None:
    async with view_of(LOG[:40]) as views:
        before = await contents(views)
        assert await views.write(LOG[60:80], 60) == 40
        assert await contents(views) == before


@pytest.mark.check
@pytest.mark.parametrize("url", ["memory:", "sqlite:///{}/log.db"])
async def test_live_rows_are_those_of_a_rebuild_of_a_real_store(
    tmp_path: Path, place: StorageLocation, url: str
) -> None:
    log = busy_log(30)
    async with open_store(url.format(tmp_path)) as store, open_views(place, PROJECTIONS) as views:
        following = asyncio.create_task(follow(views, store))
        for start in range(0, len(log), 7):
            await fill(store, log[start : start + 7])
        async with asyncio.timeout(30):
            await views.wait_for(len(log))
        live = await contents(views)
        following.cancel()
        assert await rebuild(views, store) == len(log)
        assert await contents(views) == live == await made_afresh(log)


@pytest.mark.check
async def test_a_rebuild_beside_a_follower_ends_with_each_event_counted_once(
    tmp_path: Path, place: StorageLocation
) -> None:
    log = busy_log(60)
    async with (
        open_store(f"sqlite:///{tmp_path}/log.db", poll=0.02) as store,
        open_views(place, PROJECTIONS) as live,
        open_views(place, PROJECTIONS) as other,
    ):
        async with asyncio.timeout(60):
            following = asyncio.create_task(follow(live, store))
            await fill(store, log[:900])
            await live.wait_for(900)
            for start in range(900, len(log), 50):
                await rebuild(other, store, "steps" if start % 100 else None)
                await fill(store, log[start : start + 50])
            await live.wait_for(len(log))
            following.cancel()
        assert await contents(other) == await made_afresh(log)


@pytest.mark.check
async def test_two_projectors_of_one_file_count_each_event_once(place: StorageLocation) -> None:
    log = busy_log(80)
    async with AsyncExitStack() as held:
        both = (open_views(place, PROJECTIONS), open_views(place, PROJECTIONS))
        one, other = await asyncio.gather(*map(held.enter_async_context, both))
        await asyncio.gather(*(_in_small_batches(views, log) for views in (one, other)))
        assert await contents(one) == await contents(other) == await made_afresh(log)


@pytest.mark.check
async def test_three_processes_at_once_count_each_event_once(tmp_path: Path, place: StorageLocation) -> None:
    log = busy_log(80)
    async with open_store(f"sqlite:///{tmp_path}/log.db") as store:
        await fill(store, log)
    processes = [projecting(tmp_path, place) for _ in range(3)]
    assert [await asyncio.to_thread(process.wait, 60) for process in processes] == [0, 0, 0]
    async with open_views(place, PROJECTIONS) as views:
        assert views.position == len(log)
        assert await contents(views) == await made_afresh(log)


@pytest.mark.check
async def test_a_projector_killed_within_a_batch_leaves_no_trace(tmp_path: Path, place: StorageLocation) -> None:
    log = busy_log(40)
    async with open_store(f"sqlite:///{tmp_path}/log.db") as store:
        await fill(store, log)
        for position in range(25, len(log), len(log) // 4):
            killed = projecting(tmp_path, place, str(position))
            assert await asyncio.to_thread(killed.wait, 60) == -9
            async with open_views(place, PROJECTIONS) as views:
                assert views.position == (position - 1) // 20 * 20
        async with open_views(place, PROJECTIONS) as views:
            assert await catch_up(views, store) == len(log)
            assert await contents(views) == await made_afresh(log)


@pytest.mark.check
async def test_a_projector_killed_at_any_moment_leaves_whole_batches(tmp_path: Path, place: StorageLocation) -> None:
    log = busy_log(80)
    async with open_store(f"sqlite:///{tmp_path}/log.db") as store:
        await fill(store, log)
    reached = 0
    for lines in (1, 9, 17, 25, 33, 999):
        with projecting(tmp_path, place, stdout=PIPE) as process:
            assert process.stdout
            async with asyncio.timeout(60):
                for _ in range(lines):
                    await asyncio.to_thread(process.stdout.readline)
            process.kill()
        async with open_views(place, PROJECTIONS) as views:
            assert views.position >= reached
            reached = views.position
            assert await contents(views) == await made_afresh(log[:reached])
    assert reached == len(log)


async def test_projections_of_different_programs_share_a_file(place: StorageLocation) -> None:
    async with open_views(place, (RUNS,)) as one:
        await catch_up(one, ListLog(LOG))
        async with open_views(place, (STEPS,)) as other:
            assert other.position == 0
            await catch_up(other, ListLog(LOG))
        async with open_views(place, (RUNS, STEPS)) as both:
            assert both.position == len(LOG)
            rows = await made_afresh(LOG)
            assert await contents(both, (RUNS, STEPS)) == {name: rows[name] for name in ("runs", "steps")}


async def test_names_that_clash_are_refused() -> None:
    with pytest.raises(InputError, match="share the name 'runs'"):
        await open_views(None, (RUNS, RUNS)).open()
    with pytest.raises(InputError, match="share the name 'steps'"):
        await open_views(None, (STEPS, Projection("other", 1, STEPS.tables, STEPS.apply))).open()


async def test_a_look_that_began_before_does_not_hide_what_a_later_one_finds(
    place: StorageLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_views(place, PROJECTIONS) as here, open_views(place, PROJECTIONS) as there:
        read, looked, go = here.checkpoints, asyncio.Event(), asyncio.Event()
        looks: list[asyncio.Task[int]] = []

        async def in_turn() -> object:
            found = await read()
            if not looked.is_set():
                looked.set()
                await go.wait()
            elif not go.is_set():
                go.set()
                await looks[0]
            return found

        monkeypatch.setattr(here, "checkpoints", in_turn)
        looks.append(asyncio.create_task(here.refresh()))
        await looked.wait()
        await there.write(LOG[:40], 0)
        assert await here.refresh() == 40
        assert await looks[0] == 0


async def test_wait_for_returns_when_another_process_has_projected(place: StorageLocation) -> None:
    async with (
        open_views(place, PROJECTIONS) as here,
        open_views(place, PROJECTIONS) as there,
    ):
        waiting = asyncio.create_task(here.wait_for(50))
        await there.write(LOG[:40], 0)
        assert await here.refresh() == 40
        assert not waiting.done()
        await there.write(LOG[40:60], 40)
        async with asyncio.timeout(20):
            assert await waiting == 60


async def test_a_follower_rests_until_somebody_waits_for_a_position(
    place: StorageLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projector, "REST_SECONDS", 3600.0)
    async with open_store("memory:") as store, open_views(place, PROJECTIONS) as views:
        following = asyncio.create_task(follow(views, store))
        patient = asyncio.create_task(views.changed(0))
        await fill(store, LOG[:10])
        async with asyncio.timeout(20):
            assert await patient == 10
        patient = asyncio.create_task(views.changed(10))
        await fill(store, LOG[10:30])
        await views.query("SELECT 1")
        assert views.position == 10
        async with asyncio.timeout(20):
            assert await views.wait_for(30) == await patient == 30
        following.cancel()


async def test_a_look_never_tells_of_less_than_what_was_written_since(monkeypatch: pytest.MonkeyPatch) -> None:
    async with view_of(LOG[:40]) as views:
        read = views.checkpoints

        async def slowly() -> dict[str, ProjectionCheckpoint]:
            found = await read()
            await views.write(LOG[40:60], 40)
            return found

        monkeypatch.setattr(views, "checkpoints", slowly)
        assert await views.refresh() == views.position == 60


async def test_wait_for_news_ends_with_the_next_batch_and_can_be_cancelled() -> None:
    async with open_views(None, PROJECTIONS) as views, asyncio.timeout(20):
        with views.progress.follow():
            waiting = [asyncio.create_task(views.wait_for(views.position + 1)) for _ in range(3)]
            await asyncio.sleep(0)
            waiting[0].cancel()
            await views.write(LOG[:5], 0)
            assert await asyncio.gather(*waiting[1:]) == [5, 5]
        with pytest.raises(asyncio.CancelledError):
            await waiting[0]


async def test_a_query_sees_whole_batches_and_cannot_write(place: StorageLocation) -> None:
    async with view_of(LOG, place) as views:
        with pytest.raises(StoreError, match="may not be written"):
            await views.query("DELETE FROM runs")
        assert len(await contents_of_runs(views)) == 12


async def test_an_unknown_projection_cannot_be_rebuilt() -> None:
    async with open_views(None, PROJECTIONS) as views:
        with pytest.raises(InputError, match=r"no projection is named 'run'; there are .*, runs, "):
            await rebuild(views, ListLog(LOG), "run")


async def test_closed_read_models_say_so() -> None:
    views = open_views(None, PROJECTIONS)
    await views.open()
    await views.close()
    await views.close()
    with pytest.raises(StoreError, match="closed"):
        await views.refresh()


@pytest.mark.check
async def test_rows_of_another_log_are_dropped(place: StorageLocation) -> None:
    other = [*LOG[5:9], *busy_log(50, seed=7)]
    other = [replace(each, position=at) for at, each in enumerate(other, 1)]
    async with view_of(LOG, place):
        pass
    async with view_of(other, place) as views:
        assert await contents(views) == await made_afresh(other)


async def test_rows_of_a_longer_copy_of_the_log_are_dropped(place: StorageLocation) -> None:
    async with view_of(LOG, place):
        pass
    async with view_of(LOG[:150], place) as views:
        assert views.position == 150
        assert await contents(views) == await made_afresh(LOG[:150])
    async with view_of([], place) as views:
        assert not any((await contents(views)).values())


async def contents_of_runs(views: Views) -> list[tuple[str | int | float | None, ...]]:
    return await views.query("SELECT * FROM runs ORDER BY run")


async def _in_small_batches(views: Views, log: list[Recorded]) -> None:
    after = 0
    while after < len(log):
        batch = log[after : after + 13]
        after = max(await views.write(batch, after), batch[-1].position)
