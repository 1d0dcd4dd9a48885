"""The parts as processes of their own, on many machines: what `redraft coordinator`, `worker` and `submit` run.

Each part goes on when a server was away, however long: nothing is kept in a process that is not in the log or the bus.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager, closing, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from redraft.actors.authority import Authority
from redraft.actors.coordinator import Coordinator
from redraft.actors.crews import Crews
from redraft.actors.missing import Missing
from redraft.actors.relay import Relay
from redraft.actors.roles import Actor
from redraft.actors.timekeeper import Timekeeper
from redraft.actors.worker import Worker
from redraft.app.agenda import StepsAgenda
from redraft.app.client import Client
from redraft.app.compose import PROJECTIONS, keep_nothing, open_log
from redraft.app.encryption import store_of
from redraft.app.feed import BrokerFeed, StoreFeed
from redraft.app.health import health_file
from redraft.app.ids import new_message_id, new_run_id
from redraft.app.isolation import open_isolation
from redraft.app.known_arms import KnownArms
from redraft.app.lost_steps import LostSteps
from redraft.app.narration import Narration, tell_of_projection, tell_of_trouble
from redraft.app.settings import LOCAL, Settings, views_path
from redraft.app.subscriber import Subscriber
from redraft.app.together import together
from redraft.app.turns import Turns
from redraft.app.upkeep import PATIENCE, Part, all_kept_up, kept_up, opened
from redraft.events.commands import Request
from redraft.events.errors import BusUnusable, InputError, StoreUnusable
from redraft.events.lease import Held
from redraft.events.relay_lease import open_lease
from redraft.events.store import EventStore
from redraft.events.subscriptions import open_subscriptions
from redraft.projections.projector import follow
from redraft.projections.read_models import ReadModels
from redraft.projections.run_list import spent_on
from redraft.projections.views import Views, open_views

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from redraft.events.rabbit_bus import RabbitBus
    from redraft.events.rabbit_survey import Survey

FOR_EVER: Final = math.inf
MEMORY: Final = "memory:"

COORDINATOR_HEARTBEAT: Final = 5
"""Seconds between signs of life of a coordinator: the server takes back what one that gives none had been sent."""

LISTENING: Final = 5.0
"""Seconds for which a worker waits until it hears what people cancel, before it begins without."""


UNRELAYED: Final = "recorded events have not been passed on"


@asynccontextmanager
async def open_bus(
    settings: Settings, patience: float = PATIENCE, heartbeat: int | None = None
) -> AsyncIterator[RabbitBus]:
    """The bus that several processes share. A server that goes away is tried again for `patience` seconds.

    Raises InputError for `local:`, which is one process's own, and BusError when it cannot be reached at once.
    """
    require_broker(settings)
    from redraft.events.rabbit_bus import open_rabbit_bus
    from redraft.events.rabbit_link import HEARTBEAT

    async with open_rabbit_bus(
        settings.bus,
        prefix=settings.prefix,
        patience=patience,
        bundle=settings.bundle,
        queues=settings.queues,
        heartbeat=heartbeat or HEARTBEAT,
    ) as bus:
        yield bus


@asynccontextmanager
async def open_log_of(settings: Settings) -> AsyncIterator[EventStore]:
    """The store of the settings, opened beside the event loop."""
    async with await asyncio.to_thread(store_of, settings) as store:
        yield store


def open_survey(settings: Settings) -> Survey:
    """A look at the broker of the settings. Raises InputError for `local:`."""
    require_broker(settings)
    from redraft.events.rabbit_survey import Survey

    return Survey(settings.bus, settings.prefix)


def require_broker(settings: Settings) -> None:
    """Raises InputError for `local:`, which several processes cannot share."""
    if settings.bus == LOCAL:
        raise InputError(
            f"setting 'bus': {LOCAL} is inside one process; name a RabbitMQ server, "
            "REDRAFT_BUS=amqp://user:password@host:5672/, or use `redraft run`"
        )


def require_store(settings: Settings) -> None:
    """Raises InputError for `memory:`, which ends with the process that made it."""
    if settings.store == MEMORY:
        raise InputError(
            f"setting 'store': {MEMORY} is inside one process; name what all of them reach, "
            "REDRAFT_STORE=postgresql://user@host:5432/database, or sqlite:///path on one machine"
        )


@asynccontextmanager
async def open_client(settings: Settings, *, reads: bool = True) -> AsyncIterator[Client]:
    """A client of a deployment: it submits to the bus and, if it `reads`, learns from the store what came of it.

    One that does not needs no store: it subscribes to the stream of events on the broker. Without a broker (`local:`)
    one that reads subscribes and waits all the same, and what it would send raises BusError. Raises BusError,
    StoreError, InputError.
    """
    if reads and settings.bus == LOCAL:
        async with open_log(settings) as house:
            yield house.client
        return
    ids = new_run_id, new_message_id
    async with open_bus(settings) as bus:
        if not reads:
            by_broker = Subscriber(BrokerFeed(bus))
            yield Client(None, bus, _nothing, keep_nothing, *ids, settings.draft_limit, by_broker)
            return
        async with open_log_of(settings) as store:
            names, caught_up = partial(open_subscriptions, settings.store), partial(_caught_up, settings)
            by_store = Subscriber(StoreFeed(store), names, caught_up)
            client = Client(store, bus, _nothing, keep_nothing, *ids, settings.draft_limit, by_store)
            async with together([client.notice(await store.head())]):
                yield client


async def _caught_up(settings: Settings, position: int) -> int:
    """Waits until a coordinator has projected the events up to this position."""
    async with await open_views(views_path(settings.store), PROJECTIONS) as views:
        return await views.wait_for(position)


async def coordinate(
    settings: Settings,
    ready: Callable[[], None],
    log: FilteringBoundLogger,
    *,
    drain: asyncio.Event | None = None,
    patience: float = PATIENCE,
    health: Path | None = None,
) -> None:
    """Decides, relays, keeps time and projects for every run, until `drain` is set. Several may do so at once.

    What was taken from the inbox by then is recorded and acknowledged first, or given back where that fails.
    One of them relays at a time; another takes over by itself. `ready` is called when the inbox is about to be served.
    Servers are tried for `patience` seconds at the start (BusError, StoreError), and for ever after that.
    """
    require_broker(settings)
    require_store(settings)
    async with (
        opened(lambda: open_log_of(settings), patience, log) as store,
        await open_views(views_path(settings.store), PROJECTIONS, partial(tell_of_projection, log)) as views,
        ReadModels(views_path(settings.store), store) as models,
        opened(lambda: open_bus(settings, FOR_EVER, COORDINATOR_HEARTBEAT), patience, log) as bus,
        open_survey(settings) as survey,
    ):
        await store.require_sealing()

        async def ping() -> None:
            await survey.ping()
            await store.head()

        waits = {"an append has had no answer": store.longest_wait}
        async with health_file(health, ping, log, waits):

            async def again(run: str, path: str, sent: int) -> None:
                await relay.resend(run, path, sent=sent, confirmed=True)

            tell = partial(tell_of_trouble, log)
            relay = Relay(store, bus, _everyones, tell=tell)
            arms = KnownArms(models)
            spent, report = partial(spent_on, views), partial(_report, log)
            authority = _authority(settings)
            coordinator = Coordinator(store, bus, _now, again, settings.draft_limit, spent, arms, report, authority)
            waits["a message of the inbox has not been settled"] = coordinator.longest_wait
            lost = LostSteps(store, bus, new_message_id, log, authority)
            parts = {**_parts(settings, coordinator, store, views, bus, lost, survey, log, waits), "choices": arms.run}
            await _prepare(bus, log)
            with closing(relay):
                async with _drained(coordinator, drain):
                    ready()
                    await all_kept_up(parts, log)


async def work(
    settings: Settings,
    actors: Sequence[Actor],
    drain: asyncio.Event,
    ready: Callable[[], None],
    log: FilteringBoundLogger,
    *,
    patience: float = PATIENCE,
    health: Path | None = None,
    turns: Turns | None = None,
) -> None:
    """Serves these actors until `drain` is set and what is under way is reported. It needs no store.

    The broker is tried for `patience` seconds at the start (BusError), and for ever after that. The limits of `turns`
    are those of all workers on the broker together. Raises ActorError for an actor that cannot be isolated.
    """
    require_broker(settings)
    waits: dict[str, Callable[[], float]] = {}
    async with (
        open_isolation(actors, settings.draft_limit) as isolation,
        opened(lambda: open_bus(settings, FOR_EVER), patience, log) as bus,
        open_survey(settings) as survey,
        health_file(health, survey.ping, log, waits),
    ):

        def differs(actor: Actor, version: str, run: str) -> None:
            log.warning(
                "another version", actor=f"{actor.role} {actor.name}", here=actor.version, plan=version, run=run
            )

        def again(request: Request) -> None:
            log.warning("begun again", path=request.path, attempt=request.attempt, sent=request.sent, run=request.run)

        if turns is not None:
            turns.share(bus.turns)
        sizes = settings.concurrency, settings.draft_limit
        told = again, partial(tell_of_trouble, log)
        limit = timedelta(seconds=settings.queue_limit)
        worker = Worker(
            *(actors, bus, new_message_id, *sizes, differs, bus, *told), queue_limit=limit, apart=isolation.begin
        )
        waits["what came of a request has not been reported"] = worker.longest_wait
        listening = asyncio.Event()
        async with _drained(worker, drain):
            ready()
            heeding = kept_up("cancellations", partial(_heeded, worker, bus, listening), log)
            minding = kept_up("neighbours", worker.mind, log)
            working = kept_up("worker", partial(_working, worker, listening), log)
            async with together([working, heeding, minding]) as tasks:
                await asyncio.wait({tasks[0]})


async def _working(worker: Worker, listening: asyncio.Event) -> None:
    """Works once it is heard what people cancel: what was in the queues before that, the worker asks about.

    Before the first coordinator there is nothing to listen to.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(LISTENING):
            await listening.wait()
    await worker.run()


