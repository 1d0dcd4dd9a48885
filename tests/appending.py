"""Appending for tests that do not care which event it is that they build on, as long as it is the one at a version."""

from __future__ import annotations

from collections.abc import Sequence

from redraft.events.messages.codec import GENESIS
from redraft.events.messages.envelope import Recorded
from redraft.events.store.append import Append, Encoded, NewEvent, encode
from redraft.events.store.event_store import EventStore

NOWHERE = "?"
"""The hash of no event."""


async def append_to(
    store: EventStore, run: str, expected_version: int, events: Sequence[NewEvent]
) -> tuple[Recorded, ...]:
    """Records events after the one that the run has at this version, if it has one."""
    return await store.append(run, expected_version, events, await hash_at(store, run, expected_version))


async def hash_at(store: EventStore, run: str, version: int) -> str:
    """The hash of a run's event at a version, `GENESIS` for 0, and `NOWHERE` when there is none."""
    if version == 0:
        return GENESIS
    if version < 0:
        return NOWHERE
    found = await store.read(run, upto=version, after=version - 1)
    return found[0].hash if found else NOWHERE


def chained(run: str, *groups: Sequence[NewEvent], version: int = 0, previous: str = GENESIS) -> list[Encoded]:
    """Appends that build on each other, none of them recorded yet."""
    appends: list[Encoded] = []
    for events in groups:
        appends.append(encode(Append(run, version, tuple(events), previous)))
        version, previous = version + len(events), appends[-1].hash
    return appends
