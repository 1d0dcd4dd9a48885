"""What only the bus on RabbitMQ promises: how messages look, what strangers send, what comes back by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from uuid import UUID

import aio_pika
import pytest
from aio_pika.abc import AbstractIncomingMessage
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from pamqp.common import FieldTable
from pamqp.encode import field_table
from tests.dead_letters import dead_letters_on
from tests.events.rabbit_server import URL, new_prefix, rabbit, require_rabbitmq
from tests.free_ports import free_port

from redraft.events.bus.port import INBOX, BusMessage, DeadLetter, Delivery, work_queue
from redraft.events.errors import BusError, InputError, UnknownName
from redraft.events.messages.codec import decode_work
from redraft.events.messages.content import MAX_DRAFT_BYTES
from redraft.events.messages.envelope import Origin
from redraft.events.rabbit.bus import RabbitBus
from redraft.events.rabbit.cloudevents import sendable
from redraft.events.rabbit.connection import Lost, answer
from redraft.events.rabbit.survey import QueueBrowser

QUEUE = work_queue("critic", "judge")
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
LETTER = BusMessage("draft.critique.v1", b'{"a":1}', Origin("id-1", "critic judge", "cause", "start", TRACE), "run-1")


@asynccontextmanager
async def channel() -> AsyncIterator[aio_pika.abc.AbstractChannel]:
    """A stranger's channel to the same server."""
    async with await aio_pika.connect(URL) as connection, connection.channel() as opened:
        yield opened


@asynccontextmanager
async def in_time(capacity: int = 10_000, delivery_limit: int = 20) -> AsyncIterator[tuple[RabbitBus, str]]:
    prefix = new_prefix()
    async with asyncio.timeout(60), rabbit(prefix=prefix, capacity=capacity, delivery_limit=delivery_limit) as bus:
        yield bus, prefix


async def dead_letters_when(bus: RabbitBus, enough: Callable[[int], bool]) -> list[DeadLetter]:
    while not enough(len(dead_letters := await dead_letters_on(bus))):  # noqa: ASYNC110 - the server tells nobody
        await asyncio.sleep(0.005)
    return list(dead_letters)


async def get(queue: str) -> AbstractIncomingMessage:
    async with channel() as opened:
        place = await opened.get_queue(queue)
        message = await place.get(no_ack=True)
        assert message is not None
        return message


def headers(message: AbstractIncomingMessage) -> dict[str, object]:
    """The headers without those that the server adds."""
    return {name: value for name, value in message.headers.items() if not name.startswith("x-")}


async def test_a_letter_is_a_cloud_event_in_binary_mode() -> None:
    async with in_time() as (bus, prefix):
        await bus.publish(QUEUE, [LETTER, BusMessage("x.y.v1", b"", Origin("id-2", "Prüfer"))])
        message = await get(f"{prefix}.critic.judge")
        assert message.body == b'{"a":1}'
        assert (message.content_type, message.delivery_mode) == (
            "application/json",
            aio_pika.DeliveryMode.NOT_PERSISTENT,
        )
        assert headers(message) == {
            "cloudEvents:specversion": "1.0",
            "cloudEvents:id": "id-1",
            "cloudEvents:source": "/redraft/critic%20judge",
            "cloudEvents:type": "draft.critique.v1",
            "cloudEvents:subject": "run-1",
            "cloudEvents:causationid": "cause",
            "cloudEvents:correlationid": "start",
            "cloudEvents:traceparent": TRACE,
        }
        assert (message.exchange, message.routing_key) == (f"{prefix}.commands", "critic.judge")
        bare = await get(f"{prefix}.critic.judge")
        assert headers(bare) == {
            "cloudEvents:specversion": "1.0",
            "cloudEvents:id": "id-2",
            "cloudEvents:source": "/redraft/Pr%C3%BCfer",
            "cloudEvents:type": "x.y.v1",
        }
        assert message.message_id != bare.message_id


async def test_what_is_nowhere_else_is_written_to_the_disk_and_requests_are_not() -> None:
    async with in_time() as (bus, prefix):
        await bus.publish(INBOX, [LETTER])
        await bus.publish(INBOX, [LETTER, LETTER])
        kept = [(await get(f"{prefix}.inbox")).delivery_mode for _ in range(2)]
        await bus.publish(QUEUE, [LETTER])
        async with bus.consume(QUEUE, 1) as consumer:
            await consumer.take(1)
        again = await get(f"{prefix}.critic.judge")
        assert kept == [aio_pika.DeliveryMode.PERSISTENT] * 2
        assert (again.delivery_mode, again.headers["redraft-delivered"]) == (aio_pika.DeliveryMode.NOT_PERSISTENT, 1)


