"""The ids and origins of what was decided: made from those of the message, so that a decision has them once for all."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from redraft.events.appends import NewEvent
from redraft.events.domain_events import DomainEvent
from redraft.events.envelope import Origin, Recorded


def new_events(
    came: Origin, run: str, events: Sequence[DomainEvent], now: datetime, past: Sequence[Recorded] = ()
) -> tuple[NewEvent, ...]:
    """Events with their ids: made from that of the message that came, so that the same decision gives the same ids.

    Those of a fork after its first, as many as there are in the `past`, name the one that they repeat, and who spoke.
    """
    first = f"{came.id}.0"
    correlation = came.correlation or run
    if past:
        return _of_fork(came, run, events, now, past)
    begun = NewEvent(Origin(first, came.actor, came.causation, correlation, came.trace), now, events[0])
    rest = [
        NewEvent(Origin(f"{came.id}.{number}", "coordinator", first, correlation, came.trace), now, event)
        for number, event in enumerate(events[1:], 1)
    ]
    return (begun, *rest)


def _of_fork(
    came: Origin, run: str, events: Sequence[DomainEvent], now: datetime, past: Sequence[Recorded]
) -> tuple[NewEvent, ...]:
    own = new_events(came, run, events, now)
    told = (
        replace(new, origin=replace(new.origin, actor=before.actor, repeats=before.id))
        for new, before in zip(own[1:], past[1:], strict=False)
    )
    return (own[0], *told, *own[len(past) :])
