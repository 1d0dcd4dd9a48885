"""The partitions of the inbox on RabbitMQ: which one a message goes to, and who reads it."""

from __future__ import annotations

import asyncio
from typing import Any

import aio_pika
import pytest
from tests.events.rabbit_server import URL, new_prefix, rabbit
from tests.rabbit_users import Rights, rabbit_users

from redraft.events.bus.port import (
    INBOX,
    Bus,
    BusMessage,
    inbox_queues,
    is_partition,
    partition_of,
    partition_queue,
    reply_key,
    reply_queue,
)
from redraft.events.messages.envelope import Origin
from redraft.events.rabbit.bus import RabbitBus
from redraft.events.rabbit.survey import Survey
from redraft.events.rabbit.topology import Kind

DEADLINE = 60.0


def message(run: str, reply_to: str = "") -> BusMessage:
    return BusMessage("x.y.v1", b"{}", Origin(f"of {run}", "test"), run, reply_to=reply_to)


async def waiting(prefix: str, queue: str) -> int:
    async with Survey(URL, prefix) as survey:
        depth = await survey.queue(queue)
        return depth.waiting if depth else -1


def test_the_partition_of_a_run_is_what_other_languages_compute() -> None:
    """CRC-32 as of zlib, gzip and PNG; `docs/other-languages.md` names these numbers."""
    assert [partition_of(run, 16) for run in ("run-1", "Zürich", "")] == [3, 14, 0]


def test_a_request_names_the_partition_and_nothing_but_one_is_taken_from_it() -> None:
    assert reply_key("run-1", 16) == "inbox.3"
    assert reply_key("run-1", 0) == ""
    assert reply_queue("inbox.14") == "redraft.inbox.14"
    assert {reply_queue(key) for key in ("", "inbox", "critic.judge", "inbox.", "inbox.x", "events")} == {INBOX}
    assert not is_partition(INBOX)


@pytest.mark.parametrize("kind", ["quorum", "classic"])
async def test_a_message_goes_to_the_partition_of_its_run_or_where_its_sender_was_told(kind: Kind) -> None:
    prefix = new_prefix()
    async with asyncio.timeout(DEADLINE), rabbit(prefix=prefix, kind=kind, partitions=16) as bus:
        await bus.prepare()
        await bus.publish(INBOX, [message("run-1"), message("run-1", "redraft.inbox.5"), message("")])
        assert [await waiting(prefix, each) for each in (INBOX, partition_queue(3), partition_queue(5))] == [1, 1, 1]
        async with bus.consume(partition_queue(3), 10) as consumer:
            (delivery,) = await consumer.take(10)
            assert (delivery.queue, delivery.bus_message.run) == ("redraft.inbox.3", "run-1")


async def test_what_has_no_partition_there_goes_to_the_inbox() -> None:
    """Before a coordinator has made them, and from a sender that was told of more than there are."""
    prefix = new_prefix()
    async with asyncio.timeout(DEADLINE), rabbit(prefix=prefix, partitions=16) as bus:
        await bus.publish(INBOX, [message("run-2")])
        assert await waiting(prefix, INBOX) == 1
        async with RabbitBus(URL, prefix=prefix, partitions=4) as coordinator:
            await coordinator.prepare()
        await bus.publish(INBOX, [message("run-2"), message("run-2", "redraft.inbox.2")])
        assert await waiting(prefix, INBOX) == 2
        assert await waiting(prefix, partition_queue(2)) == 1


async def test_partitions_that_the_broker_lost_are_made_again_by_who_may() -> None:
    prefix = new_prefix()
    async with asyncio.timeout(DEADLINE), rabbit(prefix=prefix, partitions=4) as bus:
        await bus.prepare()
        queue = partition_queue(partition_of("run-1", 4))
        await bus.publish(INBOX, [message("run-1")])
        async with Survey(URL, prefix) as survey:
            await delete(survey.there(queue))
        await bus.publish(INBOX, [message("run-1")])
        assert await waiting(prefix, queue) == 1


async def delete(name: str) -> None:
    async with await aio_pika.connect(URL) as connection, connection.channel() as channel:
        await channel.queue_delete(name)


