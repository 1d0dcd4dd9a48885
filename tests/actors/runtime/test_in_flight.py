"""A request that is there twice is worked on once: by one worker, and by one of several."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.actors.neighbourhood import Neighbourhood

from redraft.actors.runtime.working.in_flight import InFlightRequests
from redraft.events.errors import BusError

QUEUE = "redraft.critic.judge"
LONG, SHORT = 20.0, 0.01
"""Seconds of silence: for those who are answered, and for those who are not."""


@asynccontextmanager
async def peers(silence: float, *names: str, again: float = 0.0) -> AsyncIterator[list[InFlightRequests]]:
    room = Neighbourhood()
    all_of_them = [InFlightRequests(QUEUE, name, room, silence, again) for name in names]
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        tasks = [group.create_task(each.answer_peers()) for each in all_of_them]
        await room.until_heard_by(len(names), QUEUE)
        yield all_of_them
        for task in tasks:
            task.cancel()


async def test_what_nobody_is_at_work_on_can_be_begun() -> None:
    alone = InFlightRequests(QUEUE, "a", None)
    assert not await alone.begin_alone("r")
    assert not alone.begin("r")
    alone.end("r")
    assert alone.begin("r")
    async with peers(SHORT, "a", "b") as (one, other):
        assert other.begin("another")
        assert not await one.begin_alone("r")


async def test_what_is_at_work_here_is_waited_for_and_begun_by_one_at_a_time() -> None:
    alone = InFlightRequests(QUEUE, "a", None)
    alone.begin("r")
    waiting = {asyncio.create_task(alone.begin_alone("r")) for _ in range(3)}
    while waiting:
        for _ in range(5):
            await asyncio.sleep(0)
        assert not any(task.done() for task in waiting)
        alone.end("r")
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        assert [task.result() for task in done] == [True]


async def test_one_that_only_asked_around_was_not_at_work() -> None:
    """Else two copies of a request that nobody works on wait for each other, and ask again, for ever."""
    alone = InFlightRequests(QUEUE, "a", None)
    alone.begin("r")
    waiting = asyncio.create_task(alone.begin_alone("r"))
    await asyncio.sleep(0)
    alone.end("r", worked=False)
    assert not await waiting


async def test_what_is_at_work_elsewhere_is_asked_for_until_it_is_not() -> None:
    async with peers(LONG, "a", "b") as (one, other):
        other.begin("r")
        waiting = asyncio.create_task(one.begin_alone("r"))
        for _ in range(50):
            await asyncio.sleep(0)
        assert not waiting.done()
        one._silence = SHORT
        other.end("r")
        assert await waiting


async def test_of_two_who_ask_at_once_one_gives_way() -> None:
    async with peers(0.2, "a", "b") as (one, other):
        first, second = asyncio.create_task(one.begin_alone("r")), asyncio.create_task(other.begin_alone("r"))
        done, _ = await asyncio.wait({first, second}, return_when=asyncio.FIRST_COMPLETED)
        assert done == {first}
        assert not first.result()
        one.end("r")
        assert await second, "it has to be asked again whether there is an answer by now"


@pytest.mark.parametrize("note", [b"", b"{", b"\xff", b'{"request":"r"}', b"[]"])
async def test_what_is_no_note_is_passed_over(note: bytes) -> None:
    room = Neighbourhood()
    one, other = (InFlightRequests(QUEUE, name, room, LONG, 0.0) for name in "ab")
    hearing = [asyncio.create_task(each.answer_peers()) for each in (one, other)]
    await room.until_heard_by(2, QUEUE)
    await room.broadcast(QUEUE, note)
    other.begin("r")
    waiting = asyncio.create_task(one.begin_alone("r"))
    async with asyncio.timeout(60):
        while not any(b'"asks":false' in told for told in room.told):  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0)
    for task in (waiting, *hearing):
        assert not task.done()
        task.cancel()
    await asyncio.wait([waiting, *hearing])


async def test_a_bus_that_is_away_is_no_reason_to_wait() -> None:
    class Away(Neighbourhood):
        async def broadcast(self, queue: str, note: bytes) -> None:
            raise BusError("away")

    assert not await InFlightRequests(QUEUE, "a", Away(), SHORT).begin_alone("r")


async def test_who_is_cancelled_while_it_asks_is_not_at_work() -> None:
    one = InFlightRequests(QUEUE, "a", Neighbourhood(), LONG)
    asking = asyncio.create_task(one.begin_alone("r"))
    for _ in range(5):
        await asyncio.sleep(0)
    asking.cancel()
    await asyncio.wait([asking])
    assert one.begin("r")
