"""Waiting for a run that another process works on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.app.subscribers import DEADLINE, beginning, new_events
from tests.appending import append_to

from redraft.actors import Workflow, generator
from redraft.app.client.client import Client
from redraft.app.subscribing.feed import StoreFeed
from redraft.app.subscribing.subscriber import Subscriber
from redraft.events.backends import open_store
from redraft.events.bus.local import LocalBus
from redraft.events.errors import SetAside
from redraft.events.messages.content import MAX_DRAFT_BYTES
from redraft.events.messages.domain_events import RunEnded, RunQuarantined
from redraft.events.store.event_store import EventStore

RUN = "shared"


async def test_a_run_that_ends_elsewhere_before_its_events_are_noticed_here_has_its_result(tmp_path: Path):
    """The read that finds it ended is ahead of the tail, which has told of its first event alone."""
    url = f"sqlite:///{tmp_path / 'log.db'}"
    async with asyncio.timeout(DEADLINE), open_store(url, poll=3_600) as here, open_store(url) as there:
        client = Client(here, LocalBus(), Subscriber(StoreFeed(here)), MAX_DRAFT_BYTES)
        noticing = asyncio.create_task(client.notice(0))
        reading, go_on = asyncio.Event(), asyncio.Event()
        here.entries = _held(here.entries, reading, go_on)  # type: ignore[method-assign]
        waiting = asyncio.create_task(client.wait(RUN))
        await reading.wait()
        await append_to(here, RUN, 0, new_events(RUN, [beginning()]))
        while not client._awaited._waiting[RUN].story:  # noqa: ASYNC110 - nothing tells that an event was noticed
            await asyncio.sleep(0)
        await append_to(there, RUN, 1, new_events(RUN, [RunEnded("failed", "broke", 0, None)], 1))
        go_on.set()
        assert (await waiting).outcome == "failed"
        noticing.cancel()


async def test_who_is_cancelled_while_the_log_is_read_leaves_nobody_waiting(tmp_path: Path):
    async with asyncio.timeout(DEADLINE), _waited_for(tmp_path) as (client, store):
        await append_to(store, RUN, 0, new_events(RUN, [beginning(), RunEnded("failed", "broke", 0, None)]))
        read = store.entries
        reading, go_on = asyncio.Event(), asyncio.Event()
        store.entries = _held(read, reading, go_on)  # type: ignore[method-assign]
        first = asyncio.create_task(client.wait(RUN))
        await reading.wait()
        reading.clear()
        second = asyncio.create_task(client.wait(RUN))
        await reading.wait()
        first.cancel()
        go_on.set()
        assert (await second).outcome == "failed"
        assert first.cancelled()
        assert (await client.wait(RUN)).outcome == "failed"


async def test_all_who_wait_have_the_end_but_those_who_were_cancelled(tmp_path: Path):
    async with asyncio.timeout(DEADLINE), _waited_for(tmp_path) as (client, store):
        await append_to(store, RUN, 0, new_events(RUN, [beginning()]))
        first, second, third = waiters = [asyncio.create_task(client.wait(RUN)) for _ in range(3)]
        await asyncio.sleep(0)
        while client._awaited._waiting[RUN].waiters < len(waiters):  # noqa: ASYNC110 - nothing tells that they wait
            await asyncio.sleep(0)
        second.cancel()
        await asyncio.wait([second])
        await append_to(store, RUN, 1, new_events(RUN, [RunEnded("failed", "broke", 0, None)], 1))
        assert [(await each).outcome for each in (first, third)] == ["failed", "failed"]
        assert second.cancelled()
        assert not client._awaited._waiting


async def test_a_run_that_was_set_aside_is_so_for_everybody_who_waits_for_it(tmp_path: Path):
    async with asyncio.timeout(DEADLINE), _waited_for(tmp_path) as (client, store):
        await append_to(store, RUN, 0, new_events(RUN, [beginning()]))
        early = [asyncio.create_task(client.wait(RUN)) for _ in range(2)]
        await append_to(store, RUN, 1, new_events(RUN, [RunQuarantined("ann", "wrong")], 1))
        for waiting in (*early, client.wait(RUN), client.wait(RUN)):
            with pytest.raises(SetAside, match="ann: wrong"):
                await waiting


@asynccontextmanager
async def _waited_for(folder: Path) -> AsyncIterator[tuple[Client, EventStore]]:
    """A client that notices what is recorded in a store."""
    async with open_store(f"sqlite:///{folder / 'log.db'}") as store:
        client = Client(store, LocalBus(), Subscriber(StoreFeed(store)), MAX_DRAFT_BYTES)
        noticing = asyncio.create_task(client.notice(0))
        await asyncio.sleep(0)
        yield client, store
        noticing.cancel()


def _held(
    read: Callable[..., Awaitable[Sequence[Any]]], reading: asyncio.Event, go_on: asyncio.Event
) -> Callable[..., Awaitable[Sequence[Any]]]:
    async def held(*args: object) -> Sequence[Any]:
        reading.set()
        await go_on.wait()
        return await read(*args)

    return held


async def test_a_client_that_notices_nothing_remembers_no_run_that_it_began(tmp_path: Path):
    async with LocalBus() as bus, open_store(f"sqlite:///{tmp_path / 'log.db'}") as store:
        client = Client(store, bus, Subscriber(StoreFeed(store)), MAX_DRAFT_BYTES)
        await client.submit(Workflow("short").start_with(generator(name="write")(lambda brief: brief.text)), "Tides")
        assert not client._awaited._begun