async def _heeded(worker: Worker, bus: RabbitBus, listening: asyncio.Event) -> None:
    """Stops the calls of runs that people cancel."""
    async with aclosing(bus.cancellations(listening.set)) as cancelled:
        async for run in cancelled:
            worker.call_off(run)


async def _prepare(bus: RabbitBus, log: FilteringBoundLogger) -> None:
    """Makes what every deployment has: who listens may come before the first event.

    What is there with the settings of somebody else is waited for by those alone who need it.
    """
    try:
        await bus.prepare()
    except BusUnusable as error:
        log.warning("not prepared", error=str(error))


def _authority(settings: Settings) -> Authority | None:
    """Who may say what, where the settings tell."""
    from redraft.events.rabbit_address import read_address

    return Authority(read_address(settings.bus).user, settings.users) if settings.users else None


def _parts(
    settings: Settings,
    coordinator: Coordinator,
    store: EventStore,
    views: Views,
    bus: RabbitBus,
    lost: LostSteps,
    survey: Survey,
    log: FilteringBoundLogger,
    waits: dict[str, Callable[[], float]],
) -> dict[str, Part]:
    crews = Crews(survey, timedelta(seconds=settings.queue_wait), timedelta(seconds=settings.queue_limit))
    return {
        "coordinator": coordinator.run,
        "relay": partial(_relayed, settings, store, views, bus, lost, survey, log, waits),
        "timekeeper": Timekeeper(
            StepsAgenda(views, None), bus, _now, new_message_id, partial(tell_of_trouble, log), crews
        ).run,
        "projector": partial(follow, views, store),
    }


