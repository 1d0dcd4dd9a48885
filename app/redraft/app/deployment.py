"""The parts as processes of their own, on many machines: what `redraft worker` and `submit` run.

Each part goes on when a server was away, however long: nothing is kept in a process that is not in the log or the bus.
What `redraft coordinator` runs is in `coordinating`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from redraft.actors.roles import Actor
from redraft.actors.worker import Worker
from redraft.app.client import Client
from redraft.app.compose import PROJECTIONS, keep_nothing, open_log
from redraft.app.encryption import store_of
from redraft.app.feed import BrokerFeed, StoreFeed
from redraft.app.health import health_file
from redraft.app.ids import new_message_id, new_run_id
from redraft.app.isolation import Isolation, open_isolation
from redraft.app.narration import tell_of_trouble
from redraft.app.settings import LOCAL, Settings, views_path
from redraft.app.subscriber import Subscriber
from redraft.app.together import together
from redraft.app.turns import Turns
from redraft.app.upkeep import PATIENCE, drained, kept_up, opened
from redraft.events.commands import Request
from redraft.events.errors import InputError
from redraft.events.store import EventStore
from redraft.events.subscriptions import open_subscriptions
from redraft.projections.views import open_views

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from redraft.events.rabbit_bus import RabbitBus
    from redraft.events.rabbit_survey import Survey

FOR_EVER: Final = math.inf
MEMORY: Final = "memory:"

LISTENING: Final = 5.0
"""Seconds for which a worker waits until it hears what people cancel, before it begins without."""


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
    async with (
        open_isolation(actors, settings.draft_limit) as isolation,
        opened(lambda: open_bus(settings, FOR_EVER), patience, log) as bus,
        open_survey(settings) as survey,
    ):
        if turns is not None:
            turns.share(bus.turns)
        worker = _worker(settings, actors, bus, isolation, log)
        waits = {"what came of a request has not been reported": worker.longest_wait}
        listening = asyncio.Event()
        async with health_file(health, survey.ping, log, waits), drained(worker, drain):
            ready()
            heeding = kept_up("cancellations", partial(_heeded, worker, bus, listening), log)
            minding = kept_up("neighbours", worker.mind, log)
            working = kept_up("worker", partial(_working, worker, listening), log)
            async with together([working, heeding, minding]) as tasks:
                await asyncio.wait({tasks[0]})


def _worker(
    settings: Settings, actors: Sequence[Actor], bus: RabbitBus, isolation: Isolation, log: FilteringBoundLogger
) -> Worker:
    def differs(actor: Actor, version: str, run: str) -> None:
        log.warning("another version", actor=f"{actor.role} {actor.name}", here=actor.version, plan=version, run=run)

    def again(request: Request) -> None:
        log.warning("begun again", path=request.path, attempt=request.attempt, sent=request.sent, run=request.run)

    return Worker(
        actors,
        bus,
        new_message_id,
        settings.concurrency,
        settings.draft_limit,
        differs,
        neighbours=bus,
        again=again,
        tell=partial(tell_of_trouble, log),
        queue_limit=timedelta(seconds=settings.queue_limit),
        apart=isolation.begin,
    )


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


async def _nothing(run: str, known: bool) -> None:
    """Nobody takes on a run that is submitted: whoever coordinates will."""
