"""How far named subscriptions are behind the log, and moving them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from redraft.app.subscribing.feed import StoreFeed
from redraft.events.errors import InputError
from redraft.events.messages.filters import EventFilter
from redraft.events.store.event_store import EventStore
from redraft.events.subscriptions.subscriptions import ParkedEvent, Subscription, Subscriptions

_SHOWN: Final = ("name", "position", "parked", "target", "created", "moved", "failing")


class Lagging(NamedTuple):
    """A subscription, how many events of the log it has not passed yet, and when the first of them was recorded."""

    found: Subscription
    lag: int
    since: datetime | None


async def next_position(log: EventStore, found: Subscription, head: int) -> int:
    """The position of the event that a subscription is at; the end of the log when it wants nothing more of it."""
    if found.failing is not None:
        return found.failing.position
    criteria = msgspec.json.decode(found.wants, type=EventFilter)
    async with aclosing(StoreFeed(log).read(found.position, criteria, follow=False)) as batches:
        async for batch in batches:
            if batch.events:
                return batch.events[0].position
    return head


def find_parked(found: Sequence[ParkedEvent], text: str, name: str) -> Sequence[ParkedEvent]:
    """The parked event that a text means, by its id or position, or `all` of them. Raises InputError."""
    if text == "all":
        return found
    exact = [each for each in found if text in (each.id, str(each.position))]
    if len(exact) != 1:
        raise InputError(f"no event {text!r} is parked; `redraft subscriptions parked {name}` shows those that are")
    return exact


async def measure_lag(log: EventStore, found: Subscription) -> Lagging:
    """Returns how far a subscription is behind."""
    lag = max(0, await log.head() - found.position)
    async with aclosing(log.tail(found.position, follow=False, limit=1)) as batches:
        async for batch in batches:
            return Lagging(found, lag, getattr(batch[0], "time", None))
    return Lagging(found, lag, None)


def lag_document(lagging: Lagging) -> dict[str, object]:
    """Returns a subscription and its lag as JSON shows it."""
    found = {name: getattr(lagging.found, name) for name in _SHOWN}
    return {**found, "lag": lagging.lag, "since": lagging.since, "wants": msgspec.json.decode(lagging.found.wants)}


async def list_lags(log: EventStore, names: Subscriptions) -> list[Lagging]:
    """Returns every subscription with its lag, by name."""
    return [await measure_lag(log, each) for each in await names.all()]


async def move_to(log: EventStore, names: Subscriptions, name: str, position: int) -> Lagging:
    """Has a subscription begin again after a position. Raises InputError for one that the log does not have."""
    head = await log.head()
    if not 0 <= position <= head:
        raise InputError(f"--to {position}: the log ends at {head}; give a position from 0 to {head}")
    return await measure_lag(log, await names.put(name, position))


async def skip_event(log: EventStore, names: Subscriptions, name: str, *, to_end: bool) -> Lagging:
    """Has a subscription skip the event that it is at, or every event that is in the log now."""
    head, found = await log.head(), await names.get(name)
    position = head if to_end else await next_position(log, found, head)
    return await measure_lag(log, await names.put(name, position))
