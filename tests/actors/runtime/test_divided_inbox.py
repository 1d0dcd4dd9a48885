"""A coordinator's reader of several queues, and the share that it reads, on every bus."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager

import pytest
from tests.dead_letters import dead_letters_on
from tests.events.rabbit_server import rabbit

from redraft.actors.runtime.coordinating import divided_inbox
from redraft.actors.runtime.coordinating.divided_inbox import DividedInbox
from redraft.actors.runtime.coordinating.sharing import Share, open_inbox
from redraft.events.bus.local import LocalBus
from redraft.events.bus.port import INBOX, Bus, BusMessage, Consumer, Delivery, partition_queue
from redraft.events.errors import BusError, StoreError
from redraft.events.messages.envelope import Origin
from redraft.events.shares import Turn

DEADLINE = 60.0
FIRST, SECOND = partition_queue(0), partition_queue(1)


@pytest.fixture(params=["local", "quorum", "classic"])
async def bus(request: pytest.FixtureRequest) -> AsyncIterator[Bus]:
    opened = LocalBus() if request.param == "local" else rabbit(kind=request.param, partitions=2)
    async with asyncio.timeout(DEADLINE), opened as bus:
        if prepare := getattr(bus, "prepare", None):
            await prepare()
        yield bus


def message(number: int) -> BusMessage:
    return BusMessage("x.y.v1", b"{}", Origin(f"id-{number}", "test"), f"run-{number}")


def ids(deliveries: Sequence[Delivery]) -> list[str]:
    return [each.bus_message.origin.id for each in deliveries]


async def taken(inbox: Consumer, number: int) -> list[Delivery]:
    found: list[Delivery] = []
    while len(found) < number:
        found += await inbox.take(number - len(found))
    return found


@asynccontextmanager
async def reading(bus: Bus, *queues: str) -> AsyncIterator[tuple[DividedInbox, dict[str, asyncio.Event]]]:
    """A reader of these queues, and the events that end it for each."""
    inbox, closing = DividedInbox(bus), {queue: asyncio.Event() for queue in queues}
    tasks = [asyncio.create_task(inbox.serve(queue, 10, event)) for queue, event in closing.items()]
    try:
        yield inbox, closing
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def test_messages_of_all_queues_come_in_the_order_of_each_and_are_settled_where_they_came_from(bus: Bus) -> None:
    for queue, numbers in ((FIRST, range(5)), (SECOND, range(5, 10))):
        await bus.publish(queue, [message(number) for number in numbers])
    async with reading(bus, FIRST, SECOND) as (inbox, _):
        found = await taken(inbox, 10)
        for queue in (FIRST, SECOND):
            mine = [each for each in found if each.queue == queue]
            assert ids(mine) == sorted(ids(mine))
        assert len({each.tag for each in found}) == 10
        await inbox.ack(found[:5])
        await inbox.reject(found[5], requeue=False, reason="odd")
    assert [each.reason for each in await dead_letters_on(bus)] == ["odd"]
    async with reading(bus, FIRST, SECOND) as (inbox, _):
        missing = set(ids(found[6:]))
        while missing:
            missing -= set(ids(await inbox.take(10)))


@pytest.mark.check
async def test_a_queue_that_is_given_up_is_left_once_what_was_taken_is_settled(bus: Bus) -> None:
    await bus.publish(FIRST, [message(1)])
    inbox, closing = DividedInbox(bus), asyncio.Event()
    serving = asyncio.create_task(inbox.serve(FIRST, 10, closing))
    found = await taken(inbox, 1)
    closing.set()
    await bus.publish(FIRST, [message(2)])
    assert not serving.done()
    await inbox.ack(found)
    await serving
    async with reading(bus, FIRST) as (other, _):
        assert ids(await taken(other, 1)) == ["id-2"]


async def test_what_is_acknowledged_after_its_queue_was_left_comes_again(bus: Bus) -> None:
    await bus.publish(FIRST, [message(1)])
    inbox = DividedInbox(bus)
    serving = asyncio.create_task(inbox.serve(FIRST, 10, asyncio.Event()))
    found = await taken(inbox, 1)
    serving.cancel()
    await asyncio.wait([serving])
    await inbox.ack(found)
    async with reading(bus, FIRST) as (other, _):
        assert ids(await taken(other, 1)) == ["id-1"]


class Turns:
    """Leases that a test hands out."""

    def __init__(self, *held: int) -> None:
        self.turn = Turn(held)
        self.reads: list[tuple[int, ...]] = []
        self.left: list[str] = []
        self.away = False
        self.waits: asyncio.Event | None = None
        self.asked = asyncio.Event()

    async def take_turn(self, me: str, reads: Collection[int], partitions: int) -> Turn:
        if self.away:
            raise StoreError("the store is away")
        if self.waits is not None:
            self.asked.set()
            await self.waits.wait()
        self.reads.append(tuple(sorted(reads)))
        return self.turn

    async def leave(self, me: str) -> None:
        self.left.append(me)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def test_a_coordinator_reads_the_inbox_and_what_it_holds(bus: Bus) -> None:
    turns, told = Turns(0), []
    seen: list[Turn] = []
    await bus.publish(SECOND, [message(2)])
    async with open_inbox(
        bus, Share("me", 2, turns, changed=told.append, turned=seen.append), asyncio.Event()
    ) as inbox:
        await bus.publish(INBOX, [BusMessage("x.y.v1", b"{}", Origin("no run", "test"))])
        await bus.publish(FIRST, [message(1)])
        found = await taken(inbox, 2)
        assert sorted(ids(found)) == ["id-1", "no run"]
        turns.turn = Turn((0, 1), (0,))
        assert ids(await taken(inbox, 1)) == ["id-2"]
        turns.turn = Turn((1,))
        await inbox.ack(found)
        await until(lambda: turns.reads[-1] == (1,))
    assert told == [[0], [1]]
    assert list(dict.fromkeys(seen)) == [Turn((0,)), Turn((0, 1), (0,)), Turn((1,))]
    assert turns.left == ["me"]


async def test_without_the_store_it_reads_on_and_a_share_that_it_lost_is_given_up(bus: Bus) -> None:
    turns = Turns(0)
    async with open_inbox(bus, Share("me", 2, turns), asyncio.Event()) as inbox:
        await until(lambda: (0,) in turns.reads)
        turns.away = True
        await bus.publish(FIRST, [message(1)])
        await inbox.ack(await taken(inbox, 1))
        turns.away, turns.turn = False, Turn(())
        await until(lambda: turns.reads[-1] == ())


async def test_one_that_is_drained_takes_no_more_of_the_inbox_and_leaves_its_share(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One message is under way, and one waits, as its store hangs."""
    monkeypatch.setattr(divided_inbox, "PATIENCE", 0.05)
    turns, told, drained = Turns(0), [], asyncio.Event()
    await bus.publish(FIRST, [message(1), message(2)])
    await bus.publish(SECOND, [message(3)])
    async with open_inbox(bus, Share("me", 2, turns, changed=told.append, pause=0.001), drained) as inbox:
        found = await taken(inbox, 1)
        turns.waits = asyncio.Event()
        await turns.asked.wait()
        drained.set()
        turns.turn = Turn((0, 1))
        turns.waits.set()  # the turn was under way
        async with reading(bus, FIRST, SECOND) as (other, _):
            theirs = await taken(other, 3)
            await inbox.ack(found)  # too late: it was given back
            await other.ack(theirs)
        assert sorted(ids(theirs)) == ["id-1", "id-2", "id-3"]
    assert told == [[0]]


async def test_one_that_cannot_read_the_bus_takes_no_turn() -> None:
    turns, asked = Turns(0), asyncio.Event()

    async def check() -> None:
        asked.set()
        raise BusError("the broker is away")

    checks: Callable[[], Awaitable[None]] = check
    async with (
        asyncio.timeout(DEADLINE),
        LocalBus() as bus,
        open_inbox(bus, Share("me", 2, turns, checks), asyncio.Event()),
    ):
        await asked.wait()
    assert turns.reads == []
