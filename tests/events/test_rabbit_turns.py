"""Turns that several processes on one broker share."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from tests.events.rabbit_server import URL, new_prefix, rabbit

from redraft.events.rabbit_bus import open_rabbit_bus

MODEL = "once.openai:gpt-5/京都"


async def test_no_more_than_so_many_go_on_at_once_in_all_processes_together() -> None:
    under_way, most = 0, 0
    prefix = new_prefix()

    async def call(bus) -> None:
        nonlocal under_way, most
        async with bus.turns.take(MODEL, 3):
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0.01)
            under_way -= 1

    async with asyncio.timeout(60), rabbit(prefix=prefix) as one, open_rabbit_bus(URL, prefix=prefix) as two:
        await asyncio.gather(*(call(bus) for _ in range(12) for bus in (one, two)))
    assert most == 3


async def test_the_turns_of_one_that_dies_are_free_again() -> None:
    prefix = new_prefix()
    async with asyncio.timeout(60), rabbit(prefix=prefix) as living, AsyncExitStack() as held:
        dying = await held.enter_async_context(open_rabbit_bus(URL, prefix=prefix))
        taking = dying.turns.take(MODEL, 1)
        await taking.__aenter__()
        waiting = asyncio.create_task(_taken(living))
        done, _ = await asyncio.wait({waiting}, timeout=0.3)
        assert not done, "it is held"
        await dying.close()
        await waiting


async def _taken(bus) -> None:
    async with bus.turns.take(MODEL, 1):
        return


async def test_a_turn_is_kept_for_its_time_and_then_free() -> None:
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(60), rabbit() as bus:
        began = loop.time()
        for _ in range(2):
            async with bus.turns.take("minute.x", 1, keep=0.4):
                pass
        assert loop.time() - began >= 0.4


async def test_one_who_stops_waiting_takes_nothing() -> None:
    async with asyncio.timeout(60), rabbit() as bus:
        async with bus.turns.take(MODEL, 1):
            waiting = asyncio.create_task(_taken(bus))
            await asyncio.wait({waiting}, timeout=0.1)
            waiting.cancel()
            await asyncio.wait({waiting})
        await _taken(bus)
