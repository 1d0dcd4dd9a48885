"""Letters and recorded events as AMQP messages: CloudEvents 1.0 in binary mode, attributes in headers, JSON body.

A header is `cloudEvents:` and the name of an attribute. Those of every message:

    specversion    1.0
    id             the message's own id
    source         /redraft/ and who spoke, percent-encoded: /redraft/relay, /redraft/critic%20judge
    type           its stable name: draft.critique.v1
    subject        the run that it is about
    causationid    the id of what caused it
    correlationid  the id of what began it all
    traceparent    W3C trace context (the extension "Distributed Tracing")

What is empty is left out. A recorded event (`redraft.events`) has also:

    time           when it was recorded, RFC 3339
    workflow       the name of its workflow
    tags           those of its run, with a blank between them
    position       its place in the log, from 1: growing, though not always by one
    follows        the position of the event announced before it, when both were announced together
    version        its place in its run, from 1
    hash           SHA-256, in hex, of what was stored
    previoushash   that of the event before it in its run
    repeats        in a fork, the id of its parent's event that this one stands for

`type` and `data` of an event are always of the current version: one that was stored by an older release is announced as
it is read now, and its hash then still speaks of the older bytes.

Redraft's own headers: `redraft-sent`, how often the message was sent before without an answer, so that it may be there
twice; `redraft-delivered`, how often it was delivered before a reader sent it again; `redraft-queue` and
`redraft-reason` on what was set aside; `redraft-user` on what was sent again or set aside, who sent it first;
`redraft-shortened`, how many bytes its headers had, where a broker would not
take them again.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, TypeAlias
from urllib.parse import quote, unquote

import msgspec
from aiormq.abc import DeliveredMessage
from pamqp.common import FieldTable, FieldValue
from pamqp.encode import encode_table_value, field_table

from redraft.events.bus import LARGEST_HEAD, LONGEST_ATTRIBUTE, LONGEST_NAME, Letter, topic_key
from redraft.events.codec import decode_event
from redraft.events.domain_events import EVENT_NAMES
from redraft.events.envelope import Origin, Recorded
from redraft.events.errors import CodecError
from redraft.events.filters import About, EventFilter, fits
from redraft.events.rabbit_timeline import Step

Headers: TypeAlias = FieldTable

SENT: Final = "redraft-sent"
DELIVERED: Final = "redraft-delivered"
QUEUE: Final = "redraft-queue"
REASON: Final = "redraft-reason"
USER: Final = "redraft-user"
SHORTENED: Final = "redraft-shortened"

_LONGEST_HEADERS: Final = 64 * 1024
_MOST_HEADERS: Final = 30
_MOST_NUMBER: Final = 2**62
_CE: Final = "cloudEvents:"
_SOURCE: Final = "/redraft/"


def letter_headers(letter: Letter) -> Headers:
    return {**_common(letter.origin, letter.name, letter.run)}


def read_letter(message: DeliveredMessage) -> Letter:
    """The letter in any message: what a stranger left out is empty, and for whoever decodes the body to refuse.

    Only an id it always has: events get theirs from it, and each needs one of its own.
    """
    headers = headers_of(message)
    origin = _origin(headers)
    if not origin.id:
        origin = msgspec.structs.replace(origin, id=message_id(message))
    return Letter(_text(headers, "type"), message.body, origin, _text(headers, "subject"))


def user_of(message: DeliveredMessage, me: str) -> str:
    """Returns the user who sent a message, as the server checked it; empty when it names nobody.

    What this user itself, `me`, sent on for somebody else names that one in a header. The header of anybody else counts
    for nothing.
    """
    user = message.header.properties.user_id or ""
    if user != me:
        return user
    first = headers_of(message).get(USER, me)
    return first if isinstance(first, str) else ""


def message_id(message: DeliveredMessage) -> str:
    """The id that the message was sent with; of a stranger's without one, a hash of its body."""
    return message.header.properties.message_id or sha256(message.body).hexdigest()[:32]


def event_headers(event: Recorded, facts: About, follows: int) -> Headers:
    """`follows` is the position of the event before it, 0 when it is not known."""
    origin = Origin(event.id, event.actor, event.causation, event.correlation, event.trace)
    headers = _common(origin, EVENT_NAMES[type(event.data)], event.run)
    headers |= {
        f"{_CE}time": msgspec.to_builtins(event.time),
        f"{_CE}position": event.position,
        f"{_CE}version": event.version,
        f"{_CE}hash": event.hash,
        f"{_CE}previoushash": event.previous,
    }
    if facts.workflow:
        headers[f"{_CE}workflow"] = facts.workflow
    if facts.tags:
        headers[f"{_CE}tags"] = " ".join(facts.tags)
    if follows:
        headers[f"{_CE}follows"] = follows
    if event.repeats:
        headers[f"{_CE}repeats"] = event.repeats
    head = len(event.id) + len(event.actor) + len(event.causation) + len(event.correlation) + len(event.trace)
    return headers if head < LARGEST_HEAD else sendable(headers)


