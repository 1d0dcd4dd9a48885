"""What is due is said, and what nobody can handle is said seldom and stands before nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from random import Random
from typing import NoReturn, cast

from msgspec.structs import replace
from tests.given import NOON
from tests.projections.logs import view_of
from tests.streams import recorded

from redraft.actors.runtime.coordinating.timekeeper import AGAIN, MAX_PAUSE, PAGE, DueStep, QueueMonitor, Timekeeper
from redraft.actors.runtime.relaying.queue_publisher import LeftOut, Trouble
from redraft.actors.workflow.actor import ActorKey
from redraft.app.testing.loop import SimLoop
from redraft.app.wiring.coordinator_views import StepsAgenda
from redraft.events.bus.local import LocalBus
from redraft.events.bus.port import INBOX, Bus, BusMessage, Queues
from redraft.events.messages.domain_events import StepFailed, StepRequested
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.tracing import step_context


class Agenda:
    """Steps that stay due, the longest due first."""

    def __init__(self, steps: Sequence[DueStep]) -> None:
        self.steps = list(steps)
        self._changed = asyncio.Event()

    async def due(self, now: datetime, limit: int, behind: DueStep | None = None) -> Sequence[DueStep]:
        return self.steps[self.steps.index(behind) + 1 if behind else 0 :][:limit]

    async def actors(self) -> Sequence[ActorKey]:
        return ()

    async def waited(
        self, actor: ActorKey, now: datetime, unserved: timedelta, wait: timedelta, limit: int
    ) -> NoReturn:
        raise AssertionError("nobody asked who is served")

    async def next_due(self, after: datetime) -> datetime | None:
        return None

    async def changed(self) -> None:
        await self._changed.wait()
        self._changed.clear()

    def change(self) -> None:
        self._changed.set()


def dead(number: int) -> list[DueStep]:
    return [DueStep("dead", f"p{n}", 1, retry=False, timer=NOON) for n in range(number)]


class Clock:
    now = NOON

    def __call__(self) -> datetime:
        return self.now


async def said(bus: LocalBus, number: int) -> list[str]:
    found: list[str] = []
    async with asyncio.timeout(60), bus.consume(INBOX, 10_000) as inbox:
        while len(found) < number:
            deliveries = await inbox.take(10_000)
            await inbox.ack(deliveries)
            found += [each.bus_message.run for each in deliveries]
    return found


async def keeping(bus: LocalBus, agenda: Agenda, clock: Clock, troubles: list[Trouble]) -> asyncio.Task[None]:
    return asyncio.create_task(Timekeeper(agenda, bus, clock, lambda: "id", QueueMonitor(bus), troubles.append).run())


async def test_steps_that_nobody_can_handle_do_not_stand_before_others():
    agenda, clock = Agenda(dead(3 * PAGE)), Clock()
    async with LocalBus() as bus:
        task = await keeping(bus, agenda, clock, [])
        try:
            assert await said(bus, 3 * PAGE) == ["dead"] * 3 * PAGE
            agenda.steps.append(DueStep("alive", "p", 1, retry=True, timer=NOON))
            agenda.change()
            assert await said(bus, 1) == ["alive"]
        finally:
            task.cancel()
            await asyncio.wait([task])


async def test_the_command_for_a_step_carries_the_trace_of_its_attempt():
    recorded_trace = f"00-{'a' * 32}-{'b' * 16}-01"
    traced = DueStep("traced", "Loop[1]/judge", 2, retry=True, timer=NOON)
    traces = {"traced": recorded_trace, "untraced": ""}

    async def trace_of(run: str) -> str:
        return traces[run]

    agenda = Agenda([traced, replace(traced, run="untraced")])
    async with LocalBus() as bus, bus.consume(INBOX, 10) as inbox, asyncio.timeout(60):
        keeper = Timekeeper(agenda, bus, Clock(), lambda: "id", QueueMonitor(bus), trace_of=trace_of)
        task = asyncio.create_task(keeper.run())
        try:
            sent = {each.bus_message.run: each.bus_message.origin.trace for each in await inbox.take(10)}
        finally:
            task.cancel()
            await asyncio.wait([task])
    expected = step_context("traced", recorded_trace, "Loop[1]/judge", 2)
    assert sent == {"traced": expected.traceparent, "untraced": ""}


async def test_more_due_steps_than_a_page_holds_in_the_read_model_do_not_stand_before_others():
    def asked(run: str) -> Recorded:
        (event,) = recorded(run, [("coordinator", StepRequested("p", "critic", "judge", 1, NOON))])
        return event

    runs = [*(f"dead{number:04}" for number in range(2 * PAGE)), "later"]
    log = [replace(asked(run), position=at) for at, run in enumerate(runs, 1)]
    async with LocalBus() as bus, view_of(log) as views:
        keeper = Timekeeper(StepsAgenda(views, None), bus, Clock(), lambda: "id", QueueMonitor(bus))
        task = asyncio.create_task(keeper.run())
        try:
            assert await said(bus, len(runs)) == runs
        finally:
            task.cancel()
            await asyncio.wait([task])


async def test_what_stays_due_is_said_again_more_and_more_seldom():
    keeper_said: list[timedelta] = []
    agenda, clock = Agenda(dead(1)), Clock()
    async with LocalBus() as bus:
        keeper = Timekeeper(agenda, bus, clock, lambda: "id", QueueMonitor(bus))
        for second in range(3600):
            clock.now = NOON + timedelta(seconds=second)
            await keeper._look(clock.now)
            async with bus.consume(INBOX, 10) as inbox:
                if inbox._queue.ready:
                    await inbox.ack(await inbox.take(10))
                    keeper_said.append(clock.now - NOON)
    gaps = [later - earlier for earlier, later in pairwise(keeper_said)]
    assert gaps[0] == AGAIN
    assert all(later in (2 * earlier, MAX_PAUSE) for earlier, later in pairwise(gaps))
    assert gaps[-1] == MAX_PAUSE


async def test_a_retry_that_got_lost_is_said_again_soon():
    """It waits in no queue: its step is asked for only once it is heard."""
    (asked, failed) = recorded(
        "r",
        [
            ("coordinator", StepRequested("p", "critic", "judge", 1, NOON)),
            ("coordinator", StepFailed("p", 1, "error", "out of order", NOON)),
        ],
    )
    log = [replace(each, position=each.version, time=NOON - timedelta(minutes=1)) for each in (asked, failed)]
    async with LocalBus() as bus, view_of(log) as views:
        keeper = Timekeeper(StepsAgenda(views, None), bus, Clock(), lambda: "id", monitor=QueueMonitor(bus))
        for now in (NOON, NOON + AGAIN):
            await keeper._look(now)
            assert await said(bus, 1) == ["r"]


async def test_what_cannot_be_said_of_one_step_concerns_that_one():
    troubles: list[Trouble] = []
    steps = [
        DueStep("torn", "\ud800", 1, retry=False, timer=NOON),
        DueStep("long", "p", 1, retry=False, cause="x" * 10_000, timer=NOON),
        DueStep("right", "p", 1, retry=False, timer=NOON),
    ]
    async with LocalBus() as bus:
        task = await keeping(bus, Agenda(steps), Clock(), troubles)
        try:
            assert await said(bus, 1) == ["right"]
            assert [each.run for each in troubles if isinstance(each, LeftOut)] == ["torn", "long"]
        finally:
            task.cancel()
            await asyncio.wait([task])


class SlowAgenda(Agenda):
    """The first look at it takes ten minutes, as when somebody has locked its table."""

    looks = 0

    async def due(self, now: datetime, limit: int, behind: DueStep | None = None) -> Sequence[DueStep]:
        self.looks += 1
        if self.looks == 1:
            await asyncio.sleep(600)
            return ()
        return await super().due(now, limit, behind)


class PartlyStuckBus:
    """Confirms nothing for runs that are called `stuck`; keeps the others."""

    def __init__(self) -> None:
        self.came = asyncio.Queue[str]()

    async def publish(self, queue: str, bus_messages: Sequence[BusMessage]) -> None:
        for each in bus_messages:
            self.came.put_nowait(each.run)
        if any(each.run == "stuck" for each in bus_messages):
            await asyncio.Event().wait()


class StuckQueues:
    """Says nothing of any queue."""

    async def queue(self, queue: str) -> NoReturn:
        await asyncio.Event().wait()
        raise AssertionError


def simulated(agenda: Agenda, until: Callable[[PartlyStuckBus, Agenda], Awaitable[None]]) -> float:
    """Keeps time, by a clock that only waiting moves on, until that returns; returns how many seconds it took."""
    loop = SimLoop(Random(1))
    process = loop.process("keeper")

    async def run() -> None:
        bus = PartlyStuckBus()
        monitor = QueueMonitor(cast("Queues", StuckQueues()))
        keeper = Timekeeper(agenda, cast("Bus", bus), lambda: loop.clock(process), lambda: "id", monitor)
        task = asyncio.create_task(keeper.run())
        try:
            async with asyncio.timeout(36_000):
                await until(bus, agenda)
        finally:
            task.cancel()
            await asyncio.wait([task])

    try:
        began = loop.time()
        loop.run_until_complete(loop.spawn(process, run()))
        return loop.time() - began
    finally:
        loop.dispose()


def test_after_a_slow_look_later_ones_are_not_put_off():
    async def alive(bus: PartlyStuckBus, agenda: Agenda) -> None:
        agenda.steps.append(DueStep("alive", "p", 1, retry=True, timer=NOON))
        assert await bus.came.get() == "alive"

    assert simulated(SlowAgenda([]), alive) < 620


def test_what_the_broker_does_not_confirm_delays_no_other_step():
    async def both(bus: PartlyStuckBus, agenda: Agenda) -> None:
        assert await bus.came.get() == "stuck"
        agenda.steps.append(DueStep("alive", "p", 1, retry=True, timer=NOON))
        agenda.change()
        while await bus.came.get() != "alive":
            pass

    assert simulated(Agenda([DueStep("stuck", "p", 1, retry=True, timer=NOON)]), both) < 20


def test_what_is_not_confirmed_is_sent_again_every_few_seconds_for_as_long_as_it_takes():
    async def often(bus: PartlyStuckBus, agenda: Agenda) -> None:
        for _ in range(50):
            assert await bus.came.get() == "stuck"

    assert simulated(Agenda([DueStep("stuck", "p", 1, retry=True, timer=NOON)]), often) < 50 * 20


def test_a_queue_that_cannot_be_looked_at_delays_no_step():
    class Asked(Agenda):
        async def actors(self) -> Sequence[ActorKey]:
            return [("critic", "judge")]

    async def sent(bus: PartlyStuckBus, agenda: Agenda) -> None:
        assert await bus.came.get() == "alive"

    assert simulated(Asked([DueStep("alive", "p", 1, retry=True, timer=NOON)]), sent) < 20
