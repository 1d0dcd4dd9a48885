"""Whatever a broker can deliver can be refused, dead-lettered, looked at and discarded; nothing else is held up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

import aio_pika
import pytest
from tests.dead_letters import dead_letters_on
from tests.events.forged_properties import FORGED, TOLD, put_forged
from tests.events.rabbit.test_queues import KINDS, dead_letters_when, hold_and_die
from tests.events.rabbit_server import URL, new_prefix, rabbit

from redraft.actors.runtime.admission import Admission
from redraft.events.bus.port import INBOX, LONGEST_ATTRIBUTE, BusMessage
from redraft.events.errors import CodecError, MessageTooLarge, NoRoom
from redraft.events.messages.codec import encode_message
from redraft.events.messages.commands import CancelRun
from redraft.events.messages.envelope import Origin
from redraft.events.rabbit.bus import RabbitBus
from redraft.events.rabbit.structured_events import BATCH
from redraft.events.rabbit.topology import Kind

LONG: Final = "x" * 360_000
DOOR: Final = Admission(1000, 100_000)
GOOD: Final = BusMessage(*encode_message(CancelRun("r", "x")), Origin("good", "somebody"), "r")


def message(body: bytes = GOOD.body, headers: dict[str, object] | None = None, **properties) -> aio_pika.Message:
    return aio_pika.Message(body, headers={} if headers is None else headers, **properties)


def batch(*events: dict[str, object]) -> aio_pika.Message:
    return message(json.dumps(events).encode(), content_type=BATCH)


def cloud(**attributes: object) -> dict[str, object]:
    return {f"cloudEvents:{name}": value for name, value in attributes.items()}


EVENT: Final = {"specversion": "1.0", "id": "i", "source": "/redraft/x", "type": GOOD.name, "data": {"run": "r"}}
STRANGE: Final = {
    "nothing at all": message(b""),
    "no JSON": message(b"\xff\x00 no JSON", cloud(type=GOOD.name)),
    "zipped": message(b"\x1f\x8b\x08", cloud(type=GOOD.name), content_encoding="gzip", content_type="text/x"),
    "long source": message(GOOD.body, cloud(type=GOOD.name, subject="r", source="/redraft/" + LONG[:100_000])),
    "long everything": message(GOOD.body, cloud(type=LONG[:60_000], id=LONG[:50_000])),
    "many headers": message(GOOD.body, {f"h{n}": "x" * 20 for n in range(4_000)} | cloud(type="no.such.v1")),
    "odd headers": message(
        GOOD.body,
        {
            **cloud(type=7, id=[1, {"a": None}], source={"a": 1}, subject=datetime(1970, 1, 1, tzinfo=UTC)),
            "decimal": Decimal("1.5"),
            "number": 2**63 - 1,
            "nothing": None,
            "redraft-sent": 2**63 - 1,
            "redraft-delivered": -5,
            "redraft-queue": 3,
            "redraft-reason": ["x"],
        },
    ),
    "a batch with a long source": batch({**EVENT, "source": "/redraft/" + LONG}),
    "a batch with a long name": batch({**EVENT, "type": LONG}),
    "a batch of nothing": message(b"[]", content_type=BATCH),
    "a batch that is none": message(b"[{", content_type=BATCH),
}


@asynccontextmanager
async def opened(kind: Kind = "quorum") -> AsyncIterator[tuple[RabbitBus, str]]:
    prefix = new_prefix()
    async with asyncio.timeout(90), rabbit(prefix=prefix, kind=kind) as bus:
        await bus.publish(INBOX, [GOOD])
        async with bus.consume(INBOX, 1) as consumer:
            await consumer.ack(await consumer.take(1))
        yield bus, f"{prefix}.inbox"


async def put(queue: str, *messages: aio_pika.Message) -> None:
    async with await aio_pika.connect(URL) as connection, connection.channel() as channel:
        for each in messages:
            await channel.default_exchange.publish(each, queue, mandatory=True)


@pytest.mark.parametrize("kind", KINDS)
async def test_whatever_comes_is_dead_lettered_with_a_reason_and_the_rest_is_read(kind: Kind) -> None:
    async with opened(kind) as (bus, queue):
        await put(queue, *STRANGE.values())
        await bus.publish(INBOX, [GOOD])
        refused = 0
        async with bus.consume(INBOX, 100) as consumer:
            while True:
                (delivery,) = await consumer.take(1)
                try:
                    DOOR.message(delivery.bus_message)
                except CodecError as error:
                    refused += 1
                    await consumer.reject(delivery, requeue=False, reason=str(error))
                else:
                    assert delivery.bus_message.origin.id == "good"
                    await consumer.ack([delivery])
                    break
        assert refused == len(STRANGE)
        dead_letters = await dead_letters_on(bus)
        assert len(dead_letters) == len(STRANGE)
        assert {each.queue for each in dead_letters} == {INBOX}
        for each in dead_letters:
            assert 0 < len(each.reason) <= 4_000
            assert len(each.bus_message.origin.actor) <= LONGEST_ATTRIBUTE
        by_reason = "\n".join(each.reason for each in dead_letters)
        assert by_reason.count("bytes and are shortened here") == 5
        assert "its attribute actor has 100,000 bytes" in by_reason
        assert "its attribute actor has 360,000 bytes" in by_reason
        for each in dead_letters:
            assert await bus.discard(each.id)
        assert await dead_letters_on(bus) == []


@pytest.mark.parametrize("kind", KINDS)
async def test_properties_that_cannot_be_decoded_keep_nobody_from_reading(kind: Kind) -> None:
    """Also what came back as its reader left, and what somebody put among the dead letters."""
    async with opened(kind) as (bus, queue):
        await put_forged(URL, queue)
        async with bus.consume(INBOX, 100) as consumer:
            for _ in FORGED:
                await consumer.take(1)
        await bus.publish(INBOX, [GOOD])
        async with bus.consume(INBOX, 100) as consumer:
            for _ in FORGED:
                (delivery,) = await consumer.take(1)
                assert (delivery.bus_message.name, delivery.bus_message.body) == (TOLD, b"{}")
                await consumer.reject(delivery, requeue=False, reason="nobody knows it")
            (delivery,) = await consumer.take(1)
            assert delivery.bus_message.origin.id == "good"
            await consumer.ack([delivery])
        await put_forged(URL, f"{queue.removesuffix('.inbox')}.dead-letters")
        found = await dead_letters_on(bus)
        assert [each.queue for each in found] == [INBOX] * len(FORGED) + [""] * len(FORGED)
        assert {each.bus_message.name for each in found} == {TOLD}
        assert await bus.retry(found[0].id)
        assert len(await bus.retry_all()) == len(FORGED) - 1
        async with bus.consume(INBOX, 100) as consumer:
            for _ in FORGED:
                (delivery,) = await consumer.take(1)
                await consumer.reject(delivery, requeue=False, reason="nobody knows it")
        assert await bus.discard((await dead_letters_on(bus))[0].id)
        assert len(await bus.discard_all()) == 2 * len(FORGED) - 1


async def test_what_came_back_with_headers_that_cannot_be_sent_again_is_dead_lettered() -> None:
    """A classic queue has its readers send again what came back."""
    async with opened("classic") as (bus, queue):
        await put(queue, STRANGE["long source"], STRANGE["a batch with a long source"])
        await hold_and_die(queue, 2)
        await bus.publish(INBOX, [GOOD])
        async with bus.consume(INBOX, 10) as consumer:
            (delivery,) = await consumer.take(1)
            assert delivery.bus_message.origin.id == "good"
            dead_letters = await dead_letters_when(bus, 2)
        assert all("its headers are too large to be sent again" in each.reason for each in dead_letters)


async def test_nothing_is_put_among_the_dead_letters_of_a_stranger() -> None:
    """Such a queue may lose what is put into it: this one keeps the last message alone."""
    prefix = new_prefix()
    queue, settings = f"{prefix}.dead-letters", {"x-max-length": 1}
    async with await aio_pika.connect(URL) as connection, connection.channel() as channel:
        await channel.declare_queue(queue, durable=True, arguments=settings)
        async with asyncio.timeout(90), rabbit(prefix=prefix) as bus, bus.consume(INBOX, 10) as consumer:
            await bus.publish(INBOX, [GOOD])
            (delivery,) = await consumer.take(1)
            with pytest.raises(NoRoom, match=f"the queue {queue} is there with other settings"):
                await consumer.reject(delivery, requeue=False, reason="bad")
            assert await dead_letters_on(bus) == []
            await channel.queue_delete(queue)
            await consumer.reject(delivery, requeue=False, reason="bad")
            (dead_letter,) = await dead_letters_on(bus)
            assert (dead_letter.reason, dead_letter.bus_message.origin.id) == ("bad", "good")


async def test_a_letter_whose_headers_no_broker_takes_is_refused_and_the_connection_lives() -> None:
    async with opened() as (bus, _):
        large = BusMessage(GOOD.name, GOOD.body, Origin("i", LONG), "r")
        with pytest.raises(MessageTooLarge, match="its headers are more than any broker takes"):
            await bus.publish(INBOX, [GOOD, large])
        await bus.publish(INBOX, [GOOD])
        async with bus.consume(INBOX, 10) as consumer:
            assert [each.bus_message.origin.id for each in await consumer.take(10)] == ["good"], (
                "none of the others was put"
            )
