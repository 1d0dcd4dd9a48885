"""Is what a fork repeats what its parent recorded? Both chains of hashes hold without it, so it is compared."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from redraft.events.domain_events import RunErased, RunStarted
from redraft.events.envelope import Recorded


class Lineage(msgspec.Struct, frozen=True):
    """What is said of a fork's beginning: that it is its parent's, why nobody can tell, or what is wrong (`fault`)."""

    told: str = ""
    fault: str = ""


async def lineage(events: Sequence[Recorded], read: Callable[[str], Awaitable[Sequence[Recorded]]]) -> Lineage:
    """Compares what a run repeats with its parent's events, as `read` gives them; says nothing of what is no fork."""
    begun = events[0].data if events else None
    if not isinstance(begun, RunStarted) or begun.parent is None:
        return Lineage()
    run, at = begun.parent.run, begun.parent.version
    past = await read(run)
    fork = f"a fork of run {run} at event {at}"
    if len(past) < at:
        return Lineage(f"{fork}, which is not in this store")
    if any(isinstance(event.data, RunErased) for event in (*past, *events)):
        return Lineage(f"{fork}; texts were erased, so the two cannot be compared")
    for own, before in zip(events[1:at], past[1:at], strict=False):
        if own.repeats != before.id or own.data != before.data:
            where = f"event {own.version} of run {own.run}"
            return Lineage(fault=f"{where} is not what it repeats, event {before.version} of run {run}")
    if len(events) < at:
        return Lineage(fault=f"run {events[0].run} has {len(events)} events, and repeats {at} of run {run}")
    return Lineage(f"{fork}, whose events it repeats word for word")
