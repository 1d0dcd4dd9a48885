"""Which appends go into one transaction, who waits for it, and who is told of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

import pytest
from tests.appending import chained
from tests.events.store.test_commit import Faulty

from redraft.events.errors import Conflict, StoreError
from redraft.events.store.append import CommittedAppend, Encoded, NewEvent, NewRow
from redraft.events.store.event_store import thread
from redraft.events.store.group_commit import Committer, Inline
from redraft.events.store.recorder import DirectWriter, IntegrityError, OperationalError, PersistenceError, Then

Notes = Callable[..., list[NewEvent]]


class Held(Executor):
    """Does what is submitted when it is told to."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        self.waiting.append(lambda: done.set_result(fn(*args, **kwargs)))
        return done

    async def go_on(self) -> None:
        """Does what was submitted first, and lets others know."""
        self.waiting.pop(0)()
        for _ in range(3):
            await asyncio.sleep(0)


class Direct:
    """A direct writer that answers when it is told to."""

    def __init__(self, *, takes: bool = True) -> None:
        self.takes = takes
        self.begun: list[tuple[list[str], Then]] = []

    def begin(self, rows: Sequence[NewRow], then: Then) -> bool:
        if self.takes:
            self.begun.append(([row.originator_id for row in rows], then))
        return self.takes

    def close(self) -> None:
        """Nothing is held."""


class Told:
    """What a committer tells of: run and position of the first event of each append, call by call."""

    def __init__(self) -> None:
        self.calls: list[list[tuple[str, int]]] = []

    def __call__(self, landed: Sequence[CommittedAppend]) -> None:
        self.calls.append([(each.events[0].run, each.events[0].position) for each in landed])


class Bench:
    """A committer, with its recorder, and what it told of."""

    def __init__(self, executor: Executor | None = None, direct: DirectWriter | None = None) -> None:
        self.recorder = Faulty()
        self.told = Told()
        self.committer = Committer(self.recorder, "here", executor or Inline(), self.told, direct)

    def groups(self) -> list[list[str]]:
        """The runs of the rows that went into each transaction."""
        return [[run for run, _ in each] for each in self.recorder.given]


def append(notes: Notes, run: str, count: int = 1) -> Encoded:
    return chained(run, notes(run, count))[0]


def positions(results: Sequence[object]) -> list[list[int]]:
    """Of the events of each append; fails where one was not recorded."""
    assert all(isinstance(each, tuple) for each in results), results
    return [[event.position for event in each] for each in results]  # type: ignore[attr-defined]


async def test_appends_of_one_turn_of_the_loop_go_into_one_transaction(notes: Notes) -> None:
    bench = Bench()
    first = bench.committer.submit([append(notes, "a", 2), append(notes, "b")])
    second = bench.committer.submit([append(notes, "c")])
    assert bench.groups() == []
    assert positions(await first) == [[1, 2], [3]]
    assert positions(await second) == [[4]]
    assert bench.groups() == [["a", "a", "b", "c"]]
    assert bench.told.calls == [[("a", 1), ("b", 3), ("c", 4)]]
    assert positions(await bench.committer.submit([append(notes, "d")])) == [[5]]
    assert bench.groups()[1:] == [["d"]]


async def test_what_is_to_be_written_at_once_waits_for_nobody(notes: Notes) -> None:
    bench = Bench()
    assert bench.committer.submit([append(notes, "a")], at_once=True).done()
    waiting = bench.committer.submit([append(notes, "b")])
    assert not waiting.done()
    assert not bench.committer.submit([append(notes, "c")], at_once=False).done()
    await bench.committer.drain()
    assert waiting.done()
    assert bench.groups() == [["a"], ["b", "c"]]


