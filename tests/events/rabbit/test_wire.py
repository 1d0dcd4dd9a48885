"""What arrives on a connection reaches its readers in any pieces, and the client gets the rest as it was sent."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiormq import Channel
from aiormq.abc import DeliveredMessage
from aiormq.exceptions import DeliveryError, PublishError
from hypothesis import given
from hypothesis import strategies as st
from pamqp import frame
from pamqp.base import Frame
from pamqp.body import ContentBody
from pamqp.commands import Basic, Queue
from pamqp.commands import Channel as Closed
from pamqp.encode import field_table
from pamqp.frame import FrameTypes
from pamqp.header import ContentHeader
from pamqp.heartbeat import Heartbeat
from tests.events.forged_properties import FORGED, TOLD, header, long, short

from redraft.events.rabbit.cloudevents import sendable
from redraft.events.rabbit.connection import LOST
from redraft.events.rabbit.message_header import decodable, read_header
from redraft.events.rabbit.wire import Confirmations, Deliveries, Wire, ack_frame, nack_frame, reject_frame

CONSUMING, PUBLISHING, OTHER = 1, 2, 3
HEARTBEAT = frame.marshal(Heartbeat(), 0)
BROKEN = (
    b"",
    short(b"x"),
    short(b"x") + struct.pack(">I", 99) + b"\1aS",
    short(b"x") + long(short(b"a") + b"?" + long(b"of a kind that is not known")),
)
"""The content type and headers of messages, torn or of an unknown kind."""


class Opened:
    """A wire with a channel that consumes and one that publishes, and what was read of them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.wire = Wire(loop)
        self.messages: list[DeliveredMessage] = []
        self.passed: list[tuple[int, FrameTypes]] = []
        self.consuming = channel()
        self.publishing = channel()
        self.wire.read_channel(CONSUMING, Deliveries(self.consuming, self.messages.append))
        self.wire.read_channel(PUBLISHING, Confirmations(self.publishing))

    async def feed(self, data: bytes, cuts: Sequence[int] = ()) -> bytes:
        """Feeds the bytes in pieces; returns those that the client reads."""
        places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
        for start, end in pairwise(places):
            if start < end:
                self.wire.feed_data(data[start:end])
        self.wire.feed_eof()
        return await self.wire.read()


def channel() -> Channel:
    return cast("Channel", SimpleNamespace(is_closed=False, confirmations={}, message_id_delivery_tag={}))


def delivery(tag: int, body: bytes, most: int, number: int = CONSUMING, **properties: Any) -> list[bytes]:
    """The frames of a message, its body in pieces."""
    pieces = [body[at : at + most] for at in range(0, len(body), most)]
    frames = (
        Basic.Deliver("redraft.1", tag, tag % 2 == 1, "redraft.commands", "critic.judge"),
        ContentHeader(0, len(body), Basic.Properties(**properties)),
        *map(ContentBody, pieces),
    )
    return [frame.marshal(each, number) for each in frames]


def between(first: Sequence[bytes], second: Sequence[bytes]) -> bytes:
    """Frames of two channels in turn."""
    longest = max(len(first), len(second))
    return b"".join(piece for at in range(longest) for each in (first, second) for piece in each[at : at + 1])


@given(
    st.lists(st.binary(max_size=40), max_size=4),
    st.lists(st.integers(0, 2000), max_size=12),
    st.dictionaries(st.text("abc", min_size=1, max_size=5), st.one_of(st.text(), st.integers(0, 2**40)), max_size=3),
)
def test_deliveries_arrive_whole_and_everything_else_goes_to_the_client(bodies, cuts, headers):
    async def read() -> None:
        opened = Opened(asyncio.get_running_loop())
        ours = [each for tag, body in enumerate(bodies) for each in delivery(tag, body, 7, headers=headers)]
        theirs = [
            *delivery(9, b"of another channel", 5, OTHER),
            HEARTBEAT,
            frame.marshal(Queue.DeclareOk("q", 0, 0), 0),
        ]
        declared = frame.marshal(Queue.DeclareOk("mine", 3, 1), CONSUMING)
        passed = await opened.feed(between(ours, theirs) + declared, cuts)
        assert passed == b"".join(theirs) + declared
        assert [each.body for each in opened.messages] == bodies
        for tag, message in enumerate(opened.messages):
            assert (message.delivery_tag, message.redelivered) == (tag, tag % 2 == 1)
            assert (message.consumer_tag, message.exchange) == ("redraft.1", "redraft.commands")
            assert message.routing_key == "critic.judge"
            assert (message.header.properties.headers or {}) == headers

    asyncio.run(read())


