"""The processes of a history: each runs the parts that the shipped programs run, on simulated connections.

Their sleeps move the simulated clock, and take no time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from contextvars import ContextVar
from functools import partial
from itertools import count
from random import Random
from sqlite3 import Connection
from typing import Any, Final

import structlog

from redraft.actors import Actor
from redraft.actors.runtime.coordinating.answer_routes import AnswerRoutes
from redraft.actors.runtime.coordinating.command_handler import CommandHandler
from redraft.actors.runtime.coordinating.coordinator import Coordinator, Outlasts
from redraft.actors.runtime.coordinating.deferring import no_lessons
from redraft.actors.runtime.coordinating.recalling import Candidates, find_earlier
from redraft.actors.runtime.coordinating.timekeeper import QUEUE_LIMIT, QueueMonitor, Timekeeper
from redraft.actors.runtime.relaying.relay import Relay
from redraft.actors.runtime.working.in_flight import MissingRequests
from redraft.actors.runtime.working.worker import Worker
from redraft.app.client.client import Client
from redraft.app.process.lifecycle import Part, all_kept_up, may_pass, retry_forever, together
from redraft.app.subscribing.feed import StoreFeed
from redraft.app.subscribing.subscriber import Subscriber
from redraft.app.testing.broker import SimBroker, SimBus
from redraft.app.testing.learning import lesson_reader, own_views
from redraft.app.testing.loop import Process, SimExecutor, SimLoop
from redraft.app.testing.stateful import EVERY, random_changes
from redraft.app.testing.storage import SimDatabase, SimLease, new_views
from redraft.app.wiring.coordinator_views import StepsAgenda
from redraft.app.wiring.deployment import send_again
from redraft.app.wiring.parts import every_run, resend_by, stop_cancelled
from redraft.events.bus.port import inbox_queues, is_inbox
from redraft.events.errors import BusError, InputError, NoSuchRun, SetAside, StoreError
from redraft.events.messages.codec import decode_event
from redraft.events.messages.content import MAX_DRAFT_BYTES, Brief
from redraft.events.messages.domain_events import (
    ApprovalExpired,
    ApprovalRequested,
    DraftApproved,
    DraftEdited,
    DraftRejected,
    EventRef,
    RunEnded,
    RunPaused,
    RunQuarantined,
    RunResumed,
    RunStarted,
)
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import Plan, Repeat, Retry
from redraft.events.messages.run_state import Values
from redraft.events.store.event_store import EventStore, Threads
from redraft.projections.backends import FOLLOWED
from redraft.projections.engine.projector import catch_up, follow
from redraft.projections.engine.views import Views
from redraft.projections.read_models.runs_query import spent_on
from redraft.projections.read_models.verdicts import VERDICTS, verdicts
from redraft.projections.sqlite.storage import SqliteStorage

RUN: Final[ContextVar[str]] = ContextVar("run", default="")
"""The run for which the current actor works; empty outside of actors."""


class Outside:
    """The outside world that your actors act on in a simulation.

    `kept` is for whatever outlives a crash, as files and databases do: keep your stand-ins for them there. `did`
    records an effect that must not happen twice, and `effects` are those recorded so far, in order.
    """

    def __init__(self, note: Callable[[str, str], None]) -> None:
        self.kept: dict[str, Any] = {}
        self.effects: list[str] = []
        self._runs: dict[str, list[str]] = {}
        self._note = note

    def did(self, effect: str) -> None:
        """Records an effect, such as "mailed to ann: Tides", that is a fault when it happens twice in a history."""
        self.effects.append(effect)
        self._runs.setdefault(effect, []).append(RUN.get())
        self._note(f"outside: {effect}", RUN.get())

    def list_doubled(self) -> list[str]:
        """Returns a sentence for each effect that happened more than once."""
        return [
            f"doubled: {effect!r} happened {len(runs)} times, in {_name_runs(runs)}"
            for effect, runs in self._runs.items()
            if len(runs) > 1
        ]


def _name_runs(runs: list[str]) -> str:
    named = [f"run {run}" for run in dict.fromkeys(runs) if run]
    return " and ".join(named) or "no run"


SERVED: Final = "all-events"
"""The subscription under which every event is delivered."""

PATIENT: Final = Retry(attempts=1000, maximum=10.0)
"""A retry policy without dead letters: the handler is retried until it takes the event."""


UP_TO_DATE: Final = 0.8
"""The share of the look-ups of verdicts, and of lessons, before which their read model is brought up to date."""


class World:
    """The state that all processes share."""

    def __init__(self, loop: SimLoop, database: SimDatabase, broker: SimBroker, random: Random) -> None:
        self.loop = loop
        self.database = database
        self.broker = broker
        self.random = random
        self.seen: list[Recorded] = []
        self.servers = 0
        self.served: list[Recorded] = []
        self.missing: list[tuple[str, str]] = []
        self.declined: set[str] = set()
        self.coordinators = count()
        self.recalls = False
        self.learns = False
        self.outlasts: Outlasts = may_pass
        self.values: Random | None = None
        self.forked: defaultdict[str, list[Values]] = defaultdict(list)
        """The changes with which people forked each run; of several the first that arrived counts."""
        self.ended: dict[str, str] = {}
        self._noted = 0

    def new_id(self) -> str:
        """Returns a unique id."""
        return f"{self.random.getrandbits(64):016x}"

    def note_ends(self) -> None:
        """Notes which runs have ended, and how, directly from the rows."""
        for row in self.database.rows.select_notifications(self._noted, 10_000, inclusive_of_start=False):
            self._noted, event = row.id, read(row)
            if isinstance(event.data, RunEnded):
                self.ended[event.run] = event.data.outcome
            elif isinstance(event.data, RunQuarantined):
                self.ended.setdefault(event.run, "quarantined")

    async def opened(self, threads: Threads, memory: Callable[[], Connection] = new_views) -> Views:
        """Returns read models in memory, in new tables or in these."""
        views = Views(SqliteStorage(None, memory), FOLLOWED, lambda notice: None, threads)
        await views.open()
        return views

    def client(self, process: Process) -> Client:
        """Returns a client of the deployment."""
        store, bus = self.database.store(process), self.broker.connection(process)
        reads = Subscriber(StoreFeed(store))
        return Client(store, bus, reads, MAX_DRAFT_BYTES, new_run_id=self.new_id, new_message_id=self.new_id)


_CRITICAL: Final = structlog.make_filtering_bound_logger(logging.CRITICAL)
_SILENT: Final[Any] = structlog.wrap_logger(structlog.ReturnLogger(), wrapper_class=_CRITICAL)
"""A log that keeps silent: nothing is logged as critical."""


async def coordinate(world: World, process: Process) -> None:
    """Runs what `redraft coordinator` runs: it decides on its share of the runs, and stands by for the relay."""
    store, bus = world.database.store(process), world.broker.connection(process)
    executor = partial(SimExecutor, world.loop, process, world.database.takes, near=True)
    views = await world.opened(lambda name: executor(), lambda: world.database.tables)
    clock = partial(world.loop.clock, process)

    def report(run: str, why: str) -> None:
        world.declined.add(run)

    partitions = world.broker.partitions
    routes = AnswerRoutes(partitions)
    relay = Relay(store, bus, every_run, reply_key=routes.key, clock=clock)
    earlier = partial(find_earlier, store, await _candidates(world, process, store)) if world.recalls else None
    spent = partial(spent_on, views)
    resend = resend_by(relay)
    lessons = await lesson_reader(world, process, store, UP_TO_DATE) if world.learns else no_lessons
    more = partial(CommandHandler, spent=spent, report=report, earlier=earlier, queue_limit=QUEUE_LIMIT)
    handler = more(store, clock, resend, lessons=lessons)
    me = f"{process} {next(world.coordinators)}"
    share = world.database.share(process, me, partitions, routes.follow) if partitions else None
    coordinator = Coordinator(handler, bus, share, world.outlasts)
    relaying = partial(_relay, world, process, store, bus, views, routes)
    await all_kept_up({"coordinator": coordinator.run, "relay": relaying}, _SILENT)


async def _candidates(world: World, process: Process, store: EventStore) -> Candidates:
    """Returns what finds recorded verdicts in a read model of this process, which at times lags behind the log."""
    views = await own_views(world, process, VERDICTS)

    async def candidates(key: str) -> Sequence[EventRef]:
        if world.random.random() < UP_TO_DATE:
            await catch_up(views, store)
        return await verdicts(views, key)

    return candidates


async def _relay(
    world: World, process: Process, store: EventStore, bus: SimBus, views: Views, routes: AnswerRoutes
) -> None:
    """Stands by until nobody else relays; then relays, keeps the read models, and keeps time for all runs."""
    async with SimLease(world.database, process) as lease:
        after = await lease.acquire()
        relay = Relay(store, bus, every_run, bus, reply_key=routes.key)
        agenda = StepsAgenda(views, None)
        clock = partial(world.loop.clock, process)

        inbox = inbox_queues(world.broker.partitions)

        async def resend(run: str, path: str) -> None:
            """Notes what is sent again, unless a coordinator that is dead or stands still may have taken the answer."""
            readers = [
                each for each, queues in world.broker.readers.items() if any(is_inbox(name) for name, _ in queues)
            ]
            still = any(each.is_dead or each.wakes > world.loop.time() for each in readers)
            if await relay.resend(run, path) and not still:
                world.missing.append((run, path))

        missing = MissingRequests(agenda, bus, bus, relay.put_into, resend, world.new_id(), inbox, routes.queues)
        beside: dict[str, Part] = {
            "projector": partial(follow, views, store),
            "timekeeper": Timekeeper(agenda, bus, clock, world.new_id, monitor=QueueMonitor(bus)).run,
            "missing requests": missing.run,
        }
        follows = relay.run(after, lease.save, lease.check, doubtful=await store.head())
        kept_up = [retry_forever(name, part, _SILENT) for name, part in beside.items()]
        with bus.reconnects(missing.hurry):
            async with together([follows, lease.keep(), *kept_up]) as tasks:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)


async def work(world: World, process: Process, actors: Sequence[Actor]) -> None:
    """Runs what `redraft worker` runs."""
    bus = world.broker.connection(process)
    worker = Worker(actors, bus, world.new_id, peers=bus, clock=partial(world.loop.clock, process))
    parts: dict[str, Part] = {
        "worker": worker.run,
        "peers": worker.answer_peers,
        "cancellations": partial(stop_cancelled, worker, bus, lambda: None),
    }
    await all_kept_up(parts, _SILENT)


async def subscribe(world: World, process: Process) -> None:
    """Reads every event, and stores its progress together with its effect."""
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
            await reads.deliver(SERVED, take, retry=PATIENT, log=_SILENT)
        await asyncio.sleep(1)


async def rebuild(world: World, process: Process) -> None:
    """Sends open requests again to a broker that has lost its queues, as `redraft doctor --republish` does."""
    while True:
        with suppress(BusError, StoreError):
            await send_again(world.database.store(process), world.broker.connection(process), world.broker.partitions)
            return
        await asyncio.sleep(30)


async def submit(world: World, process: Process, plan: Plan, key: str, after: float, brief: Brief | str) -> None:
    """Submits a run, and tries again until it exists."""
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
    """Acts as people who approve or reject when asked, sometimes edit a draft, and sometimes steer runs `unasked`."""
    client, random = world.client(process), world.random
    while True:
        await asyncio.sleep(random.uniform(5, 120))
        with suppress(BusError, StoreError, NoSuchRun, InputError, SetAside):
            runs = sorted({event.run for event in world.seen} - world.ended.keys())
            for run in runs:
                await _speak(client, run, await client.history(run), world, unasked=unasked)


async def _speak(client: Client, run: str, events: Sequence[Recorded], world: World, *, unasked: bool) -> None:
    random = world.random
    if _is_paused(events):
        await client.resume(run)
        return
    asked = _find_question(events)
    if asked is not None and random.random() < 0.7:
        by = random.choice(asked.approvers or ("ann", "bob", "cy"))
        match random.random():
            case chance if chance < 0.7:
                await client.approve(run, asked.draft, by=by, step=asked.path)
            case chance if chance < 0.9:
                await client.reject(run, asked.draft, "no", by=by, step=asked.path)
            case _:
                await client.edit(run, asked.draft, f"text {random.getrandbits(40)}", by=by)
    elif unasked and random.random() < 0.1:
        await _steer(client, run, events, world)
    elif unasked and world.values is not None and not _is_fork(events) and world.values.random() < 0.05:
        await _fork(client, run, events, world, world.values)


async def _steer(client: Client, run: str, events: Sequence[Recorded], world: World) -> None:
    random = world.random
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
            await _fork(client, run, events, world, random)
        case _:
            await client.quarantine(run, "it looks odd", by="ann")


async def _fork(client: Client, run: str, events: Sequence[Recorded], world: World, random: Random) -> None:
    """Forks a run, where runs have state with changes of it."""
    at = random.randint(1, len(events))
    changed = (random_changes(world.values, EVERY) if world.values else None) or {}
    world.forked[run].append(changed)
    await client.fork(run, at, key=f"fork-{run}", state=changed)


def _is_fork(events: Sequence[Recorded]) -> bool:
    begun = events[0].data
    return isinstance(begun, RunStarted) and begun.parent is not None


def _find_question(events: Sequence[Recorded]) -> ApprovalRequested | None:
    """Returns the open approval request of a run, judging by its last events."""
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
    """Returns whether somebody paused this very run: one of an item goes on with the run around it."""
    last = next((each.data for each in reversed(events) if isinstance(each.data, RunPaused | RunResumed)), None)
    return isinstance(last, RunPaused) and not last.key.startswith(f"{events[0].run.rpartition('~')[0]}.")


def _loop_of(events: Sequence[Recorded]) -> str:
    begun = events[0].data
    plan = begun.plan.steps if isinstance(begun, RunStarted) else ()
    return next((node.name for node in plan if isinstance(node, Repeat)), "")


def read(row: Any) -> Recorded:  # noqa: ANN401 - a row of the library
    """Returns a row as an event."""
    return decode_event(str(row.originator_id), row.originator_version, row.topic, row.state, row.id)
