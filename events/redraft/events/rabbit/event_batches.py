"""Recorded events that travel together to the stream: one message, a CloudEvents batch (`structured_events.BATCH`).

Each event of a batch has the attributes that it has as headers when it travels alone, and its data. A reader unpacks
a batch into messages as they would have come alone, so nothing behind it knows of batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import msgspec
from aiormq.abc import DeliveredMessage
from pamqp.commands import Basic
from pamqp.common import FieldValue
from pamqp.header import ContentHeader

from redraft.events.bus.port import LARGEST_BODY
from redraft.events.messages.codec import UNREADABLE
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.event_names import EVENT_NAMES
from redraft.events.messages.filters import RunFacts
from redraft.events.rabbit.cloudevents import (
    _CE,
    Headers,
    event_headers,
    event_key,
    has_long_head,
    headers_of,
    source_of,
)
from redraft.events.rabbit.fast_publish import Outgoing
from redraft.events.rabbit.structured_events import BATCH, in_groups

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


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(list[BatchedEvent])
_NOTHING_KNOWN: Final = RunFacts()
_ATTRIBUTES: Final = [name for name in BatchedEvent.__struct_fields__ if name != "data"]


class Announced(msgspec.Struct, frozen=True, gc=False):
    """An event that is announced: with the facts of its run, the position of the event before it, and its data."""

    event: Recorded
    facts: RunFacts
    follows: int
    body: bytes

    @property
    def key(self) -> str:
        """The routing key at the topic."""
        return event_key(self.event, self.facts.workflow)

    def alone(self, exchange: str, key: str, *, optional: bool = False) -> Outgoing:
        """Returns the event as a message of its own."""
        headers = event_headers(self.event, self.facts, self.follows)
        return Outgoing(exchange, key, self.body, headers, optional=optional)


def announce(events: Sequence[Recorded], facts: Mapping[str, RunFacts]) -> list[Announced]:
    """Returns what is announced of events that follow each other in the log."""
    before = (0, *(event.position for event in events))
    return [
        Announced(event, facts.get(event.run, _NOTHING_KNOWN), follows, msgspec.json.encode(event.data))
        for event, follows in zip(events, before, strict=False)
    ]


def to_stream(stream: str, announced: Sequence[Announced]) -> Iterator[Outgoing]:
    """Yields what brings events to the queue `stream`: in order, several together.

    One that is large, or whose headers may have to be shortened, travels alone, as to the topic.
    """
    for group in _groups(announced):
        if len(group) == 1:
            yield group[0].alone("", stream)
        else:
            yield Outgoing("", stream, _ENCODER.encode([_item(each) for each in group]), {}, kind=BATCH)


def _groups(announced: Sequence[Announced]) -> Iterator[Sequence[Announced]]:
    return in_groups(announced, EVENTS, LARGEST, lambda each: each.body, lambda each: has_long_head(each.event))


def _item(announced: Announced) -> BatchedEvent:
    event = announced.event
    return BatchedEvent(
        specversion="1.0",
        id=event.id,
        source=source_of(event.actor),
        type=EVENT_NAMES[type(event.data)],
        subject=event.run,
        time=msgspec.to_builtins(event.time),
        position=event.position,
        version=event.version,
        hash=event.hash,
        data=msgspec.Raw(announced.body),
        causationid=event.causation,
        correlationid=event.correlation,
        traceparent=event.trace,
        previoushash=event.previous,
        workflow=announced.facts.workflow,
        tags=" ".join(announced.facts.tags),
        follows=announced.follows,
        repeats=event.repeats,
    )


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
