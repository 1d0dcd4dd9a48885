"""Recorded events that travel together to the stream: one message, a CloudEvents batch (`cloudevents.BATCH`).

Each event of a batch has the attributes that it has as headers when it travels alone, and its data. A reader unpacks
a batch into messages as they would have come alone, so nothing behind it knows of batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import msgspec
from aiormq.abc import DeliveredMessage
from pamqp.commands import Basic
from pamqp.common import FieldValue
from pamqp.header import ContentHeader

from redraft.events.bus.port import LARGEST_BODY
from redraft.events.messages.codec import UNREADABLE
from redraft.events.rabbit.cloudevents import _CE, BATCH, SHORTENED, Headers, headers_of
from redraft.events.rabbit.fast_publish import Outgoing

EVENTS: Final = 256
"""The most events of a batch."""

LARGEST: Final = 64 * 1024
"""The largest batch, in bytes of the events' data: readers are sent many ahead. A larger event travels alone."""

_OFFSET: Final = "x-stream-offset"


class BatchedEvent(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """An event of a batch; its attributes are those of `cloudevents`."""

    specversion: str
    id: str
    source: str
    type: str
    subject: str
    time: str
    position: int
    version: int
    hash: str
    data: msgspec.Raw
    causationid: str = ""
    correlationid: str = ""
    traceparent: str = ""
    previoushash: str = ""
    workflow: str = ""
    tags: str = ""
    follows: int = 0
    repeats: str = ""


_DECODER: Final = msgspec.json.Decoder(list[BatchedEvent])
_ATTRIBUTES: Final = [name for name in BatchedEvent.__struct_fields__ if name != "data"]


def to_stream(stream: str, announced: Sequence[Outgoing]) -> Iterator[Outgoing]:
    """Yields what brings events, given as messages for the topic, to the queue `stream`: in order, several together.

    One that is large, or whose headers had to be shortened, travels alone, as to the topic.
    """
    for group in _groups(announced):
        if len(group) == 1:
            yield msgspec.structs.replace(group[0], exchange="", key=stream, optional=False)
        else:
            yield Outgoing("", stream, b"[" + b",".join(map(_item, group)) + b"]", {}, kind=BATCH)


def _groups(announced: Sequence[Outgoing]) -> Iterator[Sequence[Outgoing]]:
    group: list[Outgoing] = []
    size = 0
    for each in announced:
        alone = len(each.body) > LARGEST or SHORTENED in each.headers
        if group and (alone or len(group) == EVENTS or size + len(each.body) > LARGEST):
            yield group
            group, size = [], 0
        group.append(each)
        size += LARGEST if alone else len(each.body)
    if group:
        yield group


def _item(announced: Outgoing) -> bytes:
    attributes = {name.removeprefix(_CE): value for name, value in announced.headers.items()}
    return msgspec.json.encode({**attributes, "data": msgspec.Raw(announced.body)})


def unpack(message: DeliveredMessage) -> Sequence[DeliveredMessage]:
    """Returns the messages in a message of the stream: itself, unless it is a batch of events."""
    properties = message.header.properties
    if properties.content_type != BATCH or len(message.body) > LARGEST_BODY:
        return (message,)
    try:
        events = _DECODER.decode(message.body)
    except (*UNREADABLE, ValueError):
        return (message,)
    offset = headers_of(message).get(_OFFSET)
    return [replace(message, header=_header(event, offset), body=bytes(event.data)) for event in events]


def _header(event: BatchedEvent, offset: FieldValue) -> ContentHeader:
    headers: Headers = {_CE + name: value for name in _ATTRIBUTES if (value := getattr(event, name))}
    if offset is not None:
        headers[_OFFSET] = offset
    properties = Basic.Properties(content_type="application/json", headers=headers)
    return ContentHeader(0, len(event.data), properties)