VALUES = st.one_of(
    st.text(max_size=20), st.integers(-(2**63), 2**63 - 1), st.booleans(), st.lists(st.text(max_size=3), max_size=2)
)
PROPERTIES = st.fixed_dictionaries(
    {},
    optional={
        "content_type": st.text("a/b+é", min_size=1, max_size=9),
        "headers": st.dictionaries(st.text("a:b", min_size=1, max_size=9), VALUES, max_size=4),
        "delivery_mode": st.sampled_from([1, 2]),
        "priority": st.integers(0, 255),
        "message_id": st.text(min_size=1, max_size=9),
        "user_id": st.just("guest"),
        "reply_to": st.just("me"),
        "app_id": st.just("other"),
    },
)


@given(st.integers(0, 2**63), PROPERTIES)
def test_the_properties_of_a_message_are_read_as_the_client_reads_them(size: int, properties: dict[str, Any]) -> None:
    payload = frame.marshal(ContentHeader(0, size, Basic.Properties(**properties)), 1)[7:-1]
    expected = ContentHeader()
    expected.unmarshal(payload)
    found = read_header(payload)
    assert (found.weight, found.body_size, found.properties) == (0, size, expected.properties)


def test_a_header_that_is_no_text_is_read_as_the_client_reads_it() -> None:
    header = ContentHeader(0, 1, Basic.Properties(headers={"name": "other text"}))
    payload = frame.marshal(header, 1)[7:-1].replace(b"other", b"oth\xffr")
    assert read_header(payload).properties.headers == {"name": b"oth\xffr text"}


@pytest.mark.parametrize("name", FORGED)
def test_properties_that_cannot_be_decoded_are_read_as_far_as_they_can_be(name: str) -> None:
    found = read_header(header(name, 7))
    assert found.body_size == 7
    headers = found.properties.headers or {}
    assert headers["cloudEvents:type"] == TOLD
    field_table(sendable(headers))
    assert found.properties.timestamp is None
    assert (found.properties.app_id or "go") in ("go", "?")


@pytest.mark.parametrize("payload", [struct.pack(">HHQH", 60, 0, 7, 0xA000) + each for each in BROKEN])
def test_properties_whose_end_cannot_be_found_are_left_out(payload: bytes) -> None:
    found = read_header(payload)
    assert (found.body_size, found.properties) == (7, Basic.Properties())


@given(st.integers(0, 2**16 - 1), st.binary(max_size=60))
def test_any_properties_are_read_and_the_client_can_read_what_it_is_passed(flags: int, properties: bytes) -> None:
    payload = struct.pack(">HHQH", 60, 0, 7, flags) + properties
    assert read_header(payload).body_size == 7
    passed = ContentHeader()
    passed.unmarshal(decodable(payload))
    assert passed.body_size == 7


@pytest.mark.parametrize("name", FORGED)
async def test_a_message_for_the_client_has_properties_that_it_can_decode(name: str) -> None:
    opened = Opened(asyncio.get_running_loop())
    method, _, body = delivery(9, b"of another channel", 99, OTHER)
    forged = header(name, 18)
    data = await opened.feed(
        method + struct.pack(">BHI", 2, OTHER, len(forged)) + forged + b"\xce" + body + HEARTBEAT, (20, 90)
    )
    found = []
    while data:
        used, number, each = frame.unmarshal(data)
        found.append((number, type(each)))
        data = data[used:]
    assert found == [(OTHER, Basic.Deliver), (OTHER, ContentHeader), (OTHER, ContentBody), (0, Heartbeat)]


@pytest.mark.parametrize(
    "method",
    [
        Basic.Deliver("redraft.1", 200, False, "an exchange", "a key"),
        Basic.GetOk(200, False, "an exchange", "a key", 200),
    ],
)
@pytest.mark.parametrize("number", [CONSUMING, OTHER])
async def test_an_exchange_or_a_key_that_is_no_text_is_read_as_far_as_it_can_be(method: Frame, number: int) -> None:
    opened = Opened(asyncio.get_running_loop())
    rest = b"".join(frame.marshal(each, number) for each in (ContentHeader(0, 1), ContentBody(b"x")))
    forged = frame.marshal(method, number).replace(b"a key", b"a k\xffy").replace(b"an e", b"an\xe9e")
    data = await opened.feed(forged + rest)
    if data:
        _, _, found = frame.unmarshal(data)
        assert type(found) is type(method)
    else:
        (found,) = opened.messages
    assert (found.delivery_tag, found.exchange, found.routing_key) == (200, "an?exchange", "a k?y")