async def test_a_second_reader_of_a_partition_gets_nothing_while_the_first_is_there() -> None:
    """As when a coordinator believes that it holds what another took over."""
    prefix = new_prefix()
    second: asyncio.Queue[str] = asyncio.Queue()

    async def arrived(came: aio_pika.abc.AbstractIncomingMessage) -> None:
        second.put_nowait(str(came.headers["cloudEvents:subject"]))

    async with (
        asyncio.timeout(DEADLINE),
        rabbit(prefix=prefix, partitions=1) as bus,
        await aio_pika.connect(URL) as connection,
        connection.channel() as channel,
    ):
        await bus.prepare()
        async with bus.consume(partition_queue(0), 2) as first:
            await bus.publish(INBOX, [message("run-1")])
            await first.ack(await first.take(1))
            await (await channel.get_queue(f"{prefix}.inbox.0")).consume(arrived)
            for number in (2, 3):
                await bus.publish(INBOX, [message(f"run-{number}")])
                (delivery,) = await first.take(1)
                assert delivery.bus_message.run == f"run-{number}"
            assert second.empty()
        assert {await second.get() for _ in range(2)} == {"run-2", "run-3"}


async def test_all_partitions_together_have_the_capacity_of_the_inbox() -> None:
    async with asyncio.timeout(DEADLINE), rabbit(partitions=4, capacity=4) as bus:
        await bus.prepare()
        sending = asyncio.create_task(bus.publish(INBOX, [message(f"run-{number}") for number in range(40)]))
        readers = [asyncio.create_task(drain(bus, queue)) for queue in inbox_queues(4)]
        await sending
        for reader in readers:
            reader.cancel()
        await asyncio.wait(readers)


async def drain(bus: Bus, queue: str) -> None:
    async with bus.consume(queue, 10) as consumer:
        while True:
            await consumer.ack(await consumer.take(10))


async def declare_foreign(name: str, *bound: str, url: str = URL, **arguments: object) -> None:
    given: dict[str, Any] = {key.replace("_", "-"): value for key, value in arguments.items()}
    async with await aio_pika.connect(url) as connection, connection.channel() as channel:
        queue = await channel.declare_queue(name, durable=True, arguments=given)
        for exchange in bound:
            await queue.bind(exchange, name.partition(".")[2])


async def test_what_goes_to_a_partition_of_a_stranger_goes_to_the_inbox_until_it_is_deleted() -> None:
    prefix, theirs = new_prefix(), partition_queue(partition_of("run-1", 4))
    async with asyncio.timeout(DEADLINE), rabbit(prefix=prefix, partitions=4) as bus, Survey(URL, prefix) as survey:
        await declare_foreign(survey.there(theirs), x_queue_type="stream")
        await bus.prepare()
        assert await survey.missing() == []
        assert [each for each in inbox_queues(4) if not await survey.fits(each, "quorum")] == [theirs]
        async with RabbitBus(URL, prefix=prefix, partitions=4) as sender:
            await bus.publish(INBOX, [message("run-1")])
            await sender.publish(INBOX, [message("run-1")])
            assert await waiting(prefix, INBOX) == 2
            await delete(survey.there(theirs))
            async with RabbitBus(URL, prefix=prefix, partitions=4) as other:
                await other.prepare()
            while await waiting(prefix, theirs) < 1:
                await sender.publish(INBOX, [message("run-1")])


@pytest.mark.parametrize("bound", [True, False])
async def test_what_a_partition_that_was_replaced_does_not_take_goes_to_the_inbox(bound: bool) -> None:
    prefix, theirs = new_prefix(), partition_queue(partition_of("run-1", 4))
    async with asyncio.timeout(DEADLINE), rabbit(prefix=prefix, partitions=4) as bus, Survey(URL, prefix) as survey:
        await bus.prepare()
        await bus.publish(INBOX, [message("run-1"), message("run-2")])
        await delete(survey.there(theirs))
        exchange = [f"{prefix}.incoming"] if bound else []
        await declare_foreign(survey.there(theirs), *exchange, x_max_length=0, x_overflow="reject-publish")
        await bus.publish(INBOX, [message("run-1"), message("run-2")])
        assert await waiting(prefix, INBOX) == 1
        assert await waiting(prefix, partition_queue(partition_of("run-2", 4))) == 2


async def test_a_sender_that_may_declare_nothing_passes_by_the_partition_of_a_stranger() -> None:
    theirs = partition_queue(partition_of("run-1", 4))
    with rabbit_users({"owner": Rights(".*", ".*", ".*"), "sender": Rights("^$", ".*", ".*")}) as users:
        async with (
            asyncio.timeout(DEADLINE),
            RabbitBus(users.urls["owner"], partitions=4) as bus,
            Survey(users.urls["owner"]) as survey,
            RabbitBus(users.urls["sender"], partitions=4) as sender,
        ):
            await declare_foreign(survey.there(theirs), url=users.urls["owner"], x_queue_type="classic")
            await bus.prepare()
            for run in ("run-1", "run-2", "run-1"):
                await sender.publish(INBOX, [message(run)])
            depth = await survey.queue(INBOX)
            assert depth is not None
            assert depth.waiting == 2
