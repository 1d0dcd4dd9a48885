"""The kinds of queues on RabbitMQ: how they are made, and what readers of classic ones do for themselves."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import aio_pika
import pytest
from pamqp.common import FieldTable
from tests.dead_letters import dead_letters_on
from tests.events.rabbit_server import URL, new_prefix, rabbit

from redraft.events.bus.port import INBOX, BusMessage, Consumer, DeadLetter, Delivery, work_queue
from redraft.events.errors import BusError, BusUnusable
from redraft.events.messages.envelope import Origin
from redraft.events.rabbit.bus import RabbitBus
from redraft.events.rabbit.topology import Kind

QUEUE: Final = work_queue("critic", "judge")
KINDS: Final[tuple[Kind, ...]] = ("quorum", "classic")
READ: Final = [("quorum", QUEUE), *((kind, INBOX) for kind in KINDS)]
"""Those that are read alike: requests whose inbox is of the first kind, and the inbox of each kind."""

FOREVER: Final = 60.0


@asynccontextmanager
async def opened(
    kind: Kind = "classic", limit: int = 20, capacity: int = 10_000
) -> AsyncIterator[tuple[RabbitBus, str]]:
    prefix = new_prefix()
    async with (
        asyncio.timeout(FOREVER),
        rabbit(prefix=prefix, kind=kind, delivery_limit=limit, capacity=capacity) as bus,
    ):
        yield bus, prefix


def bus_messages(last: int) -> list[BusMessage]:
    return [BusMessage("n.v1", b'{"n":%d}' % n, Origin(f"id-{n}", "test"), f"run-{n}") for n in range(1, last + 1)]


async def take_exactly(consumer: Consumer, wanted: int) -> list[Delivery]:
    taken: list[Delivery] = []
    while len(taken) < wanted:
        taken += await consumer.take(wanted - len(taken))
    return taken


async def dead_letters_when(bus: RabbitBus, number: int) -> Sequence[DeadLetter]:
    while len(dead_letters := await dead_letters_on(bus)) < number:  # noqa: ASYNC110 - the server tells nobody
        await asyncio.sleep(0.01)
    return dead_letters


@asynccontextmanager
async def channel() -> AsyncIterator[aio_pika.abc.AbstractChannel]:
    """A stranger's channel to the same server."""
    async with await aio_pika.connect(URL) as connection, connection.channel() as made:
        yield made


async def hold_and_die(queue: str, number: int) -> None:
    """A stranger takes so many messages and is gone without a word."""
    connection = await aio_pika.connect(URL)
    made = await connection.channel()
    await made.set_qos(prefetch_count=number)
    all_there = asyncio.Event()
    there: list[aio_pika.abc.AbstractIncomingMessage] = []

    async def arrived(message: aio_pika.abc.AbstractIncomingMessage) -> None:
        there.append(message)
        if len(there) == number:
            all_there.set()

    await (await made.get_queue(queue)).consume(arrived)
    await all_there.wait()
    await connection.close()