async def test_each_attempt_to_publish_has_an_id_of_its_own() -> None:
    async with in_time() as (bus, prefix):
        await bus.publish(QUEUE, [LETTER] * 3)
        ids = {(await get(f"{prefix}.critic.judge")).message_id for _ in range(3)}
        assert len(ids) == 3
        assert all(UUID(one.partition("-")[0]) for one in ids if one)


async def test_the_queues_are_as_designed() -> None:
    async with in_time(delivery_limit=7) as (bus, prefix):
        await bus.publish(QUEUE, [LETTER])
        await bus.publish(INBOX, [LETTER])
        common: FieldTable = {
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": f"{prefix}.dead-letters",
            "x-overflow": "reject-publish",
        }
        work = {**common, "x-queue-type": "classic", "x-max-priority": 1}
        counted: FieldTable = {"x-delivery-limit": 6, "x-dead-letter-strategy": "at-least-once"}
        inbox = {**common, **counted, "x-queue-type": "quorum"}
        async with channel() as opened:  # each of these is refused unless it is there with just these settings
            await opened.declare_queue(f"{prefix}.critic.judge", durable=True, arguments=work)
            await opened.declare_queue(f"{prefix}.inbox", durable=True, arguments=inbox)
            await opened.declare_exchange(f"{prefix}.commands", "direct", durable=True)
            dead_letter: FieldTable = {"x-queue-type": "quorum", "x-delivery-limit": 2**31 - 1}
            await opened.declare_queue(f"{prefix}.dead-letters", durable=True, arguments=dead_letter)


async def test_what_strangers_send_is_delivered_and_can_be_dead_lettered_as_it_was() -> None:
    async with in_time() as (bus, prefix), bus.consume(INBOX, 10) as consumer:
        await bus.publish(INBOX, [LETTER])
        await consumer.ack(await consumer.take(1))
        strange = [
            aio_pika.Message(b"not JSON \xff"),
            aio_pika.Message(b"{}", headers={"cloudEvents:type": "no.such.v1", "cloudEvents:id": 5, "mine": "kept"}),
            aio_pika.Message(b"{}", headers={"cloudEvents:type": bytearray(b"\xff\xfe"), "cloudEvents:source": "x:y"}),
        ]
        async with channel() as opened:
            for message in strange:
                await opened.default_exchange.publish(message, f"{prefix}.inbox")
        taken: list[Delivery] = []
        while len(taken) < 3:
            taken += await consumer.take(3)
        assert [one.bus_message.name for one in taken] == ["", "no.such.v1", "\ufffd\ufffd"]
        assert taken[1].bus_message.origin.id == "5"
        assert taken[2].bus_message.origin.actor == "x:y"
        for delivery in taken:
            with pytest.raises(UnknownName) as refused:
                decode_work(delivery.bus_message.name, delivery.bus_message.body)
            await consumer.reject(delivery, requeue=False, reason=str(refused.value))
        dead_letters = await dead_letters_when(bus, lambda n: n == 3)
        named = [replace(one.bus_message, origin=replace(one.bus_message.origin, id="")) for one in taken]
        assert [
            replace(one.bus_message, origin=replace(one.bus_message.origin, id="")) for one in dead_letters
        ] == named
        assert {one.queue for one in dead_letters} == {INBOX}
        assert [one.bus_message.body for one in dead_letters] == [message.body for message in strange]
        assert await bus.retry(dead_letters[1].id)
        (again,) = await consumer.take(1)
        assert (again.bus_message.body, again.count) == (taken[1].bus_message.body, 1)
        assert await bus.discard(dead_letters[0].id)
        kept = await get(f"{prefix}.dead-letters")
        assert kept.headers["redraft-queue"] == INBOX
        assert "no message is named" in str(kept.headers["redraft-reason"])


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.decimals() | st.text() | st.binary() | st.datetimes(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.text(max_size=9), VALUES, max_size=4))
def test_any_header_of_a_stranger_can_be_sent_again(table: FieldTable) -> None:
    assert len(field_table(sendable(table))) <= 70_000


def test_headers_that_fill_a_frame_are_left_out() -> None:
    assert sendable({"a": "b" * 100_000}) == {"redraft-shortened": 100_011}


