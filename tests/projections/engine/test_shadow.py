"""A new version, and a rebuild, are built beside the rows that are read, compared with them, and put in their place."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.projections.logs import PROJECTIONS, ListLog, busy_log, contents, fill, made_afresh, view_of

from redraft.events.backends import open_store
from redraft.events.errors import IncompatibleStore, InputError, StoreError
from redraft.events.messages.envelope import Recorded
from redraft.projections.backends import open_views
from redraft.projections.engine import projector
from redraft.projections.engine.projection import Projection, Set, Table
from redraft.projections.engine.projector import catch_up, follow, rebuild
from redraft.projections.engine.states import Compared, Switched
from redraft.projections.engine.storage import StorageLocation
from redraft.projections.engine.views import Views
from redraft.projections.engine.writer import Notice
from redraft.projections.read_models.runs import RUNS

LOG = busy_log(12)
NAMES = Table("names", {"name": "TEXT NOT NULL", "count": "INTEGER NOT NULL"}, indexes={"by_count": "(count)"})


def counted(event: Recorded) -> Sequence[Set]:
    return (Set("names", (event.name,), {}, {"count": 1}, new={"name": event.name, "count": 0}),)


def doubled(event: Recorded) -> Sequence[Set]:
    return (Set("names", (event.name,), {}, {"count": 2}, new={"name": event.name, "count": 0}),)


OLD = Projection("names", 1, (NAMES, Table("unused", {"a": "TEXT NOT NULL"})), counted)
NEW = Projection("names", 2, (NAMES,), doubled)


async def total(views: Views) -> int:
    ((count,),) = await views.query("SELECT sum(count) FROM names")
    return int(count or 0)


async def test_the_old_rows_are_read_until_those_of_a_new_version_have_caught_up(place: StorageLocation) -> None:
    told: list[Notice] = []
    async with open_views(place, (OLD, RUNS)) as old:
        await catch_up(old, ListLog(LOG[:200]))
        async with open_views(place, (NEW, RUNS), told.append) as new:
            for position in range(20, 200, 20):
                assert await new.write(LOG[position - 20 : position], position - 20, ["names"]) == position
                assert await total(new) == await total(old) == 200
            (state, _) = await new.states()
            assert (state.version, state.position, state.building and state.building.position) == (1, 200, 180)
            assert await old.write(LOG[200:210], 200) == 210  # what still runs goes on
            assert told == []
            await catch_up(new, ListLog(LOG))
            assert await total(new) == 2 * len(LOG)
            types = len({event.name for event in LOG[:210]})
            assert told == [Switched("names", 1, 2, 210, {"names": Compared(types, types, types)})]
            assert await new.query("SELECT * FROM runs ORDER BY run") == (await made_afresh(LOG))["runs"]
            assert [(each.name, each.version, each.building) for each in await new.states()] == [
                ("names", 2, None),
                ("runs", RUNS.version, None),
            ]
            with pytest.raises(IncompatibleStore, match="'names' was made by a later version"):
                await old.write(LOG[210:], 210)
            with pytest.raises(Exception, match=r"unused|their tables were changed"):
                await new.query("SELECT * FROM unused")
    with pytest.raises(IncompatibleStore, match="'names' was made by a later version"):
        await open_views(place, (OLD, RUNS)).open()


@pytest.mark.check
async def test_a_follower_builds_a_new_version_without_holding_up_the_others(
    tmp_path: Path, place: StorageLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = busy_log(60)
    monkeypatch.setattr("redraft.projections.engine.projector.FAR_BEHIND", 10)
    monkeypatch.setattr("redraft.projections.engine.projector.BATCH", 20)
    async with open_store(f"sqlite:///{tmp_path}/log.db", poll=0.02) as store:
        await fill(store, log[:600])
        async with open_views(place, (OLD, RUNS)) as old:
            await catch_up(old, store)
        seen: list[int] = []
        async with open_views(place, (NEW, RUNS)) as views, asyncio.timeout(60):
            write = views.write

            async def watched(batch: Sequence[Recorded], after: int, names: object = None) -> int:
                seen.append(len(list(names or ())))  # type: ignore[call-overload]
                return await write(batch, after, names)  # type: ignore[arg-type]

            monkeypatch.setattr(views, "write", watched)
            following = asyncio.create_task(follow(views, store))
            await fill(store, log[600:])
            await views.wait_for(len(log))
            assert await total(views) == 2 * len(log)
            assert await views.query("SELECT * FROM runs ORDER BY run") == (await made_afresh(log))["runs"]
            following.cancel()
        assert 1 in seen


async def test_a_follower_that_is_cancelled_as_it_has_built_a_version_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("redraft.projections.engine.projector.FAR_BEHIND", 1)
    project, built = projector._project, asyncio.Event()

    async def projected(*given: object, follow: bool) -> int:
        try:
            return await project(*given, follow=follow)  # type: ignore[arg-type]
        finally:
            if not follow:
                built.set()

    monkeypatch.setattr(projector, "_project", projected)
    async with open_store("memory:") as store, open_views(None, (OLD, RUNS)) as views, asyncio.timeout(60):
        await fill(store, LOG[:50])
        await catch_up(views, store)
        for turns in range(12):
            await views.begin_shadow(["names"])
            built.clear()
            following = asyncio.create_task(follow(views, store))
            await built.wait()
            for _ in range(turns):
                await asyncio.sleep(0)
            following.cancel()
            await asyncio.wait({following})
            assert following.cancelled()


async def test_a_rebuild_says_which_rows_were_wrong_and_mends_them(place: StorageLocation) -> None:
    told: list[Notice] = []
    async with open_views(place, (OLD, RUNS), told.append) as views:
        await catch_up(views, ListLog(LOG))
        await rebuild(views, ListLog(LOG))
        assert [(each.projection, each.same) for each in told if isinstance(each, Switched)] == [
            ("names", True),
            ("runs", True),
        ]
        told.clear()
    wrong = Projection("names", 1, OLD.tables, lambda event: counted(event) if event.version > 1 else ())
    async with open_views(place, (wrong, RUNS), told.append) as views:
        await rebuild(views, ListLog(LOG), "names")
        (notice,) = told
        assert isinstance(notice, Switched)
        assert notice.same is False
        assert notice.tables["unused"].same is True
        assert notice.tables["names"].differ == 0
        assert notice.tables["names"].before == notice.tables["names"].after + 1


@pytest.mark.check
async def test_readers_see_whole_rows_all_through_rebuilds(place: StorageLocation) -> None:
    async with open_views(place, PROJECTIONS) as views, open_views(place, PROJECTIONS) as reader:
        await catch_up(views, ListLog(LOG))
        expected = await contents(reader)
        building = asyncio.create_task(_rebuilt_often(views))
        while not building.done():
            assert await contents(reader) == expected
        await building


async def test_other_processes_can_write_while_rows_of_a_build_are_computed(
    place: StorageLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projector, "BATCH", 50)
    loop, looked, told = asyncio.get_running_loop(), list[int](), list[Notice]()
    async with open_views(place, (RUNS,)) as other:

        def looking(event: Recorded) -> Sequence[Set]:
            if event.position == 70:  # it waits on the thread that writes, and would for ever in a transaction
                asyncio.run_coroutine_threadsafe(other.begin(), loop).result(10)
                looked.append(event.position)
            return doubled(event)

        async with open_views(place, (OLD, RUNS)) as old:
            await catch_up(old, ListLog(LOG))
        async with open_views(place, (replace(NEW, apply=looking),), told.append) as views:
            await catch_up(views, ListLog(LOG))
            assert await total(views) == 2 * len(LOG)
    assert looked
    assert [type(each) for each in told] == [Switched]


async def test_rows_that_were_computed_are_dropped_when_another_process_has_moved_the_build(
    place: StorageLocation,
) -> None:
    async with open_views(place, (OLD, RUNS)) as old:
        await catch_up(old, ListLog(LOG))
    async with open_views(place, (NEW,)) as one, open_views(place, (NEW,)) as other:
        for views, first, last in ((one, 0, 20), (one, 20, 40), (other, 40, 60), (one, 40, 80), (other, 60, 100)):
            assert await views.write(LOG[first:last], first) == last
        await catch_up(one, ListLog(LOG))
        assert await total(one) == 2 * len(LOG)


async def test_rows_are_read_again_when_another_process_has_written_them_meanwhile(place: StorageLocation) -> None:
    async with open_views(place, (OLD, RUNS)) as one, open_views(place, (OLD, RUNS)) as other:
        await one.write(LOG[:20], 0)
        await other.write(LOG[20:40], 20)
        await one.write(LOG[20:60], 20, ["runs"])
        await one.write(LOG[40:60], 40, ["names"])
        assert await total(one) == 60


async def _rebuilt_often(views: Views) -> None:
    for _ in range(8):
        assert await rebuild(views, ListLog(LOG)) == len(LOG)


async def test_rebuilding_twice_at_once_gives_the_rows_of_one(place: StorageLocation) -> None:
    async with open_views(place, PROJECTIONS) as one, open_views(place, PROJECTIONS) as other:
        await catch_up(one, ListLog(LOG))
        async with asyncio.timeout(60):
            await asyncio.gather(*(rebuild(views, ListLog(LOG)) for views in (one, other) for _ in range(1)))
        assert await contents(one) == await contents(other) == await made_afresh(LOG)


async def test_a_build_that_was_left_half_way_goes_on(place: StorageLocation) -> None:
    async with open_views(place, (OLD,)) as old:
        await catch_up(old, ListLog(LOG))
    async with open_views(place, (NEW,)) as new:
        await new.write(LOG[:50], 0)
    async with open_views(place, (NEW,)) as new:
        assert {name: each.position for name, each in (await new.begin()).items()} == {"names": 50}
        await catch_up(new, ListLog(LOG))
        assert await total(new) == 2 * len(LOG)


async def test_a_table_of_another_projection_is_refused(place: StorageLocation) -> None:
    async with view_of(LOG, place) as views:
        with pytest.raises(InputError, match="projection mine: the table 'runs' is that of the projection 'runs'"):
            await open_views(place, (Projection("mine", 1, RUNS.tables, RUNS.apply),)).open()
        assert await contents(views) == await made_afresh(LOG)


async def test_a_table_of_a_shipped_projection_that_is_not_there_yet_is_refused(place: StorageLocation) -> None:
    with pytest.raises(InputError, match="projection mine: the table 'runs' is that of the projection 'runs'"):
        open_views(place, (Projection("mine", 1, RUNS.tables, RUNS.apply),))


@pytest.mark.parametrize("version", [1, RUNS.version, RUNS.version + 1])
async def test_a_projection_with_the_name_of_a_shipped_one_is_refused(place: StorageLocation, version: int) -> None:
    async with view_of(LOG, place) as views:
        with pytest.raises(InputError, match="projection runs: Redraft has a read model of this name"):
            open_views(place, (Projection("runs", version, OLD.tables, OLD.apply),))
        assert await contents(views) == await made_afresh(LOG)


async def test_a_projection_can_be_dropped_by_whoever_does_not_know_it(place: StorageLocation) -> None:
    async with open_views(place, (OLD,)) as views:
        await catch_up(views, ListLog(LOG))
    async with open_views(place, ()) as views:
        assert [(each.name, each.rows["unused"]) for each in await views.states()] == [("names", 0)]
        await views.drop("names")
        assert await views.states() == ()
        with pytest.raises(InputError, match="no projection is named 'names'"):
            await views.drop("names")


async def test_a_projection_that_nobody_opened_does_not_outlive_its_log(place: StorageLocation) -> None:
    async with open_views(place, (OLD,)) as views:
        await catch_up(views, ListLog(LOG))
    other = [replace(each, position=at) for at, each in enumerate(busy_log(50, seed=7)[3:], 1)]
    async with view_of(other, place):
        pass
    async with open_views(place, (OLD,)) as views:
        await catch_up(views, ListLog(other))
        assert await total(views) == len(other)


@pytest.mark.parametrize("bad", ["", "a b", "é", "x" * 51])
def test_a_projection_that_cannot_be_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match="projection"):
        Projection(bad, 1, (NAMES,), counted)
    with pytest.raises(ValueError, match="below 1"):
        Projection("names", 0, (NAMES,), counted)
    with pytest.raises(ValueError, match="no table"):
        Projection("names", 1, (), counted)
    for name in ("a__next", "Names"):
        with pytest.raises(ValueError, match=f"{name!r} has a capital letter or __next in it"):
            Projection("names", 1, (Table(name, {"a": "TEXT"}),), counted)
        with pytest.raises(ValueError, match=f"{name!r} has a capital letter or __next in it"):
            Projection(name, 1, (NAMES,), counted)


async def test_what_asks_for_a_column_of_a_version_being_built_is_told_so(place: StorageLocation) -> None:
    wider = Table("names", {**NAMES.columns, "more": "TEXT"})
    later = Projection("names", 2, (wider,), lambda event: ())
    async with open_views(place, (OLD,)) as old:
        await catch_up(old, ListLog(LOG))
    async with open_views(place, (later,)) as new:
        with pytest.raises(StoreError, match="'names' is being built in version 2; try again when it has caught up"):
            await new.query("SELECT more FROM names")
        await catch_up(new, ListLog(LOG))
        assert await new.query("SELECT more FROM names") == []


@pytest.mark.parametrize(("name", "index"), [("order", "(name)"), ("names", "(nmae)"), ("names", "(name")])
async def test_a_table_that_the_database_does_not_understand_is_told(
    place: StorageLocation, name: str, index: str
) -> None:
    odd = Projection("odd", 1, (Table(name, NAMES.columns, indexes={"one": index}),), counted)
    with pytest.raises(InputError, match=f"table {name}: it cannot be made, see its names and indexes"):
        await open_views(place, (odd,)).open()
    async with view_of(LOG, place) as views:
        assert await contents(views) == await made_afresh(LOG)
