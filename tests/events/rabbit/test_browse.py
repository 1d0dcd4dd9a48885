"""Looks at what is dead-lettered on RabbitMQ: in pages, by processes that are killed meanwhile, and past what fails."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest
from aiormq.exceptions import ChannelLockedResource, ChannelNotFoundEntity
from tests.events.dead_letter_bodies import QUEUE, came, channel, park, waiting
from tests.events.rabbit_server import URL, new_prefix, rabbit
from tests.proxy import Proxy

from redraft.events.bus.port import DeadLetter
from redraft.events.errors import BusError, CodecError
from redraft.events.rabbit.bus import RabbitBus


@asynccontextmanager
async def in_time() -> AsyncIterator[tuple[RabbitBus, str]]:
    prefix = new_prefix()
    async with asyncio.timeout(60), rabbit(prefix=prefix) as bus:
        await bus.prepare()
        yield bus, prefix


def name(dead_letter: DeadLetter) -> str:
    return dead_letter.id


async def looker(prefix: str, what: str, url: str = URL) -> Process:
    return await asyncio.create_subprocess_exec(sys.executable, "-m", "tests.events.killed_looker", url, prefix, what)


async def test_a_look_that_is_killed_in_the_middle_leaves_all_in_its_order() -> None:
    async with in_time() as (bus, prefix):
        ids = await park(prefix, 100, 1_000)
        for number in ("1", "70"):
            assert await (await looker(prefix, number)).wait() == -9
            assert await bus.dead_letters(name) == ids


@pytest.mark.check
async def test_putting_all_back_that_is_killed_in_the_middle_loses_and_mixes_nothing() -> None:
    async with in_time() as (bus, prefix):
        await park(prefix, 1, 10)
        assert await bus.retry_all() == await came(prefix, 1), "the queue is there"
        ids = await park(prefix, 100, 10_000)
        async with Proxy(urlsplit(URL).port or 5672).open() as proxy:
            proxy.freeze_after(500_000)  # in the middle, whoever is slow
            process = await looker(prefix, "retry", proxy.through(URL))
            try:
                before = await came(prefix, 20)
            finally:
                process.kill()
                assert await process.wait() == -9
        left = await bus.dead_letters(name)
        assert left
        assert left == ids[-len(left) :]
        assert await bus.retry_all() == left
        depth = await waiting(prefix)
        seen = list(dict.fromkeys([*before, *await came(prefix, depth)]))
        assert seen == ids, "each came, in order"
        assert 20 + depth <= len(ids) + 1, "at most the one that was being settled came twice"


async def test_what_came_from_no_known_queue_keeps_its_order_when_the_rest_is_put_back() -> None:
    async with in_time() as (bus, prefix):
        known: list[str] = []
        for _ in range(4):
            await park(prefix, 25, 10, queue="")
            known += await park(prefix, 2, 10)
        everything = await bus.dead_letters(lambda each: (each.id, each.queue))
        assert await bus.retry_all() == known
        assert await bus.dead_letters(lambda each: (each.id, each.queue)) == [
            each for each in everything if not each[1]
        ]
        assert await came(prefix, 8) == known


@pytest.mark.parametrize(
    "queue", ["bogus", "redraft.", "redraft.bogus", "redraft.dead-letters", "redraft.events", "redraft." + "ü" * 99]
)
async def test_what_names_a_queue_that_cannot_be_is_left_and_the_rest_is_put_back(queue: str) -> None:
    """A stranger who may publish can write any header; one such letter holds up none of those behind it."""
    async with in_time() as (bus, prefix):
        strange = await park(prefix, 1, 10, queue=queue)
        known = await park(prefix, 3, 12)
        assert await bus.dead_letters(lambda each: (each.id, each.queue)) == [
            *((each, queue) for each in strange),
            *((each, QUEUE) for each in known),
        ]
        assert await bus.retry_all() == known
        assert await came(prefix, 3) == known
        assert await bus.dead_letters(lambda each: (each.id, each.queue)) == [(strange[0], queue)]
        with pytest.raises(BusError, match="the queue of dead letter letter-00000 is not known; it can only be disc"):
            await bus.retry(strange[0])
        assert await bus.dead_letters(name) == strange
        assert await bus.discard(strange[0])
        await park(prefix, 2, 10, queue=queue)
        assert len(await bus.discard_all()) == 2


async def test_what_goes_to_a_queue_with_the_settings_of_a_stranger_is_left_and_the_rest_is_put_back() -> None:
    async with in_time() as (bus, prefix), channel() as server:
        foreign = f"{prefix}.critic.foreign"
        await server.declare_queue(foreign, durable=True, arguments={"x-max-length": 1})
        strange = await park(prefix, 1, 10, queue="redraft.critic.foreign")
        known = await park(prefix, 3, 12)
        assert await bus.retry_all() == known
        assert await came(prefix, 3) == known
        assert await bus.dead_letters(name) == strange
        await server.queue_delete(foreign)
        assert await bus.retry_all() == strange


async def test_what_fails_for_one_letter_is_raised_and_all_stay_dead_lettered() -> None:
    async with in_time() as (bus, prefix):
        ids = await park(prefix, 3, 10)

        def fails(dead_letter: DeadLetter) -> None:
            if dead_letter.id == ids[1]:
                raise CodecError("unreadable")

        with pytest.raises(CodecError, match="unreadable"):
            await bus.dead_letters(fails)
        assert await bus.dead_letters(name) == ids


async def begun(prefix: str) -> None:
    """Returns when a look has begun: it owns the queue that only one process may own."""
    while True:
        try:
            async with channel() as opened:
                await opened.declare_queue(f"{prefix}.looking", passive=True)
        except ChannelNotFoundEntity:
            continue
        except ChannelLockedResource:
            return


async def test_a_look_waits_until_the_messages_that_another_connection_holds_are_back() -> None:
    async with in_time() as (bus, prefix):
        ids = await park(prefix, 20, 10)
        async with channel() as holding:
            queue = await holding.get_queue(f"{prefix}.dead-letters")
            await queue.get()
            looking = asyncio.create_task(bus.dead_letters(name))
            await begun(prefix)
        assert await looking == ids
