"""What is wrong with one run or one queue does not stop the relay for the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import aio_pika
import pytest
from msgspec.structs import replace
from tests.actors.runtime.test_command_handler import SHORT
from tests.actors.runtime.test_relay import Heard, Log, numbered
from tests.events.rabbit_server import URL, new_prefix, rabbit

from redraft.actors.runtime.relaying.queue_publisher import Blocked, Freed, LeftOut, Refused, Trouble
from redraft.actors.runtime.relaying.relay import Relay
from redraft.events.bus.local import LocalBus
from redraft.events.bus.port import INBOX, Bus, work_queue
from redraft.events.errors import BusUnusable, CodecError, MessageTooLarge, StoreError, UnknownRules
from redraft.events.messages.codec import decode_message, decode_work
from redraft.events.messages.commands import Failed
from redraft.events.messages.domain_events import DraftGenerated, LoopEnded, StepRequested
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.filters import RunFacts

LONG = "京" * 13
"""The queue of an actor of this name would have more than 127 bytes on RabbitMQ."""


def one_after_the_other(*runs: Sequence[Recorded]) -> list[Recorded]:
    """A log that holds these runs, each under a name of its own, with the events of one between those of the others."""
    turns = sorted((event.version, number, event) for number, events in enumerate(runs) for event in events)
    return [
        replace(event, run=f"run-{number}", id=f"{number}-{event.id}", position=position)
        for position, (_, number, event) in enumerate(turns, start=1)
    ]


def without_drafts(events: Sequence[Recorded]) -> list[Recorded]:
    return [event for event in events if not isinstance(event.data, DraftGenerated)]


def renamed(events: Sequence[Recorded], actor: str) -> list[Recorded]:
    """The same with the critic of another name."""
    return [
        replace(event, data=replace(event.data, actor=actor))
        if isinstance(event.data, StepRequested) and event.data.role == "critic"
        else event
        for event in events
    ]


def up_to_a_critic(events: Sequence[Recorded]) -> list[Recorded]:
    """The same up to its last request to a critic, which is unanswered then."""
    last = max(n for n, each in enumerate(events) if getattr(each.data, "role", "") == "critic")
    return list(events[: last + 1])


def requests(events: Sequence[Recorded], run: str) -> set[str]:
    return {event.data.path for event in events if event.run == run and isinstance(event.data, StepRequested)}


class Relaying:
    """A relay at work: what it told of, and how far it came."""

    def __init__(self, log: Log, bus: Bus, heard: Heard | None, slow: float) -> None:
        self.troubles: list[Trouble] = []
        self.position = 0
        offer = bus.offer if type(bus) is LocalBus else None
        self.relay = Relay(log, bus, lambda run: True, heard, self.troubles.append, slow, offer)
        self._changed = asyncio.Event()

    async def passed(self, position: int) -> None:
        self.position = position

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not condition():  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.01)


@asynccontextmanager
async def relaying(
    log: Log, bus: Bus, heard: Heard | None = None, *, after: int = 0, slow: float = 5.0
) -> AsyncIterator[Relaying]:
    made = Relaying(log, bus, heard, slow)
    task = asyncio.create_task(made.relay.run(after, made.passed))
    try:
        yield made
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.wait([task])


async def taken(bus: Bus, queue: str, number: int) -> list[str]:
    """The paths of so many requests, or failures, in a queue."""
    found: list[str] = []
    async with asyncio.timeout(30), bus.consume(queue, 100) as consumer:
        while len(found) < number:
            deliveries = await consumer.take(100)
            await consumer.ack(deliveries)
            for each in deliveries:
                if queue == INBOX:
                    message = decode_message(each.bus_message.name, each.bus_message.body)
                    assert isinstance(message, Failed)
                    assert (message.kind, message.retryable) == ("invalid", False)
                    found.append(f"{message.run} {message.path}")
                else:
                    request = decode_work(each.bus_message.name, each.bus_message.body).request
                    found.append(f"{request.run} {request.path}")
    return found


async def test_requests_that_cannot_be_made_fail_their_steps_and_those_of_other_runs_go_out():
    events = one_after_the_other(numbered(), without_drafts(numbered()))
    heard = Heard()
    async with LocalBus() as bus, relaying(Log(events), bus, heard) as at_work:
        await at_work.until(lambda: at_work.position == events[-1].position)
        failed = await taken(bus, INBOX, 1)
        assert failed[0] == "run-1 Refinement[1]/judge"
        assert at_work.relay.refused == len(failed)
        assert set(await taken(bus, work_queue("critic", "judge"), 4)) >= {
            f"run-0 {path}" for path in requests(events, "run-0") if path.endswith("judge")
        }
        first = next(each for each in at_work.troubles if isinstance(each, Refused))
        assert (first.run, first.path) == ("run-1", "Refinement[1]/judge")
        assert "has no draft" in first.fault
        assert events[first.position - 1].run == "run-1"
        assert [event.position for event in heard.events] == [event.position for event in events]
    async with LocalBus() as bus, relaying(Log(events), bus, after=events[-1].position) as at_work:
        assert at_work.troubles == [], "after a restart it begins behind them"


async def test_a_run_that_cannot_be_read_is_left_out_and_the_others_go_on():
    class Torn(Log):
        async def read(self, run: str, upto: int | None = None, after: int = 0) -> Sequence[Recorded]:
            if run == "run-1":
                raise CodecError("event 2 of run run-1 cannot be read")
            return await super().read(run, upto, after)

    events = [each for each in one_after_the_other(numbered(), numbered()) if (each.run, each.version) != ("run-1", 1)]
    heard = Heard()
    async with LocalBus() as bus, relaying(Torn(events), bus, heard) as at_work:
        await at_work.until(lambda: at_work.position == events[-1].position)
        asked = sum(event.run == "run-1" and isinstance(event.data, StepRequested) for event in events)
        assert len(await taken(bus, INBOX, asked)) == at_work.relay.refused == asked
        assert [each.run for each in at_work.troubles] == ["run-1"] * len(at_work.troubles)
        assert at_work.relay.left_out == sum(isinstance(each, LeftOut) for each in at_work.troubles) > 0
        assert heard.events == events, "what is recorded is made known all the same"
        assert await at_work.relay.resend("run-1") == 0
        assert at_work.troubles[-1] == LeftOut("run-1", 0, "event 2 of run run-1 cannot be read")


async def test_what_a_later_release_wrote_waits_for_that_release():
    """Found by outsiders: an older relay ended the runs of a newer coordinator, request by request."""

    class Later(Log):
        async def read(self, run: str, upto: int | None = None, after: int = 0) -> Sequence[Recorded]:
            if run == "run-1":
                raise UnknownRules(3)
            return await super().read(run, upto, after)

    events = [each for each in one_after_the_other(numbered(), numbered()) if (each.run, each.version) != ("run-1", 1)]
    first = next(each for each in events if each.run == "run-1" and isinstance(each.data, StepRequested))
    heard = Heard()
    async with LocalBus() as bus, relaying(Later(events), bus, heard) as at_work:
        await at_work.until(lambda: len(heard.events) == len(events) and at_work.position > 0)
        asked = len([path for path in requests(events, "run-0") if path.endswith("judge")])
        await taken(bus, work_queue("critic", "judge"), asked)
        assert at_work.relay.refused == 0, "a step of its failed"
        assert {each.run for each in at_work.troubles if isinstance(each, LeftOut)} == {"run-1"}
        assert at_work.relay.position < first.position, "the relay of the later release would not send it"
        await at_work.until(lambda: at_work.relay.put_into(work_queue("critic", "judge")) == events[-1].position)


async def test_a_run_that_cannot_be_folded_is_left_out_when_it_is_sent_again():
    begun, *_ = told = numbered()
    events = [begun, *(event for event in told if isinstance(event.data, LoopEnded))]  # of a loop that never began
    async with LocalBus() as bus:
        relay = Relay(Log(events), bus, lambda run: True)
        assert await relay.resend("r") == 0
        assert relay.left_out == 1


async def test_an_actor_whose_queue_no_broker_would_have_fails_its_step():
    events = one_after_the_other(numbered(), renamed(numbered(), LONG), numbered())
    critics = [event for event in events if event.run == "run-1" and getattr(event.data, "actor", "") == LONG]
    async with rabbit(queues=QUEUES) as bus, relaying(Log(events), bus) as at_work:
        await at_work.until(lambda: at_work.position == events[-1].position)
        assert sorted(await taken(bus, INBOX, len(critics))) == sorted(f"run-1 {each.data.path}" for each in critics)
        judged = await taken(bus, work_queue("critic", "judge"), 2 * len(critics))
        assert {each.partition(" ")[0] for each in judged} == {"run-0", "run-2"}
        assert all("is too long: exchanges have names of at most 127 bytes" in each.fault for each in at_work.troubles)


QUEUES = (
    INBOX,
    work_queue("generator", "write"),
    work_queue("critic", "judge"),
    work_queue("refiner", "improve"),
    work_queue("publisher", "save"),
)


async def test_what_goes_to_a_queue_with_the_settings_of_a_stranger_waits_and_all_else_goes_on():
    events = one_after_the_other(up_to_a_critic(numbered()), renamed(numbered(), "other"))
    prefix = new_prefix()
    queues = (*QUEUES, work_queue("critic", "other"))
    judge = f"{prefix}.critic.judge"
    async with rabbit(prefix=prefix, queues=queues) as bus, await aio_pika.connect(URL) as connection:
        channel = await connection.channel()
        await channel.declare_queue(judge, durable=True, arguments={"x-queue-type": "classic", "x-max-length": 5})
        others = sum(path.endswith("judge") for path in requests(events, "run-1"))
        async with relaying(Log(events), bus) as at_work:
            assert len(await taken(bus, work_queue("critic", "other"), others)) == others
            assert len(await taken(bus, work_queue("generator", "write"), 2)) == 2
            await at_work.until(lambda: bool(at_work.troubles))
            (blocked,) = at_work.troubles
            assert isinstance(blocked, Blocked)
            assert blocked.queue == "redraft.critic.judge"
            assert f"queue {judge} is there with other settings" in blocked.fault
            last = next(each for each in events[::-1] if each.run == "run-0" and isinstance(each.data, StepRequested))
            await channel.queue_delete(judge)
            assert await taken(bus, work_queue("critic", "judge"), 1) == [f"run-0 {last.data.path}"]
            await at_work.until(lambda: Freed("redraft.critic.judge") in at_work.troubles)
            await at_work.until(lambda: at_work.position == events[-1].position)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (BusUnusable("somebody else's"), "somebody else's"),
        (ValueError("Max length exceeded for exchange"), "ValueError: Max length exceeded for exchange"),
    ],
)
async def test_a_position_is_not_passed_while_its_request_waits(error: Exception, told: str):
    events = up_to_a_critic(numbered())
    last = events[-1]
    queue = work_queue("critic", "judge")

    class Foreign(LocalBus):
        mended = False

        async def publish(self, queue, bus_messages):
            if queue == work_queue("critic", "judge") and not self.mended:
                raise error
            await super().publish(queue, bus_messages)

    async with Foreign() as bus, relaying(Log(events), bus) as at_work:
        await at_work.until(lambda: at_work.troubles == [Blocked(queue, told)])
        await at_work.until(lambda: at_work.position > 0)
        assert at_work.position < last.position
        await at_work.until(lambda: at_work.relay.put_into(INBOX) == last.position)
        assert at_work.relay.put_into(queue) < last.position
        bus.mended = True
        await at_work.until(lambda: at_work.position == last.position)
        assert at_work.troubles[-1] == Freed(queue)
        async with bus.consume(queue, 100) as consumer:
            requests = [
                decode_work(each.bus_message.name, each.bus_message.body).request for each in await consumer.take(100)
            ]
    assert {each.sent for each in requests if each.path == last.data.path} == {2}, "it may be there already"


@pytest.mark.parametrize("full", ["local", "rabbit"])
async def test_a_full_queue_holds_up_nobody_else(full: str):
    events = one_after_the_other(numbered(), *(renamed(numbered(), "other") for _ in range(6)))
    others = sum(isinstance(each.data, StepRequested) and each.data.role == "refiner" for each in events)
    queues = (*QUEUES, work_queue("critic", "other"))
    making = LocalBus(capacity=8) if full == "local" else rabbit(capacity=8, queues=queues)
    async with making as bus, relaying(Log(events), bus, slow=1.0) as at_work:
        assert len(await taken(bus, work_queue("refiner", "improve"), others)) == others
        queue = "redraft.critic.other"
        told = "it took nothing within 1 seconds: it is full, bounded, or cannot be reached"
        await at_work.until(lambda: Blocked(queue, told) in at_work.troubles)


@pytest.mark.parametrize("error", [ValueError("no frame holds it"), OSError(24, "too many open files")])
async def test_a_request_that_cannot_be_sent_holds_up_none_behind_it(error: Exception):
    events = one_after_the_other(*[up_to_a_critic(numbered())] * 3)

    class Picky(LocalBus):
        began = False

        async def publish(self, queue, bus_messages):
            if queue == work_queue("critic", "judge") and not self.began:
                self.began = True
                raise BusUnusable("for a moment")
            if any(each.run == "run-0" for each in bus_messages) and queue == work_queue("critic", "judge"):
                raise error
            await super().publish(queue, bus_messages)

    last = events[-1].data
    assert isinstance(last, StepRequested)
    async with Picky() as bus, relaying(Log(events), bus):
        sent = await taken(bus, work_queue("critic", "judge"), 2)
    assert sorted(sent) == [f"run-1 {last.path}", f"run-2 {last.path}"]


async def test_an_event_that_no_broker_takes_is_left_out_alone():
    events = one_after_the_other(numbered(), numbered())
    large = next(event for event in events if event.run == "run-1" and isinstance(event.data, DraftGenerated))

    class Bounded(Heard):
        async def publish_events(self, events: Sequence[Recorded], facts: Mapping[str, RunFacts]) -> None:
            if large in events:
                raise MessageTooLarge("draft.generated.v1: more than the server takes")
            await super().publish_events(events, facts)

    heard = Bounded()
    async with LocalBus() as bus, relaying(Log(events), bus, heard) as at_work:
        await at_work.until(lambda: at_work.position == events[-1].position)
        await at_work.until(lambda: len({each.position for each in heard.events}) == len(events) - 1)
        fault = "its event is not published: draft.generated.v1: more than the server takes"
        assert at_work.troubles == [LeftOut("run-1", large.position, fault)]
        assert large not in heard.events


@pytest.mark.parametrize("short", SHORT, ids=["memory", "threads", "modules"])
async def test_what_this_process_is_short_of_fails_no_step(short: Exception):
    class Short(Log):
        async def read(self, run: str, upto: int | None = None, after: int = 0) -> Sequence[Recorded]:
            raise short

    async with LocalBus() as bus:
        relay = Relay(Short(up_to_a_critic(numbered())), bus, lambda run: True)
        with pytest.raises(StoreError, match="this process is short of something"):
            await relay.resend("r")


async def test_where_nothing_takes_the_events_requests_go_on_and_they_are_made_known_afterwards(monkeypatch):
    """As on a broker whose stream has ended for good on a full disk: what is put there is never confirmed."""
    monkeypatch.setattr("redraft.actors.runtime.relaying.event_publisher.MAX_WAITING_BYTES", 50_000)
    events = one_after_the_other(*(numbered() for _ in range(40)))

    class Silent(Heard):
        def __init__(self) -> None:
            super().__init__()
            self.mended = asyncio.Event()

        async def publish_events(self, events: Sequence[Recorded], facts: Mapping[str, RunFacts]) -> None:
            await self.mended.wait()
            await super().publish_events(events, facts)

    heard = Silent()
    asked = sum(isinstance(each.data, StepRequested) and each.data.role == "critic" for each in events)
    async with LocalBus() as bus, relaying(Log(events), bus, heard, slow=0.05) as at_work:
        assert len(await taken(bus, work_queue("critic", "judge"), asked)) == asked
        nothing = "it took nothing within 0.05 seconds"
        await at_work.until(lambda: at_work.troubles == [Blocked("redraft.events", nothing)])
        await at_work.until(lambda: at_work.relay.put_until() == events[-1].position)
        assert at_work.position == 0
        heard.mended.set()
        await at_work.until(lambda: at_work.position == events[-1].position)
        await at_work.until(lambda: at_work.troubles[1:] == [Freed("redraft.events")])
    assert list(dict.fromkeys(event.position for event in heard.events)) == [event.position for event in events]


async def test_where_events_cannot_be_made_known_requests_go_on_and_they_are_made_known_afterwards():
    events = one_after_the_other(*(numbered() for _ in range(40)))
    assert len(events) >= 1000

    class Blocking(Heard):
        mended = False

        async def publish_events(self, events: Sequence[Recorded], facts: Mapping[str, RunFacts]) -> None:
            if not self.mended:
                raise BusUnusable("a stranger's stream")
            await super().publish_events(events, facts)

    heard = Blocking()
    asked = sum(isinstance(each.data, StepRequested) and each.data.role == "critic" for each in events)
    async with LocalBus() as bus, relaying(Log(events), bus, heard) as at_work:
        assert len(await taken(bus, work_queue("critic", "judge"), asked)) == asked
        await at_work.until(lambda: at_work.troubles == [Blocked("redraft.events", "a stranger's stream")])
        assert at_work.position == 0
        heard.mended = True
        await at_work.until(lambda: at_work.position == events[-1].position)
        assert at_work.troubles[1:] == [Freed("redraft.events")]
    seen = [event.position for event in heard.events]
    assert list(dict.fromkeys(seen)) == [event.position for event in events]
    assert len(heard.workflows) == 1


async def test_who_has_lost_the_lease_makes_nothing_known_of_what_it_passed_over(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("redraft.actors.runtime.relaying.event_publisher.AGAIN", 0.01)
    lost = asyncio.Event()

    class Blocking(Heard):
        async def publish_events(self, events: Sequence[Recorded], facts: Mapping[str, RunFacts]) -> None:
            if not lost.is_set():
                lost.set()
                raise BusUnusable("a stranger's stream")
            await super().publish_events(events, facts)

    async def check() -> None:
        if lost.is_set():
            raise StoreError("another relay has taken over")

    heard = Blocking()
    async with LocalBus() as bus:
        relay = Relay(Log(numbered()), bus, lambda run: True, heard)
        with pytest.raises(ExceptionGroup, match="unhandled") as ended:
            await asyncio.wait_for(relay.run(0, check=check), 60)
    assert ended.group_contains(StoreError, match="taken over")
    assert heard.events == []


async def test_a_request_of_which_not_even_the_failure_can_be_said_is_left_out_by_its_position():
    """No text can be made of half a character, in a path or elsewhere."""
    events = numbered()
    judge = next(n for n, each in enumerate(events) if getattr(each.data, "path", "") == "Refinement[1]/judge")
    asked = events[judge].data
    assert isinstance(asked, StepRequested)
    events[judge] = replace(events[judge], data=replace(asked, path="\ud800"))
    async with LocalBus() as bus, relaying(Log(events[: judge + 1]), bus) as at_work:
        await at_work.until(lambda: at_work.relay.left_out == 1)
        assert at_work.relay.refused == 0
    (left,) = at_work.troubles
    assert isinstance(left, LeftOut)
    assert (left.run, left.position) == ("r", events[judge].position)
    assert "surrogates" in left.fault


async def test_where_not_even_a_failure_can_be_sent_the_events_are_left_out():
    events = numbered()
    asked = [each for each in events if isinstance(each.data, StepRequested)]
    async with LocalBus(largest=1) as bus, relaying(Log(events), bus) as at_work:
        await at_work.until(lambda: at_work.position == events[-1].position)
        await at_work.until(lambda: at_work.relay.left_out > 0)
        left = [each for each in at_work.troubles if isinstance(each, LeftOut)]
    assert {(each.run, each.position) for each in left} <= {("r", each.position) for each in asked}
