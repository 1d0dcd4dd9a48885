"""Turns that several processes on one broker share."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import aio_pika
from aiormq.exceptions import ChannelLockedResource
from tests.events.rabbit_server import URL, new_prefix, rabbit

from redraft.events.rabbit.bus import RabbitBus
from redraft.events.rabbit.topology import PREFIX, Names

MODEL = "once.openai:gpt-5/京都"


async def test_no_more_than_so_many_go_on_at_once_in_all_processes_together() -> None:
    under_way, most, full = 0, 0, asyncio.Event()
    prefix = new_prefix()

    async def call(bus) -> None:
        nonlocal under_way, most
        async with bus.turns.take(MODEL, 3):
            under_way += 1
            most = max(most, under_way)
            if under_way == 3:
                full.set()
            await full.wait()
            await asyncio.sleep(0.01)  # the call itself: a fourth would begin in it
            under_way -= 1

    async with asyncio.timeout(60), rabbit(prefix=prefix) as one, RabbitBus(URL, prefix=prefix) as two:
        await asyncio.gather(*(call(bus) for _ in range(12) for bus in (one, two)))
    assert most == 3


async def test_the_turns_of_one_that_dies_are_free_again() -> None:
    prefix = new_prefix()
    async with asyncio.timeout(60), rabbit(prefix=prefix) as living, AsyncExitStack() as held:
        dying = await held.enter_async_context(RabbitBus(URL, prefix=prefix))
        taking = dying.turns.take(MODEL, 1)
        await taking.__aenter__()
        assert await _is_held(prefix, MODEL)
        waiting = asyncio.create_task(_taken(living))
        await dying.close()
        await waiting


async def _taken(bus) -> None:
    async with bus.turns.take(MODEL, 1):
        return


async def test_a_turn_is_kept_for_its_time_and_then_free() -> None:
    """Its time is an hour, or nearly none. Each turn lies on the server as a queue."""
    prefix = new_prefix()
    async with asyncio.timeout(60), rabbit(prefix=prefix) as bus:
        async with bus.turns.take("minute.x", 1, keep=3600), bus.turns.take("minute.y", 1, keep=0.001):
            pass
        async with bus.turns.take("minute.y", 1):
            pass
        assert await _is_held(prefix, "minute.x")
        assert not await _is_held(prefix, "minute.y")


async def _is_held(prefix: str, name: str) -> bool:
    """Whether somebody has the first turn of this name."""
    queue = Names(prefix).there(f"{PREFIX}.turn.{name}.0")
    async with await aio_pika.connect(URL) as connection, connection.channel() as channel:
        try:
            await channel.declare_queue(queue, exclusive=True)
        except ChannelLockedResource:
            return True
        return False


async def test_one_who_stops_waiting_takes_nothing() -> None:
    async with asyncio.timeout(60), rabbit() as bus:
        async with bus.turns.take(MODEL, 1):
            for rounds in range(0, 60, 3):  # at a different moment each
                waiting = asyncio.create_task(_taken(bus))
                for _ in range(rounds):
                    await asyncio.sleep(0)
                waiting.cancel()
                await asyncio.wait({waiting})
        await _taken(bus)
