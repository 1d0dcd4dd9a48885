"""Filling a broker again from the log: open requests, and the stream of events."""

from __future__ import annotations

import asyncio
from typing import Final

from redraft.app.deployment import open_bus, open_log_of
from redraft.app.open_runs import send_again
from redraft.app.settings import Settings
from redraft.app.together import together
from redraft.events.domain_events import RunEnded
from redraft.events.envelope import Recorded
from redraft.events.filters import About, about
from redraft.events.rabbit_bus import RabbitBus
from redraft.events.relay_lease import open_lease
from redraft.events.store import EventStore

LEASED: Final = 2.0
"""Seconds after which a lease that is not to be had is another's."""


async def rebuild_broker(settings: Settings) -> tuple[int, int | None]:
    """Sends again, for every run that goes on, each request without an answer, and fills the stream of events anew.

    Returns the number of requests, and that of events: None while a coordinator announces them, whose stream is left as
    it is. For a broker that lost its queues, or a log that was set back. What was not lost is sent twice, and confirmed
    before it is worked on.
    """
    async with open_log_of(settings) as store, open_bus(settings) as bus:
        sent = await send_again(store, bus)
        async with open_lease(settings.store) as lease:
            try:
                async with asyncio.timeout(LEASED):
                    await lease.acquire()
            except TimeoutError:
                return sent, None
            async with together([lease.keep()]):
                return sent, await _announced_again(store, bus)


async def _announced_again(store: EventStore, bus: RabbitBus) -> int:
    """Fills the stream from the log; gives the number of events that can be read."""
    await bus.clear_stream()
    facts: dict[str, About] = {}
    number = 0
    async for batch in store.tail(0, follow=False):
        events = [event for event in batch if isinstance(event, Recorded)]
        facts |= {event.run: known for event in events if (known := about(event))}
        await bus.announce(events, facts)
        number += len(events)
        for event in events:
            if isinstance(event.data, RunEnded):
                facts.pop(event.run, None)
    return number
