"""What the relay sends, to whom, and how sure it is that nobody sent it before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace
from tests.given import NOON
from tests.scenarios.test_known_faults import IMPROVE, JUDGE, events_of, plan_of

from redraft.actors.runtime.relaying.relay import Relay, unanswered
from redraft.events.bus.local import LocalBus
from redraft.events.bus.port import INBOX, BusMessage, work_queue
from redraft.events.errors import LeaseLost, StoreError
from redraft.events.messages.codec import decode_message, decode_work, encode_message
from redraft.events.messages.commands import WORK_NAMES, Failed, Generate, Work
from redraft.events.messages.domain_events import RunErased, StepFailed, StepRequested
from redraft.events.messages.envelope import Origin, Recorded
from redraft.events.messages.event_names import EVENT_NAMES
from redraft.events.messages.filters import RunFacts


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

    async def publish_events(self, events: Sequence[Recorded], facts: Mapping[str, RunFacts]) -> None:
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
    events: Sequence[Recorded] | Log, heard: Heard | None = None, largest: int = 10**6, owns=lambda run: True, **options
) -> AsyncIterator[LocalBus]:
    reached = asyncio.Event()
    log = events if isinstance(events, Log) else Log(events)

    async def passed(position: int) -> None:
        if position == log.events[-1].position:
            reached.set()

    async with LocalBus(largest=largest) as bus:
        relay = Relay(log, bus, owns, heard)
        task = asyncio.create_task(relay.run(0, passed, **options))
        try:
            await asyncio.wait_for(reached.wait(), 60)
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
                work = decode_work(delivery.bus_message.name, delivery.bus_message.body)
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


class Outbox:
    """Takes every message."""

    largest = largest_request = 10**6

    def __init__(self) -> None:
        self.sent: list[str] = []

    async def publish(self, queue: str, bus_messages: Sequence[BusMessage]) -> None:
        self.sent += [bus_message.origin.id for bus_message in bus_messages]


async def test_one_that_another_has_taken_over_from_sends_and_announces_nothing_more():
    events, heard, outbox = numbered(), Heard(), Outbox()
    middle = next(event.position for event in events if isinstance(event.data, StepRequested) and event.position > 3)
    asked = 0

    async def check() -> None:
        nonlocal asked
        asked += 1
        if asked == middle:
            raise LeaseLost("another has it")

    with pytest.raises(ExceptionGroup) as caught:
        await Relay(Log(events), outbox, lambda run: True, heard).run(0, None, check)  # type: ignore[arg-type]
    assert caught.group_contains(LeaseLost)
    before = [event.id for event in events[: middle - 1] if isinstance(event.data, StepRequested)]
    assert outbox.sent == before != []
    assert heard.events == []


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
        failed = decode_message(delivery.bus_message.name, delivery.bus_message.body)
        queues = {work_queue(event.data.role, event.data.actor) for event in asked}
        others = 0
        for queue in queues:
            async with bus.consume(queue, 100) as requests:
                others += len(await requests.take(100))
    (event,) = [event for event in asked if event.data.path == path]
    assert isinstance(failed, Failed)
    assert (failed.path, failed.kind, failed.retryable) == (path, "invalid", False)
    assert f"{sizes[path]:,} bytes, more than the {largest:,} that the bus takes" in failed.message
    assert (delivery.bus_message.origin.causation, others) == (event.id, len(asked) - 1)


async def test_a_relay_that_is_stopped_tells_how_far_it_came():
    events, told = numbered(), []
    known = asyncio.Event()

    class Known(Heard):
        async def publish_events(self, events: Sequence[Recorded], about: Mapping[str, RunFacts]) -> None:
            known.set()

    async def passed(position: int) -> None:
        told.append(position)

    async with LocalBus() as bus:
        task = asyncio.create_task(Relay(Log(events), bus, lambda run: True, Known()).run(0, passed))
        await asyncio.wait_for(known.wait(), 60)
        task.cancel()
        await asyncio.wait([task])
    assert told[-1:] == [events[-1].position]


def traced() -> list[Recorded]:
    """The same run, with all that is known of where each event comes from."""
    return [
        replace(event, causation=f"cause of {event.id}", correlation="start", trace=f"trace {event.id}")
        for event in numbered()
    ]


async def bus_messages(bus: LocalBus, queue: str) -> list[BusMessage]:
    """What lies in a queue."""
    async with bus.consume(queue, 100) as consumer:
        return [each.bus_message for each in await consumer.take(100)]


async def test_a_request_says_where_it_comes_from():
    events = traced()
    async with relaying(events) as bus:
        (bus_message,) = await bus_messages(bus, work_queue("generator", "write"))
    (asked,) = [event for event in events if isinstance(event.data, StepRequested) and event.data.path == "write"]
    assert bus_message.origin == Origin(asked.id, "relay", asked.causation, "start", asked.trace)
    assert bus_message.run == "r"
    assert bus_message.name == WORK_NAMES[Generate]
    assert decode_work(bus_message.name, bus_message.body) == bus_message.content


async def test_a_failure_in_a_workers_place_says_which_request_it_answers():
    events = traced()
    async with relaying(events) as bus:
        sizes = sorted(len(encode_message(work)[1]) for work in (await sent(bus, events)).values())
    async with relaying(events, largest=sizes[-2]) as bus:
        (bus_message,) = await bus_messages(bus, INBOX)
    failed = decode_message(bus_message.name, bus_message.body)
    assert isinstance(failed, Failed)
    (asked,) = [each for each in events if isinstance(each.data, StepRequested) and each.data.path == failed.path]
    assert bus_message.origin == Origin(f"{asked.id}.refused", "relay", asked.id, "start", asked.trace)
    assert (bus_message.run, failed.run, failed.attempt) == ("r", "r", 1)


def waiting_for(*paths: str) -> list[Recorded]:
    """The run up to where it waits for the last of these steps."""
    events = numbered()
    last = max(n for n, event in enumerate(events) if getattr(event.data, "path", "") == paths[-1])
    return [event for event in events[:last] if isinstance(event.data, StepRequested) or event.position < last]


@pytest.mark.parametrize(("sent", "confirmed"), [(3, True), (2, False), (1, False)])
async def test_what_has_no_answer_is_sent_again_as_it_is_asked_to_be(sent: int, confirmed: bool):
    events = waiting_for("Refinement[1]/improve")
    log = Log(events)
    async with LocalBus() as bus:
        relay = Relay(log, bus, lambda run: True)
        assert await relay.resend("r", sent=sent, confirmed=confirmed) == 1
        assert await relay.resend("r", "Refinement[1]/improve", sent=sent, confirmed=confirmed) == 1
        assert await relay.resend("r", "write") == 0
        assert await relay.resend("another") == 0
        again = await bus_messages(bus, work_queue("refiner", "improve"))
        relay.close()
    requests = [decode_work(each.name, each.body).request for each in again]
    assert [(each.path, each.sent, each.confirmed) for each in requests] == [
        ("Refinement[1]/improve", sent, confirmed)
    ] * 2


async def test_what_is_sent_again_may_have_been_sent_and_is_not_confirmed_unless_that_is_said():
    async with LocalBus() as bus:
        relay = Relay(Log(waiting_for("Refinement[1]/improve")), bus, lambda run: True)
        assert await relay.resend("r") == 1
        (again,) = await bus_messages(bus, work_queue("refiner", "improve"))
        relay.close()
    request = decode_work(again.name, again.body).request
    assert (request.sent, request.confirmed) == (2, False)


def test_what_has_no_answer_is_told_from_what_waits_to_be_tried_again_and_from_copies():
    events = waiting_for("Refinement[1]/improve")
    asked = events[-1]
    assert unanswered(events) == unanswered(events, "Refinement[1]/improve") == [asked]
    assert unanswered(events, "write") == []
    later = StepFailed("Refinement[1]/improve", 1, "error", "broke", NOON)
    failed = replace(asked, version=asked.version + 1, position=asked.position + 1, data=later)
    assert unanswered([*events, failed]) == []
    copied = [*events[:-1], replace(asked, repeats="elsewhere")]
    assert unanswered(copied) == []


async def test_what_concerns_the_runs_of_others_is_neither_sent_nor_made_known():
    pairs = [(event, replace(event, run="theirs", id=f"their {event.id}")) for event in numbered()]
    events = [replace(event, position=n) for n, event in enumerate((each for pair in pairs for each in pair), start=1)]
    heard = Heard()
    async with relaying(events, heard, owns=lambda run: run == "r") as bus:
        requests = [
            decode_work(each.name, each.body).request for each in await bus_messages(bus, work_queue("critic", "judge"))
        ]
    assert {each.run for each in requests} == {"r"}
    assert {event.run for event in heard.events} == {"r"}
    assert len(heard.events) == len(pairs)


class Counting(Log):
    """A log that counts how often a run is read."""

    reads = 0

    async def read(self, run: str, upto: int | None = None, after: int = 0) -> Sequence[Recorded]:
        self.reads += 1
        return await super().read(run, upto, after)


async def test_a_run_that_has_ended_is_forgotten():
    """Its texts are not kept: what is said of it afterwards has it read once more."""
    events = numbered()
    end = events[-1]
    events.append(replace(end, version=end.version + 1, position=end.position + 1, data=RunErased("ann")))
    log = Counting(events)
    async with relaying(log):
        assert log.reads == 1


async def test_a_relay_that_is_stopped_ends_as_stopped_though_its_position_cannot_be_told():
    events, known, tried = numbered(), asyncio.Event(), []

    class Known(Heard):
        async def publish_events(self, events: Sequence[Recorded], about: Mapping[str, RunFacts]) -> None:
            known.set()

    async def passed(position: int) -> None:
        told_by = asyncio.current_task()
        if told_by is not None and told_by.cancelling():
            tried.append(position)
            raise StoreError("the store is gone")

    async with LocalBus() as bus:
        task = asyncio.create_task(Relay(Log(events), bus, lambda run: True, Known()).run(0, passed))
        await asyncio.wait_for(known.wait(), 60)
        task.cancel()
        await asyncio.wait([task])
    assert task.cancelled()
    assert tried == [events[-1].position]