async def test_what_was_dead_lettered_by_nobody_we_know_can_only_be_discarded() -> None:
    async with in_time() as (bus, prefix):
        assert list(await dead_letters_on(bus)) == []
        async with channel() as opened:
            await opened.default_exchange.publish(aio_pika.Message(b"?"), f"{prefix}.dead-letters")
        (stray,) = await dead_letters_when(bus, lambda n: n == 1)
        assert (stray.queue, stray.bus_message.body, bool(stray.id)) == ("", b"?", True)
        with pytest.raises(BusError, match="can only be discarded"):
            await bus.retry(stray.id)
        assert await dead_letters_on(bus) == [stray]
        assert await bus.discard(stray.id)
        assert list(await dead_letters_on(bus)) == []


async def test_all_that_is_dead_lettered_is_retried_in_two_looks_but_for_what_came_from_no_known_queue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passes: list[QueueBrowser] = []
    end = QueueBrowser.end

    def counted(look: QueueBrowser) -> Coroutine[None, None, None]:
        passes.append(look)
        return end(look)

    async with in_time() as (bus, prefix), bus.consume(QUEUE, 50) as consumer:
        await bus.publish(QUEUE, [LETTER] * 50)
        taken: list[Delivery] = []
        while len(taken) < 50:
            taken += await consumer.take(50)
        for delivery in taken:
            await consumer.reject(delivery, requeue=False)
        async with channel() as opened:
            await opened.default_exchange.publish(aio_pika.Message(b"?"), f"{prefix}.dead-letters")
        await dead_letters_when(bus, lambda n: n == 51)
        monkeypatch.setattr(QueueBrowser, "end", counted)
        assert len(await bus.retry_all()) == 50
        assert len(passes) == 2, "one tells the sizes"
        assert [each.bus_message.body for each in await dead_letters_on(bus)] == [b"?"]
        assert len(await bus.discard_all()) == 1
        assert len(passes) == 4


async def test_a_full_dead_letter_queue_refuses_and_the_letter_stays() -> None:
    async with in_time(capacity=2) as (bus, _), bus.consume(QUEUE, 5) as consumer:
        publishing = asyncio.create_task(bus.publish(QUEUE, [LETTER] * 3))
        taken: list[Delivery] = []
        while len(taken) < 3:
            taken += await consumer.take(3)
        await publishing
        for delivery in taken[:2]:
            await consumer.reject(delivery, requeue=False)
        with pytest.raises(BusError, match="there are 2 already"):
            await consumer.reject(taken[2], requeue=False)
        assert await bus.discard((await dead_letters_on(bus))[0].id)
        await consumer.reject(taken[2], requeue=False, reason="now there is room")
        assert [one.reason for one in await dead_letters_on(bus)] == ["rejected", "now there is room"]


async def test_queues_and_exchanges_that_vanish_are_made_again() -> None:
    async with in_time() as (bus, prefix), bus.consume(QUEUE, 5) as consumer:
        await bus.publish(QUEUE, [LETTER])
        await consumer.ack(await consumer.take(1))
        async with channel() as opened:
            await opened.queue_delete(f"{prefix}.critic.judge")
            await opened.exchange_delete(f"{prefix}.commands")
        await bus.publish(QUEUE, [LETTER] * 2)
        taken = [*await consumer.take(2)]
        while len(taken) < 2:
            taken += await consumer.take(1)
        assert [one.bus_message for one in taken] == [LETTER] * 2


async def test_a_thousand_letters_from_many_publishers_all_arrive() -> None:
    async with in_time(capacity=100) as (bus, _), bus.consume(QUEUE, 64) as consumer:
        sent = [BusMessage("n.v1", b"%d" % n, Origin(f"id-{n}", "test"), "run") for n in range(1000)]
        publishing = asyncio.gather(*(bus.publish(QUEUE, sent[n : n + 10]) for n in range(0, 1000, 10)))
        seen: list[str] = []
        while len(seen) < 1000:
            taken = await consumer.take(50)
            seen += [one.bus_message.origin.id for one in taken]
            await consumer.ack(taken)
        await publishing
        assert sorted(seen) == sorted(one.origin.id for one in sent)
        for n in range(0, 1000, 10):  # those of one publisher came in its order
            mine = [id_ for id_ in seen if n <= int(id_.removeprefix("id-")) < n + 10]
            assert mine == [f"id-{m}" for m in range(n, n + 10)]