def event_key(event: Recorded, workflow: str) -> str:
    """The routing key of an event: its name without the version, and its workflow, in which a dot is %2E."""
    return _event_key(EVENT_NAMES[type(event.data)].rpartition(".")[0], workflow)


@lru_cache(maxsize=1024)
def _event_key(name: str, workflow: str) -> str:
    return topic_key(name, workflow)[:LONGEST_NAME]


def read_event(message: DeliveredMessage) -> Recorded:
    """The recorded event in a message of the stream; raises CodecError when there is none, or an unknown one."""
    headers = headers_of(message)
    origin = _origin(headers)
    stored = {
        "id": origin.id,
        "time": _text(headers, "time"),
        "previous": _text(headers, "previoushash"),
        "actor": origin.actor,
        "data": msgspec.Raw(message.body),
        "causation": origin.causation,
        "correlation": origin.correlation,
        "trace": origin.trace,
        "repeats": _text(headers, "repeats"),
        "hash": _text(headers, "hash"),
    }
    run, version = _text(headers, "subject"), number(headers, f"{_CE}version")
    return decode_event(run, version, _text(headers, "type"), msgspec.json.encode(stored), position(message))


def read_wanted(message: DeliveredMessage, wanted: EventFilter) -> Recorded | None:
    """The recorded event in a message of the stream if it is wanted. Where its headers tell, its body is not read.

    Raises CodecError as `read_event` does.
    """
    headers = headers_of(message)
    if wanted.types and _text(headers, "type") not in wanted.types:
        return None
    if wanted.runs and _text(headers, "subject") not in wanted.runs:
        return None
    event = read_event(message)
    run = About(_text(headers, "workflow"), tuple(_text(headers, "tags").split()))
    return event if fits(wanted, event, run) else None


def is_event(message: DeliveredMessage) -> bool:
    """Whether a message of the stream is a recorded event, by its headers."""
    return number(headers_of(message), f"{_CE}position") > 0


def position(message: DeliveredMessage) -> int:
    """The place in the log of the event in a message; raises CodecError when it has none."""
    place = number(headers_of(message), f"{_CE}position")
    if place < 1:
        raise CodecError(f"a message without the header {_CE}position is in the stream of events")
    return place


def step_of(message: DeliveredMessage) -> Step:
    """The place of the event in a message; raises CodecError when it has none."""
    headers = headers_of(message)
    version = number(headers, f"{_CE}version")
    hashes = _text(headers, "hash"), _text(headers, "previoushash")
    return Step(_text(headers, "subject"), position(message), version, *hashes)


def follows(message: DeliveredMessage) -> int:
    """The position of the event that was announced before this one, 0 when it is not known."""
    return number(headers_of(message), f"{_CE}follows")


def headers_of(message: DeliveredMessage) -> FieldTable:
    return message.header.properties.headers or {}


def sendable(headers: FieldTable) -> FieldTable:
    """Headers that came with a message, so that they can be sent again: what the client cannot write becomes text.

    Where they are too long for a frame, each is shortened, and only our own are kept; `redraft-shortened` is how many
    bytes they had.
    """
    plain = {name: _sendable(value) for name, value in headers.items()}
    size = len(field_table(plain))
    if size <= _LONGEST_HEADERS:
        return plain
    ours = {name: value for name, value in plain.items() if name.startswith((_CE, "redraft-"))}
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
            return value if _can_be_written(value) else str(value)


def _can_be_written(value: FieldValue) -> bool:
    try:
        encode_table_value(value)
    except (TypeError, ValueError, OverflowError, struct.error):
        return False
    return True


def number(headers: Mapping[str, object], name: str) -> int:
    """A header that is a number above 0, at most 2**62; 0 when there is none."""
    value = headers.get(name)
    return min(max(0, value), _MOST_NUMBER) if isinstance(value, int) else 0


def _common(origin: Origin, name: str, run: str) -> Headers:
    attributes = {
        "specversion": "1.0",
        "id": origin.id,
        "source": source_of(origin.actor),
        "type": name,
        "subject": run,
        "causationid": origin.causation,
        "correlationid": origin.correlation,
        "traceparent": origin.trace,
    }
    return {_CE + attribute: value for attribute, value in attributes.items() if value}


@lru_cache(maxsize=1024)
def source_of(actor: str) -> str:
    """The attribute `source` of what this actor says."""
    return _SOURCE + quote(actor, safe="")


def actor_of(source: str) -> str:
    """Who speaks in a message with this `source`."""
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
