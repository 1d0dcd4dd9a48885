"""Following the log: in order, without gaps or repeats, from memory or from the recorder, with other writers or not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any, Protocol

import pytest
from tests.appending import append_to

from redraft.events.errors import StoreError
from redraft.events.messages.domain_events import IterationStarted
from redraft.events.messages.envelope import Recorded
from redraft.events.store.event_store import Append, EventStore, NewEvent
from redraft.events.store.recorder import Opened, OperationalError
from redraft.events.store.tail import RING_EVENTS, Ring

DEADLINE = 30.0
"""Seconds after which a test that waits in vain fails."""

Notes = Callable[..., list[NewEvent]]


class Log(Protocol):
    def opened(self) -> Opened: ...
    def store(self, opened: Opened | None = None, poll: float = 0.02) -> EventStore: ...


async def followed(store: EventStore, count: int, after: int = 0, limit: int = 500) -> list[Recorded]:
    """The first `count` events that a tail gives."""
    events: list[Recorded] = []
    async with asyncio.timeout(DEADLINE), aclosing(store.tail(after, limit=limit)) as batches:
        async for batch in batches:
            assert 0 < len(batch) <= limit
            events += batch
            if len(events) >= count:
                break
    return events


async def fill(store: EventStore, notes: Notes, runs: int, rounds: int) -> None:
    for version in range(rounds):
        await asyncio.gather(
            *(append_to(store, f"r{n}", version, notes(f"r{n}", after=version)) for n in range(runs)),
        )


async def test_the_log_is_given_in_batches_from_any_place(log: Log, notes: Notes) -> None:
    async with log.store() as writer:
        events = await append_to(writer, "a", 0, notes("a", 10))
        async with log.store() as fresh:
            for store in (writer, fresh):
                for after in (-1, 0, 4, 9, 10, 99):
                    batches = [batch async for batch in store.tail(after, follow=False, limit=4)]
                    assert [event for batch in batches for event in batch] == list(events[max(after, 0) :])
                    assert all(0 < len(batch) <= 4 for batch in batches)


async def test_an_empty_log_ends_at_once(log: Log) -> None:
    async with log.store() as store:
        assert [batch async for batch in store.tail(0, follow=False)] == []


async def test_a_limit_below_one_is_refused(log: Log) -> None:
    async with log.store() as store:
        with pytest.raises(ValueError, match="at least 1"):
            store.tail(0, limit=0)


async def test_a_follower_gets_what_comes(log: Log, notes: Notes) -> None:
    async with log.store() as store:
        await fill(store, notes, 3, 2)
        reader = asyncio.create_task(followed(store, 30))
        await fill_more(store, notes)
        assert await reader == [event async for batch in store.tail(0, follow=False) for event in batch]


async def fill_more(store: EventStore, notes: Notes) -> None:
    for version in range(2, 10):
        for n in range(3):
            await append_to(store, f"r{n}", version, notes(f"r{n}", after=version))


async def test_many_followers_get_the_same(log: Log, notes: Notes) -> None:
    async with log.store() as store:
        readers = [asyncio.create_task(followed(store, 100, after=n, limit=1 + n)) for n in range(0, 100, 2)]
        await fill(store, notes, 10, 20)
        everything = [event async for batch in store.tail(0, follow=False) for event in batch]
        for n, reader in zip(range(0, 100, 2), readers, strict=True):
            events = await reader
            assert events == everything[n : n + len(events)]


async def test_a_follower_sees_what_other_stores_write(log: Log, notes: Notes) -> None:
    async with log.store() as store, log.store() as other:
        reader = asyncio.create_task(followed(store, 5))
        await append_to(other, "a", 0, notes("a", 5))
        assert await reader == list(await other.read("a"))


async def test_followers_of_two_stores_see_one_order(log: Log, notes: Notes) -> None:
    async with log.store() as one, log.store() as two:
        readers = [asyncio.create_task(followed(store, 200, limit=9)) for store in (one, two, one, two)]

        async def write(store: EventStore, run: str) -> None:
            for version in range(0, 100, 2):
                await append_to(store, run, version, notes(run, 2, after=version))

        await asyncio.gather(write(one, "a"), write(two, "b"))
        everything = [event async for batch in one.tail(0, follow=False) for event in batch]
        assert [event.position for event in everything] == list(range(1, 201))
        for reader in readers:
            assert await reader == everything


async def test_a_follower_that_keeps_up_reads_nothing(log: Log, notes: Notes, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = log.opened()
    reads: list[int] = []
    select = opened.recorder.select_notifications

    def counting(start: int, limit: int, **options: Any) -> object:
        reads.append(start)
        return select(start, limit, **options)

    monkeypatch.setattr(opened.recorder, "select_notifications", counting)
    async with log.store(opened, poll=DEADLINE) as store:
        first = await append_to(store, "a", 0, notes("a"))
        readers = [asyncio.create_task(followed(store, 40)) for _ in range(5)]
        for version in range(1, 40):
            await append_to(store, "a", version, notes("a", after=version))
        for reader in readers:
            assert (await reader)[0] == first[0]
        assert reads == []


async def test_a_follower_is_woken_by_what_is_new_whatever_else_was_in_the_group(log: Log, notes: Notes) -> None:
    async with log.store(poll=2 * DEADLINE) as store, asyncio.timeout(DEADLINE):
        old = await append_to(store, "a", 0, notes("a"))
        async with aclosing(store.tail(1)) as batches:
            waiting = asyncio.ensure_future(anext(batches))
            await store.read("a")
            new, again = await store.append_all([Append("b", 0, tuple(notes("b"))), Append("a", 0, tuple(notes("a")))])
            assert again == old
            assert tuple(await waiting) == new


async def test_a_follower_that_fell_behind_catches_up_from_the_recorder(log: Log, notes: Notes) -> None:
    count = RING_EVENTS + 1000
    async with log.store() as store, asyncio.timeout(DEADLINE):
        async with aclosing(store.tail(0)) as batches:
            await append_to(store, "a", 0, notes("a"))
            seen = [*await anext(batches)]
            await store.append_all([Append("b", 0, tuple(notes("b", count)))])
            while len(seen) < count + 1:
                seen += await anext(batches)
        assert [event.position for event in seen] == list(range(1, count + 2))
        assert tuple(seen[1:]) == await store.read("b")


async def test_a_follower_can_be_cancelled_and_leaves_nothing_behind(log: Log, notes: Notes) -> None:
    async with log.store() as store:
        before = asyncio.all_tasks()
        readers = [asyncio.create_task(followed(store, 2)) for _ in range(3)]
        await append_to(store, "a", 0, notes("a"))
        readers[0].cancel()
        with pytest.raises(asyncio.CancelledError):
            await readers[0]
        await append_to(store, "a", 1, notes("a", after=1))
        assert len(await readers[1]) == len(await readers[2]) == 2
        if left := asyncio.all_tasks() - before:
            await asyncio.wait(left, timeout=DEADLINE)
        assert asyncio.all_tasks() == before


async def test_closing_ends_followers_with_a_clear_line(log: Log, notes: Notes) -> None:
    store = log.store()
    await append_to(store, "a", 0, notes("a"))
    waiting = asyncio.create_task(followed(store, 2))
    async with aclosing(store.tail(0)) as batches:
        await anext(batches)
        await store.close()
        with pytest.raises(StoreError, match="is closed"):
            await anext(batches)
    with pytest.raises(StoreError, match="is closed"):
        await waiting
    with pytest.raises(StoreError, match="is closed"):
        store.tail(0)


async def test_a_follower_is_told_when_the_log_cannot_be_looked_at(
    log: Log, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = log.opened()
    async with log.store(opened) as store, asyncio.timeout(DEADLINE):
        await append_to(store, "a", 0, notes("a"))
        async with aclosing(store.tail(0)) as batches:
            await anext(batches)
            with monkeypatch.context() as patch:
                patch.setattr(opened.recorder, "max_notification_id", broken)
                with pytest.raises(StoreError, match="the disk is gone"):
                    await anext(batches)
        await append_to(store, "a", 1, notes("a", after=1))
        assert [event.version for event in await followed(store, 1, after=1)] == [2]


async def test_followers_are_told_of_errors_that_nobody_foresaw_and_the_end_is_looked_for_again(
    log: Log, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = log.opened()
    async with log.store(opened) as store, log.store() as other, asyncio.timeout(DEADLINE):
        await append_to(other, "a", 0, notes("a"))
        async with aclosing(store.tail(1)) as lasting, aclosing(store.tail(1)) as told:
            with monkeypatch.context() as patch:
                patch.setattr(opened.recorder, "max_notification_id", without_descriptors)
                kept = asyncio.ensure_future(anext(lasting))
                with pytest.raises(StoreError, match="Too many open files"):
                    await anext(told)
                with pytest.raises(StoreError, match="Too many open files"):
                    await kept
        following = asyncio.create_task(followed(store, 1, after=1))
        await append_to(other, "a", 1, notes("a", after=1))
        assert [event.version for event in await following] == [2]


def without_descriptors() -> int:
    raise OSError(24, "Too many open files")


def broken() -> int:
    raise OperationalError("the disk is gone")


def event(position: int) -> Recorded:
    time = datetime(2026, 1, 1, tzinfo=UTC)
    data = IterationStarted("Loop", 1)
    return Recorded("id", "a", position, time, "", "", "", "", "", "", "iteration.started.v1", data, position)


def positions(ring: Ring, after: int, most: int = 99) -> list[int]:
    return [event.position for event in ring.after(after, most)]


def test_a_ring_holds_the_newest_events() -> None:
    ring = Ring(max_events=3, max_bytes=100)
    assert positions(ring, 0) == []
    for position in range(1, 6):
        ring.add([event(position)], 10)
    assert positions(ring, 1) == []
    assert positions(ring, 2) == [3, 4, 5]
    assert positions(ring, 2, most=2) == [3, 4]
    assert positions(ring, 5) == []


def test_a_full_ring_lets_go_of_a_sixteenth_at_a_time() -> None:
    ring = Ring(max_events=32, max_bytes=1_000)
    for position in range(1, 33):
        ring.add([event(position)], 10)
    assert len(positions(ring, 0)) == 32
    ring.add([event(33)], 10)
    assert positions(ring, 2) == []
    assert positions(ring, 3) == list(range(4, 34))


def test_a_ring_gives_what_came_together_piece_by_piece() -> None:
    ring = Ring(max_events=6, max_bytes=100)
    for first in (1, 4, 7):
        ring.add([event(first), event(first + 1), event(first + 2)], 10)
    assert positions(ring, 2) == []
    assert positions(ring, 3) == [4, 5, 6, 7, 8, 9]
    assert positions(ring, 4, most=2) == [5, 6]
    assert positions(ring, 9) == []
    assert positions(ring, 10) == []


def test_a_ring_is_bounded_in_bytes() -> None:
    ring = Ring(max_events=10, max_bytes=100)
    for position in range(1, 6):
        ring.add([event(position)], 40)
    assert positions(ring, 3) == [4, 5]
    ring.add([event(6)], 101)
    assert positions(ring, 5) == []
    ring.add([event(7)], 100)
    assert positions(ring, 6) == [7]


def test_a_ring_starts_anew_after_a_gap_and_passes_over_what_is_old() -> None:
    ring = Ring(max_events=10, max_bytes=100)
    for position in (1, 2, 5, 6, 3, 6):
        ring.add([event(position)], 10)
    assert positions(ring, 0) == []
    assert positions(ring, 4) == [5, 6]