async def test_a_transaction_has_only_so_many_events_and_what_was_handed_in_at_once_is_never_split(
    notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redraft.events.store.group_commit.GROUP_EVENTS", 3)
    bench = Bench()
    sizes = {"a": 2, "b": 1, "c": 1, "d": 5, "e": 3, "f": 1}
    done = [bench.committer.submit([append(notes, run, count)]) for run, count in sizes.items()]
    await asyncio.gather(*done)
    assert [sorted(set(each)) for each in bench.groups()] == [["a", "b"], ["c"], ["d"], ["e"], ["f"]]
    assert [len(each) for each in bench.groups()] == [3, 1, 5, 3, 1]


async def test_what_comes_while_a_transaction_is_under_way_makes_the_next(notes: Notes) -> None:
    held = Held()
    bench = Bench(held)
    first = bench.committer.submit([append(notes, "a")], at_once=True)
    later = [bench.committer.submit([append(notes, run)], at_once=run == "c") for run in "bc"]
    await asyncio.sleep(0)
    assert len(held.waiting) == 1
    await held.go_on()
    assert first.done()
    assert not any(each.done() for each in later)
    assert len(held.waiting) == 1
    drained = asyncio.ensure_future(bench.committer.drain())
    await asyncio.sleep(0)
    assert not drained.done()
    await held.go_on()
    assert [positions(await each) for each in later] == [[[2]], [[3]]]
    await asyncio.wait_for(drained, 60)
    assert bench.groups() == [["a"], ["b", "c"]]
    assert held.waiting == []


async def test_how_long_the_oldest_append_waits_is_known(notes: Notes) -> None:
    executor = Held()
    bench = Bench(executor)
    underway = bench.committer.underway
    assert underway.longest() == 0
    first = bench.committer.submit([append(notes, "a")], at_once=True)
    while not (waited := underway.longest()):  # noqa: ASYNC110
        await asyncio.sleep(0)
    second = bench.committer.submit([append(notes, "b")])
    assert underway.longest() >= waited
    await executor.go_on()
    await first
    assert underway.longest() > 0
    await executor.go_on()
    await second
    assert underway.longest() == 0


async def test_there_is_nothing_to_wait_for_where_nothing_was_handed_in(notes: Notes) -> None:
    bench = Bench()
    await asyncio.wait_for(bench.committer.drain(), 60)
    await bench.committer.submit([append(notes, "a")])
    await asyncio.wait_for(bench.committer.drain(), 60)


async def test_who_no_longer_waits_holds_up_nobody_and_others_are_told_of_what_was_recorded(notes: Notes) -> None:
    bench = Bench()
    gone, there = (bench.committer.submit([append(notes, run)]) for run in "ab")
    gone.cancel()
    assert positions(await there) == [[2]]
    assert bench.told.calls == [[("a", 1), ("b", 2)]]


async def test_conflicts_and_failures_are_results_and_nobody_is_told_of_them(notes: Notes) -> None:
    bench = Bench()
    await bench.committer.submit([append(notes, "b")])
    theirs = chained("b", notes("b", by="them"))[0]
    there, conflict = await bench.committer.submit([append(notes, "a"), theirs])
    assert positions([there]) == [[2]]
    assert isinstance(conflict, Conflict)
    bench.recorder.before = [OperationalError("no room")]
    (failed,) = await bench.committer.submit([append(notes, "c")])
    assert isinstance(failed, StoreError)
    assert str(failed) == "store here: no room"
    assert bench.told.calls == [[("b", 1)], [("a", 2)], []]


async def test_others_are_told_in_the_order_of_the_log(notes: Notes) -> None:
    """What was recorded before, its answer lost, stands before what is handed in with it."""
    bench = Bench()
    old = append(notes, "z")
    await bench.committer.submit([old])
    new = append(notes, "a")
    assert positions(await bench.committer.submit([new, old])) == [[2], [1]]
    assert bench.told.calls[1:] == [[("z", 1), ("a", 2)]]


async def test_an_error_that_nobody_expects_is_told_to_all_who_wait_and_the_next_are_recorded(notes: Notes) -> None:
    bench = Bench()
    bench.recorder.before = [ValueError("a defect")]
    first, second = (bench.committer.submit([append(notes, run)]) for run in "ab")
    for each in (first, second):
        with pytest.raises(ValueError, match="a defect"):
            await each
    assert positions(await bench.committer.submit([append(notes, "a")])) == [[1]]


async def test_an_append_of_which_nothing_is_known_is_lost(notes: Notes) -> None:
    class Idle(Executor):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            done: Future[Any] = Future()
            done.set_result(None)
            return done

    (lost,) = await Bench(Idle()).committer.submit([append(notes, "a")])
    assert isinstance(lost, StoreError)
    assert str(lost) == "store here: the append of run a got lost"


async def test_a_thread_writes_and_the_loop_tells(notes: Notes) -> None:
    with ThreadPoolExecutor(1) as thread:
        bench = Bench(thread)
        told = await asyncio.gather(*(bench.committer.submit([append(notes, run)]) for run in "abc"))
        assert [positions(each) for each in told] == [[[1]], [[2]], [[3]]]
        bench.recorder.before = [ValueError("a defect")]
        with pytest.raises(ValueError, match="a defect"):
            await bench.committer.submit([append(notes, "d")])
        await asyncio.wait_for(bench.committer.drain(), 60)


async def test_a_direct_writer_writes_and_says_where(notes: Notes) -> None:
    direct, held = Direct(), Held()
    bench = Bench(held, direct)
    done = bench.committer.submit([append(notes, "a", 2), append(notes, "b")], at_once=True)
    later = bench.committer.submit([append(notes, "c")])
    ((runs, then),) = direct.begun
    assert runs == ["a", "a", "b"]
    then([4, 5, 7])
    assert positions(await done) == [[4, 5], [7]]
    assert bench.told.calls == [[("a", 4), ("b", 7)]]
    assert [runs for runs, _ in direct.begun[1:]] == [["c"]]
    direct.begun[1][1]([9])
    assert positions(await later) == [[9]]
    assert held.waiting == []


@pytest.mark.parametrize("error", [OperationalError("cut off"), IntegrityError("refused")])
async def test_what_a_direct_writer_could_not_do_is_looked_at_by_the_thread(
    notes: Notes, error: PersistenceError
) -> None:
    direct = Direct()
    bench = Bench(Inline(), direct)
    done = bench.committer.submit([append(notes, "a"), append(notes, "b")], at_once=True)
    direct.begun[0][1](error)
    results = await done
    if isinstance(error, IntegrityError):
        assert positions(results) == [[1], [2]]
        assert bench.groups() == [["a"], ["b"]], "each by itself, and not once more together"
    else:
        assert [str(each) for each in results] == ["store here: cut off"] * 2
        assert bench.groups() == []


class NoDescriptor(Direct):
    """A direct writer that cannot begin the first time, and takes nothing later."""

    def begin(self, rows: Sequence[NewRow], then: Then) -> bool:
        if self.takes:
            self.takes = False
            raise OSError(24, "Too many open files")
        return False


@pytest.mark.parametrize("at_once", [True, False])
async def test_appends_that_cannot_begin_fail_and_later_ones_are_written(notes: Notes, at_once: bool) -> None:
    bench = Bench(Inline(), NoDescriptor())
    async with asyncio.timeout(60):
        with pytest.raises(StoreError, match=r"^store here: .*Too many open files"):
            await bench.committer.submit([append(notes, "a")], at_once=at_once)
        assert positions(await bench.committer.submit([append(notes, "b")])) == [[1]]
        await bench.committer.drain()
    assert bench.groups() == [["b"]]


def test_the_thread_of_a_store_is_there_before_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot_start(started: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    executor = thread("redraft-test")
    try:
        monkeypatch.setattr(threading.Thread, "start", cannot_start)
        assert executor.submit(divmod, 7, 2).result(60) == (3, 1)
    finally:
        executor.shutdown()


async def test_what_a_direct_writer_does_not_take_the_thread_writes(notes: Notes) -> None:
    bench = Bench(Inline(), Direct(takes=False))
    assert positions(await bench.committer.submit([append(notes, "a")])) == [[1]]
    assert bench.groups() == [["a"]]


def test_what_is_done_inline_is_done_at_once_and_so_are_its_errors() -> None:
    assert Inline().submit(divmod, 7, 2).result(0) == (3, 1)
    assert Inline().submit(int, "11", base=2).result(0) == 3
    failed = Inline().submit(divmod, 7, 0)
    assert failed.done()
    assert isinstance(failed.exception(0), ZeroDivisionError)
