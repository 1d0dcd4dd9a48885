"""Runs a coordinator (`redraft coordinator`): it decides on its share of the runs.

One coordinator at a time, the holder of the relay's lease, relays, keeps the read models and keeps time for all runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from redraft.actors.runtime.admission import Authority
from redraft.actors.runtime.coordinating.answer_routes import AnswerRoutes
from redraft.actors.runtime.coordinating.sharing import Share
from redraft.actors.runtime.relaying.relay import Relay
from redraft.actors.runtime.working.in_flight import MissingRequests
from redraft.app.process.health import health_file
from redraft.app.process.ids import new_message_id
from redraft.app.process.lifecycle import (
    PATIENCE,
    Part,
    all_kept_up,
    drained,
    is_over_soon,
    opened,
    retry_forever,
    together,
)
from redraft.app.settings.settings import Settings, views_path
from redraft.app.telemetry.log_follower import followed
from redraft.app.telemetry.sampling import sample
from redraft.app.telemetry.telemetry import find_telemetry
from redraft.app.wiring.coordinator_views import StepsAgenda
from redraft.app.wiring.dead_letter_replies import DeadLetterReplies
from redraft.app.wiring.dead_letters import queue_names
from redraft.app.wiring.deployment import FOR_EVER, open_bus, open_survey, require_broker, require_store
from redraft.app.wiring.lags import Lags
from redraft.app.wiring.parts import (
    LoggedPublisher,
    OtherRuns,
    Resources,
    build_coordinator,
    build_timekeeper,
    every_run,
    log_dead_letter,
    log_notice,
    log_trouble,
)
from redraft.app.wiring.stores import open_store_of, open_views_of
from redraft.events.backends import open_lease, open_shares, parse_store_url
from redraft.events.bus.port import DEAD_LETTERS, inbox_queues
from redraft.events.errors import BusUnusable, IncompatibleStore
from redraft.events.shares import Shares
from redraft.events.store.event_store import EventStore
from redraft.events.store.lease import Lease, LeaseHolder, this_process
from redraft.projections.backends import ReadModels
from redraft.projections.engine.projector import follow

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from redraft.events.rabbit.bus import RabbitBus
    from redraft.events.rabbit.survey import Survey

HEARTBEAT: Final = 5
"""Seconds between signs of life of a coordinator: the server takes back what one that gives none had been sent."""


async def coordinate(
    settings: Settings,
    ready: Callable[[], None],
    log: FilteringBoundLogger,
    *,
    drain: asyncio.Event | None = None,
    patience: float = PATIENCE,
    health: Path | None = None,
) -> None:
    """Decides on runs until `drain` is set. Several may do so at once, each on its share.

    What was taken from the inbox by then is recorded and acknowledged first, or given back where that fails.
    One of them at a time relays, projects and keeps time for all runs; another takes over by itself.
    `ready` is called when the inbox is about to be served.
    Servers are tried for `patience` seconds at the start (BusError, StoreError), and for ever after that.
    """
    require_broker(settings)
    require_store(settings)
    async with opened(lambda: _servers(settings, log), patience, log) as servers:
        resources, store, bus = servers.resources, servers.resources.store, servers.bus
        authority, there = _authority(settings), queue_names(settings.broker_prefix)
        tell = partial(log_trouble, log, there)
        partitions = settings.inbox_partitions
        routes = AnswerRoutes(partitions)
        relay = Relay(store, bus, every_run, on_trouble=tell, reply_key=routes.key)
        others = OtherRuns(resources)
        share = Share(
            f"{this_process()}, {new_message_id()}",
            partitions,
            servers.shares,
            servers.survey.ping,
            lambda numbers: log.info("share of the inbox", partitions=numbers),
            routes.follow,
            on_trouble=tell,
        )
        coordinator = build_coordinator(
            resources,
            relay,
            others,
            lambda run, why: log.error("run set aside", run=run, why=why),
            authority,
            share,
            partial(is_over_soon, "coordinator", log),
        )
        lost = DeadLetterReplies(store, bus, new_message_id, partial(log_dead_letter, log, there), authority)
        relaying = Relaying(servers, lost, log, servers.head, routes)
        parts: dict[str, Part] = {
            "coordinator": coordinator.run,
            "relay": relaying.run,
            **others.parts(),
        }
        waits = {
            "an append has had no answer": store.longest_wait,
            "a message of the inbox has not been settled": coordinator.longest_wait,
            "recorded events have not been passed on": relaying.longest_wait,
        }
        telemetry = find_telemetry()
        if telemetry is not None:
            store.measure_appends(telemetry.meters.note_append)
            lags = Lags(store, resources.views, servers.survey, relaying.position, servers.count_dead_letters)
            parts["gauges"] = partial(sample, telemetry.meters, lags.readings())
        told = telemetry.meters.note_health if telemetry else None
        async with health_file(health, servers.ping, log, waits, told=told):
            await _prepare(bus, log)
            with closing(relay):
                async with drained(coordinator, drain):
                    ready()
                    await all_kept_up(parts, log)
        handler = coordinator.handler
        log.info("decided", conflicts=handler.conflicts, loads=handler.loads, ignored=handler.ignored)


@dataclass(frozen=True, slots=True)
class _Servers:
    """The open connections of a coordinator: those that its parts share, the bus as RabbitMQ's, and the survey.

    `head` is the position of the log's last event as they were opened.
    """

    resources: Resources
    bus: RabbitBus
    survey: Survey
    shares: Shares
    head: int

    async def ping(self) -> None:
        """Raises BusError or StoreError when one of them gives no answer."""
        await self.survey.ping()
        await self.resources.store.head()

    async def count_dead_letters(self) -> int:
        """Returns how many there are. Raises BusError."""
        depth = await self.survey.queue(DEAD_LETTERS)
        return depth.waiting if depth else 0


@asynccontextmanager
async def _servers(settings: Settings, log: FilteringBoundLogger) -> AsyncIterator[_Servers]:
    """Opens all of them. Raises StoreError and BusError, and EncryptionKeyMissing where new runs need a key."""
    async with (
        open_store_of(settings) as store,
        open_views_of(settings, report=partial(log_notice, log)) as views,
        ReadModels(views_path(settings.store), store) as models,
        open_bus(settings, FOR_EVER, HEARTBEAT) as bus,
        open_survey(settings) as survey,
        open_shares(settings.store) as shares,
    ):
        await store.require_sealing()
        yield _Servers(Resources(settings, store, views, models, bus), bus, survey, shares, await store.head())


async def _prepare(bus: RabbitBus, log: FilteringBoundLogger) -> None:
    """Makes what every deployment has: who listens may come before the first event.

    What is there with the settings of somebody else is waited for by those alone who need it.
    """
    try:
        await bus.prepare()
    except BusUnusable as error:
        log.warning("not prepared", error=str(error))


def _authority(settings: Settings) -> Authority | None:
    """Returns the rights of users by the setting `users`; None where it is empty: then everybody may say everything."""
    from redraft.events.rabbit.connection import read_address

    return Authority(read_address(settings.bus).user, settings.users) if settings.users else None


class Relaying:
    """Work of one process at a time, for all runs.

    It passes on recorded events, keeps the read models and the time, answers for dead letters, and resends lost
    requests. What all coordinators would do alike costs no more with each of them.

    `began` is the position of the log before this process recorded anything; `routes` are those of answers.
    """

    def __init__(
        self,
        servers: _Servers,
        lost: DeadLetterReplies,
        log: FilteringBoundLogger,
        began: int,
        routes: AnswerRoutes,
    ) -> None:
        self._began = began
        self._routes = routes
        self._publisher = LoggedPublisher(servers.bus, log)
        self._servers = servers
        self._lost = lost
        self._log = log
        self._relay: Relay | None = None

    def position(self) -> int | None:
        """Returns the position up to which this process has relayed the log; None while another relays."""
        return self._relay.position if self._relay is not None else None

    def longest_wait(self) -> float:
        """Seconds for which what was recorded has not been passed on; 0 when all is, and where another does it."""
        return self._relay.longest_wait() if self._relay is not None else 0.0

    async def run(self) -> None:
        """Stands by until nobody else relays, then relays until it is cancelled. Raises BusError, StoreError."""
        self._relay = None
        try:
            await self._relay_while_leased()
        finally:
            self._relay = None

    async def _relay_while_leased(self) -> None:
        log, resources = self._log, self._servers.resources
        store = resources.store
        async with open_lease(resources.settings.store) as lease:
            after = await lease.acquire(self._log_standby)
            await _require_same_log(store, after, resources.settings.store)
            log.info("relaying", after=after)
            tell = partial(log_trouble, log, queue_names(resources.settings.broker_prefix))
            reply_key = self._routes.key
            self._relay = Relay(store, resources.bus, every_run, self._publisher, tell, reply_key=reply_key)
            doubtful = self._began if lease.is_first else await store.head()  # first, as it may raise
            beside: dict[str, Part] = {
                "projector": partial(follow, resources.views, store),
                "timekeeper": build_timekeeper(resources, None, self._servers.survey, tell).run,
                "dead letters": partial(self._lost.run, self._servers.count_dead_letters),
                "missing requests": partial(self._look_for_missing, self._missing_requests(self._relay, lease)),
            }
            follows = self._relay.run(after, lease.save, lease.check, doubtful=doubtful)
            kept_up = [retry_forever(name, part, log) for name, part in beside.items()]
            async with (
                followed(store, find_telemetry(), every_run, after),
                together([follows, lease.keep(), *kept_up]) as tasks,
            ):
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)

    def _missing_requests(self, relay: Relay, lease: Lease) -> MissingRequests:
        async def again(run: str, path: str) -> None:
            await lease.check()
            if await relay.resend(run, path):
                self._log.warning("sent again", run=run, path=path, why="it was in no queue, and no worker had it")

        agenda, bus = StepsAgenda(self._servers.resources.views, None), self._servers.bus
        settings, survey = self._servers.resources.settings, self._servers.survey
        inbox, me, answers_of = inbox_queues(settings.inbox_partitions), new_message_id(), self._routes.queues
        is_ours = partial(survey.fits, kind=settings.queue_type)
        return MissingRequests(agenda, survey, bus, relay.put_into, again, me, inbox, answers_of, is_ours)

    async def _look_for_missing(self, missing: MissingRequests) -> None:
        with self._servers.bus.reconnects(missing.hurry):
            await missing.run()

    def _log_standby(self, held: LeaseHolder) -> None:
        since = held.since and held.since.isoformat(timespec="seconds")
        self._log.info("standing by", part="relay", holder=held.holder, since=since)


async def _require_same_log(store: EventStore, after: int, url: str) -> None:
    """Raises IncompatibleStore when the relay has come further than the log: then nothing of it would be sent."""
    head = await store.head()
    if after > head:
        file = parse_store_url(url).beside("relay")
        remedy = f"delete {file}" if file else "run `UPDATE redraft_relay SET position = 0` in its database"
        raise IncompatibleStore(
            f"store {store.where}: its relay has passed on {after} events, but the log ends at {head}: it is another "
            f"log, or a part of one; end every coordinator, {remedy}, and start them again: then the log is passed on "
            "from its beginning"
        )
