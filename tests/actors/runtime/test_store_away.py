"""While the store is away a coordinator keeps what it has taken: no delivery counts, nothing becomes a dead letter."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace
from tests.dead_letters import dead_letters_on
from tests.events.rabbit_server import rabbit

from redraft.actors.runtime.coordinating import coordinator as timing
from redraft.actors.runtime.coordinating import deferring
from redraft.actors.runtime.coordinating.command_handler import CommandHandler
from redraft.actors.runtime.coordinating.coordinator import Coordinator, Outlasts, outlasts_nothing
from redraft.actors.runtime.coordinating.decisions import PendingResults
from redraft.actors.runtime.coordinating.deferring import ReadSpent
from redraft.events.backends import open_store
from redraft.events.bus.local import LocalBus
from redraft.events.bus.port import INBOX, Bus, BusMessage
from redraft.events.errors import CodecError, Conflict, ReadModelCorrupt, StoreError
from redraft.events.messages.codec import encode_message
from redraft.events.messages.commands import Generated, GuideRun, Message, StartRun
from redraft.events.messages.content import Brief
from redraft.events.messages.domain_events import DraftGenerated, RunGuided, RunStarted, StepRequested
from redraft.events.messages.envelope import Entry, Origin, Recorded
from redraft.events.messages.plan import Budget, Plan, Step
from redraft.events.messages.usage import Usage
from redraft.events.store.append import Encoded
from redraft.events.store.event_store import EventStore

PLAN: Final = Plan("p", (Step("generator", "write", "write"), Step("critic", "judge", "judge")))
LIMIT: Final = 20
"""The deliveries after which a message becomes a dead letter."""

numbers = count()


def bus_message(message: Message) -> BusMessage:
    name, body = encode_message(message)
    return BusMessage(name, body, Origin(f"message{next(numbers)}", "test", correlation=message.run), message.run)


class Away:
    """A store that is `away` for the next so many calls, for reading or for `writing` (recorded or not)."""

    def __init__(self, store: EventStore) -> None:
        self.reading = 0
        self.writing = 0
        self.records_all_the_same = False
        self.refused = asyncio.Event()
        self._store = store
        self.require_sealing = store.require_sealing
        self.encode = store.encode
        self.raw = store.raw
        self.has_key = store.has_key

    def _refuse(self) -> StoreError:
        self.refused.set()
        return StoreError("cannot reach the server")

    def hand_in(self, appends: Sequence[Encoded]) -> PendingResults:
        return self._written(appends)

    async def _written(self, appends: Sequence[Encoded]) -> Sequence[tuple[Recorded, ...] | Conflict]:
        if self.writing:
            self.writing -= 1
            if self.records_all_the_same:
                await self._store.hand_in(appends)
            raise self._refuse()
        return await self._store.hand_in(appends)

    async def read(self, run: str, upto: int | None = None, after: int = 0) -> Sequence[Recorded]:
        if self.reading:
            self.reading -= 1
            raise self._refuse()
        return await self._store.read(run, upto, after)

    async def entries(self, run: str, upto: int | None = None, after: int = 0) -> Sequence[Entry]:
        return await self._store.entries(run, upto, after)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[EventStore]:
    async with open_store(f"sqlite:///{tmp_path / 'log.db'}") as opened:
        yield opened


@pytest.fixture(params=["local", "quorum", "classic"])
async def bus(request: pytest.FixtureRequest) -> AsyncIterator[Bus]:
    if request.param == "local":
        async with LocalBus() as local:
            yield local
    else:
        async with rabbit(kind=request.param) as opened:
            yield opened


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "PAUSES", (0.001,))
    monkeypatch.setattr(deferring, "UNREAD", 0.0)


def outlasts_all(error: StoreError) -> bool:
    return True


@asynccontextmanager
async def coordinating(
    store: Away, bus: Bus, outlasts: Outlasts = outlasts_all, spent: ReadSpent | None = None
) -> AsyncIterator[tuple[Coordinator, asyncio.Task[None]]]:
    async def resend(run: str, path: str, sent: int) -> None:
        raise AssertionError("nobody asked")

    handler = CommandHandler(store, lambda: datetime.now(UTC), resend, spent=spent)
    coordinator = Coordinator(handler, bus, outlasts=outlasts)
    task = asyncio.create_task(coordinator.run())
    try:
        yield coordinator, task
    finally:
        task.cancel()
        async with asyncio.timeout(30):
            await asyncio.wait([task])


async def until_recorded(store: EventStore, kind: type, number: int = 1) -> None:
    async with asyncio.timeout(60):
        seen = 0
        async for batch in store.tail(0):
            seen += sum(isinstance(event.data, kind) for event in batch)
            if seen >= number:
                return


async def nothing_is_left(bus: Bus) -> None:
    """What comes last is the only message there, delivered for the first time."""
    await bus.publish(INBOX, [last := bus_message(StartRun("last", PLAN, Brief("b")))])
    async with asyncio.timeout(60), bus.consume(INBOX, 100) as inbox:
        assert [(each.bus_message.origin.id, each.count) for each in await inbox.take(100)] == [(last.origin.id, 1)]


@pytest.mark.parametrize("what", ["reading", "writing", "writing what is recorded all the same"])
async def test_an_answer_and_advice_outlast_a_store_that_is_away_for_long(
    store: EventStore, bus: Bus, what: str
) -> None:
    away = Away(store)
    runs = [f"r{number}" for number in range(3)]
    async with coordinating(away, bus):
        await bus.publish(INBOX, [bus_message(StartRun(run, PLAN, Brief("b"))) for run in runs])
        await until_recorded(store, RunStarted, len(runs))
    async with coordinating(away, bus) as (coordinator, task):
        away.reading, away.writing = (2 * LIMIT, 0) if what == "reading" else (0, 2 * LIMIT)
        away.records_all_the_same = what != "writing"
        for run in runs:
            words = [GuideRun(run, word, by="ann") for word in ("one", "two", "three")]
            await bus.publish(INBOX, [bus_message(Generated(run, "write", 1, "paid")), *map(bus_message, words)])
        await until_recorded(store, DraftGenerated, len(runs))
        await until_recorded(store, RunGuided, 3 * len(runs))
        assert away.refused.is_set()
        assert not task.done()
        away.reading = away.writing = 0
        await bus.publish(INBOX, [bus_message(StartRun("end", PLAN, Brief("b")))])
        await until_recorded(store, RunStarted, len(runs) + 1)
        coordinator.drain()
        async with asyncio.timeout(60):
            await asyncio.wait([task])
        assert task.exception() is None
    await nothing_is_left(bus)
    assert await dead_letters_on(bus) == []
    for run in runs:
        recorded = [event.data for event in await store.read(run)]
        assert [each.advice for each in recorded if isinstance(each, RunGuided)] == ["one", "two", "three"]
        assert sum(isinstance(each, DraftGenerated) for each in recorded) == 1
        assert await store.verify(run) == len(recorded)


async def test_one_that_outlasts_nothing_ends_with_the_error(store: EventStore, bus: Bus) -> None:
    away = Away(store)
    away.writing = 1
    async with coordinating(away, bus, outlasts_nothing) as (_, task):
        await bus.publish(INBOX, [bus_message(StartRun("r", PLAN, Brief("b")))])
        async with asyncio.timeout(60):
            await asyncio.wait([task])
        assert "cannot reach the server" in repr(task.exception())
    assert await store.read("r") == ()


async def test_a_drained_one_gives_back_what_it_keeps_though_the_store_is_away(
    store: EventStore, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timing, "PAUSES", (3600.0,))
    away = Away(store)
    away.writing = 1
    async with coordinating(away, bus) as (coordinator, task):
        await bus.publish(INBOX, [bus_message(StartRun("r", PLAN, Brief("b")))])
        async with asyncio.timeout(60):
            await away.refused.wait()
            coordinator.drain()
            await asyncio.wait([task])
        assert task.exception() is None
    async with coordinating(away, bus):
        await until_recorded(store, RunStarted)


async def test_a_cancelled_one_ends_though_it_waits_for_the_store(
    store: EventStore, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timing, "PAUSES", (3600.0,))
    away = Away(store)
    away.writing = 1
    async with coordinating(away, bus) as (_, task):
        await bus.publish(INBOX, [bus_message(StartRun("r", PLAN, Brief("b")))])
        async with asyncio.timeout(60):
            await away.refused.wait()
        task.cancel()
        async with asyncio.timeout(60):
            await asyncio.wait([task])
        assert task.cancelled()


DAILY: Final = replace(PLAN, name="daily", daily=Budget(calls=1))


class Spent:
    """What the day has spent, nothing, once it is `readable`; `often` is set once it was asked for very often."""

    def __init__(self, error: Exception) -> None:
        self.often = asyncio.Event()
        self.readable = False
        self._tried = 0
        self._error = error

    async def __call__(self, workflow: str, day: datetime, run: str) -> Usage:
        self._tried += 1
        if self._tried > 2 * LIMIT:
            self.often.set()
        if not self.readable:
            raise self._error
        return Usage()


@pytest.mark.parametrize("error", [ReadModelCorrupt("damaged"), ValueError("no number"), CodecError("torn")])
async def test_runs_without_a_daily_budget_go_on_while_the_days_sum_cannot_be_read(
    store: EventStore, bus: Bus, error: Exception
) -> None:
    away, spent = Away(store), Spent(error)
    async with coordinating(away, bus, spent=spent) as (coordinator, task):
        words = [GuideRun("daily", word, by="ann") for word in ("one", "two")]
        await bus.publish(INBOX, [bus_message(words[0]), bus_message(StartRun("daily", DAILY, Brief("b")))])
        await bus.publish(INBOX, [bus_message(words[1]), bus_message(StartRun("r", PLAN, Brief("b")))])
        await until_recorded(store, RunStarted)
        await bus.publish(INBOX, [bus_message(Generated("r", "write", 1, "paid"))])
        await until_recorded(store, DraftGenerated)
        async with asyncio.timeout(60):
            await spent.often.wait()
        assert await store.read("daily") == ()
        assert not task.done()
        spent.readable = True
        await until_recorded(store, RunGuided, 2)
        coordinator.drain()
        async with asyncio.timeout(60):
            await asyncio.wait([task])
        assert task.exception() is None
    recorded = [event.data for event in await store.read("daily")]
    assert [each.advice for each in recorded if isinstance(each, RunGuided)] == ["one", "two"]
    assert sum(isinstance(each, StepRequested) for each in recorded) == 1
    assert await dead_letters_on(bus) == []
    await nothing_is_left(bus)


async def test_nothing_is_decided_without_the_days_sum_where_the_error_is_not_outlasted(store: EventStore) -> None:
    async with LocalBus() as bus:
        spent = Spent(ReadModelCorrupt("damaged"))
        async with coordinating(Away(store), bus, outlasts_nothing, spent) as (_, task):
            await bus.publish(INBOX, [bus_message(StartRun("daily", DAILY, Brief("b")))])
            async with asyncio.timeout(60):
                await asyncio.wait([task])
            assert "what the day has spent cannot be read: damaged" in repr(task.exception())
    assert await store.read("daily") == ()
