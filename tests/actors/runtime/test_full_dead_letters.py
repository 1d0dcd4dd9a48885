"""As many dead letters as may be: a bad message more is kept where it is, and everything else goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.actors.runtime.test_coordinator import START, bus_message
from tests.actors.runtime.test_worker import answers, ask
from tests.dead_letters import dead_letters_on
from tests.events.rabbit_server import URL, clear, new_prefix, rabbit, require_rabbitmq
from tests.proxy import Proxy

from redraft.actors.runtime import full_dead_letters
from redraft.actors.runtime.coordinating.command_handler import CommandHandler
from redraft.actors.runtime.coordinating.coordinator import Coordinator
from redraft.actors.runtime.coordinating.sharing import Share
from redraft.actors.runtime.full_dead_letters import keeping_refused
from redraft.actors.runtime.relaying.queue_publisher import Blocked, Freed, Trouble, UnusableQueues
from redraft.actors.runtime.working.worker import Worker
from redraft.actors.values import ignore
from redraft.actors.workflow.roles import generator
from redraft.events.backends import open_store
from redraft.events.bus.local import LocalBus
from redraft.events.bus.port import DEAD_LETTERS, INBOX, Bus, BusMessage, Consumer, DeadLetter, work_queue
from redraft.events.messages.envelope import Origin
from redraft.events.rabbit.bus import RabbitBus
from redraft.events.shares import Turn

CAPACITY = 2
BAD = 4
WORK = work_queue("generator", "write")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(full_dead_letters, "AGAIN", 0.05)


@asynccontextmanager
async def local() -> AsyncIterator[LocalBus]:
    async with LocalBus(capacity=CAPACITY) as bus:
        yield bus


def on_rabbit() -> AbstractAsyncContextManager[RabbitBus]:
    return rabbit(capacity=CAPACITY, queues=(INBOX, WORK))


BUSES = pytest.mark.parametrize("opened", [local, on_rabbit])


class Whole:
    """Leases for a coordinator that has no partitions."""

    async def take_turn(self, me: str, reads: object, partitions: int) -> Turn:
        return Turn((), (), ())

    async def leave(self, me: str) -> None:
        pass


@asynccontextmanager
async def at_work(part: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """It is still at work after the block."""
    task = asyncio.create_task(part)
    try:
        yield
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.wait([task])


async def put_bad(bus: Bus, queue: str) -> None:
    for number in range(BAD):
        await bus.publish(queue, [BusMessage("nonsense.v1", b"{}", Origin(f"bad{number}", "x"), "r")])


async def dead_letters_when(bus: Bus, wanted: set[str]) -> Sequence[DeadLetter]:
    """The dead letters, once these are among them."""
    found: Sequence[DeadLetter] = ()
    async with asyncio.timeout(60):
        while not wanted <= {each.bus_message.origin.id for each in found}:
            await asyncio.sleep(0.01)
            found = await dead_letters_on(bus)
    return found


async def require_told_and_kept(bus: Bus, told: list[Trouble]) -> None:
    """They are told of once, and become dead letters as soon as there is room.

    There is as well while somebody looks at those that are there, as this test does.
    """
    async with asyncio.timeout(60):
        while not told:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    [blocked] = told
    first = await dead_letters_when(bus, {"bad0", "bad1"})
    assert isinstance(blocked, Blocked)
    assert blocked.queue == DEAD_LETTERS
    assert f"there are {CAPACITY} already" in blocked.fault
    assert "fix the cause" in blocked.fault
    for each in first:
        if each.bus_message.origin.id in ("bad0", "bad1"):
            assert await bus.discard(each.id)
    await dead_letters_when(bus, {"bad2", "bad3"})
    async with asyncio.timeout(60):
        while told[-1] != Freed(DEAD_LETTERS):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert [type(each) for each in told] == [Blocked, Freed] * (len(told) // 2)


@BUSES
async def test_a_coordinator_goes_on(opened: Callable[[], AbstractAsyncContextManager[LocalBus | RabbitBus]]) -> None:
    told: list[Trouble] = []

    async def resend(*_: object) -> None:
        pass

    async with opened() as bus, open_store("memory:") as store:
        share = Share("me", 0, Whole(), on_trouble=told.append)
        coordinator = Coordinator(CommandHandler(store, lambda: datetime.now(UTC), resend), bus, share)
        async with at_work(coordinator.run()):
            await put_bad(bus, INBOX)
            await bus.publish(INBOX, [bus_message(START)])
            async with asyncio.timeout(60):
                while not await store.read("r"):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            await require_told_and_kept(bus, told)


@BUSES
async def test_a_worker_goes_on(opened: Callable[[], AbstractAsyncContextManager[LocalBus | RabbitBus]]) -> None:
    told: list[Trouble] = []

    @generator
    def write(brief):
        return "text"

    async with opened() as bus, at_work(Worker([write], bus, lambda: "id", on_trouble=told.append).run()):
        await put_bad(bus, WORK)
        await ask(bus, "write")
        await answers(bus, 1)
        await require_told_and_kept(bus, told)


@BUSES
async def test_what_is_kept_is_in_its_queue_again_when_its_reader_leaves(
    opened: Callable[[], AbstractAsyncContextManager[LocalBus | RabbitBus]],
) -> None:
    @generator
    def write(brief):
        return "text"

    async with opened() as bus:
        worker = Worker([write], bus, lambda: "id")
        task = asyncio.create_task(worker.run())
        await put_bad(bus, WORK)
        await ask(bus, "write")
        await answers(bus, 1)
        worker.drain()
        async with asyncio.timeout(60):
            await task
            await bus.discard_all()
            async with bus.consume(WORK, 10) as reader:
                found: set[str] = set()
                while len(found) < BAD - CAPACITY:
                    found |= {each.bus_message.origin.id for each in await reader.take(10)}
        assert found == {f"bad{number}" for number in range(CAPACITY, BAD)}


async def test_a_connection_that_ends_leaves_no_copy_of_what_is_kept() -> None:
    require_rabbitmq()
    prefix = new_prefix()
    try:
        async with (
            Proxy(urlsplit(URL).port or 5672).open() as proxy,
            RabbitBus(proxy.through(URL), prefix=prefix, capacity=CAPACITY) as bus,
            bus.consume(WORK, BAD - CAPACITY + 1) as consumer,
            keeping_refused(consumer, UnusableQueues(ignore)) as reader,
            asyncio.timeout(60),
        ):
            await asyncio.gather(put_bad(bus, WORK), refuse_all(reader, {"bad0", "bad1", "bad2", "bad3"}))
            for _ in range(3):
                proxy.cut()
                await refuse_all(reader, {"bad2", "bad3"})
            await ask(bus, "write")
            assert [each.bus_message.origin.id for each in await reader.take(1)] == ["request1"]
            await bus.discard_all()
            await dead_letters_when(bus, {"bad2", "bad3"})
            assert len(await dead_letters_on(bus)) == 2
    finally:
        await clear(URL, prefix, [WORK])


async def refuse_all(reader: Consumer, wanted: set[str]) -> None:
    """Takes and refuses messages until it had all of these."""
    found: set[str] = set()
    while found != wanted:
        for each in await reader.take(1):
            found.add(each.bus_message.origin.id)
            await reader.reject(each, requeue=False, reason="bad")
