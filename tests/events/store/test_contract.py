"""What every store keeps, whatever its recorder: appends, conflicts, chains, reads. See `conftest.LOGS`."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Protocol

import msgspec
import pytest
from tests.appending import append_to, chained

from redraft.app.testing.storage import SimRecorder
from redraft.events.errors import CodecError, Conflict, NoSuchRun, StoreError
from redraft.events.messages.codec import GENESIS
from redraft.events.messages.content import Critique, DraftRef
from redraft.events.messages.domain_events import DomainEvent, DraftCritiqued, RunEnded, StepFailed
from redraft.events.messages.envelope import Origin, Recorded
from redraft.events.messages.usage import Usage
from redraft.events.store.event_store import Append, EventStore, NewEvent
from redraft.events.store.group_commit import GROUP_EVENTS
from redraft.events.store.recorder import MemoryRecorder, Opened

Notes = Callable[..., list[NewEvent]]


class Log(Protocol):
    def opened(self) -> Opened: ...
    def store(self, opened: Opened | None = None, poll: float = 0.02) -> EventStore: ...


async def whole(store: EventStore) -> list[Recorded]:
    return [event async for batch in store.tail(0, follow=False, limit=7) for event in batch]


def counted(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the groups that are written through this recorder, as they come."""
    sizes: list[int] = []
    insert = opened.recorder.insert_events

    def counting(rows: list[object]) -> object:
        sizes.append(len(rows))
        return insert(rows)  # type: ignore[arg-type]

    def counting_direct(rows: list[object], then: object) -> bool:
        accepts = begin(rows, then)
        if accepts:
            sizes.append(len(rows))
        return accepts

    monkeypatch.setattr(opened.recorder, "insert_events", counting)
    if opened.direct is not None:
        begin = opened.direct.begin
        monkeypatch.setattr(opened.direct, "begin", counting_direct)
    return sizes


async def test_what_is_appended_is_what_is_read(log: Log, notes: Notes) -> None:
    async with log.store() as store:
        first = await append_to(store, "a", 0, notes("a", 3))
        other = await append_to(store, "b", 0, notes("b", 1))
        second = await append_to(store, "a", 3, notes("a", 2, after=3))
        assert await store.read("a") == first + second
        assert await store.read("b") == other
        assert await whole(store) == [*first, *other, *second]
        assert [event.version for event in first + second] == [1, 2, 3, 4, 5]
        assert [event.position for event in (*first, *other, *second)] == [1, 2, 3, 4, 5, 6]
        assert await store.head() == 6
    async with log.store() as again:
        assert await again.read("a") == first + second


