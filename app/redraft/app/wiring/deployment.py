"""The parts as processes of their own, on many machines: what `redraft worker`, `submit` and `doctor` run.

Each part goes on when a server was away, however long: nothing is kept in a process that is not in the log or the bus.
What `redraft coordinator` runs is in `coordinating`.
"""

from __future__ import annotations

import asyncio
import math
import shlex
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from redraft.actors.runtime.failures import traceback_of
from redraft.actors.runtime.relaying.relay import Relay
from redraft.actors.runtime.working.worker import Worker
from redraft.actors.values import ignore
from redraft.actors.workflow.actor import Actor, ActorKey
from redraft.app.client.client import Client
from redraft.app.isolation.isolated_actor import Isolation, open_isolation
from redraft.app.models.configuration import RateLimits
from redraft.app.process.health import health_file
from redraft.app.process.lifecycle import PATIENCE, drained, opened, retry_forever, together
from redraft.app.process.logs import library_log
from redraft.app.settings.settings import LOCAL, Settings
from redraft.app.subscribing.feed import BrokerFeed
from redraft.app.subscribing.subscriber import Subscriber
from redraft.app.telemetry.telemetry import find_telemetry
from redraft.app.wiring.dead_letters import queue_names
from redraft.app.wiring.local import build_client, open_readonly
from redraft.app.wiring.parts import build_worker, every_run, log_trouble, stop_cancelled
from redraft.app.wiring.stores import hold_lease_of, open_store_of, open_views_of
from redraft.app.workflows.actor_registry import SHIPPED
from redraft.events.bus.port import Bus, PeerChannel, reply_key, work_queue
from redraft.events.errors import BusError, BusUnusable, InputError
from redraft.events.messages.commands import Request
from redraft.events.messages.domain_events import RunEnded, RunQuarantined, RunStarted
from redraft.events.messages.envelope import Recorded, Unreadable
from redraft.events.messages.filters import RunFacts, about
from redraft.events.messages.plan import Role
from redraft.events.store.event_store import EventStore
from redraft.projections.display import plain

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from redraft.app.wiring.http_bus import HttpBus
    from redraft.events.rabbit.bus import RabbitBus
    from redraft.events.rabbit.survey import Survey


def no_worker(role: Role, actor: str, file: str = "") -> str:
    """Says that no worker serves an actor, and which command starts one; `file` has the actor, where it is known."""
    target = actor if (role, actor) in SHIPPED and not file else f"{file or 'FILE.py'}:{actor}"
    target = shlex.quote(plain(target))
    return f"no worker serves the {role} {plain(actor)}; start one: redraft worker {target} --role {role}"


async def unserved(settings: Settings, keys: Iterable[ActorKey], files: Mapping[ActorKey, str] = {}) -> list[str]:
    """Returns a line for each of these actors that no worker serves now; none where the broker does not say.

    `files` has those of the actors whose files are known.
    """
    if settings.bus == LOCAL:
        return []
    found: list[str] = []
    with suppress(BusError, InputError):
        async with open_survey(settings) as survey:
            for role, actor in dict.fromkeys(keys):
                with suppress(BusUnusable):  # one that cannot be looked at
                    depth = await survey.queue(work_queue(role, actor))
                    if depth is None or not depth.consumers:
                        found.append(no_worker(role, actor, files.get((role, actor), "")))
    return found


FOR_EVER: Final = math.inf
MEMORY: Final = "memory:"

LISTENING: Final = 5.0
"""Seconds for which a worker waits until it hears what people cancel, before it begins without."""


@asynccontextmanager
async def open_bus(
    settings: Settings, patience: float = PATIENCE, heartbeat: int | None = None
) -> AsyncIterator[RabbitBus]:
    """Opens the bus that several processes share. It retries a server that went away for `patience` seconds.

    Raises InputError for `local:`, which is one process's own, and BusError when it cannot be reached at once.
    """
    require_broker(settings)
    from redraft.events.rabbit.bus import RabbitBus
    from redraft.events.rabbit.connection import HEARTBEAT

    async with RabbitBus(
        settings.bus,
        prefix=settings.broker_prefix,
        patience=patience,
        batch=settings.request_batch_size,
        partitions=settings.inbox_partitions,
        queues=settings.queue_type,
        heartbeat=heartbeat or HEARTBEAT,
    ) as bus:
        yield bus


