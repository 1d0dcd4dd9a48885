"""Letters that share a message arrive, come back, and are set aside each by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import aio_pika
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dead_letters import dead_letters_on
from tests.events.rabbit_server import URL, new_prefix, rabbit

from redraft.events.bus.port import INBOX, BusMessage, Consumer, Delivery, work_queue
from redraft.events.messages.envelope import Origin
from redraft.events.rabbit.bus import RabbitBus
from redraft.events.rabbit.structured_events import BATCH, LARGEST, group_messages
from redraft.events.rabbit.topology import Kind, Names

QUEUE = work_queue("critic", "judge")
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(params=["quorum", "classic"])
def kind(request: pytest.FixtureRequest) -> Kind:
    """Of the queues."""
    which: Kind = request.param
    return which


def bus_messages(last: int) -> list[BusMessage]:
    origin = Origin("id", "critic the judge", "cause", "start", TRACE)
    return [BusMessage("draft.critiqued.v1", b'{"n":%d}' % n, origin, f"run-{n}") for n in range(1, last + 1)]


async def take_exactly(consumer: Consumer, wanted: int) -> list[Delivery]:
    taken: list[Delivery] = []
    while len(taken) < wanted:
        taken += await consumer.take(wanted - len(taken))
    return taken


async def depth(prefix: str, queue: str) -> int:
    """How many messages wait, by a stranger's count."""
    async with await aio_pika.connect(URL) as connection, connection.channel() as channel:
        place = await channel.declare_queue(Names(prefix).there(queue), passive=True)
        return place.declaration_result.message_count or 0


async def empty(prefix: str, queue: str) -> None:
    while await depth(prefix, queue):  # noqa: ASYNC110 - the server tells nobody
        await asyncio.sleep(0.01)


BODIES = st.sampled_from([b"{}", b"no json", b'"' + b"x" * LARGEST + b'"'])