async def test_an_event_carries_all_that_it_was_given(log: Log, notes: Notes) -> None:
    async with log.store() as store:
        origin = Origin("id-1", "judge", "cause", "start", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
        time = notes("a")[0].time
        await append_to(store, "a", 0, [NewEvent(origin, time, StepFailed("Loop", 1, "error", "Grüße, 京都 🌊\0\n"))])
        (event,) = await store.read("a")
        assert (event.id, event.actor, event.causation, event.correlation, event.trace) == (
            origin.id,
            origin.actor,
            origin.causation,
            origin.correlation,
            origin.trace,
        )
        assert (event.run, event.name, event.time) == ("a", "step.failed.v1", time)
        assert event.data == StepFailed("Loop", 1, "error", "Grüße, 京都 🌊\0\n")


async def test_each_event_holds_the_hash_of_the_one_before_it_in_its_run(log: Log, notes: Notes) -> None:
    async with log.store() as store:
        for version in range(4):
            await append_to(store, "a", version, notes("a", after=version))
            await append_to(store, "b", version, notes("b", after=version))
        events = await store.read("a")
        assert events[0].previous == GENESIS
        assert all(after.previous == before.hash for before, after in pairwise(events))
        assert len({event.hash for event in events + await store.read("b")}) == 8
        assert await store.verify("a") == 4


async def test_a_part_of_a_run_can_be_read(log: Log, notes: Notes) -> None:
    async with log.store() as store:
        events = await append_to(store, "a", 0, notes("a", 5))
        assert await store.read("a", upto=2) == events[:2]
        assert await store.read("a", after=3) == events[3:]
        assert await store.read("a", upto=4, after=2) == events[2:4]
        assert await store.read("a", upto=0) == ()
        assert await store.read("a", after=5) == ()


async def test_an_unknown_run_has_no_events_and_cannot_be_verified(log: Log) -> None:
    async with log.store() as store:
        assert await store.read("nobody") == ()
        assert await store.head() == 0
        with pytest.raises(NoSuchRun, match="nobody"):
            await store.verify("nobody")


@pytest.mark.parametrize("expected", [0, 1, 3, 7])
@pytest.mark.parametrize("fresh", [False, True], ids=["same store", "fresh store"])
async def test_an_append_at_another_version_than_the_end_is_a_conflict(
    log: Log, notes: Notes, expected: int, fresh: bool
) -> None:
    async with log.store() as store, log.store() as other:
        events = await append_to(store, "a", 0, notes("a", 2))
        asked = other if fresh else store
        with pytest.raises(Conflict) as caught:
            await append_to(asked, "a", expected, notes("a", after=expected, by="late"))
        assert (caught.value.run, caught.value.expected) == ("a", expected)
        assert await asked.read("a") == events
        assert len(await append_to(asked, "a", 2, notes("a", after=2))) == 1


async def test_the_first_append_of_a_run_cannot_leave_a_gap(log: Log, notes: Notes) -> None:
    async with log.store() as store:
        with pytest.raises(Conflict):
            await append_to(store, "a", 1, notes("a"))
        assert await whole(store) == []


async def test_two_stores_take_turns_with_one_run(log: Log, notes: Notes) -> None:
    async with log.store() as one, log.store() as two:
        for version in range(6):
            await append_to(one if version % 2 else two, "a", version, notes("a", after=version))
        with pytest.raises(Conflict):
            await append_to(one, "a", 5, notes("a", after=5, by="late"))
        assert await one.verify("a") == await two.verify("a") == 6


async def test_an_append_costs_no_read(log: Log, notes: Notes, monkeypatch: pytest.MonkeyPatch) -> None:
    """It names what it builds on, whoever wrote that."""
    opened = log.opened()
    reads: list[str] = []
    select = opened.recorder.select_events

    def counting(run: str, **options: Any) -> object:
        reads.append(run)
        return select(run, **options)

    monkeypatch.setattr(opened.recorder, "select_events", counting)
    async with log.store(opened) as store, log.store() as other:
        last = GENESIS
        for version in range(6):
            (event,) = await (other if version % 3 else store).append("a", version, notes("a", after=version), last)
            last = event.hash
        assert reads == []


async def test_of_many_appends_at_one_version_one_wins(log: Log, notes: Notes) -> None:
    async with log.store() as one, log.store() as two:
        tries = [append_to((one, two)[n % 2], "a", 0, notes("a", 2, by=f"try-{n}")) for n in range(20)]
        results = await asyncio.gather(*tries, return_exceptions=True)
        (won,) = [result for result in results if not isinstance(result, Conflict)]
        assert won == await one.read("a") == await two.read("a")


async def test_appends_of_one_turn_share_a_transaction(log: Log, notes: Notes, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = log.opened()
    groups = counted(opened, monkeypatch)
    async with log.store(opened) as store:
        results = await asyncio.gather(*(append_to(store, f"r{n}", 0, notes(f"r{n}", 2)) for n in range(30)))
        assert groups == [60]
        assert [event for result in results for event in result] == await whole(store)


async def test_a_group_is_bounded(log: Log, notes: Notes, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = log.opened()
    groups = counted(opened, monkeypatch)
    async with log.store(opened) as store:
        await asyncio.gather(*(append_to(store, f"r{n}", 0, notes(f"r{n}", 100)) for n in range(12)))
        assert sum(groups) == 1200
        assert max(groups) <= GROUP_EVENTS
        assert len(groups) == 3


async def test_a_conflict_in_a_group_fails_no_neighbour(log: Log, notes: Notes) -> None:
    async with log.store() as store, log.store() as other:
        await append_to(store, "b", 0, notes("b"))
        await append_to(other, "b", 1, notes("b", after=1, by="other"))
        results = await asyncio.gather(
            append_to(store, "a", 0, notes("a", 2)),
            append_to(store, "b", 1, notes("b", after=1)),
            append_to(store, "c", 0, notes("c", 2)),
            return_exceptions=True,
        )
        assert isinstance(results[1], Conflict)
        assert [results[0], results[2]] == [await store.read("a"), await store.read("c")]
        assert [event.actor for event in await store.read("b")] == ["test", "other"]


async def test_append_all_gives_a_conflict_as_a_value(log: Log, notes: Notes) -> None:
    async with log.store() as store, log.store() as other:
        (first,) = await append_to(store, "b", 0, notes("b"))
        await append_to(other, "b", 1, notes("b", after=1, by="other"))
        a, b, c = await store.append_all(
            [
                Append("a", 0, tuple(notes("a", 2))),
                Append("b", 1, tuple(notes("b", after=1)), first.hash),
                Append("c", 0, tuple(notes("c"))),
            ]
        )
        assert isinstance(b, Conflict)
        assert [a, c] == [await store.read("a"), await store.read("c")]
        assert await store.append_all([]) == []


async def test_appends_for_one_run_build_on_each_other(log: Log, notes: Notes) -> None:
    async with log.store() as store, log.store() as fresh:
        (start,) = await append_to(store, "a", 0, notes("a"))
        groups = [notes("a", 2, after=n) for n in (1, 3, 5)]
        results = await fresh.hand_in(chained("a", *groups, version=1, previous=start.hash))
        assert await store.read("a") == (start, *(event for result in results for event in _events(result)))
        assert await store.verify("a") == 7


async def test_what_was_decided_on_an_event_that_was_never_recorded_is_a_conflict(log: Log, notes: Notes) -> None:
    """Whoever was faster has filled the version that it expects, by another event than the one it was decided on."""
    async with log.store() as store, log.store() as other:
        (start,) = await append_to(store, "a", 0, notes("a"))
        mine = chained("a", notes("a", after=1), notes("a", after=2), version=1, previous=start.hash)
        await append_to(other, "a", 1, notes("a", after=1, by="other"))
        assert [type(result) for result in await store.hand_in(mine[:1])] == [Conflict]
        assert [type(result) for result in await store.hand_in(mine[1:])] == [Conflict]
        assert [event.actor for event in await store.read("a")] == ["test", "other"]
        assert len(await append_to(store, "a", 2, notes("a", after=2))) == 1


async def test_no_gap_is_left_where_what_was_built_on_a_conflict_comes_in_another_group(
    log: Log, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of X0 <- X1 <- X2 the first conflicts, the second is held back, and the third is on its way already."""
    monkeypatch.setattr("redraft.events.store.group_commit.GROUP_EVENTS", 1)
    async with log.store() as store, log.store() as other:
        (start,) = await append_to(store, "a", 0, notes("a"))
        groups = [notes("a", after=version) for version in (1, 2, 3)]
        mine = chained("a", *groups, version=1, previous=start.hash)
        await append_to(other, "a", 1, notes("a", after=1, by="other"))
        results = await asyncio.gather(*(store.hand_in([each]) for each in mine))
        assert [type(result) for (result,) in results] == [Conflict] * 3
        assert [event.version for event in await store.read("a")] == [1, 2]
        assert await store.verify("a") == 2


async def test_an_append_may_be_handed_in_before_the_one_it_builds_on_is_done(log: Log, notes: Notes) -> None:
    async with log.store() as store:
        tasks = []
        for number, append in enumerate(chained("a", *(notes("a", after=version) for version in range(40)))):
            tasks.append(asyncio.create_task(store.hand_in([append])))
            if number % 3 == 0:
                await asyncio.sleep(0)
        await asyncio.gather(*tasks)
        assert await store.verify("a") == 40


async def test_an_id_is_in_the_log_once(log: Log, notes: Notes) -> None:
    async with log.store() as store:
        (first,) = await append_to(store, "a", 0, notes("a"))
        again = [msgspec.structs.replace(notes("a", text="again")[0], origin=Origin(first.id, "other"))]
        for run, version, previous in (("a", 1, first.hash), ("b", 0, GENESIS)):
            with pytest.raises(Conflict):
                await store.append(run, version, again, previous)
        assert await store.head() == 1


async def test_handing_in_again_what_is_recorded_changes_nothing(log: Log, notes: Notes) -> None:
    async with log.store() as store, log.store() as fresh:
        first = await append_to(store, "a", 0, notes("a", 2))
        second = await append_to(store, "a", 2, notes("a", 1, after=2))
        for asked in (store, fresh):
            assert await append_to(asked, "a", 0, notes("a", 2)) == first
            assert await append_to(asked, "a", 2, notes("a", 1, after=2)) == second
            append = Append("a", 2, tuple(notes("a", 1, after=2)), first[-1].hash)
            assert await asked.append_all([append]) == [second]
        assert await store.head() == 3


async def test_the_same_id_with_other_content_is_a_conflict(log: Log, notes: Notes) -> None:
    async with log.store() as store:
        await append_to(store, "a", 0, notes("a", 2))
        with pytest.raises(Conflict):
            await append_to(store, "a", 0, notes("a", 2, text="other"))
        with pytest.raises(Conflict):
            await append_to(store, "a", 0, notes("a", 3))
        with pytest.raises(Conflict):
            await append_to(store, "a", 0, notes("a", 1, by="other"))


UNWRITABLE = {
    "surrogate": StepFailed("Loop", 1, "error", "lone \ud800 surrogate"),
    "not a number": DraftCritiqued("Loop", 1, DraftRef(1, "0" * 64), Critique(math.nan)),
    "infinite": DraftCritiqued("Loop", 1, DraftRef(1, "0" * 64), Critique(math.inf)),
    "infinite or none": RunEnded("failed", "no", 1, None, -math.inf),
    "more than may be counted": StepFailed("Loop", 1, "error", "no", None, Usage(tokens=2 * 10**15)),
}


@pytest.mark.parametrize("data", UNWRITABLE.values(), ids=UNWRITABLE)
async def test_what_cannot_be_read_again_is_refused_and_nothing_else_is(
    log: Log, notes: Notes, data: DomainEvent
) -> None:
    async with log.store() as store:
        await append_to(store, "a", 0, notes("a"))
        results = await asyncio.gather(
            append_to(store, "b", 0, notes("b")),
            append_to(store, "a", 1, [msgspec.structs.replace(notes("a")[0], data=data)]),
            return_exceptions=True,
        )
        assert len(results[0] if isinstance(results[0], tuple) else ()) == 1
        assert isinstance(results[1], CodecError)
        assert "event 2 of run a" in str(results[1])
        assert len(await append_to(store, "a", 1, notes("a", after=1, text="null"))) == 1
        assert await store.verify("a") == 2


@pytest.mark.parametrize("append", [Append("a", 0, ()), Append("a", -1, ()), Append("", 0, ())])
async def test_an_append_of_nothing_is_refused(log: Log, append: Append) -> None:
    async with log.store() as store:
        with pytest.raises(ValueError, match="at least one event"):
            await store.append_all([append])


async def test_a_cancelled_append_disturbs_no_other(log: Log, notes: Notes) -> None:
    async with log.store() as store:
        begun = [(await append_to(store, f"r{n}", 0, notes(f"r{n}")))[0] for n in range(3)]
        tasks = [asyncio.create_task(store.append(each.run, 1, notes(each.run, after=1), each.hash)) for each in begun]
        await asyncio.sleep(0)
        tasks[1].cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(results[1], asyncio.CancelledError)
        assert await store.read("r0", after=1) == results[0]
        assert await store.read("r2", after=1) == results[2]
        assert len(await append_to(store, "r1", 2, notes("r1", after=2))) == 1


async def test_closing_lets_what_was_handed_in_be_written(log: Log, notes: Notes) -> None:
    store = log.store()
    begun = [(await append_to(store, f"r{n}", 0, notes(f"r{n}")))[0] for n in range(10)]
    tasks = [asyncio.create_task(store.append(each.run, 1, notes(each.run, 199, after=1), each.hash)) for each in begun]
    await asyncio.sleep(0)
    await store.close()
    assert all(len(result) == 199 for result in await asyncio.gather(*tasks))
    async with log.store() as again:
        assert await again.head() == 2000


async def test_a_closed_store_says_so(log: Log, notes: Notes) -> None:
    store = log.store()
    await store.close()
    await store.close()
    calls = [append_to(store, "a", 0, notes("a")), store.read("a"), store.head(), store.verify("a")]
    for result in await asyncio.gather(*calls, return_exceptions=True):
        assert isinstance(result, StoreError)
        assert "is closed" in str(result)


def _events(result: tuple[Recorded, ...] | Conflict) -> tuple[Recorded, ...]:
    assert isinstance(result, tuple)
    return result


@pytest.mark.parametrize(("text", "most"), [("x" * 1_000_000, 9), ("\U0001f30a" + "x" * 999_996, 3)])
async def test_who_falls_behind_reads_large_events_a_few_at_a_time(
    log: Log, notes: Notes, text: str, most: int
) -> None:
    opened = log.opened()
    if isinstance(opened.recorder, MemoryRecorder | SimRecorder):
        pytest.skip("its events are in memory as they are")
    async with log.store(opened) as store:
        for run in "abc":
            await append_to(store, run, 0, notes(run, 8, text=text))
    async with log.store() as store:
        sizes = [len(batch) async for batch in store.tail(0, follow=False)]
    assert sum(sizes) == 24
    assert max(sizes) <= most