async def test_frames_that_cannot_be_read_end_the_connection_as_one_that_broke() -> None:
    opened = Opened(asyncio.get_running_loop())
    method, header, _ = delivery(1, b"x", 7)
    with pytest.raises(LOST, match="cannot be read"):
        opened.wire.feed_data(method + header[:3] + struct.pack(">I", 1) + b"x\xce")


async def test_a_message_that_was_fetched_goes_to_the_client() -> None:
    opened = Opened(asyncio.get_running_loop())
    fetched = (Basic.GetOk(1, False, "", "key", 0), ContentHeader(0, 1), ContentBody(b"x"))
    data = b"".join(frame.marshal(each, CONSUMING) for each in fetched)
    assert await opened.feed(data) == data
    assert not opened.messages


async def test_nothing_arrives_once_the_channel_has_ended() -> None:
    opened = Opened(asyncio.get_running_loop())
    method, header, body = delivery(1, b"x", 7)
    opened.wire.feed_data(method + header)
    opened.consuming.is_closed = True  # type: ignore[misc]
    later = b"".join(delivery(2, b"y", 7))
    assert await opened.feed(body + later) == later
    assert not opened.messages


@pytest.mark.parametrize("last", [Closed.CloseOk(), Closed.Close(406, "", 60, 20)])
async def test_the_frames_of_a_channel_that_was_closed_are_those_of_the_next_with_its_number(last: Frame) -> None:
    opened = Opened(asyncio.get_running_loop())
    closed = frame.marshal(last, CONSUMING)
    later = b"".join(delivery(1, b"x", 7))
    assert await opened.feed(closed + later) == closed + later
    assert not opened.messages


async def test_publications_are_confirmed_refused_and_returned() -> None:
    opened = Opened(asyncio.get_running_loop())
    futures = {tag: asyncio.get_running_loop().create_future() for tag in range(1, 7)}
    opened.publishing.confirmations.update(futures)
    opened.publishing.message_id_delivery_tag.update({f"attempt-{tag}": tag for tag in futures})
    returned = (
        Basic.Return(312, "NO_ROUTE", "redraft.events", "key"),
        ContentHeader(0, 1, Basic.Properties(message_id="attempt-2")),
        ContentBody(b"x"),
    )
    said = [Basic.Ack(1), *returned, Basic.Ack(4, multiple=True), Basic.Nack(5), Basic.Ack(77)]
    assert await opened.feed(b"".join(frame.marshal(each, PUBLISHING) for each in said)) == b""
    assert [tag for tag in (1, 3, 4) if futures[tag].result() is None] == [1, 3, 4]
    assert isinstance(futures[2].exception(), PublishError)
    assert type(futures[5].exception()) is DeliveryError
    assert not futures[6].done()
    assert list(opened.publishing.confirmations) == [6]


async def test_the_client_is_told_that_the_server_is_alive_while_all_is_taken_from_the_wire(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server that sends messages sends no heartbeats."""
    monkeypatch.setattr("redraft.events.rabbit.wire._BEAT_EVERY", -1.0)
    opened = Opened(asyncio.get_running_loop())
    assert await opened.feed(b"".join(delivery(1, b"x", 7))) == HEARTBEAT


async def test_what_is_no_amqp_goes_to_the_client() -> None:
    opened = Opened(asyncio.get_running_loop())
    assert await opened.feed(b"AMQP\0\0\x09\x01 and more", (3, 9)) == b"AMQP\0\0\x09\x01 and more"


@given(st.integers(1, 65535), st.integers(1, 2**63 - 1), st.booleans())
def test_an_acknowledgement_is_read_as_it_was_written(number: int, tag: int, multiple: bool) -> None:
    _, found, method = frame.unmarshal(ack_frame(number, tag, multiple=multiple))
    assert isinstance(method, Basic.Ack)
    assert (found, method.delivery_tag, method.multiple) == (number, tag, multiple)


@given(st.integers(1, 65535), st.integers(1, 2**63 - 1), st.booleans())
def test_a_rejection_is_read_as_it_was_written(number: int, tag: int, requeue: bool) -> None:
    _, found, method = frame.unmarshal(reject_frame(number, tag, requeue=requeue))
    assert isinstance(method, Basic.Reject)
    assert (found, method.delivery_tag, method.requeue) == (number, tag, requeue)


@given(st.integers(1, 65535), st.integers(1, 2**63 - 1))
def test_what_is_given_back_is_one_delivery_that_comes_again(number: int, tag: int) -> None:
    _, found, method = frame.unmarshal(nack_frame(number, tag))
    assert isinstance(method, Basic.Nack)
    assert (found, method.delivery_tag, method.multiple, method.requeue) == (number, tag, False, True)
