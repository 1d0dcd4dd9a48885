"""What the relay sends, to whom, and how sure it is that nobody sent it before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from tests.actors.test_known_faults import IMPROVE, JUDGE, events_of, plan_of

from redraft.actors.relay import Relay
from redraft.actors.testing import NOON
from redraft.events.bus import work_queue
from redraft.events.codec import decode_work
from redraft.events.commands import Work
from redraft.events.domain_events import EVENT_NAMES, StepRequested
from redraft.events.envelope import Recorded
from redraft.events.filters import About
from redraft.events.local_bus import LocalBus


class Log:
    """A log that holds these events."""

    def __init__(self, events: Sequence[Recorded]) -> None:
        self.events = events

    async def tail(self, after: int, *, follow: bool = True) -> AsyncIterator[Sequence[Recorded]]:
        for event in self.events:
            if event.position > after:
                yield [event]
        if follow:
            await asyncio.Event().wait()

    async def read(self, run: str, upto: int | None = None, after: int = 0) -> Sequence[Recorded]:
        found = [event for event in self.events if event.run == run and event.version > after]
        return [event for event in found if upto is None or event.version <= upto]


class Heard:
    """Somebody who is told of every event."""

    def __init__(self) -> None:
        self.events: list[Recorded] = []
        self.workflows: set[str] = set()

    async def announce(self, events: Sequence[Recorded], facts: Mapping[str, About]) -> None:
        self.events += events
        self.workflows |= {known.workflow for known in facts.values()}


def numbered() -> list[Recorded]:
    """A whole run as it was recorded."""
    happened = events_of(plan_of(JUDGE, IMPROVE), [0.2, 0.4, 0.6, 0.8])
    return [
        Recorded(f"e{n}", "r", n, NOON, "test", "", "r", "", "", "", EVENT_NAMES[type(event)], event, n)
        for n, event in enumerate(happened, start=1)
    ]


@asynccontextmanager
async def relaying(events: Sequence[Recorded], heard: Heard | None = None, **options) -> AsyncIterator[LocalBus]:
    reached = asyncio.Event()

    async def passed(position: int) -> None:
        if position == events[-1].position:
            reached.set()

    async with LocalBus() as bus:
        relay = Relay(Log(events), bus, lambda run: True, heard)
        task = asyncio.create_task(relay.run(0, passed, **options))
        try:
            await asyncio.wait_for(reached.wait(), 10)
            yield bus
        finally:
            task.cancel()
            await asyncio.wait([task])


async def sent(bus: LocalBus, events: Sequence[Recorded]) -> dict[str, Work]:
    """What lies in the queues, by path."""
    asked = [event.data for event in events if isinstance(event.data, StepRequested)]
    found: dict[str, Work] = {}
    for role, actor in {(each.role, each.actor) for each in asked}:
        async with bus.consume(work_queue(role, actor), 100) as requests:
            for delivery in await requests.take(100):
                work = decode_work(delivery.letter.name, delivery.letter.body)
                found[work.request.path] = work
    assert set(found) == {each.path for each in asked}
    return found


async def test_every_request_goes_to_its_actor_with_its_texts_and_every_event_is_made_known():
    events, heard = numbered(), Heard()
    async with relaying(events, heard) as bus:
        works = await sent(bus, events)
    assert {work.request.sent for work in works.values()} == {1}
    assert [event.position for event in heard.events] == [event.position for event in events]
    assert len(heard.workflows) == 1


async def test_what_another_relay_may_have_sent_is_marked():
    events = numbered()
    half = len(events) // 2
    async with relaying(events, doubtful=half) as bus:
        works = await sent(bus, events)
    asked = {event.data.path: event.position for event in events if isinstance(event.data, StepRequested)}
    assert {path: work.request.sent for path, work in works.items()} == {
        path: 2 if position <= half else 1 for path, position in asked.items()
    }
    assert not any(work.request.confirmed for work in works.values())
