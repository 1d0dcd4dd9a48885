"""The insides of the client that our writer relies on: they count and confirm our messages as the client's own.

These fail where a release of aiormq works otherwise; then `redraft.events.rabbit.fast_publish` has to follow, or go.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiormq
import pytest
from aiormq.abc import AbstractChannel
from aiormq.exceptions import DeliveryError
from tests.events.rabbit_server import URL, require_rabbitmq

from redraft.events.rabbit.fast_publish import FrameWriter, Outgoing
from redraft.events.rabbit.wire import Wires


@pytest.fixture
async def channel() -> AsyncIterator[AbstractChannel]:
    require_rabbitmq()
    connection = await aiormq.connect(URL, transport_factory=Wires())
    try:
        async with asyncio.timeout(60):
            yield await connection.channel(publisher_confirms=True)
    finally:
        await connection.close()


async def test_messages_of_the_writer_and_of_the_client_are_counted_and_confirmed_together(channel) -> None:
    queue = (await channel.queue_declare(exclusive=True)).queue
    writer = FrameWriter(channel, channel.connection._transport_factory.wire, "guest")
    ours = [writer.put(Outgoing("", queue, b"x" * size, {"n": size}), f"attempt-{size}") for size in (0, 10, 300_000)]
    await asyncio.gather(*ours)
    assert channel.delivery_tag == 3
    await channel.basic_publish(b"the client's own", routing_key=queue, mandatory=True)
    assert channel.delivery_tag == 4
    assert not channel.confirmations
    assert not channel.message_id_delivery_tag
    bodies = [(await channel.basic_get(queue, no_ack=True)).body for _ in range(4)]
    assert bodies == [b"", b"x" * 10, b"x" * 300_000, b"the client's own"]


async def test_a_message_of_the_writer_that_cannot_be_routed_is_returned_to_it_alone(channel) -> None:
    queue = (await channel.queue_declare(exclusive=True)).queue
    writer = FrameWriter(channel, channel.connection._transport_factory.wire, "guest")
    lost = writer.put(Outgoing("", "no-such-queue", b"lost", {}), "attempt-1")
    kept = writer.put(Outgoing("", queue, b"kept", {}), "attempt-2")
    await kept
    with pytest.raises(DeliveryError):
        await lost


async def test_messages_that_wait_are_failed_when_the_channel_ends(channel) -> None:
    writer = FrameWriter(channel, channel.connection._transport_factory.wire, "guest")
    await channel.close()
    confirmed = writer.put(Outgoing("", "queue", b"late", {}), "attempt-1")
    with pytest.raises((aiormq.AMQPError, asyncio.CancelledError)):
        async with asyncio.timeout(10):
            await confirmed
