"""One answer of RabbitMQ that never comes, on a connection that stays open: nobody waits for it for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest
from tests.events.rabbit.test_bus import LETTER, QUEUE
from tests.events.rabbit_server import URL, clear, new_prefix, require_rabbitmq
from tests.proxy import Proxy

from redraft.events.errors import BusError
from redraft.events.rabbit.bus import RabbitBus
from redraft.events.rabbit.publisher import Destination
from redraft.events.rabbit.survey import Survey

pytestmark = pytest.mark.check

DEADLINE = 60.0


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    require_rabbitmq()
    async with asyncio.timeout(DEADLINE), Proxy(urlsplit(URL).port or 5672).open() as made:
        yield made


@pytest.fixture
async def bus(proxy: Proxy) -> AsyncIterator[RabbitBus]:
    prefix = new_prefix()
    async with RabbitBus(proxy.through(URL), prefix=prefix, patience=20.0) as opened:
        await opened.publish(QUEUE, [LETTER])
        yield opened
    await clear(URL, prefix)


async def test_a_message_that_is_never_confirmed_is_sent_again(proxy: Proxy, bus: RabbitBus) -> None:
    swallowed = proxy.swallow(keep=True)
    await bus.publish(QUEUE, [LETTER])
    assert swallowed.done()
    async with bus.consume(QUEUE, 10) as consumer:
        counts: list[int] = []
        while not counts or max(counts) == 1:
            taken = await consumer.take(10)
            counts += [each.count for each in taken]
            await consumer.ack(taken)


async def test_who_is_never_told_that_it_may_read_asks_again(proxy: Proxy, bus: RabbitBus) -> None:
    async with bus.consume(QUEUE, 10) as consumer:
        swallowed = proxy.swallow(keep=True)
        (delivery,) = await consumer.take(1)
        assert swallowed.done()
        await consumer.ack([delivery])


async def test_a_look_at_the_server_without_an_answer_is_told(proxy: Proxy) -> None:
    async with Survey(proxy.through(URL)) as survey:
        await survey.ping()
        swallowed = proxy.swallow(keep=True)
        with pytest.raises(BusError, match="no answer within 10 seconds"):
            await survey.ping()
        assert swallowed.done()
        await survey.ping()


async def test_a_sender_goes_on_whose_channel_another_one_gave_up_while_its_queue_was_being_made(
    bus: RabbitBus,
) -> None:
    publisher, asked = bus._publisher, 0

    async def prepare() -> None:
        nonlocal asked
        asked += 1
        if asked == 1:
            assert publisher._writer is not None
            publisher._give_up(publisher._writer)

    place = Destination("another name for it", prepare)
    await publisher.send(place, [each async for each in bus._outgoing(QUEUE, [LETTER])])
    assert asked == 2, "what was made before the new channel is looked after again"
