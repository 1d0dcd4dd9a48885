"""What the relay sends, to whom, and how sure it is that nobody sent it before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from tests.actors.test_known_faults import IMPROVE, JUDGE, events_of, plan_of

from redraft.actors.relay import Relay
from redraft.actors.testing import NOON
from redraft.events.bus import INBOX, work_queue
from redraft.events.codec import decode_message, decode_work, encode_message
from redraft.events.commands import Failed, Work
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
async def relaying(
    events: Sequence[Recorded], heard: Heard | None = None, largest: int = 10**6, **options
) -> AsyncIterator[LocalBus]:
    reached = asyncio.Event()

    async def passed(position: int) -> None:
        if position == events[-1].position:
            reached.set()

    async with LocalBus(largest=largest) as bus:
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


async def test_a_request_that_no_bus_would_take_fails_its_step_and_the_others_go_out():
    """The longer the history, the larger the request for a refinement: from some iteration on it does not fit."""
    events = numbered()
    asked = [event for event in events if isinstance(event.data, StepRequested)]
    async with relaying(events) as bus:
        sizes = {path: len(encode_message(work)[1]) for path, work in (await sent(bus, events)).items()}
    largest = sorted(sizes.values())[-2]
    (path,) = [path for path, size in sizes.items() if size > largest]
    async with relaying(events, largest=largest) as bus, bus.consume(INBOX, 10) as inbox:
        (delivery,) = await inbox.take(10)
        failed = decode_message(delivery.letter.name, delivery.letter.body)
        queues = {work_queue(event.data.role, event.data.actor) for event in asked}
        others = 0
        for queue in queues:
            async with bus.consume(queue, 100) as requests:
                others += len(await requests.take(100))
    (event,) = [event for event in asked if event.data.path == path]
    assert isinstance(failed, Failed)
    assert (failed.path, failed.kind, failed.retryable) == (path, "invalid", False)
    assert f"{sizes[path]:,} bytes, more than the {largest:,} that the bus takes" in failed.message
    assert (delivery.letter.origin.causation, others) == (event.id, len(asked) - 1)


async def test_a_relay_that_is_stopped_tells_how_far_it_came():
    events, told = numbered(), []
    known = asyncio.Event()

    class Known(Heard):
        async def announce(self, events: Sequence[Recorded], about: Mapping[str, About]) -> None:
            known.set()

    async def passed(position: int) -> None:
        told.append(position)

    async with LocalBus() as bus:
        task = asyncio.create_task(Relay(Log(events), bus, lambda run: True, Known()).run(0, passed))
        await asyncio.wait_for(known.wait(), 10)
        task.cancel()
        await asyncio.wait([task])
    assert told[-1:] == [events[-1].position]
