"""Waiting for a run that another process works on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from tests.app.subscribers import DEADLINE, beginning, new_events
from tests.appending import append_to

from redraft.app.client.client import Client
from redraft.app.subscribing.feed import StoreFeed
from redraft.app.subscribing.subscriber import Subscriber
from redraft.events.backends import open_store
from redraft.events.bus.local import LocalBus
from redraft.events.messages.content import MAX_DRAFT_BYTES
from redraft.events.messages.domain_events import RunEnded

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


def _held(
    read: Callable[..., Awaitable[Sequence[Any]]], reading: asyncio.Event, go_on: asyncio.Event
) -> Callable[..., Awaitable[Sequence[Any]]]:
    async def held(*args: object) -> Sequence[Any]:
        reading.set()
        await go_on.wait()
        return await read(*args)

    return held
