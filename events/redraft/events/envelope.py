"""What travels around an event or a message: its id, its cause, its run, its place and its time."""

from __future__ import annotations

from datetime import datetime
from typing import TypeAlias

import msgspec

from redraft.events.domain_events import DomainEvent


class Origin(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Where an event or a message comes from.

    `id` is the message's own; `causation` the id of what caused it; `correlation` the id of what began it all;
    `actor` who spoke; `trace` a W3C traceparent, when there is one. `repeats` is set for an event of a fork that stands
    for one of its parent's: the id of that event. It happened there, and is not to be counted or acted on again.
    """

    id: str
    actor: str
    causation: str = ""
    correlation: str = ""
    trace: str = ""
    repeats: str = ""


class Recorded(msgspec.Struct, frozen=True, gc=False):
    """A recorded event with its place: `version` in its run and `position` in the log, both from 1.

    `position` is 0 where it is not known. `hash` is the SHA-256, in hex, of all that was stored but itself; `previous`
    is that of the event before it in its run. `repeats` is as in `Origin`. `sealed`: its texts are kept encrypted.
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
    sealed: bool = False


class Unreadable(msgspec.Struct, frozen=True, gc=False):
    """A row of the log that this release cannot read as an event. What follows in its run cannot be relied on here.

    `name` is the name that the row has, `why` says what is wrong with it, in a line. `later`: the row may well be an
    event of a later release. `version` is 0 where the row has no number there. `hash` is as in `Recorded`.
    """

    run: str
    version: int
    position: int
    name: str
    why: str
    hash: str = ""
    later: bool = False


Entry: TypeAlias = Recorded | Unreadable
"""What is found at a position of the log."""
