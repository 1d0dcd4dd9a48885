"""What workers of one actor tell each other on RabbitMQ."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager

import pytest
from tests.dead_letters import dead_letters_on
from tests.events.rabbit_server import URL, new_prefix, rabbit

from redraft.events.bus.port import BusMessage, work_queue
from redraft.events.errors import BusError
from redraft.events.messages.envelope import Origin
from redraft.events.rabbit.bus import RabbitBus
from redraft.events.rabbit.coordination import BroadcastReader

QUEUE, OTHER = work_queue("critic", "judge"), work_queue("critic", "prüfer-京都")
LETTER = BusMessage("draft.critiqued.v1", b"for you", Origin("id", "judge"), "run")


@asynccontextmanager
async def two_buses() -> AsyncIterator[tuple[RabbitBus, RabbitBus]]:
    prefix = new_prefix()
    async with asyncio.timeout(30), rabbit(prefix=prefix) as one, RabbitBus(URL, prefix=prefix) as other:
        yield one, other


class Listener:
    """Listens on a bus for as long as the context lasts."""

    def __init__(self, bus: RabbitBus, queue: str) -> None:
        self._bus = bus
        self._queue = queue
        self.heard: list[bytes] = []
        self._arrived = asyncio.Event()

    async def run(self) -> None:
        async with aclosing(self._bus.read_broadcasts(self._queue)) as notes:
            async for note in notes:
                self.heard.append(note)
                self._arrived.set()

    async def until(self, note: bytes) -> None:
        while note not in self.heard:
            self._arrived.clear()
            await self._arrived.wait()


@asynccontextmanager
async def listening(*listeners: Listener) -> AsyncIterator[None]:
    """They hear what is told from the beginning of the block on."""
    tasks = [asyncio.create_task(each.run()) for each in listeners]
    for number, each in enumerate(listeners):
        ready = b"are you there, %d?" % number
        while ready not in each.heard:
            await each._bus.broadcast(each._queue, ready)
            await asyncio.sleep(0.01)
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def test_all_who_listen_hear_what_one_tells_and_those_of_another_queue_do_not() -> None:
    async with two_buses() as (one, other):
        here, there, elsewhere = Listener(one, QUEUE), Listener(other, QUEUE), Listener(other, OTHER)
        async with listening(here, there, elsewhere):
            await one.broadcast(QUEUE, b"first")
            await other.broadcast(QUEUE, b"second")
            await one.broadcast(OTHER, b"third")
            await asyncio.gather(here.until(b"second"), there.until(b"second"), elsewhere.until(b"third"))
        assert here.heard[-2:] == there.heard[-2:] == [b"first", b"second"]
        assert not {b"first", b"second"} & set(elsewhere.heard)
        assert not await dead_letters_on(one)


async def test_what_is_told_is_no_letter_for_the_workers_of_the_queue() -> None:
    async with two_buses() as (one, other):
        listener = Listener(other, QUEUE)
        async with listening(listener), one.consume(QUEUE, 10) as consumer:
            await one.broadcast(QUEUE, b"not for you")
            await listener.until(b"not for you")
            await one.publish(QUEUE, [LETTER])  # what was told before it would come before it
            (delivery,) = await consumer.take(1)
            assert delivery.bus_message == LETTER
            await consumer.ack([delivery])


async def test_a_closed_bus_tells_nothing() -> None:
    async with rabbit() as bus:
        await bus.close()
        with pytest.raises(BusError):
            await bus.broadcast(QUEUE, b"x")
        with pytest.raises(BusError):
            bus.read_broadcasts(QUEUE)


async def test_a_worker_that_waits_for_its_coordinator_leaves_no_queue_for_each_try() -> None:
    tries, drawn = asyncio.Semaphore(0), 0

    async def prepare() -> None:
        tries.release()

    def names() -> Iterator[str]:
        nonlocal drawn
        while True:
            drawn += 1
            yield f"{exchange}.waiting-{drawn}"

    async with two_buses() as (one, other):
        exchange = one._names.cancellations
        reader = BroadcastReader(one._in, prepare, exchange, ["#"], names())
        heard = asyncio.Event()
        async with aclosing(reader.read(heard.set)) as messages:
            waiting = asyncio.ensure_future(anext(messages))
            for _ in range(3):
                await tries.acquire()
            assert drawn == 0
            await other.prepare()
            await heard.wait()
            assert drawn == 1
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
