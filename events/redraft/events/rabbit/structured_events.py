"""Messages that are whole in a body: CloudEvents in JSON, one alone (structured mode) or several in a batch."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Final, TypeVar

import msgspec
from aiormq.abc import DeliveredMessage

from redraft.events.bus.port import LARGEST_BODY, BusMessage
from redraft.events.errors import CodecError
from redraft.events.messages.codec import UNREADABLE
from redraft.events.messages.envelope import Origin
from redraft.events.rabbit.cloudevents import actor_of, attributes_of

BATCH: Final = "application/cloudevents-batch+json"
STRUCTURED: Final = "application/cloudevents+json"

T = TypeVar("T")

LARGEST: Final = 512 * 1024
"""The largest batch, in bytes of its messages; a larger message travels alone."""


class _Event(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    specversion: str
    id: str
    source: str
    type: str
    data: msgspec.Raw = msgspec.Raw()
    data_base64: str = ""
    subject: str = ""
    causationid: str = ""
    correlationid: str = ""
    traceparent: str = ""


_ENCODER: Final = msgspec.json.Encoder()
_BATCH_DECODER: Final = msgspec.json.Decoder(list[_Event])
_DECODER: Final = msgspec.json.Decoder(_Event)


def group_messages(bus_messages: Sequence[BusMessage], limit: int) -> Iterator[Sequence[BusMessage]]:
    """Yields the messages in their order, in groups of at most `limit`. One that is no JSON, or large, is alone."""
    return in_groups(bus_messages, limit, LARGEST, lambda each: each.body, lambda each: not _is_json(each.body))


def in_groups(
    items: Iterable[T], limit: int, largest: int, body_of: Callable[[T], bytes], stands_alone: Callable[[T], bool]
) -> Iterator[Sequence[T]]:
    """Yields the items in their order, in groups of at most `limit` whose bodies have at most `largest` bytes together.

    One with a larger body, or that `stands_alone`, is a group by itself.
    """
    group: list[T] = []
    size = 0
    for item in items:
        length = len(body_of(item))
        alone = length > largest or stands_alone(item)
        if group and (alone or len(group) == limit or size + length > largest):
            yield group
            group, size = [], 0
        group.append(item)
        size += largest if alone else length
    if group:
        yield group


def write_batch(bus_messages: Sequence[BusMessage]) -> bytes:
    """Returns the body of a batch of these messages."""
    return _ENCODER.encode([_event(bus_message) for bus_message in bus_messages])


def structured(bus_message: BusMessage) -> bytes:
    """Returns a message as one CloudEvent in JSON (`application/cloudevents+json`)."""
    return _ENCODER.encode(_event(bus_message))


def read_structured(body: bytes) -> BusMessage:
    """Returns the message in a CloudEvent in JSON. Raises CodecError when it is none."""
    try:
        return _to_message(_DECODER.decode(body))
    except (*UNREADABLE, ValueError) as error:
        raise CodecError(f"it is no CloudEvent in JSON: {error}") from None


def read_batch(message: DeliveredMessage) -> Sequence[BusMessage]:
    """Returns the messages that are whole in a body, alone or in a batch; () when there are none, or it is damaged."""
    media_type = (message.header.properties.content_type or "").partition(";")[0].strip().lower()
    if media_type not in (BATCH, STRUCTURED) or len(message.body) > LARGEST_BODY:
        return ()
    try:
        events = _BATCH_DECODER.decode(message.body) if media_type == BATCH else [_DECODER.decode(message.body)]
        return [_to_message(event) for event in events]
    except (*UNREADABLE, ValueError):
        return ()


def _event(bus_message: BusMessage) -> _Event:
    attributes = attributes_of(bus_message.origin, bus_message.name, bus_message.run)
    return _Event(data=msgspec.Raw(bus_message.body), **attributes)


def _to_message(event: _Event) -> BusMessage:
    origin = Origin(event.id, actor_of(event.source), event.causationid, event.correlationid, event.traceparent)
    body = b64decode(event.data_base64, validate=True) if event.data_base64 else bytes(event.data)
    if not origin.id:
        origin = msgspec.structs.replace(origin, id=sha256(body).hexdigest()[:32])
    return BusMessage(event.type, body, origin, event.subject)


def _is_json(body: bytes) -> bool:
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except UNREADABLE:
        return False
    return True