def open_survey(settings: Settings) -> Survey:
    """Returns a context that inspects the broker of the settings. Raises InputError for `local:`."""
    require_broker(settings)
    from redraft.events.rabbit.survey import Survey

    return Survey(settings.bus, settings.broker_prefix)


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
            f"setting 'store': {MEMORY} is inside one process; name a store that all processes reach, "
            "REDRAFT_STORE=postgresql://user@host:5432/database, or sqlite:///path on one machine"
        )


@asynccontextmanager
async def open_client(
    settings: Settings, *, reads: bool = True, log: FilteringBoundLogger | None = None
) -> AsyncIterator[Client]:
    """Opens a client of a deployment: it submits to the bus and, if it `reads`, reads the results from the store.

    One that does not needs no store: it subscribes to the stream of events on the broker. Without a broker (`local:`)
    one that reads subscribes and waits all the same, and what it would send raises BusError. Raises BusError,
    StoreError, InputError. Where the store goes away later, those who wait for a result go on waiting, and it is tried
    for ever; the log says so, which is Python's own logger `redraft` if none is given.
    """
    if reads and settings.bus == LOCAL:
        async with open_readonly(settings) as runtime:
            yield runtime.client
        return
    async with open_bus(settings) as bus:
        if not reads:
            yield Client(None, bus, Subscriber(BrokerFeed(bus)), settings.max_draft_bytes)
            return
        async with open_store_of(settings) as store:
            client = build_client(settings, store, bus, partial(_wait_for_projections, settings))
            noticing = partial(client.notice, await store.head())
            async with together([retry_forever("client", noticing, log or library_log())]):
                yield client


async def _wait_for_projections(settings: Settings, position: int) -> int:
    """Waits until a coordinator has projected the events up to this position."""
    async with open_views_of(settings) as views:
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
    turns: RateLimits | None = None,
) -> None:
    """Serves these actors until `drain` is set and what is under way is reported. It needs no store.

    The broker is tried for `patience` seconds at the start (BusError), and for ever after that. The limits of `turns`
    are those of all workers on the broker together. Raises ActorError for an actor that cannot be isolated.
    """
    require_broker(settings)
    async with (
        open_isolation(actors, settings.max_draft_bytes) as isolation,
        opened(lambda: open_bus(settings, FOR_EVER), patience, log) as bus,
        open_survey(settings) as survey,
    ):
        if turns is not None:
            turns.share(bus.turns)
        worker = _worker(settings, actors, bus, isolation, log, bus)
        waits = {"what came of a request has not been reported": worker.longest_wait}
        listening = asyncio.Event()
        telemetry = find_telemetry()
        told = telemetry.meters.note_health if telemetry else None
        async with health_file(health, survey.ping, log, waits, told=told), drained(worker, drain):
            ready()
            heeding = retry_forever("cancellations", partial(stop_cancelled, worker, bus, listening.set), log)
            minding = retry_forever("peers", worker.answer_peers, log)
            working = retry_forever("worker", partial(_work_after_listening, worker, listening), log)
            async with together([working, heeding, minding, worker.watch_clock()]) as tasks:
                await asyncio.wait({tasks[0]})


async def work_by_http(
    settings: Settings,
    actors: Sequence[Actor],
    drain: asyncio.Event,
    ready: Callable[[], None],
    log: FilteringBoundLogger,
    *,
    patience: float = PATIENCE,
    health: Path | None = None,
) -> None:
    """Serves these actors with requests that `redraft serve` leases, until `drain` is set; see `work`.

    Raises BusError when the server of the settings cannot be reached for `patience` seconds at the start, InputError
    when it does not let this worker in.
    """
    async with (
        open_isolation(actors, settings.max_draft_bytes) as isolation,
        opened(lambda: _reached(settings, log), patience, log) as bus,
    ):
        worker = _worker(settings, actors, bus, isolation, log, None)
        waits = {"what came of a request has not been reported": worker.longest_wait}
        async with health_file(health, bus.ping, log, waits), drained(worker, drain):
            ready()
            heeding = retry_forever("cancellations", partial(stop_cancelled, worker, bus, ignore), log)
            working = retry_forever("worker", worker.run, log)
            async with together([working, heeding, worker.watch_clock()]) as tasks:
                await asyncio.wait({tasks[0]})


