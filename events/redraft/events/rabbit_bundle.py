"""Several letters in one message: CloudEvents 1.0 in the JSON batch format, `application/cloudevents-batch+json`.

On a busy bus a message costs more than what is in it: measured on two cores with everything on one machine, a quorum
queue of RabbitMQ 3.10 and both its clients spend 0.2 ms on each. Letters travel together only where their readers can
take them apart: in the inbox, which coordinators read, and in work queues whose bus is told so. A letter that stands
alone is a message in binary mode, as everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from aiormq.abc import DeliveredMessage

from redraft.events.bus import LARGEST_LETTER, Letter
from redraft.events.codec import UNREADABLE
from redraft.events.envelope import Origin
from redraft.events.rabbit_letters import actor_of, source_of

BATCH: Final = "application/cloudevents-batch+json"

LARGEST: Final = 512 * 1024
"""Bytes of letters that travel together at most; a larger letter travels alone."""


class _Event(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    specversion: str
    id: str
    source: str
    type: str
    data: msgspec.Raw
    subject: str = ""
    causationid: str = ""
    correlationid: str = ""
    traceparent: str = ""


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(list[_Event])


def bundled(letters: Sequence[Letter], most: int) -> Iterator[Sequence[Letter]]:
    """The letters in their order, in groups of at most `most`. One that is no JSON, or large, is by itself."""
    group: list[Letter] = []
    size = 0
    for letter in letters:
        alone = len(letter.body) > LARGEST or not _is_json(letter.body)
        if group and (alone or len(group) == most or size + len(letter.body) > LARGEST):
            yield group
            group, size = [], 0
        group.append(letter)
        size += LARGEST if alone else len(letter.body)
    if group:
        yield group


def write_bundle(letters: Sequence[Letter]) -> bytes:
    """The body of a message that holds these letters."""
    return _ENCODER.encode([_event(letter) for letter in letters])


def read_bundle(message: DeliveredMessage) -> Sequence[Letter]:
    """The letters in a message of several; none when it is any other message, or cannot be read."""
    if message.header.properties.content_type != BATCH or len(message.body) > LARGEST_LETTER:
        return ()
    try:
        return [_letter(event) for event in _DECODER.decode(message.body)]
    except UNREADABLE:
        return ()


def _event(letter: Letter) -> _Event:
    came = letter.origin
    return _Event(
        "1.0",
        came.id,
        source_of(came.actor),
        letter.name,
        msgspec.Raw(letter.body),
        letter.run,
        came.causation,
        came.correlation,
        came.trace,
    )


def _letter(event: _Event) -> Letter:
    origin = Origin(event.id, actor_of(event.source), event.causationid, event.correlationid, event.traceparent)
    return Letter(event.type, bytes(event.data), origin, event.subject)


def _is_json(body: bytes) -> bool:
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except UNREADABLE:
        return False
    return True
