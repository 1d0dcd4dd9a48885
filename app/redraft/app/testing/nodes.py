"""The processes of a history: each runs the parts that the shipped programs run, on simulated connections.

Their sleeps move the simulated clock, and take no time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from functools import partial
from random import Random
from typing import Any, Final, cast

from redraft.actors import Actor
from redraft.actors.coordinator import Coordinator
from redraft.actors.crews import Crews
from redraft.actors.missing import Missing
from redraft.actors.relay import Relay
from redraft.actors.timekeeper import Timekeeper
from redraft.actors.worker import Worker
from redraft.app.agenda import StepsAgenda
from redraft.app.client import Client
from redraft.app.delivery import Retry
from redraft.app.feed import StoreFeed
from redraft.app.open_runs import send_again
from redraft.app.subscriber import Subscriber
from redraft.app.testing.broker import SimBroker, SimBus
from redraft.app.testing.loop import Process, SimExecutor, SimLoop
from redraft.app.testing.memory import Lend
from redraft.app.testing.storage import SimDatabase, SimLease
from redraft.app.together import together
from redraft.app.upkeep import Part, all_kept_up, kept_up
from redraft.events.content import MAX_DRAFT_BYTES, Brief
from redraft.events.domain_events import (
    ApprovalExpired,
    ApprovalRequested,
    DraftApproved,
    DraftEdited,
    DraftRejected,
    RunEnded,
    RunPaused,
    RunQuarantined,
    RunResumed,
    RunStarted,
)
from redraft.events.envelope import Recorded
from redraft.events.errors import BusError, InputError, NoSuchRun, StoreError
from redraft.events.plan import Plan, Repeat
from redraft.events.store import Threads
from redraft.projections.projector import follow
from redraft.projections.run_list import spent_on
from redraft.projections.shipped import FOLLOWED
from redraft.projections.sqlite_place import SqlitePlace
from redraft.projections.views import Views

SERVED: Final = "all-events"
"""The name under which every event is delivered."""

PATIENT: Final = Retry(attempts=1000, most=10.0)
"""Nothing is parked: a handler is tried until it takes the event."""


class World:
    """What all processes share."""

    def __init__(self, loop: SimLoop, database: SimDatabase, broker: SimBroker, random: Random, memory: Lend) -> None:
        self.loop = loop
        self.database = database
        self.broker = broker
        self.random = random
        self.memory = memory
        self.views: dict[Process, Views] = {}
        self.seen: list[Recorded] = []
        self.servers = 0
        self.served: list[Recorded] = []
        self.missing: list[tuple[str, str]] = []
        self.ended: dict[str, str] = {}
        self._looked = 0

    def new_id(self) -> str:
        """An id that no other is like."""
        return f"{self.random.getrandbits(64):016x}"

    def look(self) -> None:
        """Notes which runs have ended, and how, as the rows say, past all connections."""
        for row in self.database.rows.select_notifications(self._looked, 10_000, inclusive_of_start=False):
            self._looked, event = row.id, read(row)
            if isinstance(event.data, RunEnded):
                self.ended[event.run] = event.data.outcome
            elif isinstance(event.data, RunQuarantined):
                self.ended.setdefault(event.run, "quarantined")

    async def opened(self, threads: Threads) -> Views:
        """Read models in memory."""
        views = Views(SqlitePlace(None, self.memory), FOLLOWED, _unsaid, threads)
        await views.open()
        return views

    def client(self, process: Process) -> Client:
        """A client of the deployment."""
        store, bus = self.database.store(process), self.broker.connection(process)
        reads = Subscriber(StoreFeed(store))
        return Client(store, bus, _adopted, _let_go, self.new_id, self.new_id, MAX_DRAFT_BYTES, reads)


class Log:
    """Takes what the parts of a process log, and says it nowhere."""

    def bind(self, **_: object) -> Log:
        return self

    def __getattr__(self, name: str) -> Callable[..., None]:
        return _unsaid


async def coordinate(world: World, process: Process) -> None:
    """What `redraft coordinator` runs."""
    store, bus = world.database.store(process), world.broker.connection(process)
    views = await world.opened(lambda name: SimExecutor(world.loop, process, world.database.takes, near=True))
    world.views[process] = views
    clock = partial(world.loop.clock, process)

    async def again(run: str, path: str, sent: int) -> None:
        await relay.resend(run, path, sent=sent, confirmed=True)

    async def relayed() -> None:
        lease = SimLease(world.database, process)
        async with lease:
            after = await lease.acquire()
            mine = Relay(store, bus, _everyones, bus)

            async def found(run: str, path: str) -> None:
                if await mine.resend(run, path):
                    world.missing.append((run, path))

            missing = Missing(agenda, bus, bus, mine.put_until, found, world.new_id())
            async with together([kept_up("missing", missing.run, cast("Any", Log()))]):
                await mine.run(after, lease.save, lease.check, doubtful=await store.head())

    relay = Relay(store, bus, _everyones)
    coordinator = Coordinator(store, bus, clock, again, spent=partial(spent_on, views))
    agenda = StepsAgenda(views, None)
    timekeeper = Timekeeper(agenda, bus, clock, world.new_id, crews=Crews(bus))
    parts: dict[str, Part] = {
        "coordinator": coordinator.run,
        "relay": relayed,
        "timekeeper": timekeeper.run,
        "projector": partial(follow, views, store),
    }
    await all_kept_up(parts, cast("Any", Log()))


async def work(world: World, process: Process, actors: Sequence[Actor]) -> None:
    """What `redraft worker` runs."""
    bus = world.broker.connection(process)
    worker = Worker(actors, bus, world.new_id, neighbours=bus, clock=partial(world.loop.clock, process))
    parts: dict[str, Part] = {
        "worker": worker.run,
        "neighbours": worker.mind,
        "cancellations": partial(_heeded, worker, bus),
    }
    await all_kept_up(parts, cast("Any", Log()))


async def _heeded(worker: Worker, bus: SimBus) -> None:
    async with aclosing(bus.cancellations(lambda: None)) as cancelled:
        async for run in cancelled:
            worker.call_off(run)


async def subscribe(world: World, process: Process) -> None:
    """One who reads every event, and keeps with its own effect how far it has come."""
    reads = Subscriber(StoreFeed(world.database.store(process)))
    while True:
        with suppress(StoreError):
            after = world.seen[-1].position if world.seen else 0
            async with aclosing(reads.subscribe(after)) as events:
                async for event in events:
                    world.seen.append(event)
        await asyncio.sleep(1)


async def serve(world: World, process: Process) -> None:
    """Runs what `redraft subscribe FUNCTION --name NAME` runs: delivers every event to one handler, in order."""
    reads = Subscriber(StoreFeed(world.database.store(process)), partial(world.database.subscriptions, process))

    async def take(event: Recorded) -> None:
        await asyncio.sleep(world.database.takes())
        faults = world.database.faults
        if faults.happens(faults.odds.handler_fails, f"the handler of {process} fails at event {event.position}"):
            raise RuntimeError("out of order")
        world.served.append(event)

    while True:
        with suppress(StoreError):
            await reads.deliver(SERVED, take, retry=PATIENT, log=cast("Any", Log()))
        await asyncio.sleep(1)


async def rebuild(world: World, process: Process) -> None:
    """One who fills a broker again that has lost its queues, as `redraft doctor --rebuild-broker` does."""
    while True:
        with suppress(BusError, StoreError):
            await send_again(world.database.store(process), world.broker.connection(process))
            return
        await asyncio.sleep(30)


async def submit(world: World, process: Process, plan: Plan, key: str, after: float, brief: Brief | str) -> None:
    """One who wants a run, and asks again until it is there."""
    await asyncio.sleep(after)
    client = world.client(process)
    while True:
        with suppress(BusError, StoreError, NoSuchRun):
            run = await client.submit(plan, brief, key=key, tags=("simulated",))
            await asyncio.sleep(30)
            await client.history(run)
            return
        await asyncio.sleep(30)


async def decide(world: World, process: Process, *, unasked: bool) -> None:
    """People who are asked and say yes or no, sometimes change a draft, and sometimes say something `unasked`."""
    client, random = world.client(process), world.random
    while True:
        await asyncio.sleep(random.uniform(5, 120))
        with suppress(BusError, StoreError, NoSuchRun, InputError):
            runs = sorted({event.run for event in world.seen} - world.ended.keys())
            for run in runs:
                await _spoken(client, run, await client.history(run), random, unasked=unasked)


async def _spoken(client: Client, run: str, events: Sequence[Recorded], random: Random, *, unasked: bool) -> None:
    if _is_paused(events):
        await client.resume(run)
        return
    asked = _asked(events)
    if asked is not None and random.random() < 0.7:
        by = random.choice(asked.approvers or ("ann", "bob", "cy"))
        match random.random():
            case chance if chance < 0.7:
                await client.approve(run, asked.draft, by=by)
            case chance if chance < 0.9:
                await client.reject(run, asked.draft, "no", by=by)
            case _:
                await client.edit(run, asked.draft, f"text {random.getrandbits(40)}", by=by)
    elif unasked and random.random() < 0.1:
        await _steered(client, run, events, random)


async def _steered(client: Client, run: str, events: Sequence[Recorded], random: Random) -> None:
    match random.choice(("guide", "guide", "limits", "pause", "cancel", "fork", "quarantine")):
        case "guide":
            await client.guide(run, "shorter")
        case "limits":
            await client.limits(run, max_iterations=random.randint(1, 5), loop=_loop_of(events))
        case "pause":
            await client.pause(run)
        case "cancel":
            await client.cancel(run, "enough")
        case "fork":
            await client.fork(run, random.randint(1, len(events)), key=f"fork-{run}")
        case _:
            await client.quarantine(run, "it looks odd", by="ann")


def _asked(events: Sequence[Recorded]) -> ApprovalRequested | None:
    """What people are asked and have not decided, as far as one can see from the last events."""
    for event in reversed(events):
        match event.data:
            case ApprovalRequested() as asked:
                return asked
            case DraftApproved(granted=True) | DraftRejected() | DraftEdited() | ApprovalExpired() | RunEnded():
                return None
            case _:
                pass
    return None


def _is_paused(events: Sequence[Recorded]) -> bool:
    last = next((each.data for each in reversed(events) if isinstance(each.data, RunPaused | RunResumed)), None)
    return isinstance(last, RunPaused)


def _loop_of(events: Sequence[Recorded]) -> str:
    begun = events[0].data
    plan = begun.plan.steps if isinstance(begun, RunStarted) else ()
    return next((node.name for node in plan if isinstance(node, Repeat)), "")


def read(row: Any) -> Recorded:  # noqa: ANN401 - a row of the library
    """A row as an event."""
    from redraft.events.codec import decode_event

    return decode_event(str(row.originator_id), row.originator_version, row.topic, row.state, row.id)


async def _adopted(run: str, known: bool) -> None:
    """Coordinators adopt every run."""


def _let_go(run: str, outcome: str) -> None:
    """There is nothing to let go of."""


def _everyones(run: str) -> bool:
    return True


def _unsaid(*args: object, **kwargs: object) -> None:
    """Nobody reads it."""
