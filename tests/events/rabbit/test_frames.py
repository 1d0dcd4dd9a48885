"""Our frames are read by the client's own reader as what they were meant to be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import frame
from pamqp.body import ContentBody
from pamqp.commands import Basic
from pamqp.header import ContentHeader

from redraft.events.rabbit.fast_publish import publish_frames

names = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), min_size=1, max_size=40)
values = st.one_of(
    st.text(max_size=300),
    st.integers(-(2**63), 2**63 - 1),
    st.booleans(),
    st.lists(st.integers(0, 9), max_size=3),
    st.dictionaries(names, st.integers(0, 9), max_size=2),
)


def unmarshalled(data: bytes) -> list[object]:
    found = []
    while data:
        used, channel, piece = frame.unmarshal(data)
        assert channel == 7
        found.append(piece)
        data = data[used:]
    return found


@given(
    names,
    names,
    st.binary(max_size=50),
    st.dictionaries(names, values, max_size=5),
    st.integers(1, 60),
    st.integers(0, 255),
)
def test_a_message_is_read_as_it_was_written(exchange, key, body, headers, most, priority):
    method, header, *rest = unmarshalled(
        publish_frames(7, most, exchange, key, "application/json", body, headers, "attempt-1", priority)
    )
    assert isinstance(method, Basic.Publish)
    assert (method.exchange, method.routing_key, method.mandatory, method.immediate) == (exchange, key, True, False)
    assert isinstance(header, ContentHeader)
    said = header.properties
    assert (said.content_type, said.delivery_mode, said.message_id) == ("application/json", 2, "attempt-1")
    assert said.priority == priority
    assert (said.headers or {}) == headers
    assert header.body_size == len(body)
    assert b"".join(piece.value for piece in rest if isinstance(piece, ContentBody)) == body
    assert all(len(piece.value) <= most for piece in rest if isinstance(piece, ContentBody))


@pytest.mark.parametrize(("exchange", "name"), [("x" * 256, "n"), ("x", "n" * 256)])
def test_a_name_that_amqp_has_no_room_for_is_refused(exchange, name):
    with pytest.raises(ValueError, match=r"range\(0, 256\)"):
        publish_frames(7, 100, exchange, "key", "text/plain", b"", {name: "value"}, "attempt-1")
