"""What a store does when its recorder loses answers, fails, waits, or holds what was changed by others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol, cast

import pytest
from msgspec.structs import replace
from tests.appending import append_to, chained

from redraft.events.errors import Conflict, StoreError, Tampered
from redraft.events.store.append import NewRow
from redraft.events.store.event_store import EventStore, NewEvent
from redraft.events.store.recorder import (
    DataError,
    IntegrityError,
    Opened,
    OperationalError,
    PersistenceError,
    StoredEvent,
    Then,
)

Notes = Callable[..., list[NewEvent]]
Rows = Sequence[StoredEvent]
Insert = Callable[[Rows], Sequence[int] | None]


class Log(Protocol):
    def opened(self) -> Opened: ...
    def store(self, opened: Opened | None = None, poll: float = 0.02) -> EventStore: ...


class Direct:
    """A direct writer that has its recorder's faults; how PostgreSQL's own fails is in `test_postgres_killed`."""

    def __init__(self, insert: Insert) -> None:
        self._insert = insert

    def begin(self, rows: Sequence[NewRow], then: Then) -> bool:
        asyncio.get_running_loop().call_soon(then, self._told(rows))
        return True

    def close(self) -> None:
        """Nothing is held."""

    def _told(self, rows: Sequence[NewRow]) -> Sequence[int] | PersistenceError:
        try:
            return self._insert(cast("Rows", rows)) or ()
        except PersistenceError as error:
            return error


WithInsert = Callable[[Callable[[Insert], Insert]], EventStore]


@pytest.fixture(params=["thread", "direct"])
def with_insert(request: pytest.FixtureRequest, log: Log, monkeypatch: pytest.MonkeyPatch) -> WithInsert:
    """Opens a store whose recorder inserts as it is wrapped, in its thread or from the event loop."""

    def opened_with(wrap: Callable[[Insert], Insert]) -> EventStore:
        opened = log.opened()
        insert = wrap(opened.recorder.insert_events)
        monkeypatch.setattr(opened.recorder, "insert_events", insert)
        return log.store(replace(opened, direct=Direct(insert) if request.param == "direct" else None))

    return opened_with


def losing(error: Exception, *, times: int = 1) -> Callable[[Insert], Insert]:
    """A recorder that records and then fails to say so, as one that tries again by itself, or loses its connection."""
    left = [times]

    def wrap(insert: Insert) -> Insert:
        def lose(rows: Rows) -> Sequence[int] | None:
            positions = insert(rows)
            if left[0]:
                left[0] -= 1
                raise error
            return positions

        return lose

    return wrap


def failing(error: Exception, *, times: int = 1) -> Callable[[Insert], Insert]:
    """A recorder that fails without having recorded."""
    left = [times]

    def wrap(insert: Insert) -> Insert:
        def fail(rows: Rows) -> Sequence[int] | None:
            if left[0]:
                left[0] -= 1
                raise error
            return insert(rows)

        return fail

    return wrap


LOST = [IntegrityError("answered twice"), OperationalError("connection lost")]


@pytest.mark.parametrize("error", LOST, ids=["integrity", "operational"])
async def test_a_lost_answer_is_a_success(with_insert: WithInsert, notes: Notes, error: Exception) -> None:
    async with with_insert(losing(error)) as store:
        first = await append_to(store, "a", 0, notes("a", 3))
        assert first == await store.read("a")
        assert [event.position for event in first] == [1, 2, 3]
        await append_to(store, "a", 3, notes("a", after=3))
        assert await store.verify("a") == 4


@pytest.mark.parametrize("error", LOST, ids=["integrity", "operational"])
async def test_a_lost_answer_of_a_group_is_a_success_for_each(
    with_insert: WithInsert, notes: Notes, error: Exception
) -> None:
    async with with_insert(losing(error)) as store:
        results = await asyncio.gather(*(append_to(store, f"r{n}", 0, notes(f"r{n}", 2)) for n in range(8)))
        for n, result in enumerate(results):
            assert result == await store.read(f"r{n}")
            await append_to(store, f"r{n}", 2, notes(f"r{n}", after=2))
        assert await store.head() == 24
        tailed = [event async for batch in store.tail(0, follow=False) for event in batch]
        assert [event.position for event in tailed] == list(range(1, 25))


async def test_a_failure_is_told_and_leaves_nothing_behind(with_insert: WithInsert, notes: Notes) -> None:
    async with with_insert(failing(OperationalError("the disk is gone"))) as store:
        calls = [append_to(store, f"r{n}", 0, notes(f"r{n}", 2)) for n in range(4)]
        for result in await asyncio.gather(*calls, return_exceptions=True):
            assert type(result) is StoreError
            assert "the disk is gone" in str(result)
            assert "\n" not in str(result)
        assert await store.head() == 0
        for n in range(4):
            await append_to(store, f"r{n}", 0, notes(f"r{n}", 2))
        assert await store.verify("r3") == 2


async def test_what_builds_on_a_failure_is_not_recorded_either(with_insert: WithInsert, notes: Notes) -> None:
    async with with_insert(failing(OperationalError("no"))) as store:
        appends = chained("a", *(notes("a", after=n) for n in range(3)))
        results = await asyncio.gather(*(store.hand_in([each]) for each in appends), return_exceptions=True)
        assert type(results[0]) is StoreError
        assert [type(result) for result in results[1:]] == [list] * 2
        assert [type(told) for result in results[1:] if isinstance(result, list) for told in result] == [Conflict] * 2
        assert await store.read("a") == ()
        assert len(await append_to(store, "a", 0, notes("a", 3))) == 3


async def test_one_bad_row_fails_no_neighbour(with_insert: WithInsert, notes: Notes) -> None:
    def wrap(insert: Insert) -> Insert:
        def picky(rows: Rows) -> Sequence[int] | None:
            if any(row.originator_id == "bad" for row in rows):
                raise DataError("too big")
            return insert(rows)

        return picky

    async with with_insert(wrap) as store:
        runs = ["a", "bad", "c"]
        results = await asyncio.gather(*(append_to(store, run, 0, notes(run)) for run in runs), return_exceptions=True)
        assert [isinstance(result, tuple) for result in results] == [True, False, True]
        assert str(results[1]) == "run bad: the database does not take its next event: too big"


async def test_a_store_that_cannot_be_read_says_so(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OperationalError("the disk is gone")

    opened = log.opened()
    for call in ("select_events", "select_notifications", "select_after", "max_notification_id"):
        monkeypatch.setattr(opened.recorder, call, fail)
    async with log.store(opened) as store:
        calls = [
            store.read("a"),
            store.head(),
            store.verify("a"),
            anext(store.tail(0)),
            anext(store.tail(0, follow=False)),
        ]
        for result in await asyncio.gather(*calls, return_exceptions=True):
            assert type(result) is StoreError
            assert "the disk is gone" in str(result)


def changed(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, change: Callable[[list[StoredEvent]], list[StoredEvent]]
) -> None:
    """Makes the recorder give what somebody made of the rows."""
    select = opened.recorder.select_events

    def select_changed(run: str, *, gt: int = 0, limit: int | None = None) -> Sequence[StoredEvent]:
        rows = [row for row in change(list(select(run))) if row.originator_version > gt]
        return rows[:limit]

    monkeypatch.setattr(opened.recorder, "select_events", select_changed)


def replaced(row: StoredEvent, **values: object) -> StoredEvent:
    fields = {"originator_id": row.originator_id, "originator_version": row.originator_version}
    return StoredEvent(**{**fields, "topic": row.topic, "state": row.state, **values})  # type: ignore[arg-type]


CHANGES: dict[str, tuple[str, Callable[[list[StoredEvent]], list[StoredEvent]]]] = {
    "first taken out": ("event 1 of run a", lambda rows: rows[1:]),
    "middle taken out": ("event 3 of run a", lambda rows: [*rows[:2], *rows[3:]]),
    "renamed": ("event 2 of run a", lambda rows: [rows[0], replaced(rows[1], topic="loop.ended.v1"), *rows[2:]]),
    "states swapped": (
        "event 2 of run a",
        lambda rows: [
            rows[0],
            replaced(rows[1], state=rows[2].state),
            replaced(rows[2], state=rows[1].state),
            *rows[3:],
        ],
    ),
    "emptied": ("event 4 of run a", lambda rows: [*rows[:3], replaced(rows[3], state=b""), rows[4]]),
    "not json": ("event 4 of run a", lambda rows: [*rows[:3], replaced(rows[3], state=b"\xff\x00"), rows[4]]),
    "numbered anew": (
        "event 3 of run a",
        lambda rows: [*rows[:2], replaced(rows[3], originator_version=3), replaced(rows[4], originator_version=4)],
    ),
}


@pytest.mark.parametrize(("where", "change"), CHANGES.values(), ids=CHANGES)
async def test_verify_names_the_event_that_was_changed(
    log: Log,
    notes: Notes,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
    change: Callable[[list[StoredEvent]], list[StoredEvent]],
) -> None:
    async with log.store() as store:
        await append_to(store, "a", 0, notes("a", 5))
    opened = log.opened()
    changed(opened, monkeypatch, change)
    async with log.store(opened) as store:
        with pytest.raises(Tampered, match=where):
            await store.verify("a")


async def test_verify_finds_a_rewritten_event_by_the_one_after_it(
    log: Log, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody who rewrites an event together with its hash breaks the chain."""
    async with log.store() as store, log.store() as forger:
        await append_to(store, "a", 0, notes("a", 5))
        await append_to(forger, "forged", 0, notes("forged", 5, text="better"))
    opened = log.opened()
    forged = list(opened.recorder.select_events("forged"))
    changed(opened, monkeypatch, lambda rows: [*rows[:2], replaced(forged[2], originator_id="a"), *rows[3:]])
    async with log.store(opened) as store:
        with pytest.raises(Tampered, match="event 3 of run a"):
            await store.verify("a")


async def test_verify_reads_long_runs_in_parts(log: Log, notes: Notes) -> None:
    async with log.store() as store:
        await store.hand_in(chained("a", *(notes("a", 300, after=n) for n in (0, 300, 600, 900))))
        assert await store.verify("a") == 1200
