"""The runs that go on, and sending again what they wait for: for a broker that lost its queues."""

from __future__ import annotations

from redraft.actors.relay import Relay
from redraft.events.bus import Bus
from redraft.events.domain_events import RunEnded, RunQuarantined, RunStarted
from redraft.events.envelope import Unreadable
from redraft.events.store import EventStore


async def open_runs(store: EventStore) -> list[str]:
    """Returns the runs that have begun and not ended, the oldest first.

    Those that cannot be read, or are set aside, are not among them. Raises StoreError.
    """
    runs: dict[str, None] = {}
    async for batch in store.tail(0, follow=False):
        for event in batch:
            if isinstance(event, Unreadable) or isinstance(event.data, RunEnded | RunQuarantined):
                runs.pop(event.run, None)
            elif isinstance(event.data, RunStarted):
                runs[event.run] = None
    return list(runs)


async def send_again(store: EventStore, bus: Bus) -> int:
    """Sends again, for every run that goes on, each request without an answer; returns the number of them.

    What was not lost is sent twice, and confirmed before it is worked on. Raises StoreError, BusError.
    """
    relay = Relay(store, bus, lambda run: True)
    return sum([await relay.resend(run) for run in await open_runs(store)])
