"""Messages and recorded events as AMQP messages: CloudEvents 1.0 in binary mode, attributes in headers, JSON body.

A header is `cloudEvents:` and the name of an attribute. Every message has these:

    specversion    1.0
    id             the message's own id
    source         /redraft/ and the sender, percent-encoded: /redraft/relay, /redraft/critic%20judge
    type           its stable name: draft.critique.v1
    subject        the run that it is about
    causationid    the id of its cause
    correlationid  the id of the first message of the chain
    traceparent    W3C trace context (the extension "Distributed Tracing")

Empty attributes are left out. A recorded event (`redraft.events`) has also:

    time           when it was recorded, RFC 3339
    workflow       the name of its workflow
    tags           the tags of its run, separated by blanks
    position       its place in the log, from 1: growing, though not always by one
    follows        the position of the event announced before it, when both were announced together
    version        its number in its run, from 1
    hash           SHA-256, in hex, of its stored bytes
    previoushash   the hash of the event before it in its run
    repeats        in a fork, the id of its parent's event that this one stands for

`type` and `data` of an event are always of the current version: one that was stored by an older release is announced as
it is read now, and its hash then still speaks of the older bytes.

Redraft's own headers: `redraft-sent`, how often the message was sent before without a confirmation, so that the queue
may hold it twice; `redraft-delivered`, how often it was delivered before a reader sent it again; `redraft-queue` and
`redraft-reason` on dead letters; `redraft-user`, the first sender or the list of all so far, on messages sent again and
on dead letters; `redraft-shortened`, the original size of headers in bytes, where they were too large to be sent again.

Several messages can travel in one AMQP message, as a CloudEvents batch (see `structured_events`). One reader gets all
of them.

What others send may come in other ways, and is read as if it had come in ours: with headers that begin with
`cloudEvents_` or `ce-`, as the official SDKs write them, or whole in the body (structured mode,
`application/cloudevents+json`).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, TypeAlias
from urllib.parse import quote, unquote

import msgspec
from aiormq.abc import DeliveredMessage
from pamqp.common import FieldTable, FieldValue
from pamqp.encode import encode_table_value, field_table

from redraft.events.bus.port import (
    LARGEST_HEADERS,
    LONGEST_ATTRIBUTE,
    LONGEST_NAME,
    BusMessage,
    topic_key,
)
from redraft.events.errors import CodecError
from redraft.events.messages.codec import decode_event
from redraft.events.messages.envelope import Origin, Recorded
from redraft.events.messages.event_names import EVENT_NAMES
from redraft.events.messages.filters import EventFilter, RunFacts, matches

Headers: TypeAlias = FieldTable

SENT: Final = "redraft-sent"
DELIVERED: Final = "redraft-delivered"
QUEUE: Final = "redraft-queue"
REASON: Final = "redraft-reason"
USER: Final = "redraft-user"
SHORTENED: Final = "redraft-shortened"
BODY: Final = "redraft-body"
"""The header of a message whose body is elsewhere: the queue that has the pieces."""
PIECES: Final = "redraft-pieces"
"""The header with the number of pieces."""
PIECE_NUMBER: Final = "redraft-piece"
"""The header of a piece with its number, from 1: one that was sent twice is there twice."""

_LONGEST_HEADERS: Final = 64 * 1024
_MOST_HEADERS: Final = 30
_MOST_NUMBER: Final = 2**62
_CE: Final = "cloudEvents:"
_OTHER_PREFIXES: Final = ("cloudEvents_", "ce-")
"""The first is CloudEvents' other prefix for AMQP, the second that of its binding for RabbitMQ."""
_SOURCE: Final = "/redraft/"


def message_headers(bus_message: BusMessage) -> Headers:
    attributes = attributes_of(bus_message.origin, bus_message.name, bus_message.run)
    return {_CE + name: value for name, value in attributes.items() if value}