@asynccontextmanager
async def _reached(settings: Settings, log: FilteringBoundLogger) -> AsyncIterator[HttpBus]:
    from redraft.app.wiring.http_bus import open_http_bus

    async with open_http_bus(settings.server_url, settings.server_token, log) as bus:
        await bus.ping()
        yield bus


def _worker(
    settings: Settings,
    actors: Sequence[Actor],
    bus: Bus,
    isolation: Isolation,
    log: FilteringBoundLogger,
    peers: PeerChannel | None,
) -> Worker:
    def differs(actor: Actor, version: str, run: str) -> None:
        log.warning("another version", actor=f"{actor.role} {actor.name}", here=actor.version, plan=version, run=run)

    def again(request: Request) -> None:
        log.warning("begun again", path=request.path, attempt=request.attempt, sent=request.sent, run=request.run)

    def failed(actor: Actor, request: Request, error: BaseException) -> None:
        where = {"path": request.path, "attempt": request.attempt, "run": request.run}
        log.error("actor raised", actor=f"{actor.role} {actor.name}", **where, traceback=traceback_of(error))

    tell = partial(log_trouble, log, queue_names(settings.broker_prefix))
    return build_worker(
        settings, actors, bus, isolation, differs, peers=peers, on_restart=again, on_trouble=tell, on_error=failed
    )


async def _work_after_listening(worker: Worker, listening: asyncio.Event) -> None:
    """Works once it hears cancellations; the worker asks about requests that were queued before that.

    Before the first coordinator there is nothing to listen to.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(LISTENING):
            await listening.wait()
    await worker.run()


async def open_runs(store: EventStore) -> list[str]:
    """Returns the runs that have begun and not ended, the oldest first.

    Those that cannot be read, or are set aside, are not among them. Raises StoreError.
    """
    runs: dict[str, None] = {}
    async for batch in store.tail(0, follow=False):
        for event in batch:
            if isinstance(event, Unreadable) or isinstance(event.data, RunEnded | RunQuarantined):
                runs.pop(event.run, None)
            elif isinstance(event.data, RunStarted):
                runs[event.run] = None
    return list(runs)


async def send_again(store: EventStore, bus: Bus, partitions: int) -> int:
    """Sends again, for every run that goes on, each request without an answer; returns the number of them.

    What was not lost is sent twice, and confirmed before it is worked on. `partitions` is the number of those of the
    inbox. Raises StoreError, BusError.
    """
    relay = Relay(store, bus, every_run, reply_key=partial(reply_key, partitions=partitions))
    return sum([await relay.resend(run) for run in await open_runs(store)])


LEASED: Final = 2.0
"""Seconds to try for the lease; then another process holds it."""


async def republish(settings: Settings) -> tuple[int, int | None]:
    """Sends again, for every run that goes on, each request without an answer, and fills the stream of events anew.

    Returns the number of requests, and that of events: None while a coordinator announces them, whose stream is left as
    it is. For a broker that lost its queues, or a log that was set back. What was not lost is sent twice, and confirmed
    before it is worked on.
    """
    async with open_store_of(settings) as store, open_bus(settings) as bus:
        sent = await send_again(store, bus, settings.inbox_partitions)
        async with hold_lease_of(settings, LEASED) as held:
            return sent, None if held is None else await _announce_log(store, bus)


async def _announce_log(store: EventStore, bus: RabbitBus) -> int:
    """Fills the stream from the log; returns the number of readable events."""
    await bus.clear_stream()
    facts: dict[str, RunFacts] = {}
    number = 0
    async for batch in store.tail(0, follow=False):
        events = [event for event in batch if isinstance(event, Recorded)]
        facts |= {event.run: known for event in events if (known := about(event))}
        await bus.publish_events(events, facts)
        number += len(events)
        for event in events:
            if isinstance(event.data, RunEnded):
                facts.pop(event.run, None)
    return number
