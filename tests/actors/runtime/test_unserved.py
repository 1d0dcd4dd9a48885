"""What nobody serves is given up, what waits behind a slow worker is not, and what was given up is not begun."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace
from tests.projections.logs import view_of
from tests.properties.test_deciding_properties import NOW, RUN, Run, step
from tests.streams import recorded

from redraft.actors.deciding.decider import handle
from redraft.actors.deciding.requests import GRACE
from redraft.actors.formats.yaml_reader import print_plan, read_plan
from redraft.actors.plans.check import check_plan
from redraft.actors.runtime.coordinating.timekeeper import (
    ARRIVAL,
    LEEWAY,
    QUEUE_LIMIT,
    QUEUE_WAIT,
    QueueMonitor,
    Timekeeper,
)
from redraft.actors.runtime.working.worker import Worker
from redraft.actors.workflow.context import Context
from redraft.actors.workflow.roles import generator
from redraft.app.wiring.coordinator_views import StepsAgenda
from redraft.events.bus.local import LocalBus
from redraft.events.bus.port import INBOX, BusMessage, Depth, work_queue
from redraft.events.errors import BusError, BusUnusable, PlanError
from redraft.events.messages.codec import decode_message, encode_message
from redraft.events.messages.commands import (
    ConfirmStep,
    ExpireStep,
    Generate,
    Generated,
    Message,
    PauseRun,
    Request,
    ResumeRun,
)
from redraft.events.messages.content import Brief
from redraft.events.messages.domain_events import RunEnded, RunPaused, RunResumed, StepFailed, StepRequested
from redraft.events.messages.envelope import Origin
from redraft.events.messages.plan import Plan, Step
from redraft.projections.record_check import check_events

JUDGE = ("critic", "judge")
SECOND = timedelta(seconds=1)


def begun(queue_wait: float | None = None) -> Run:
    write = replace(step("generator", "write"), queue_wait=queue_wait)
    return Run(check_plan(Plan("p", (write, step("critic", "judge")))))


def test_a_step_that_nobody_serves_fails_for_good_as_unserved() -> None:
    run = begun()
    run.now += QUEUE_WAIT
    failed, ended = run.send(ExpireStep(RUN, "write", 1, unserved=600))
    told = "no worker has served the generator write for 600 s"
    assert failed == StepFailed("write", 1, "unserved", told, None)
    assert isinstance(ended, RunEnded)
    assert run.send(ExpireStep(RUN, "write", 1, unserved=600)) == ()
    kept = recorded(RUN, [("coordinator", event) for event in run.events])
    assert check_events([replace(each, time=at) for each, at in zip(kept, run.times, strict=True)]) == ()


def test_it_waits_as_long_as_its_plan_says() -> None:
    run = begun(queue_wait=3600)
    (asked,) = [event for event in run.events if isinstance(event, StepRequested)]
    assert asked.queue_wait == 3600
    assert run.send(ExpireStep(RUN, "write", 1, unserved=3599)) == ()
    assert run.send(ExpireStep(RUN, "write", 2, unserved=3600)) == ()
    assert len(run.send(ExpireStep(RUN, "write", 1, unserved=3600))) == 2


def test_a_step_of_a_paused_run_does_not_fail_as_unserved() -> None:
    run = begun()
    run.send(PauseRun(RUN))
    run.now += QUEUE_WAIT
    assert run.send(ExpireStep(RUN, "write", 1, unserved=600)) == ()
    run.send(ResumeRun(RUN))
    assert len(run.send(ExpireStep(RUN, "write", 1, unserved=600))) == 2


def test_what_may_still_wait_in_its_queue_is_not_overdue() -> None:
    run = begun()
    run.now = run.state.open["write"].due
    assert run.send(ExpireStep(RUN, "write", 1, queued=True)) == ()
    failed, *_ = run.send(ExpireStep(RUN, "write", 1))
    assert isinstance(failed, StepFailed)
    assert failed.kind == "timeout"


class Queues:
    """Queues of a bus that can be away."""

    def __init__(self) -> None:
        self.there: dict[str, Depth] = {}
        self.away = False
        self.locked = ""

    async def queue(self, queue: str) -> Depth | None:
        if queue == self.locked:
            raise BusUnusable("it is another connection's own")
        if self.away:
            raise BusError("away")
        return self.there.get(queue)


async def test_an_actor_is_unserved_for_as_long_as_no_worker_takes_from_its_queue() -> None:
    queues = Queues()
    monitor = QueueMonitor(queues)
    await monitor.look([JUDGE], NOW)
    assert monitor.unserved(NOW + SECOND) == [(JUDGE, SECOND)]
    await monitor.look([JUDGE], NOW + 60 * SECOND)
    assert monitor.unserved(NOW + 60 * SECOND) == [(JUDGE, 60 * SECOND)]
    queues.there[work_queue(*JUDGE)] = Depth(5, 1)
    await monitor.look([JUDGE], NOW + 70 * SECOND)
    assert monitor.unserved(NOW + 80 * SECOND) == []
    queues.there[work_queue(*JUDGE)] = Depth(5, 0)
    await monitor.look([JUDGE], NOW + 80 * SECOND)
    queues.away = True
    await monitor.look([JUDGE], NOW + 90 * SECOND)
    assert monitor.unserved(NOW + 90 * SECOND) == [], "nobody knows"


async def test_one_queue_that_cannot_be_looked_at_leaves_the_others_their_time() -> None:
    queues = Queues()
    monitor = QueueMonitor(queues)
    other = ("critic", "other")
    await monitor.look([JUDGE, other], NOW)
    queues.locked = work_queue(*JUDGE)
    await monitor.look([JUDGE, other], NOW + 60 * SECOND)
    assert monitor.unserved(NOW + 60 * SECOND) == [(other, 60 * SECOND)]


async def test_what_was_given_out_is_due_a_while_after_its_queue_was_seen_empty() -> None:
    queues = Queues()
    monitor = QueueMonitor(queues, limit=timedelta(hours=20))
    name, timeout = work_queue(*JUDGE), 300 * SECOND
    queues.there[name] = Depth(5, 1)
    await monitor.look([JUDGE], NOW)
    late = NOW + timedelta(hours=19)
    assert monitor.may_wait(JUDGE, NOW, timeout, late)
    assert not monitor.may_wait(JUDGE, NOW, timeout, NOW + timedelta(hours=20) + timeout)
    queues.there[name] = Depth(0, 1)
    await monitor.look([JUDGE], NOW + ARRIVAL)
    assert monitor.may_wait(JUDGE, NOW, timeout, late), "it may not have been there yet"
    await monitor.look([JUDGE], NOW + 2 * ARRIVAL)
    assert monitor.may_wait(JUDGE, NOW, timeout, NOW + 2 * ARRIVAL + timeout + LEEWAY - SECOND)
    assert not monitor.may_wait(JUDGE, NOW, timeout, NOW + 2 * ARRIVAL + timeout + LEEWAY)
    assert monitor.may_wait(JUDGE, NOW + 2 * ARRIVAL, timeout, late), "a later one came after that"


async def told(keeper: Timekeeper, bus: LocalBus, now: object) -> list[Message]:
    """What the timekeeper says in one look."""
    await keeper._look(now)  # type: ignore[arg-type]
    await bus.publish(INBOX, [BusMessage("end", b"", Origin("end", "test"))])
    async with bus.consume(INBOX, 10_000) as inbox:
        taken = []
        while not taken or taken[-1].bus_message.name != "end":
            taken += await inbox.take(10_000)
        await inbox.ack(taken)
        return [decode_message(each.bus_message.name, each.bus_message.body) for each in taken[:-1]]


async def test_the_timekeeper_says_what_nobody_serves_and_what_waits_only_once() -> None:
    asked = [
        StepRequested("a", "critic", "judge", 1, NOW + 300 * SECOND + GRACE),
        StepRequested("b", "critic", "judge", 1, NOW + 300 * SECOND + GRACE, queue_wait=60),
        StepRequested("c", "critic", "other", 1, NOW + 300 * SECOND + GRACE),
    ]
    log = [replace(each, time=NOW, position=each.version) for each in recorded("r", [("c", event) for event in asked])]
    queues = Queues()
    queues.there = {work_queue(*JUDGE): Depth(2, 0), work_queue("critic", "other"): Depth(3, 1)}
    async with LocalBus() as bus, view_of(log) as views:
        keeper = Timekeeper(StepsAgenda(views, None), bus, lambda: NOW, lambda: "id", QueueMonitor(queues))
        assert await told(keeper, bus, NOW) == []
        assert await told(keeper, bus, NOW + 59 * SECOND) == []
        assert await told(keeper, bus, NOW + 60 * SECOND) == [ExpireStep("r", "b", 1, unserved=60.0)]
        said = await told(keeper, bus, NOW + 600 * SECOND)
        assert said == [ExpireStep("r", "a", 1, unserved=600.0), ExpireStep("r", "b", 1, unserved=600.0)]
        queues.there[work_queue(*JUDGE)] = Depth(9, 1)
        over = NOW + 300 * SECOND + GRACE
        assert await told(keeper, bus, over) == [ExpireStep("r", path, 1, queued=True) for path in "abc"]
        assert await told(keeper, bus, over + timedelta(hours=3)) == []
        queues.there[work_queue("critic", "other")] = Depth(0, 1)
        assert await told(keeper, bus, over + timedelta(hours=4)) == []
        assert await told(keeper, bus, over + timedelta(hours=5)) == [ExpireStep("r", "c", 1)]
        assert await told(keeper, bus, NOW + QUEUE_LIMIT + 300 * SECOND) != []


async def test_the_wait_for_a_worker_begins_anew_when_a_paused_run_is_resumed() -> None:
    asked = StepRequested("a", "critic", "judge", 1, NOW + timedelta(days=1), queue_wait=60)
    told_later = [asked, RunPaused("ann"), RunResumed("ann")]
    times = [NOW, NOW + 30 * SECOND, NOW + 300 * SECOND]
    made = recorded("r", [("c", event) for event in told_later])
    log = [replace(each, time=at, position=each.version) for each, at in zip(made, times, strict=True)]
    queues = Queues()
    async with LocalBus() as bus, view_of(log[:2]) as paused, view_of(log) as resumed:
        monitor = QueueMonitor(queues)
        keeper = Timekeeper(StepsAgenda(paused, None), bus, lambda: NOW, lambda: "id", monitor)
        assert await told(keeper, bus, NOW) == []
        assert await told(keeper, bus, NOW + 300 * SECOND) == [], "the time of a pause does not count"
        keeper = Timekeeper(StepsAgenda(resumed, None), bus, lambda: NOW, lambda: "id", monitor)
        assert await told(keeper, bus, NOW + 359 * SECOND) == []
        assert await told(keeper, bus, NOW + 360 * SECOND) == [ExpireStep("r", "a", 1, unserved=60.0)]


@pytest.mark.check
async def test_two_thousand_requests_behind_one_slow_worker_for_six_hours_are_all_left_to_wait() -> None:
    """One worker takes a request each 11 s, by a clock of its own: most wait far beyond their timeout and an hour."""
    number, timeout = 2_000, 60 * SECOND
    events = [StepRequested(f"p{n:04}", "critic", "judge", 1, NOW + timeout + GRACE) for n in range(number)]
    log = [replace(each, time=NOW, position=each.version) for each in recorded("r", [("c", event) for event in events])]
    queues = Queues()
    said: list[Message] = []
    async with LocalBus() as bus, view_of(log) as views:
        keeper = Timekeeper(StepsAgenda(views, None), bus, lambda: NOW, lambda: "id", QueueMonitor(queues))
        for second in range(0, number * 11, 600):
            queues.there[work_queue(*JUDGE)] = Depth(number - second // 11, 1)
            said += await told(keeper, bus, NOW + second * SECOND)
    assert said == [ExpireStep("r", f"p{n:04}", 1, queued=True) for n in range(number)]


@generator
async def write(brief: Brief) -> str:
    return "text"


def asking(
    asked: datetime | None, *, confirmed: bool = False, confirmed_at: datetime | None = None, path: str = "p"
) -> BusMessage:
    request = Request(f"r/{path}#1", "r", path, "write", 1, 5.0, Brief("b"), confirmed=confirmed, asked=asked)
    request = replace(request, confirmed=confirmed or confirmed_at is not None, confirmed_at=confirmed_at)
    name, body = encode_message(Generate(request))
    return BusMessage(name, body, Origin("request", "relay"), "r")


async def answered(bus: LocalBus) -> Message:
    async with asyncio.timeout(60), bus.consume(INBOX, 1) as inbox:
        (delivery,) = await inbox.take(1)
        await inbox.ack([delivery])
        return decode_message(delivery.bus_message.name, delivery.bus_message.body)


async def test_a_worker_asks_about_what_was_in_the_queue_before_it_or_waited_longer_than_requests_may() -> None:
    queue = work_queue("generator", "write")
    async with LocalBus(shared=True) as bus:
        worker = Worker([write], bus, lambda: "id", clock=lambda: NOW + QUEUE_LIMIT)
        await bus.publish(queue, [asking(NOW + SECOND)])
        task = asyncio.create_task(worker.run())
        try:
            assert await answered(bus) == ConfirmStep("r", "p", 1, 0), "it may have been given up before"
            await bus.publish(queue, [asking(None, confirmed=True)])
            assert isinstance(await answered(bus), Generated)
            await bus.publish(queue, [asking(NOW + SECOND)])
            assert isinstance(await answered(bus), Generated)
            await bus.publish(queue, [asking(NOW)])
            assert await answered(bus) == ConfirmStep("r", "p", 1, 0)
        finally:
            task.cancel()
            await asyncio.wait([task])


@asynccontextmanager
async def serving(clock: Callable[[], datetime]) -> AsyncIterator[LocalBus]:
    """A worker that waits for requests, on a bus of its own; it has looked at the clock."""
    async with LocalBus(shared=True) as bus:
        worker = Worker([write], bus, lambda: "id", clock=clock)
        tasks = [asyncio.create_task(part()) for part in (worker.run, worker.watch_clock)]
        try:
            await bus.publish(work_queue("generator", "write"), [asking(clock(), confirmed_at=clock())])
            assert isinstance(await answered(bus), Generated | ConfirmStep)
            yield bus
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


async def test_a_worker_that_stood_still_asks_about_what_was_asked_or_confirmed_before_it_went_on() -> None:
    now, queue = NOW, work_queue("generator", "write")
    async with serving(lambda: now) as bus:
        now += 60 * SECOND
        for path, stale in (("a", asking(NOW, path="a")), ("b", asking(NOW, confirmed_at=NOW + SECOND, path="b"))):
            await bus.publish(queue, [stale])
            assert await answered(bus) == ConfirmStep("r", path, 1, 0), "the run may have given it up meanwhile"
        now += SECOND
        for fresh in (asking(now), asking(NOW, confirmed_at=now), asking(NOW, confirmed_at=NOW, path="a")):
            await bus.publish(queue, [fresh])
            assert isinstance(await answered(bus), Generated)


async def test_what_came_again_is_confirmed_anew_too_after_the_worker_stood_still() -> None:
    now, queue = NOW, work_queue("generator", "write")
    request = Request(
        "r/p#1", "r", "p", "write", 1, 5.0, Brief("b"), sent=3, confirmed=True, asked=NOW, confirmed_at=NOW
    )
    name, body = encode_message(Generate(request))
    async with serving(lambda: now) as bus:
        now += 60 * SECOND
        await bus.publish(queue, [BusMessage(name, body, Origin("request", "relay"), "r")])
        assert await answered(bus) == ConfirmStep("r", "p", 1, 3)


async def test_a_worker_is_told_again_about_what_grew_older_than_the_limit_after_it_was_confirmed() -> None:
    now, queue = NOW, work_queue("generator", "write")
    async with serving(lambda: now) as bus:
        for _ in range(4):  # it does not stand still
            now += timedelta(seconds=5)
            await bus.publish(queue, [asking(now - QUEUE_LIMIT, confirmed_at=now - timedelta(hours=1))])
            assert await answered(bus) == ConfirmStep("r", "p", 1, 0)
            await bus.publish(queue, [asking(now - QUEUE_LIMIT - SECOND, confirmed_at=now)])
            assert isinstance(await answered(bus), Generated), "the coordinator allows more than this worker"


async def test_a_backlog_is_served_however_long_a_pass_through_it_takes_and_however_often_the_worker_stands_still() -> (
    None
):
    """Each call keeps the worker from its clock for 11 s, so that it has stood still when it takes the next request."""
    now, queue, number = NOW, work_queue("generator", "write"), 12
    served: list[str] = []

    @generator(name="write")
    async def slow(brief: Brief, context: Context) -> str:
        nonlocal now
        served.append(context.path)
        now += 11 * SECOND
        return "text"

    async with asyncio.timeout(60), LocalBus(shared=True) as bus:
        worker = Worker([slow], bus, lambda: "id", 1, clock=lambda: now)
        tasks = [asyncio.create_task(part()) for part in (worker.run, worker.watch_clock)]
        try:
            await bus.publish(queue, [asking(NOW, path=f"p{each}") for each in range(number)])
            while len(served) < number:
                async with bus.consume(INBOX, 1) as inbox:
                    (delivery,) = await inbox.take(1)
                    await inbox.ack([delivery])
                said = decode_message(delivery.bus_message.name, delivery.bus_message.body)
                if isinstance(said, ConfirmStep):
                    await bus.publish(queue, [asking(NOW, confirmed_at=now, path=said.path)])
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
    assert sorted(served) == sorted(f"p{each}" for each in range(number))


def test_what_a_worker_asks_about_after_the_limit_is_given_up_right_then() -> None:
    run = begun()
    run.now += timedelta(hours=20) - SECOND
    limit = timedelta(hours=20)
    assert handle(run.state, ConfirmStep(RUN, "write", 1, 0), run.now, queue_limit=limit).events == ()
    run.now += SECOND
    assert handle(run.state, ConfirmStep(RUN, "write", 1, 0), run.now).events == ()
    assert handle(run.state, ConfirmStep(RUN, "write", 2, 0), run.now, queue_limit=limit).events == ()
    failed, *_ = handle(run.state, ConfirmStep(RUN, "write", 1, 0), run.now, queue_limit=limit).events
    assert isinstance(failed, StepFailed)
    assert (failed.kind, failed.message) == ("timeout", "it waited in its queue for 72000 s or longer")


def test_queue_wait_is_written_and_read_in_every_form_of_a_plan() -> None:
    text = "name: p\nsteps:\n- generate: {actor: write, queue_wait: 2m}\n- critique: {actor: judge}\n"
    plan = read_plan(text)
    assert [each.queue_wait for each in plan.steps if isinstance(each, Step)] == [120.0, None]
    assert print_plan(plan) == text
    with pytest.raises(PlanError, match="queue_wait is 0"):
        read_plan(text.replace("2m", "0"))