@given(st.lists(BODIES), st.integers(1, 5))
def test_groups_keep_the_order_are_bounded_and_leave_alone_what_must_be(bodies: Sequence[bytes], most: int) -> None:
    given = [BusMessage("n", body, Origin(str(number), "a")) for number, body in enumerate(bodies)]
    groups = list(group_messages(given, most))
    assert [bus_message for group in groups for bus_message in group] == given
    assert all(0 < len(group) <= most for group in groups)
    assert all(len(group) == 1 or {bus_message.body for bus_message in group} == {b"{}"} for group in groups)
    small = [bus_message.body for bus_message in given]
    if set(small) == {b"{}"}:
        assert len(groups) == -(-len(small) // most)


async def test_letters_for_the_inbox_share_a_message_and_arrive_as_they_were_sent(kind: Kind) -> None:
    prefix = new_prefix()
    async with asyncio.timeout(30), rabbit(kind=kind, prefix=prefix) as bus:
        await bus.publish(INBOX, bus_messages(5))
        assert await depth(prefix, INBOX) == 1
        async with bus.consume(INBOX, 10) as inbox:
            taken = await take_exactly(inbox, 5)
            assert [delivery.bus_message for delivery in taken] == bus_messages(5)
            assert {delivery.count for delivery in taken} == {1}
            await inbox.ack(taken[:4])
            await inbox.ack(taken[4:])
        await empty(prefix, INBOX)


@pytest.mark.parametrize(("batch", "messages"), [(1, 5), (4, 2)])
async def test_letters_for_work_share_a_message_where_the_bus_is_told_so(kind: Kind, batch: int, messages: int) -> None:
    prefix = new_prefix()
    async with asyncio.timeout(30), rabbit(kind=kind, prefix=prefix, batch=batch) as bus:
        await bus.publish(QUEUE, bus_messages(5))
        assert await depth(prefix, QUEUE) == messages
        async with bus.consume(QUEUE, 2) as consumer:
            first = await consumer.take(9)
            assert len(first) == 2
            await consumer.ack(first)
            rest = await take_exactly(consumer, 2)
            assert [delivery.bus_message for delivery in (*first, *rest)] == bus_messages(4)


async def test_what_was_left_comes_again_one_by_one_and_is_counted(kind: Kind) -> None:
    async with asyncio.timeout(30), rabbit(kind=kind) as bus:
        await bus.publish(INBOX, bus_messages(3))
        async with bus.consume(INBOX, 10) as dies:
            taken = await take_exactly(dies, 3)
            await dies.ack(taken[:2])
        left = ["run-1", "run-2", "run-3"] if kind == "quorum" else ["run-3"]  # there the reader sends it again
        async with bus.consume(INBOX, 10) as lives:
            again = await take_exactly(lives, len(left))
            assert sorted(delivery.bus_message.run for delivery in again) == left
            assert {delivery.count for delivery in again} == {2}
            await lives.ack(again)


async def test_what_was_not_even_taken_is_counted_when_its_neighbour_was(kind: Kind) -> None:
    """Its neighbour may be done: what comes again with it has to be confirmed, and so has it. On a classic queue, as
    those of requests are, its reader sends it again alone."""
    queue = INBOX if kind == "quorum" else QUEUE
    async with asyncio.timeout(30), rabbit(kind=kind, batch=4) as bus:
        await bus.publish(queue, bus_messages(3))
        async with bus.consume(queue, 10) as dies:
            await dies.ack(await take_exactly(dies, 2))
        async with bus.consume(queue, 10) as lives:
            expected = [("run-1", 2), ("run-2", 2), ("run-3", 2)] if kind == "quorum" else [("run-3", 1)]
            again = await take_exactly(lives, len(expected))
            assert sorted((delivery.bus_message.run, delivery.count) for delivery in again) == expected


async def test_one_of_several_is_dead_lettered_retried_and_given_back_by_itself(kind: Kind) -> None:
    prefix = new_prefix()
    async with asyncio.timeout(30), rabbit(kind=kind, prefix=prefix) as bus, bus.consume(INBOX, 10) as inbox:
        await bus.publish(INBOX, bus_messages(3))
        first, second, third = await take_exactly(inbox, 3)
        await inbox.reject(first, requeue=False, reason="nonsense")
        await inbox.reject(second, requeue=True, reason="later")
        await inbox.ack([third])
        (dead_letter,) = await dead_letters_on(bus)
        assert (dead_letter.bus_message, dead_letter.queue, dead_letter.reason) == (
            bus_messages(1)[0],
            INBOX,
            "nonsense",
        )
        (again,) = await inbox.take(9)
        assert (again.bus_message, again.count) == (bus_messages(2)[1], 2)
        await inbox.ack([again])
        assert await bus.retry(dead_letter.id)
        (retried,) = await inbox.take(9)
        assert (retried.bus_message, retried.count) == (bus_messages(1)[0], 1)
        await inbox.ack([retried])


async def test_one_that_ends_its_readers_is_dead_lettered_and_its_neighbours_are_not(kind: Kind) -> None:
    async with asyncio.timeout(60), rabbit(kind=kind, delivery_limit=4) as bus:
        await bus.publish(INBOX, bus_messages(3))
        done: set[str] = set()
        while len(done) < 2 or not await dead_letters_on(bus):
            await read_until_it_dies(bus, "run-2", done)
        assert [each.bus_message.run for each in await dead_letters_on(bus)] == ["run-2"]


async def read_until_it_dies(bus: RabbitBus, poison: str, done: set[str]) -> None:
    """Settles what comes, until the poison comes or is dead-lettered."""
    async with bus.consume(INBOX, 1) as inbox:
        while True:
            taking = asyncio.create_task(inbox.take(1))
            while not (await asyncio.wait({taking}, timeout=0.05))[0]:  # a broker tells nobody of a dead letter
                if len(done) == 2 and await dead_letters_on(bus):
                    taking.cancel()
                    return
            (delivery,) = taking.result()
            if delivery.bus_message.run == poison:
                return
            done.add(delivery.bus_message.run)
            await inbox.ack([delivery])


async def test_several_that_cannot_be_read_are_one_letter_that_can_be_dead_lettered(kind: Kind) -> None:
    prefix = new_prefix()
    async with asyncio.timeout(30), rabbit(kind=kind, prefix=prefix) as bus, bus.consume(INBOX, 10) as inbox:
        await bus.publish(INBOX, bus_messages(1))
        await inbox.ack(await inbox.take(1))
        async with await aio_pika.connect(URL) as connection, connection.channel() as channel:
            message = aio_pika.Message(b'[{"no": "event"}]', content_type=BATCH)
            await channel.default_exchange.publish(message, Names(prefix).there(INBOX))
        (delivery,) = await inbox.take(9)
        await inbox.reject(delivery, requeue=False, reason="no event")
        (dead_letter,) = await dead_letters_on(bus)
        assert dead_letter.bus_message.body == b'[{"no": "event"}]'
