"""Many requests behind one worker that is slow, in simulated time: each waits for its turn, and is asked for once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Final, NamedTuple

import pytest

from redraft.actors import Context, generator
from redraft.actors.deciding.requests import GRACE
from redraft.actors.runtime.working.worker import Worker
from redraft.app.testing.broker import SimBroker
from redraft.app.testing.faults import CALM, EVERY, Faults
from redraft.app.testing.garbage import apart
from redraft.app.testing.loop import SimLoop
from redraft.app.testing.nodes import World, coordinate, read
from redraft.app.testing.storage import SimDatabase
from redraft.events.bus.local import LocalBus
from redraft.events.bus.port import BusMessage, work_queue
from redraft.events.messages.domain_events import DomainEvent, StepFailed, StepRequested
from redraft.events.messages.plan import Plan, Retry, Step

QUEUE: Final = work_queue("generator", "write")
TIMEOUT: Final = 60.0
PLAN: Final = Plan("slow", (Step("generator", "write", "write", TIMEOUT, Retry(3, 1.0)),))


class Counted(LocalBus):
    """Counts the requests that are put into the queue of the worker."""

    sent = 0

    async def publish(self, queue: str, letters: Sequence[BusMessage]) -> None:
        self.sent += len(letters) if queue == QUEUE else 0
        await super().publish(queue, letters)


async def lived(world: World, runs: int, takes: float, worked: Counter[str]) -> None:
    """One coordinator, one worker that does one thing at a time, and so many runs at once, until all have ended."""

    @generator
    async def write(context: Context) -> str:
        worked[context.run] += 1
        await asyncio.sleep(takes)
        return "text"

    loop = world.loop
    worker, people = loop.process("worker"), loop.process("people")
    coordinator = loop.process("coordinator")
    bus = world.broker.connection(worker)
    serving = Worker([write], bus, world.new_id, 1, peers=bus, clock=partial(loop.clock, worker))
    parts = [
        loop.spawn(coordinator, coordinate(world, coordinator)),
        loop.spawn(worker, serving.run()),
        loop.spawn(worker, serving.answer_peers()),
    ]
    client = world.client(people)
    for number in range(runs):
        await loop.spawn(people, client.submit(PLAN, "brief", key=f"k{number}"))
    while len(world.ended) < runs:
        assert [each.exception() for each in parts if each.done()] == []
        await asyncio.sleep(5)
        world.note_ends()


class Told(NamedTuple):
    """What came of it: how runs ended, how often each was worked on, how many requests were sent, and the time."""

    events: Sequence[DomainEvent]
    outcomes: Counter[str]
    worked: Counter[str]
    sent: int
    seconds: float


def lived_through(runs: int, takes: float) -> Told:
    loop = SimLoop(Random("order"))
    faults = Faults(Random("faults"), CALM, EVERY, frozenset(), loop.time)
    world = World(loop, SimDatabase(loop, faults), SimBroker(loop, faults), Random("people"))
    world.broker.queues = queues = Counted(largest=2**24, shared=True)
    worked: Counter[str] = Counter()
    try:
        loop.run_until_complete(lived(world, runs, takes, worked))
        events = [read(row).data for row in world.database.rows.select_notifications(1, 10**9)]
        return Told(events, Counter(world.ended.values()), worked, queues.sent, loop.time())
    finally:
        loop.dispose()


@pytest.mark.check
def test_two_thousand_requests_behind_one_worker_for_90_minutes_are_asked_for_once() -> None:
    runs = 2_000
    with apart():
        told = lived_through(runs, 2.7)
    assert told.seconds > TIMEOUT + 1.4 * GRACE.total_seconds(), "many waited until after they were due"
    assert told.outcomes == {"accepted": runs}
    assert [each for each in told.events if isinstance(each, StepFailed)] == []
    assert len([each for each in told.events if isinstance(each, StepRequested)]) == told.sent == runs
    assert Counter(told.worked.values()) == {1: runs}
