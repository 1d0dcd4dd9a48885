"""Requests that RabbitMQ would not take: their pieces wait in queues of their own, and are gone with the request."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel
from aio_pika.exceptions import ChannelClosed
from tests.events.rabbit_server import URL, new_prefix, rabbit
from tests.rabbit_users import documented, rabbit_users

from redraft.events.bus.port import LARGEST_BODY, BusMessage, work_queue
from redraft.events.messages.envelope import Origin
from redraft.events.rabbit.bus import RabbitBus
from redraft.events.rabbit.large_bodies import PIECE

QUEUE = work_queue("critic", "judge")
BODY = b"0123456789abcdef" * (LARGEST_BODY // 16 + 100_000)
LARGE = BusMessage("draft.critique.v1", BODY, Origin("large", "relay"), "r")
SMALL = BusMessage("draft.critique.v1", b"{}", Origin("small", "relay"), "r")


async def pieces(prefix: str, headers: dict[str, object]) -> int | None:
    """The number of pieces that wait for the message with these headers; None if their queue is gone."""
    async with await aio_pika.connect(URL) as connection:
        channel = await connection.channel()
        with suppress(ChannelClosed):
            return await waiting(channel, str(headers["redraft-body"]))
    return None


async def waiting(channel: AbstractChannel, queue: str) -> int | None:
    """The number of messages that wait in the queue."""
    return (await channel.declare_queue(queue, passive=True)).declaration_result.message_count


async def peek(prefix: str) -> dict[str, object]:
    """The headers of the first message in the queue, which is back there when this returns."""
    async with await aio_pika.connect(URL) as connection, connection.channel() as channel:
        queue = await channel.get_queue(f"{prefix}.critic.judge", ensure=False)
        message = await queue.get(no_ack=False)
        assert message is not None
        assert message.body == b""
        behind = message.message_count
        await message.nack(requeue=True)
        async with asyncio.timeout(30):
            while await waiting(channel, queue.name) == behind:  # noqa: ASYNC110 - the server does it
                await asyncio.sleep(0.02)
        return dict(message.headers)


async def until(what: str, prefix: str, headers: dict[str, object], count: int | None) -> None:
    async with asyncio.timeout(30):
        while await pieces(prefix, headers) != count:  # noqa: ASYNC110 - the server does it
            await asyncio.sleep(0.02)


async def test_pieces_wait_beside_the_queue_and_are_gone_once_the_request_is_settled() -> None:
    prefix = new_prefix()
    async with rabbit(prefix=prefix) as bus:
        await bus.publish(QUEUE, [LARGE])
        headers = await peek(prefix)
        assert headers["redraft-pieces"] == -(-len(BODY) // PIECE) == 3
        assert str(headers["redraft-body"]).startswith(f"{prefix}.critic.judge.notes-body-")
        await until("the pieces wait", prefix, headers, 3)
        async with bus.consume(QUEUE, 5) as consumer:
            (taken,) = await consumer.take(5)
            assert taken.bus_message == LARGE
            await until("the pieces are given back", prefix, headers, 3)
            await consumer.ack([taken])
            await until("the pieces are gone", prefix, headers, None)


async def test_a_piece_that_was_sent_twice_counts_once() -> None:
    prefix = new_prefix()
    async with rabbit(prefix=prefix) as bus:
        await bus.publish(QUEUE, [LARGE])
        headers = await peek(prefix)
        async with await aio_pika.connect(URL) as connection, connection.channel() as channel:
            queue = await channel.get_queue(str(headers["redraft-body"]), ensure=False)
            first = await queue.get(no_ack=True)
            assert first is not None
            for _ in range(2):
                message = aio_pika.Message(first.body, headers=first.headers)
                await channel.default_exchange.publish(message, str(headers["redraft-body"]))
        async with bus.consume(QUEUE, 5) as consumer:
            (taken,) = await consumer.take(5)
            assert taken.bus_message == LARGE
            await consumer.ack([taken])
            await until("the pieces are gone", prefix, headers, None)


async def test_a_request_whose_pieces_were_lost_is_given_up_and_does_not_stop_others() -> None:
    prefix = new_prefix()
    async with rabbit(prefix=prefix) as bus:
        await bus.publish(QUEUE, [LARGE, SMALL])
        headers = await peek(prefix)
        async with await aio_pika.connect(URL) as connection, connection.channel() as channel:
            queue = await channel.get_queue(str(headers["redraft-body"]), ensure=False)
            await queue.purge()
            async with bus.consume(QUEUE, 5) as consumer:
                (taken,) = await consumer.take(5)
                assert taken.bus_message == SMALL
                await consumer.ack([taken])


async def test_a_request_whose_queue_of_pieces_is_gone_is_given_up_and_does_not_stop_others() -> None:
    prefix = new_prefix()
    async with rabbit(prefix=prefix) as bus:
        await bus.publish(QUEUE, [LARGE])
        headers = await peek(prefix)
        async with await aio_pika.connect(URL) as connection, connection.channel() as channel:
            await channel.queue_delete(str(headers["redraft-body"]))
        async with bus.consume(QUEUE, 5) as consumer:
            await bus.publish(QUEUE, [SMALL])
            numbers = [each.bus_message.origin.id for each in await consumer.take(5)]
            assert numbers == ["small"]


@pytest.mark.parametrize("name", ["{prefix}.inbox", "{prefix}.critic.judge.notes-body-x", "{prefix}.critic.judge", ""])
async def test_a_strangers_header_names_no_other_queue(name: str) -> None:
    prefix = new_prefix()
    async with rabbit(prefix=prefix) as bus:
        await bus.prepare()
        await bus.publish(QUEUE, [SMALL])
        async with bus.consume(QUEUE, 5) as consumer:
            await consumer.ack(await consumer.take(1))
            async with await aio_pika.connect(URL) as connection, connection.channel() as channel:
                headers = {"redraft-body": name.format(prefix=prefix), "redraft-pieces": 1}
                message = aio_pika.Message(b"{}", headers=headers)
                await channel.default_exchange.publish(message, f"{prefix}.critic.judge")
                (taken,) = await consumer.take(1)
                assert taken.bus_message.body == b"{}"
                await consumer.ack([taken])
                await bus.publish(QUEUE, [SMALL])
                assert len(await consumer.take(1)) == 1
                assert await channel.get_queue(f"{prefix}.inbox") is not None


@pytest.mark.check
async def test_the_documented_rights_are_enough() -> None:
    rights = documented()
    with rabbit_users({name: rights[name] for name in ("coordinator", "critic")}) as users:
        async with RabbitBus(users.urls["coordinator"]) as coordinator, RabbitBus(users.urls["critic"]) as worker:
            await coordinator.prepare()
            await coordinator.publish(QUEUE, [LARGE])
            async with asyncio.timeout(60), worker.consume(QUEUE, 5) as consumer:
                (taken,) = await consumer.take(5)
                assert taken.bus_message.body == BODY
                await consumer.ack([taken])
