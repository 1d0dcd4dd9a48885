"""What the tests of subscribers share: a log that somebody writes, and clients that read it as other processes do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

import pytest
from tests.appending import append_to
from tests.events.rabbit_server import URL, new_prefix, rabbit, require_rabbitmq

from redraft.actors.runtime.relaying.relay import Relay
from redraft.app import Client, Retry, open_readonly
from redraft.app.settings.settings import Settings
from redraft.app.wiring.deployment import open_client
from redraft.events.backends import open_store
from redraft.events.bus.local import LocalBus
from redraft.events.messages.conditions import score
from redraft.events.messages.content import Brief, Critique, DraftRef
from redraft.events.messages.domain_events import DomainEvent, DraftCritiqued, IterationStarted, RunStarted
from redraft.events.messages.envelope import Origin, Recorded
from redraft.events.messages.plan import Plan, Repeat, Step
from redraft.events.store.event_store import EventStore, NewEvent
from redraft.events.subscriptions.subscriptions import Subscription, Subscriptions

DEADLINE = 60.0
QUICK = Retry(attempts=3, initial=0.001, maximum=0.01)
NOON = datetime(2026, 3, 1, 12, 0, 0, 125000, tzinfo=UTC)
Opening: TypeAlias = Callable[[], AbstractAsyncContextManager[Client]]


class World:
    """`store` is the writer's; `open` gives a client that has nothing in common with it but the servers."""

    def __init__(self, store: EventStore, url: str, opening: Opening, *, is_broker: bool = False) -> None:
        self.store = store
        self.url = url
        self.open = opening
        self.is_broker = is_broker

    async def log(self) -> list[Recorded]:
        return [event async for batch in self.store.tail(0, follow=False) for event in batch]


def store_settings(url: str) -> Settings:
    return Settings(store=url)


@asynccontextmanager
async def store_world(url: str) -> AsyncIterator[World]:
    @asynccontextmanager
    async def opening() -> AsyncIterator[Client]:
        async with open_readonly(store_settings(url)) as runtime:
            yield runtime.client

    async with open_store(url) as store:
        yield World(store, url, opening)


@asynccontextmanager
async def broker_world() -> AsyncIterator[World]:
    """A deployment's relay tells the broker what is recorded; clients have the broker alone."""
    require_rabbitmq()
    prefix = new_prefix()

    def opening() -> AbstractAsyncContextManager[Client]:
        return open_client(Settings(store="memory:", bus=URL, broker_prefix=prefix), reads=False)

    async with rabbit(prefix=prefix) as bus, LocalBus() as commands, open_store("memory:") as store:
        relay = Relay(store, commands, lambda run: True, bus)
        relaying = asyncio.create_task(relay.run(0))
        try:
            yield World(store, "", opening, is_broker=True)
        finally:
            relaying.cancel()
            await asyncio.wait({relaying})


@asynccontextmanager
async def world(kind: str, request: pytest.FixtureRequest, folder: Path) -> AsyncIterator[World]:
    match kind:
        case "sqlite":
            made = store_world(f"sqlite:///{folder / 'log.db'}")
        case "postgres":
            made = store_world(request.getfixturevalue("postgres_url"))
        case _:
            made = broker_world()
    async with asyncio.timeout(DEADLINE), made as there:
        yield there


def plan_of(name: str) -> Plan:
    return Plan(name, (Repeat("Loop", score >= 0.9, 3, (Step("critic", "judge", "judge"),)),))


def new_events(run: str, told: Sequence[DomainEvent], after: int = 0) -> tuple[NewEvent, ...]:
    return tuple(
        NewEvent(Origin(f"{run}/{number}", "test", "", run), NOON, event)
        for number, event in enumerate(told, after + 1)
    )


def beginning(workflow: str = "article", tags: tuple[str, ...] = ()) -> RunStarted:
    return RunStarted(plan_of(workflow), Brief("Why tides exist"), NOON, tags=tags)


def passes(first: int, last: int) -> list[DomainEvent]:
    """Events of two kinds, in turn."""
    return [
        IterationStarted("Loop", number)
        if number % 2
        else DraftCritiqued("Loop[1]/judge", 1, DraftRef(1, "0" * 64), Critique(0.5, suggestions=(f"say {number}",)))
        for number in range(first, last + 1)
    ]


async def write_run(
    store: EventStore, run: str, events: int, workflow: str = "article", tags: Sequence[str] = ()
) -> None:
    """A run of so many events, one append each."""
    await append_to(store, run, 0, new_events(run, [beginning(workflow, tuple(tags))]))
    for version in range(1, events):
        await append_to(store, run, version, new_events(run, passes(version, version), version))


async def taken(client: Client, count: int, after: int = 0, **chosen: object) -> list[Recorded]:
    """The first `count` events of a subscription."""
    found: list[Recorded] = []
    async with aclosing(client.subscribe(after, **chosen)) as events:  # type: ignore[arg-type]
        async for event in events:
            found.append(event)
            if len(found) == count:
                break
    return found


class Handler:
    """Takes events, or fails as it is told; `arrived` is set whenever it is called."""

    def __init__(self, fault: Callable[[Recorded], Exception | None] = lambda event: None) -> None:
        self.taken: list[int] = []
        self.tried: list[int] = []
        self.fault = fault
        self._arrived = asyncio.Condition()

    async def __call__(self, event: Recorded) -> None:
        self.tried.append(event.position)
        fault = self.fault(event)
        if fault is None:
            self.taken.append(event.position)
        async with self._arrived:
            self._arrived.notify_all()
        if fault is not None:
            raise fault

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE), self._arrived:
            await self._arrived.wait_for(condition)


@asynccontextmanager
async def delivering(
    client: Client, name: str, handler: Handler, **options: object
) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(client.deliver(name, handler, **{"retry": QUICK, **options}))  # type: ignore[arg-type]
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})


async def until(names: Subscriptions, name: str, condition: Callable[[Subscription], bool]) -> Subscription:
    """The subscription, once this holds for it."""
    async with asyncio.timeout(DEADLINE):
        while True:
            for found in await names.all():
                if found.name == name and condition(found):
                    return found
            await asyncio.sleep(0.01)