async def test_a_cancelled_publish_is_cancelled_and_the_bus_goes_on() -> None:
    async with in_time() as (bus, _), bus.consume(QUEUE, 500) as consumer:
        for turns in range(12):
            publishing = asyncio.create_task(bus.publish(QUEUE, [LETTER] * 20))
            for _ in range(turns * 3):
                await asyncio.sleep(0)
            publishing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await publishing
        await bus.publish(QUEUE, [BusMessage("last.v1", b"", Origin("last", "test"))])
        seen = []
        while "last.v1" not in seen:
            seen += [one.bus_message.name for one in await consumer.take(500)]
        assert len(seen) <= 12 * 20 + 1


async def test_a_draft_of_the_largest_size_travels() -> None:
    body = b'"' + b"x" * 3 * MAX_DRAFT_BYTES + b'"'
    async with in_time() as (bus, _), bus.consume(QUEUE, 1) as consumer:
        await bus.publish(QUEUE, [BusMessage("big.v1", body, Origin("big", "test"))])
        (delivery,) = await consumer.take(1)
        assert delivery.bus_message.body == body


async def test_other_settings_than_the_queue_has_are_told() -> None:
    async with in_time(delivery_limit=3) as (bus, prefix):
        await bus.publish(INBOX, [LETTER])
        async with RabbitBus(URL, prefix=prefix, delivery_limit=4) as other:
            with pytest.raises(BusError, match=r"inbox is there with other settings.*x-delivery-limit"):
                await other.publish(INBOX, [LETTER])
            async with other.consume(QUEUE, 1) as consumer:
                with pytest.raises(BusError, match="is there with other settings"):
                    await consumer.take(1)


async def test_a_server_that_is_not_there_is_told_at_once() -> None:
    bus = RabbitBus(f"amqp://guest:secret@127.0.0.1:{free_port()}/red")
    async with asyncio.timeout(10):
        with pytest.raises(
            BusError, match=r"cannot reach RabbitMQ at 127\.0\.0\.1:\d+, virtual host red.*; start it"
        ) as refused:
            await bus.__aenter__()
    assert "secret" not in str(refused.value)
    assert "\n" not in str(refused.value)


async def test_a_server_that_is_no_rabbitmq_is_told_with_the_remedy() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server, asyncio.timeout(10):
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(BusError, match="; check in REDRAFT_BUS that RabbitMQ listens on this port"):
            await RabbitBus(f"amqp://guest:guest@127.0.0.1:{port}/").__aenter__()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("guest:guest@", "guest:wrong@"), "refused; give those of a user there in REDRAFT_BUS"),
        (("5672/", "5672/no-such-vhost"), "no-such-vhost.*; name another at the end of REDRAFT_BUS"),
        (("amqp://", "amqps://"), "; no TLS is spoken on this port"),
    ],
)
async def test_a_server_that_does_not_let_us_in_says_why(change: tuple[str, str], told: str) -> None:
    require_rabbitmq()
    if change[0] not in URL:
        pytest.skip(f"the URL of the server has no {change[0]!r} that could be changed")
    bus = RabbitBus(URL.replace(*change))
    async with asyncio.timeout(20):
        with pytest.raises(BusError, match=told) as refused:
            await bus.__aenter__()
    assert "wrong@" not in str(refused.value)
    assert "\n" not in str(refused.value)


async def test_a_name_that_no_queue_has_is_refused() -> None:
    async with in_time() as (bus, _):
        with pytest.raises(InputError, match="not a queue of messages"):
            await bus.publish("critic.judge", [LETTER])
        with pytest.raises(InputError, match="not a queue of messages"):
            await bus.consume("redraft.dead-letters", 1).__aenter__()
        with pytest.raises(InputError, match="prefetch"):
            await bus.consume(QUEUE, 0).__aenter__()
        async with bus.consume(QUEUE, 1) as consumer:
            with pytest.raises(InputError, match="limit"):
                await consumer.take(0)


async def test_a_connection_given_up_is_no_cancellation_of_ours() -> None:
    async def given_up() -> None:
        raise asyncio.CancelledError

    with pytest.raises(Lost, match="given up"):
        await answer(given_up())
    with pytest.raises(Lost, match="no answer within 0"):
        await answer(asyncio.Event().wait(), within=0)
    waiting = asyncio.create_task(answer(asyncio.Event().wait()))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