async def killed_reader(prefix: str, kind: Kind, queue: str, poison: str, limit: int) -> list[str]:
    """What a process read until it killed itself."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.events.killed_reader", prefix, kind, queue, poison, str(limit)),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    assert process.returncode == -9
    return out.decode().splitlines()


async def test_classic_queues_are_as_designed() -> None:
    async with opened(limit=7) as (bus, prefix):
        await bus.publish(QUEUE, bus_messages(1))
        await bus.publish(INBOX, bus_messages(1))
        work: FieldTable = {
            "x-queue-type": "classic",
            "x-max-priority": 1,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": f"{prefix}.dead-letters",
            "x-overflow": "reject-publish",
        }
        async with channel() as stranger:  # each of these is refused unless it is there with just these settings
            await stranger.declare_queue(f"{prefix}.critic.judge", durable=True, arguments=work)
            await stranger.declare_queue(f"{prefix}.inbox", durable=True, arguments=work)
            dead_letter: FieldTable = {"x-queue-type": "quorum", "x-delivery-limit": 2**31 - 1}
            await stranger.declare_queue(f"{prefix}.dead-letters", durable=True, arguments=dead_letter)


@pytest.mark.parametrize(("there", "here"), [KINDS, KINDS[::-1]])
async def test_a_queue_of_the_other_kind_is_refused_and_the_setting_is_named(there: Kind, here: Kind) -> None:
    async with opened(there) as (bus, prefix):
        await bus.publish(INBOX, bus_messages(1))
        async with RabbitBus(URL, prefix=prefix, queues=here) as other:
            told = rf"{prefix}.inbox is there with other settings .*REDRAFT_QUEUE_TYPE, here {here}"
            with pytest.raises(BusUnusable, match=told):
                await other.publish(INBOX, bus_messages(1))
            for queue in (INBOX, QUEUE):  # nobody takes requests whose answers he could not send
                async with other.consume(queue, 1) as consumer:
                    with pytest.raises(BusUnusable, match=told):
                        await consumer.take(1)


async def test_a_queue_of_requests_that_an_earlier_release_made_is_refused_and_the_remedy_is_told() -> None:
    """Each kind of requests was possible then: `classic` is what is made now."""
    async with opened() as (bus, prefix), channel() as stranger:
        earlier: FieldTable = {
            "x-queue-type": "quorum",
            "x-delivery-limit": 19,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": f"{prefix}.dead-letters",
            "x-dead-letter-strategy": "at-least-once",
            "x-overflow": "reject-publish",
        }
        await stranger.declare_queue(f"{prefix}.critic.judge", durable=True, arguments=earlier)
        told = rf"{prefix}.critic.judge is there with other settings .*delete the queue, whatever is in it"
        with pytest.raises(BusUnusable, match=told) as refused:
            await bus.publish(QUEUE, bus_messages(1))
        assert "REDRAFT_QUEUE_TYPE" not in str(refused.value)
        async with bus.consume(QUEUE, 1) as consumer:
            with pytest.raises(BusUnusable, match=told):
                await consumer.take(1)
            await stranger.queue_delete(f"{prefix}.critic.judge")
            await bus.publish(QUEUE, bus_messages(1))
            assert [each.bus_message for each in await consumer.take(1)] == bus_messages(1)


@pytest.mark.check
@pytest.mark.parametrize(("kind", "queue"), READ)
async def test_a_letter_that_kills_its_reader_each_time_is_dead_lettered_and_the_others_are_read(
    kind: Kind, queue: str
) -> None:
    async with opened(kind, limit=3) as (bus, prefix):
        for each in bus_messages(3):  # together they would share a message in the inbox
            await bus.publish(queue, [each])
        assert await killed_reader(prefix, kind, queue, "run-2", 3) == ["run-1 1", "run-2 1"]
        for times in (2, 3):
            assert await killed_reader(prefix, kind, queue, "run-2", 3) == [f"run-2 {times}"]
        async with bus.consume(queue, 1) as consumer:
            (last,) = await consumer.take(1)
            assert (last.bus_message, last.count) == (bus_messages(3)[2], 1)
            await consumer.ack([last])
            (dead_letter,) = await dead_letters_when(bus, 1)
            assert (dead_letter.bus_message, dead_letter.queue) == (bus_messages(3)[1], queue)
            assert "the last consumer left before it was settled" in dead_letter.reason
            assert await bus.retry(dead_letter.id)
            (again,) = await consumer.take(1)
            assert (again.bus_message, again.count) == (bus_messages(3)[1], 1)


async def test_what_came_back_is_counted_in_a_header_before_anybody_works_on_it() -> None:
    async with opened() as (bus, prefix):
        await bus.publish(QUEUE, bus_messages(2))
        await hold_and_die(f"{prefix}.critic.judge", 2)
        async with bus.consume(QUEUE, 2) as consumer:
            assert [(each.bus_message, each.count) for each in await take_exactly(consumer, 2)] == [
                (each, 2) for each in bus_messages(2)
            ]
            await bus.publish(QUEUE, bus_messages(1))
        async with channel() as stranger:
            place = await stranger.get_queue(f"{prefix}.critic.judge")
            seen = [await place.get(no_ack=True) for _ in range(3)]
        told = [(each.headers["cloudEvents:id"], each.headers.get("redraft-delivered"), each.priority) for each in seen]
        assert told == [("id-1", 2, 1), ("id-2", 2, 1), ("id-1", None, 0)]
        assert not any(each.redelivered for each in seen)


async def test_to_be_sent_ahead_counts_for_nothing_when_the_reader_leaves() -> None:
    """However often: what nobody has begun is not dead-lettered for what others did."""
    async with opened(limit=3) as (bus, _):
        await bus.publish(QUEUE, bus_messages(4))
        for _ in range(5):
            async with bus.consume(QUEUE, 4) as consumer:
                (first,) = await consumer.take(1)
                if first.bus_message.run == "run-1":
                    await consumer.ack([first])
        async with bus.consume(QUEUE, 4) as consumer:
            rest = await take_exactly(consumer, 2)
            assert [(each.bus_message.run, each.count) for each in rest] == [("run-3", 2), ("run-4", 1)]
        assert [each.bus_message.run for each in await dead_letters_when(bus, 1)] == ["run-2"]


async def test_a_message_of_a_stranger_keeps_its_headers_and_body_when_it_comes_back() -> None:
    async with opened() as (bus, prefix):
        await bus.publish(INBOX, bus_messages(1))
        async with bus.consume(INBOX, 1) as consumer:
            await consumer.ack(await consumer.take(1))
        strange = aio_pika.Message(b"no JSON \xff", headers={"mine": "kept", "redraft-delivered": "much"})
        async with channel() as stranger:
            await stranger.default_exchange.publish(strange, f"{prefix}.inbox")
        await hold_and_die(f"{prefix}.inbox", 1)
        async with bus.consume(INBOX, 1) as consumer:
            (delivery,) = await consumer.take(1)
            assert (delivery.bus_message.body, delivery.count) == (b"no JSON \xff", 2)
            await consumer.reject(delivery, requeue=False, reason="no JSON")
        async with channel() as stranger:
            message = await (await stranger.get_queue(f"{prefix}.dead-letters")).get(no_ack=True)
            assert (message.headers["mine"], message.headers["redraft-delivered"]) == ("kept", 1)


async def test_what_was_delivered_too_often_is_set_aside_though_the_dead_letter_queue_is_full() -> None:
    """As the server does on quorum queues: it must not be worked on once more, nor end its reader."""
    async with opened(limit=1, capacity=1) as (bus, prefix):
        await bus.publish(QUEUE, bus_messages(1))
        async with bus.consume(QUEUE, 1) as consumer:
            await consumer.reject((await consumer.take(1))[0], requeue=False, reason="first")
        await bus.publish(QUEUE, bus_messages(1))
        await hold_and_die(f"{prefix}.critic.judge", 1)
        async with bus.consume(QUEUE, 1) as consumer:
            taking = asyncio.create_task(consumer.take(1))
            first, second = await dead_letters_when(bus, 2)
            assert (first.reason, second.queue) == ("first", QUEUE)
            assert second.reason == "delivered 1 times; the last consumer left before it was settled"
            assert not taking.done()
            await bus.publish(QUEUE, bus_messages(2)[1:])
            assert [each.bus_message.run for each in await taking] == ["run-2"]


async def test_a_reader_that_leaves_a_bus_that_is_closed_loses_nothing() -> None:
    async with opened() as (bus, prefix):
        await bus.publish(QUEUE, bus_messages(3))
        async with RabbitBus(URL, prefix=prefix, queues="classic") as other, other.consume(QUEUE, 2) as consumer:
            await consumer.take(1)
            await other.close()
            with pytest.raises(BusError):
                await consumer.take(1)
        async with bus.consume(QUEUE, 3) as consumer:
            taken = await take_exactly(consumer, 3)
            assert sorted(each.bus_message.run for each in taken) == ["run-1", "run-2", "run-3"]
