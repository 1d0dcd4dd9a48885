"""The metadata of events and messages: id, cause, run, position and time."""

from __future__ import annotations

from datetime import datetime
from typing import TypeAlias

import msgspec

from redraft.events.messages.domain_events import DomainEvent


class Origin(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The origin of an event or a message.

    `id` is the message's own; `causation` the id of its cause; `correlation` the id of the first message of the chain;
    `actor` the sender; `trace` a W3C traceparent, if any. `repeats` is set on an event of a fork that repeats one of
    its parent's: the id of that event. It happened there, and must not be counted or acted on again.
    """

    id: str
    actor: str
    causation: str = ""
    correlation: str = ""
    trace: str = ""
    repeats: str = ""


class Recorded(msgspec.Struct, frozen=True, gc=False):
    """A recorded event: `version` is its number in its run and `position` its number in the log, both from 1.

    `position` is 0 where it is not known. `hash` is the SHA-256, in hex, of all other stored bytes; `previous` is the
    hash of the event before it in its run. `repeats` is as in `Origin`. `encrypted`: its texts are kept encrypted.
    """

    id: str
    run: str
    version: int
    time: datetime
    actor: str
    causation: str
    correlation: str
    trace: str
    previous: str
    hash: str
    name: str
    data: DomainEvent
    position: int = 0
    repeats: str = ""
    encrypted: bool = False


class Unreadable(msgspec.Struct, frozen=True, gc=False):
    """A row of the log that this release cannot read as an event. Later events of its run cannot be relied on here.

    `name` is the stored name of the row, `why` says in a line why it cannot be read. `later`: the row may be an event
    of a later release. `version` is 0 where the row has no number there. `hash` is as in `Recorded`.
    """

    run: str
    version: int
    position: int
    name: str
    why: str
    hash: str = ""
    later: bool = False


Entry: TypeAlias = Recorded | Unreadable
"""The content of a position of the log."""
