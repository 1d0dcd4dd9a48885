"""A projection that cannot take an event stops there, alone, and goes on when it is mended."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from msgspec.structs import replace
from tests.projections.logs import ListLog, busy_log, contents, fill, made_afresh

from redraft.events.backends import open_store
from redraft.events.errors import StoreError
from redraft.events.messages.envelope import Recorded, Unreadable
from redraft.projections.backends import SHIPPED, open_views
from redraft.projections.engine.projection import Change, Fold, Projection, Put, Row, Set, Table, unchanged
from redraft.projections.engine.projector import catch_up, follow, rebuild
from redraft.projections.engine.states import Resumed, SetAside, Stopped
from redraft.projections.engine.storage import StorageLocation
from redraft.projections.engine.views import Views
from redraft.projections.engine.writer import Notice
from redraft.projections.read_models.runs import RUNS
from redraft.projections.read_models.steps import STEPS

LOG = busy_log(12)
BAD = 77
COUNTS = Table("counts", {"name": "TEXT NOT NULL", "count": "INTEGER NOT NULL"})


def counted(event: Recorded) -> tuple[Change, ...]:
    return (Set("counts", (event.name,), {}, {"count": 1}, new={"name": event.name, "count": 0}),)


def raising(event: Recorded) -> Iterable[Change]:
    yield from counted(event)
    raise LookupError("no such thing")


def nothing_where_something_must_be(event: Recorded) -> Iterable[Change]:
    return (Put("counts", {"name": "x", "count": None}),)


def another_table(event: Recorded) -> Iterable[Change]:
    return (Put("cuonts", {"name": "x", "count": 1}),)


def too_large(event: Recorded) -> Iterable[Change]:
    return (Put("counts", {"name": "x", "count": 2**70}),)


def lone_surrogate(event: Recorded) -> Iterable[Change]:
    return (Put("counts", {"name": "\ud800", "count": 1}),)


def no_change(event: Recorded) -> Iterable[Change]:
    return ("nonsense",)  # type: ignore[return-value]


def missing_file(event: Recorded) -> Iterable[Change]:
    return (Put("counts", {"name": Path("/nowhere/of/its/own").read_text(), "count": 1}),)


def missing_file_while_read(event: Recorded) -> Iterable[Change]:
    yield from missing_file(event)


def missing_file_in_a_fold(event: Recorded) -> Iterable[Fold]:
    return (Fold("counts", ("x",), lambda row: (_ for _ in ()).throw(FileNotFoundError("no price list"))),)


def missing_file_after_a_fold(event: Recorded) -> Iterable[Fold]:
    return (Fold("counts", ("x",), lambda row: ({"name": "x", "count": 1}, missing_file_while_read(event))),)


def store_of_its_own(event: Recorded) -> Iterable[Change]:
    raise StoreError("its own store is away")


def file_of_its_own(event: Recorded) -> Iterable[Change]:
    with closing(sqlite3.connect(":memory:")) as connection:
        return [Put("counts", {"name": name, "count": 1}) for (name,) in connection.execute("SELECT * FROM nowhere")]


def server_of_its_own(event: Recorded) -> Iterable[Change]:
    raise psycopg.OperationalError("its own server is away")


def ending_quietly(event: Recorded) -> Iterable[Change]:
    raise StopIteration


def saying_nothing(event: Recorded) -> Iterable[Change]:
    raise Mute


def saying_what_no_database_takes(event: Recorded) -> Iterable[Change]:
    raise LookupError("lone \ud800, zero \0")


def in_a_file_whose_name_no_database_takes(event: Recorded) -> Iterable[Change]:
    exec(compile("raise LookupError('no such thing')", "own\udcff.py", "exec"))  # noqa: S102
    return ()


class Mute(LookupError):
    """An error that cannot be told."""

    def __str__(self) -> str:
        raise ValueError("nor can this")


class PanicException(BaseException):
    """What a panic of a library in Rust is: no Exception."""


def panicking(event: Recorded) -> Iterable[Change]:
    raise PanicException("index out of bounds")


def leaving(event: Recorded) -> Iterable[Change]:
    sys.exit(1)


FAULTS = [
    (missing_file, "FileNotFoundError: [Errno 2] No such file or directory"),
    (missing_file_while_read, "FileNotFoundError: [Errno 2] No such file or directory"),
    (missing_file_in_a_fold, "FileNotFoundError: no price list (test_stopped.py, line "),
    (missing_file_after_a_fold, "FileNotFoundError: [Errno 2] No such file or directory"),
    (store_of_its_own, "StoreError: its own store is away (test_stopped.py, line "),
    (file_of_its_own, "OperationalError: no such table: nowhere (test_stopped.py, line "),
    (server_of_its_own, "OperationalError: its own server is away (test_stopped.py, line "),
    (ending_quietly, "StopIteration (test_stopped.py, line "),
    (panicking, "PanicException: index out of bounds (test_stopped.py, line "),
    (leaving, "SystemExit: 1 (test_stopped.py, line "),
    (saying_nothing, "Mute (test_stopped.py, line "),
    (saying_what_no_database_takes, "LookupError: lone , zero (test_stopped.py, line "),
    (in_a_file_whose_name_no_database_takes, "LookupError: no such thing (own .py, line 1)"),
    (raising, "LookupError: no such thing (test_stopped.py, line "),
    (nothing_where_something_must_be, ""),
    (another_table, "ValueError: there is no table 'cuonts' in this projection; there are counts"),
    (too_large, ""),
    (lone_surrogate, "UnicodeEncodeError"),
    (no_change, "AttributeError"),
]


def failing(fault: Callable[[Recorded], Iterable[Change | Fold]], at: int = BAD, version: int = 1) -> Projection:
    """A projection that counts events, and fails at one."""
    return Projection("counts", version, (COUNTS,), lambda event: (fault if event.position == at else counted)(event))


MENDED = Projection("counts", 1, (COUNTS,), counted)


async def total(views: Views) -> int:
    ((count,),) = await views.query("SELECT sum(count) FROM counts")
    return int(count or 0)


@pytest.mark.parametrize(("fault", "said"), FAULTS, ids=[fault.__name__ for fault, _ in FAULTS])
async def test_it_stops_alone_before_the_event_and_keeps_the_reason(
    place: StorageLocation, fault: Callable[[Recorded], Iterable[Change | Fold]], said: str
) -> None:
    told: list[Notice] = []
    async with open_views(place, (failing(fault), RUNS), told.append) as views:
        assert await catch_up(views, ListLog(LOG)) == views.position == len(LOG)
        assert await views.query("SELECT * FROM runs ORDER BY run") == (await made_afresh(LOG))["runs"]
        assert await total(views) == BAD - 1
        mark = (await views.checkpoints())["counts"]
        assert (mark.position, mark.failed) == (BAD - 1, BAD)
        assert mark.error
        assert said in mark.error
        assert "\n" not in mark.error
        assert told == [Stopped("counts", BAD - 1, BAD, mark.error)]


async def test_it_goes_on_when_it_is_mended_and_started_again(place: StorageLocation) -> None:
    async with open_views(place, (failing(raising), RUNS)) as views:
        await catch_up(views, ListLog(LOG))
    told: list[Notice] = []
    async with open_views(place, (failing(raising), RUNS), told.append) as views:
        await catch_up(views, ListLog(LOG))  # a process that is started tries again
        assert [type(each) for each in told] == [Stopped]
        assert await total(views) == BAD - 1
    async with open_views(place, (MENDED, RUNS), told.append) as views:
        await catch_up(views, ListLog(LOG))
        assert await total(views) == len(LOG)
        assert (await views.checkpoints())["counts"][3:] == (0, "")
        assert told[1:] == [Resumed("counts", len(LOG))]


async def test_it_goes_on_when_it_is_mended_by_a_new_version(place: StorageLocation) -> None:
    async with open_views(place, (failing(raising), RUNS)) as views:
        await catch_up(views, ListLog(LOG))
    mended = Projection("counts", 2, (COUNTS,), counted)
    async with open_views(place, (mended, RUNS)) as views:
        await catch_up(views, ListLog(LOG))
        assert await total(views) == len(LOG)
        assert (await views.checkpoints())["counts"][3:] == (0, "")


async def test_a_new_version_that_fails_leaves_the_old_rows_to_be_read(place: StorageLocation) -> None:
    async with open_views(place, (MENDED,)) as views:
        await catch_up(views, ListLog(LOG))
    async with open_views(place, (failing(raising, version=2), RUNS)) as views:
        await catch_up(views, ListLog(LOG))
        assert await total(views) == len(LOG)
        (state, runs) = await views.states()
        assert runs.position == len(LOG)
        assert (state.version, state.failed) == (1, 0)
        assert state.building
        assert (state.building.version, state.building.position, state.building.failed) == (2, BAD - 1, BAD)


async def test_a_rebuild_of_what_fails_stops_and_leaves_the_old_rows(place: StorageLocation) -> None:
    async with open_views(place, (MENDED, RUNS)) as views:
        await catch_up(views, ListLog(LOG))
    async with open_views(place, (failing(raising), RUNS)) as views:
        assert await rebuild(views, ListLog(LOG)) == len(LOG)
        assert await total(views) == len(LOG)
        (state, _) = await views.states()
        assert state.building
        assert state.building.failed == BAD


async def test_a_rebuild_of_what_failed_at_the_first_event_stops_there_again_and_the_others_are_rebuilt(
    place: StorageLocation,
) -> None:
    never = Projection("counts", 1, (COUNTS,), raising)
    for _ in range(2):
        told: list[Notice] = []
        async with open_views(place, (never, RUNS), told.append) as views, asyncio.timeout(60):
            assert await rebuild(views, ListLog(LOG)) == len(LOG)
            state, runs = await views.states()
            assert (state.position, state.failed, state.building) == (0, 1, None)
            assert (runs.position, runs.failed, runs.building) == (len(LOG), 0, None)
            assert [type(each) for each in told].count(Stopped) == 1
    async with open_views(place, (MENDED, RUNS)) as views:
        await rebuild(views, ListLog(LOG))
        assert await total(views) == len(LOG)


@pytest.mark.parametrize("at", [1, BAD, len(LOG)])
@pytest.mark.parametrize("refused", [{"name": "x", "count": None}, {"name": "x", "count": 2**63}])
async def test_rows_that_the_place_refuses_stop_their_projection_among_all_the_others(
    anywhere: StorageLocation, at: int, refused: Row
) -> None:
    told: list[Notice] = []
    culprit = failing(lambda event: (Put("counts", refused),), at)
    async with open_views(anywhere, (*SHIPPED[:4], culprit, *SHIPPED[4:]), told.append) as views:
        assert await catch_up(views, ListLog(LOG)) == len(LOG)
        assert await contents(views) == await made_afresh(LOG)
        assert await total(views) == at - 1
        positions = {name: mark.position for name, mark in (await views.checkpoints()).items()}
    assert positions == {"counts": at - 1} | {each.name: len(LOG) for each in SHIPPED}
    assert [(type(each), each.projection) for each in told] == [(Stopped, "counts")]


async def test_two_that_are_refused_at_once_stop_both(anywhere: StorageLocation) -> None:
    def refused(event: Recorded) -> Iterable[Change]:
        return (Put("others", {"name": str(event.position), "count": None if event.position == BAD + 9 else 1}),)

    others = Projection("others", 1, (replace(COUNTS, name="others"),), refused)
    projections = (RUNS, others, failing(nothing_where_something_must_be), STEPS)
    async with open_views(anywhere, projections) as views:
        assert await catch_up(views, ListLog(LOG)) == len(LOG)
        positions = {name: mark.position for name, mark in (await views.checkpoints()).items()}
    assert positions == {"runs": len(LOG), "steps": len(LOG), "counts": BAD - 1, "others": BAD + 8}


@pytest.mark.parametrize("at", [1, 2, 19, 20, 21, 40, len(LOG)])
async def test_it_stops_at_the_very_event_whatever_the_batches(anywhere: StorageLocation, at: int) -> None:
    async with open_views(anywhere, (failing(raising, at), RUNS)) as views:
        for start in range(0, len(LOG), 20):
            await views.write(LOG[start : start + 20], start)
        mark = (await views.checkpoints())["counts"]
        assert (mark.position, mark.failed) == (at - 1, at)
        assert await total(views) == at - 1
        assert (await views.checkpoints())["runs"].position == len(LOG)


async def test_all_may_stop(place: StorageLocation) -> None:
    async with open_views(place, (failing(raising),)) as views, asyncio.timeout(20):
        await catch_up(views, ListLog(LOG))
        with pytest.raises(StoreError, match=f"'counts' has stopped at event {BAD}: LookupError"):
            await views.wait_for(BAD)
        assert await catch_up(views, ListLog(LOG)) == len(LOG)
        assert await total(views) == BAD - 1


async def test_a_follower_goes_on_with_the_others(tmp_path: Path, place: StorageLocation) -> None:
    async with (
        open_store(f"sqlite:///{tmp_path}/log.db", poll=0.02) as store,
        open_views(place, (failing(raising), RUNS)) as views,
        asyncio.timeout(60),
    ):
        following = asyncio.create_task(follow(views, store))
        for start in range(0, len(LOG), 10):
            await fill(store, LOG[start : start + 10])
        while (await views.checkpoints())["runs"].position < len(LOG):
            await views.changed(views.position)
        assert await views.query("SELECT * FROM runs ORDER BY run") == (await made_afresh(LOG))["runs"]
        assert await total(views) == BAD - 1
        following.cancel()


async def test_it_goes_on_here_when_another_process_has_passed_the_event(place: StorageLocation) -> None:
    async with open_views(place, (failing(raising), RUNS)) as here, open_views(place, (MENDED,)) as there:
        await here.write(LOG[:100], 0)
        await there.write(LOG[BAD - 1 : 90], BAD - 1)
        await catch_up(here, ListLog(LOG))
        assert await total(here) == len(LOG)


async def test_an_error_of_the_place_is_nobodys_fault(place: StorageLocation, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_views(place, (MENDED, RUNS)) as views:
        await views.write(LOG[:40], 0)

        def refuse(*arguments: object) -> None:
            raise OSError(5, "the disk is gone")

        with monkeypatch.context() as patch:
            patch.setattr("redraft.projections.engine.row_cache.RowCache.write", refuse)
            with pytest.raises((StoreError, OSError)):
                await views.write(LOG[40:], 40)
        assert {name: (mark.position, mark.failed) for name, mark in (await views.checkpoints()).items()} == {
            "counts": (40, 0),
            "runs": (40, 0),
        }
        await views.write(LOG[40:], 40)
        assert await total(views) == len(LOG)


def of_a_run(events: Sequence[Recorded]) -> Iterable[Change]:
    """Counts the events of a run; what it needs for one of them is missing."""
    for event in events:
        yield from (missing_file if event.position == BAD else counted)(event)


async def test_a_function_for_the_events_of_a_run_stops_alone_too(anywhere: StorageLocation) -> None:
    async with open_views(anywhere, (replace(MENDED, apply_run=of_a_run), RUNS)) as views:
        assert await catch_up(views, ListLog(LOG)) == len(LOG)
        mark = (await views.checkpoints())["counts"]
        assert (mark.position, mark.failed, await total(views)) == (BAD - 1, BAD, BAD - 1)


async def test_what_is_missing_for_one_event_sets_its_run_aside(anywhere: StorageLocation) -> None:
    told: list[Notice] = []
    careful = replace(failing(missing_file), aside=unchanged)
    async with open_views(anywhere, (careful, RUNS), told.append) as views:
        assert await catch_up(views, ListLog(LOG)) == views.position == len(LOG)
        assert [(type(each), each.position) for each in told if isinstance(each, SetAside)] == [(SetAside, BAD)]
        assert {name: mark.failed for name, mark in (await views.checkpoints()).items()} == {"counts": 0, "runs": 0}


async def test_it_stops_where_the_run_cannot_be_set_aside_either(anywhere: StorageLocation) -> None:
    def aside(entry: Unreadable) -> Iterable[Change]:
        raise FileNotFoundError("no price list")

    async with open_views(anywhere, (replace(failing(missing_file), aside=aside), RUNS)) as views:
        assert await catch_up(views, ListLog(LOG)) == len(LOG)
        mark = (await views.checkpoints())["counts"]
        assert (mark.position, mark.failed, await total(views)) == (BAD - 1, BAD, BAD - 1)


def short_of_memory(*_: object) -> Iterable[Change]:
    raise MemoryError


@pytest.mark.parametrize("where", ["apply", "the rows"])
async def test_a_process_that_is_short_of_memory_is_nobodys_fault(
    anywhere: StorageLocation, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    told: list[Notice] = []
    lacking = [where == "apply"]
    counts = failing(lambda event: (short_of_memory if lacking[0] else counted)(event))
    async with open_views(anywhere, (replace(counts, aside=unchanged), RUNS), told.append) as views:
        with monkeypatch.context() as patch:
            if where == "the rows":
                patch.setattr("redraft.projections.engine.row_cache.RowCache.write", short_of_memory)
            with pytest.raises(MemoryError):
                await views.write(LOG, 0)
        assert {each.position for each in (await views.checkpoints()).values()} == {0}
        lacking[0] = False
        assert await catch_up(views, ListLog(LOG)) == len(LOG)
        assert (await total(views), told) == (len(LOG), [])