def read_message(message: DeliveredMessage) -> BusMessage:
    """Reads any AMQP message: attributes that a foreign sender left out are empty; decoding the body will then fail.

    The id alone is never empty: events get theirs from it, and each needs its own.
    """
    headers = read_headers(message)
    origin = _origin(headers)
    if not origin.id:
        origin = msgspec.structs.replace(origin, id=message_id(message))
    return BusMessage(_text(headers, "type"), message.body, origin, _text(headers, "subject"))


def users_of(message: DeliveredMessage, me: str) -> tuple[str, ...]:
    """Returns the users who sent a message, the last one, whom the server checked, at the end; "" is nobody.

    A message that was sent again names those before in a header, which any sender may set: so it has only the rights
    that all of them have. This user itself, `me`, is left out where there are others: it sends again what it was sent.
    """
    told = headers_of(message).get(USER, [])
    named = [each if isinstance(each, str) else "" for each in (told if isinstance(told, list) else [told])]
    sender = message.header.properties.user_id or ""
    before = tuple(dict.fromkeys(each for each in named if each not in (me, sender)))
    return before if before and sender == me else (*before, sender)


def named_users(users: Sequence[str]) -> Headers:
    """Returns the header of a message that is sent again for these users."""
    return {USER: list[FieldValue](users)}


def message_id(message: DeliveredMessage) -> str:
    """Returns the id of the message; for a foreign one without an id, a hash of its body."""
    return message.header.properties.message_id or sha256(message.body).hexdigest()[:32]


def event_headers(event: Recorded, facts: RunFacts, follows: int) -> Headers:
    """Returns the headers of an event; `follows` is the position of the event before it, 0 when it is not known."""
    origin = Origin(event.id, event.actor, event.causation, event.correlation, event.trace)
    attributes = {
        **attributes_of(origin, EVENT_NAMES[type(event.data)], event.run),
        "time": msgspec.to_builtins(event.time),
        "position": event.position,
        "version": event.version,
        "hash": event.hash,
        "previoushash": event.previous,
        "workflow": facts.workflow,
        "tags": " ".join(facts.tags),
        "follows": follows,
        "repeats": event.repeats,
    }
    headers: Headers = {_CE + name: value for name, value in attributes.items() if value}
    return sendable(headers) if has_long_head(event) else headers


def has_long_head(event: Recorded) -> bool:
    """Returns whether the headers of an event may be too long to be sent: then they are shortened."""
    head = len(event.id) + len(event.actor) + len(event.causation) + len(event.correlation) + len(event.trace)
    return head >= LARGEST_HEADERS


def event_key(event: Recorded, workflow: str) -> str:
    """Returns the routing key of an event; see `topic_key`."""
    return topic_key(EVENT_NAMES[type(event.data)].rpartition(".")[0], workflow)[:LONGEST_NAME]


def read_event(message: DeliveredMessage) -> Recorded:
    """Returns the event in a message of the stream; raises CodecError when there is none, or an unknown one."""
    headers = headers_of(message)
    origin = _origin(headers)
    stored = {  # in the order of a stored event
        "hash": _text(headers, "hash"),
        "id": origin.id,
        "time": _text(headers, "time"),
        "previous": _text(headers, "previoushash"),
        "actor": origin.actor,
        "data": msgspec.Raw(message.body),
        "causation": origin.causation,
        "correlation": origin.correlation,
        "trace": origin.trace,
        "repeats": _text(headers, "repeats"),
    }
    run, version = _text(headers, "subject"), number(headers, f"{_CE}version")
    return decode_event(run, version, _text(headers, "type"), msgspec.json.encode(stored), position(message))


def read_matching(message: DeliveredMessage, criteria: EventFilter) -> Recorded | None:
    """Returns the recorded event in a message of the stream if it matches. Skips the body where the headers suffice.

    Raises CodecError as `read_event` does.
    """
    headers = headers_of(message)
    if criteria.types and _text(headers, "type") not in criteria.types:
        return None
    if criteria.runs and _text(headers, "subject") not in criteria.runs:
        return None
    event = read_event(message)
    run = RunFacts(_text(headers, "workflow"), tuple(_text(headers, "tags").split()))
    return event if matches(criteria, event, run) else None