async def _relayed(
    settings: Settings,
    store: EventStore,
    views: Views,
    bus: RabbitBus,
    lost: LostSteps,
    survey: Survey,
    log: FilteringBoundLogger,
    waits: dict[str, Callable[[], float]],
) -> None:
    """What one process does at a time: passes on what was recorded, and looks after what was parked or lost."""

    async def parked() -> int:
        from redraft.events.rabbit_survey import PARKED

        depth = await survey.queue(PARKED)
        return depth.waiting if depth else 0

    def told(held: Held) -> None:
        log.info("standing by", part="relay", holder=held.holder, since=held.since)

    waits.pop(UNRELAYED, None)
    async with open_lease(settings.store) as lease:
        after = await lease.acquire(told)
        await _require_same_log(store, after)
        log.info("relaying", after=after)
        relay = Relay(store, bus, _everyones, Narration(bus, log), partial(tell_of_trouble, log))
        waits[UNRELAYED] = relay.longest_wait

        async def again(run: str, path: str) -> None:
            await lease.check()
            if await relay.resend(run, path):
                log.warning("sent again", run=run, path=path, why="it was in no queue, and no worker had it")

        agenda = StepsAgenda(views, None)
        missing = Missing(agenda, survey, bus, relay.put_until, again, new_message_id())
        watching = kept_up("parked letters", partial(lost.run, parked), log)
        searching = kept_up("missing requests", missing.run, log)
        follows = relay.run(after, lease.save, lease.check, doubtful=await store.head())
        async with together([follows, watching, searching, lease.keep()]) as tasks:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)


async def _require_same_log(store: EventStore, after: int) -> None:
    """Raises StoreUnusable when the relay has come further than the log: then nothing of it would be sent."""
    head = await store.head()
    if after > head:
        raise StoreUnusable(
            f"store {store.where}: its relay has passed on {after} events, but the log ends at {head}: it is another "
            "log, or a part of one; end every coordinator, delete the file .relay.db beside the store, and start them "
            "again: then the log is passed on from its beginning"
        )


@asynccontextmanager
async def _drained(part: Coordinator | Worker, drain: asyncio.Event | None) -> AsyncIterator[None]:
    """Drains the part when the event is set, if it is within the block."""

    async def drained() -> None:
        if drain is not None:
            await drain.wait()
            part.drain()

    draining = asyncio.create_task(drained())
    try:
        yield
    finally:
        draining.cancel()


async def _nothing(run: str, known: bool) -> None:
    """Nobody takes on a run that is submitted: whoever coordinates will."""


def _report(log: FilteringBoundLogger, run: str, why: str) -> None:
    log.error("run set aside", run=run, why=why)


def _everyones(run: str) -> bool:
    return True


def _now() -> datetime:
    return datetime.now(UTC)
