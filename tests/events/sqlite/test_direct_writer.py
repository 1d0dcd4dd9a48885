"""Who writes an append to a SQLite file: the event loop where the disk is quick, else a thread."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from tests.appending import append_to

from redraft.events.backends import open_recorder
from redraft.events.errors import Conflict
from redraft.events.sqlite.direct_writer import ENOUGH, MOST_BYTES, MOST_ROWS, TURN
from redraft.events.store.append import NewEvent
from redraft.events.store.event_store import EventStore

Notes = Callable[..., list[NewEvent]]
SURELY = 3600.0


class Counted(ThreadPoolExecutor):
    """A thread, and how often it was called; `called` is set then."""

    calls = 0

    def __init__(self) -> None:
        super().__init__(1)
        self.called = asyncio.Event()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.calls += 1
        self.called.set()
        return super().submit(fn, *args, **kwargs)


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[tuple[EventStore, Counted]]:
    writer = Counted()

    def threads(name: str) -> Executor:
        return writer if name == "redraft-write" else ThreadPoolExecutor(1)

    async with EventStore(open_recorder(f"sqlite:///{path}"), threads=threads) as store:
        yield store, writer


async def fill(store: EventStore, notes: Notes, number: int, run: str = "r") -> int:
    """Appends so many times, one event each; returns the version that the run has then."""
    for version in range(number):
        await append_to(store, run, version, notes(run, after=version))
    return number


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("redraft.events.sqlite.recorder.QUICK", SURELY)


@pytest.mark.usefixtures("quick")
async def test_small_appends_need_no_thread_once_enough_commits_were_quick(tmp_path: Path, notes: Notes) -> None:
    async with opened(tmp_path / "log.db") as (store, writer):
        version = await fill(store, notes, ENOUGH)
        assert writer.calls == ENOUGH
        (event,) = await append_to(store, "r", version, notes("r", after=version))
        assert writer.calls == ENOUGH
        assert event.position == version + 1
        assert [each.version for each in await store.read("r")] == list(range(1, version + 2))
        assert await store.verify("r") == version + 1


@pytest.mark.usefixtures("quick")
async def test_what_the_database_refuses_is_a_conflict_there_too(tmp_path: Path, notes: Notes) -> None:
    async with opened(tmp_path / "log.db") as (store, _):
        version = await fill(store, notes, ENOUGH)
        first = await append_to(store, "r", version, notes("r", after=version))
        again = await append_to(store, "r", version, notes("r", after=version))
        assert again == first, "the same append again is recorded once"
        with pytest.raises(Conflict):
            await append_to(store, "r", version, notes("r", after=version, by="other"))
        assert len(await store.read("r")) == version + 1


@pytest.mark.usefixtures("quick")
async def test_a_large_append_is_for_the_thread(tmp_path: Path, notes: Notes) -> None:
    async with opened(tmp_path / "log.db") as (store, writer):
        await fill(store, notes, ENOUGH)
        before = writer.calls
        await append_to(store, "many", 0, notes("many", MOST_ROWS + 1))
        assert writer.calls == before + 1
        await append_to(store, "long", 0, notes("long", text="x" * MOST_BYTES))
        assert writer.calls == before + 2


async def test_a_slow_disk_is_for_the_thread(
    tmp_path: Path, notes: Notes, monkeypatch: pytest.MonkeyPatch, quick: None
) -> None:
    async with opened(tmp_path / "log.db") as (store, writer):
        version = await fill(store, notes, ENOUGH)
        monkeypatch.setattr("redraft.events.sqlite.recorder.QUICK", 0.0)
        for _ in range(3):  # the first of them shows that the disk has become slow
            await append_to(store, "r", version, notes("r", after=version))
            version += 1
        assert writer.calls == version - 1
        monkeypatch.setattr("redraft.events.sqlite.recorder.QUICK", SURELY)
        for _ in range(ENOUGH + 1):
            await append_to(store, "r", version, notes("r", after=version))
            version += 1
        assert writer.calls == version - 2


class Clock:
    """Stands in for `time`: between two looks at it, `step` seconds go by."""

    def __init__(self) -> None:
        self.step = 0.000_5
        self._now = 0.0

    def perf_counter(self) -> float:
        self._now += self.step
        return self._now


async def test_one_slow_commit_among_quick_ones_gives_nothing_back(
    tmp_path: Path, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr("redraft.events.sqlite.recorder.time", clock)
    async with opened(tmp_path / "log.db") as (store, writer):
        version = await fill(store, notes, ENOUGH)
        for clock.step in (0.02, 0.000_5, 0.000_5):
            await append_to(store, "r", version, notes("r", after=version))
            version += 1
        assert writer.calls == ENOUGH
        for clock.step in (0.02, 0.000_5, 0.000_5):  # another one so soon shows that the disk has become slow
            await append_to(store, "r", version, notes("r", after=version))
            version += 1
        assert writer.calls == ENOUGH + 2


@pytest.mark.usefixtures("quick")
async def test_while_another_process_holds_the_file_the_event_loop_goes_on(tmp_path: Path, notes: Notes) -> None:
    async with opened(tmp_path / "log.db") as (store, writer):
        version = await fill(store, notes, ENOUGH)
        writer.called.clear()
        with closing(sqlite3.connect(tmp_path / "log.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            waiting = asyncio.ensure_future(append_to(store, "r", version, notes("r", after=version)))
            async with asyncio.timeout(60):
                await writer.called.wait()  # the event loop did not wait for the file
            assert not waiting.done()
            other.execute("ROLLBACK")
        (event,) = await waiting
        assert event.version == version + 1


@pytest.mark.check
@pytest.mark.usefixtures("quick")
async def test_the_write_ahead_log_does_not_grow_without_end(tmp_path: Path, notes: Notes) -> None:
    async with opened(tmp_path / "log.db") as (store, writer):
        version = await fill(store, notes, 20 * TURN)
        assert writer.calls < version / 2
        assert (tmp_path / "log.db-wal").stat().st_size < 8 * 1024 * 1024