def is_event(message: DeliveredMessage) -> bool:
    """Returns whether a message of the stream is a recorded event, by its headers."""
    return number(headers_of(message), f"{_CE}position") > 0


def position(message: DeliveredMessage) -> int:
    """Returns the position in the log of the event in a message; raises CodecError when it has none."""
    place = number(headers_of(message), f"{_CE}position")
    if place < 1:
        raise CodecError(f"a message without the header {_CE}position is in the stream of events")
    return place


def follows(message: DeliveredMessage) -> int:
    """Returns the position of the event that was announced before this one, 0 when it is not known."""
    return number(headers_of(message), f"{_CE}follows")


def headers_of(message: DeliveredMessage) -> FieldTable:
    return message.header.properties.headers or {}


def read_headers(message: DeliveredMessage) -> FieldTable:
    """Returns the headers, with CloudEvents' attributes under our prefix where a foreign sender used another one."""
    headers = headers_of(message)
    if f"{_CE}type" in headers:
        return headers
    prefix = next((each for each in _OTHER_PREFIXES if f"{each}type" in headers), "")
    found = headers.items() if prefix else ()
    return {**headers, **{_CE + name.removeprefix(prefix): value for name, value in found if name.startswith(prefix)}}


def sendable(headers: FieldTable) -> FieldTable:
    """Returns received headers in a form that can be sent: values that the client cannot write become text.

    Headers that are too long for a frame are shortened, and only our own are kept; `redraft-shortened` then holds their
    original size in bytes.
    """
    plain = {name: _sendable(value) for name, value in headers.items()}
    size = len(field_table(plain))
    if size <= _LONGEST_HEADERS:
        return plain
    ours = {name: value for name, value in plain.items() if name.startswith((_CE, *_OTHER_PREFIXES, "redraft-"))}
    short = {name: _shortened(value) for name, value in list(ours.items())[:_MOST_HEADERS]}
    return {**short, SHORTENED: size}


def _shortened(value: FieldValue) -> FieldValue:
    match value:
        case int():
            return value
        case str() if len(value) <= LONGEST_ATTRIBUTE:
            return value
        case _:
            return f"{str(value)[: LONGEST_ATTRIBUTE - 1]}…"


def _sendable(value: Any) -> Any:  # noqa: ANN401 - a value of AMQP, nested
    match value:
        case bytes():
            return bytearray(value)
        case dict():
            return {name: _sendable(inner) for name, inner in value.items()}
        case list():
            return [_sendable(inner) for inner in value]
        case _:
            try:
                encode_table_value(value)
            except (TypeError, ValueError, OverflowError, struct.error):
                return str(value)
            return value


def number(headers: Mapping[str, object], name: str) -> int:
    """Returns a header that is a number above 0, at most 2**62; 0 when there is none."""
    value = headers.get(name)
    return min(max(0, value), _MOST_NUMBER) if isinstance(value, int) else 0


def attributes_of(origin: Origin, name: str, run: str) -> dict[str, str]:
    """Returns the attributes that every message has, some of them empty."""
    return {
        "specversion": "1.0",
        "id": origin.id,
        "source": source_of(origin.actor),
        "type": name,
        "subject": run,
        "causationid": origin.causation,
        "correlationid": origin.correlation,
        "traceparent": origin.trace,
    }


@lru_cache(maxsize=1024)
def source_of(actor: str) -> str:
    """Returns the attribute `source` of this actor's messages."""
    return _SOURCE + quote(actor, safe="")


def actor_of(source: str) -> str:
    """Returns the actor of a message with this `source`."""
    return unquote(source.removeprefix(_SOURCE))


def _origin(headers: Mapping[str, object]) -> Origin:
    return Origin(
        _text(headers, "id"),
        actor_of(_text(headers, "source")),
        _text(headers, "causationid"),
        _text(headers, "correlationid"),
        _text(headers, "traceparent"),
    )


def _text(headers: Mapping[str, object], attribute: str) -> str:
    match headers.get(_CE + attribute):
        case None:
            return ""
        case str() as text:
            return text
        case bytes() | bytearray() as raw:
            return raw.decode(errors="replace")
        case other:
            return str(other)
