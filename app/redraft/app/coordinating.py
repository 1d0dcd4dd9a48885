"""Runs a coordinator (`redraft coordinator`): decides, relays, keeps time and projects for every run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from redraft.actors.authority import Authority
from redraft.actors.coordinator import Coordinator
from redraft.actors.crews import Crews
from redraft.actors.missing import Missing
from redraft.actors.relay import Relay
from redraft.actors.timekeeper import Timekeeper
from redraft.actors.trouble import Tell
from redraft.app.agenda import StepsAgenda
from redraft.app.compose import PROJECTIONS
from redraft.app.deployment import FOR_EVER, open_bus, open_log_of, open_survey, require_broker, require_store
from redraft.app.health import health_file
from redraft.app.ids import new_message_id
from redraft.app.known_arms import KnownArms
from redraft.app.lost_steps import LostSteps
from redraft.app.narration import Narration, tell_of_projection, tell_of_trouble
from redraft.app.settings import Settings, views_path
from redraft.app.together import together
from redraft.app.upkeep import PATIENCE, Part, all_kept_up, drained, kept_up, opened
from redraft.events.errors import BusUnusable, StoreUnusable
from redraft.events.lease import Held, Lease
from redraft.events.relay_lease import open_lease
from redraft.events.store import EventStore
from redraft.projections.projector import follow
from redraft.projections.read_models import ReadModels
from redraft.projections.run_list import spent_on
from redraft.projections.views import Views, open_views

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from redraft.events.rabbit_bus import RabbitBus
    from redraft.events.rabbit_survey import Survey

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
    """Decides, relays, keeps time and projects for every run, until `drain` is set. Several may do so at once.

    What was taken from the inbox by then is recorded and acknowledged first, or given back where that fails.
    One of them relays at a time; another takes over by itself. `ready` is called when the inbox is about to be served.
    Servers are tried for `patience` seconds at the start (BusError, StoreError), and for ever after that.
    """
    require_broker(settings)
    require_store(settings)
    async with _servers(settings, patience, log) as servers:
        store, bus = servers.store, servers.bus
        await store.require_sealing()
        authority, tell = _authority(settings), partial(tell_of_trouble, log)
        relay, arms = Relay(store, bus, _everyones, tell=tell), KnownArms(servers.models)
        coordinator = _coordinator(settings, servers, relay, arms, authority, log)
        relaying = Relaying(settings.store, servers, LostSteps(store, bus, new_message_id, log, authority), log)
        parts: dict[str, Part] = {
            "coordinator": coordinator.run,
            "relay": relaying.run,
            "timekeeper": _timekeeper(settings, servers, tell).run,
            "projector": partial(follow, servers.views, store),
            "choices": arms.run,
        }
        waits = {
            "an append has had no answer": store.longest_wait,
            "a message of the inbox has not been settled": coordinator.longest_wait,
            "recorded events have not been passed on": relaying.longest_wait,
        }
        async with health_file(health, servers.ping, log, waits):
            await _prepare(bus, log)
            with closing(relay):
                async with drained(coordinator, drain):
                    ready()
                    await all_kept_up(parts, log)


@dataclass(frozen=True, slots=True)
class _Servers:
    """The open connections of a coordinator: event store, read models, bus, and the survey of its queues."""

    store: EventStore
    views: Views
    models: ReadModels
    bus: RabbitBus
    survey: Survey

    async def ping(self) -> None:
        """Raises BusError or StoreError when one of them gives no answer."""
        await self.survey.ping()
        await self.store.head()


@asynccontextmanager
async def _servers(settings: Settings, patience: float, log: FilteringBoundLogger) -> AsyncIterator[_Servers]:
    url = settings.store
    async with (
        opened(lambda: open_log_of(settings), patience, log) as store,
        await open_views(views_path(url), PROJECTIONS, partial(tell_of_projection, log)) as views,
        ReadModels(views_path(url), store) as models,
        opened(lambda: open_bus(settings, FOR_EVER, HEARTBEAT), patience, log) as bus,
        open_survey(settings) as survey,
    ):
        yield _Servers(store, views, models, bus, survey)


def _coordinator(
    settings: Settings,
    servers: _Servers,
    relay: Relay,
    arms: KnownArms,
    authority: Authority | None,
    log: FilteringBoundLogger,
) -> Coordinator:
    async def again(run: str, path: str, sent: int) -> None:
        await relay.resend(run, path, sent=sent, confirmed=True)

    spent, report = partial(spent_on, servers.views), partial(_report, log)
    return Coordinator(servers.store, servers.bus, _now, again, settings.draft_limit, spent, arms, report, authority)


def _timekeeper(settings: Settings, servers: _Servers, tell: Tell) -> Timekeeper:
    wait, limit = timedelta(seconds=settings.queue_wait), timedelta(seconds=settings.queue_limit)
    agenda, crews = StepsAgenda(servers.views, None), Crews(servers.survey, wait, limit)
    return Timekeeper(agenda, servers.bus, _now, new_message_id, crews, tell)


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
    from redraft.events.rabbit_address import read_address

    return Authority(read_address(settings.bus).user, settings.users) if settings.users else None


class Relaying:
    """What one process does at a time: passes on what was recorded, and looks after what was parked or lost.

    `url` is that of the store, beside which the lease lies.
    """

    def __init__(self, url: str, servers: _Servers, lost: LostSteps, log: FilteringBoundLogger) -> None:
        self._url = url
        self._servers = servers
        self._lost = lost
        self._log = log
        self._relay: Relay | None = None

    def longest_wait(self) -> float:
        """Seconds for which what was recorded has not been passed on; 0 when all is, and where another does it."""
        return self._relay.longest_wait() if self._relay is not None else 0.0

    async def run(self) -> None:
        """Stands by until nobody else relays, then relays until it is cancelled. Raises BusError, StoreError."""
        self._relay = None
        log, store, bus = self._log, self._servers.store, self._servers.bus
        async with open_lease(self._url) as lease:
            after = await lease.acquire(self._stands_by)
            await _require_same_log(store, after)
            log.info("relaying", after=after)
            self._relay = Relay(store, bus, _everyones, Narration(bus, log), partial(tell_of_trouble, log))
            watching = kept_up("parked letters", partial(self._lost.run, self._parked), log)
            searching = kept_up("missing requests", self._missing(self._relay, lease).run, log)
            follows = self._relay.run(after, lease.save, lease.check, doubtful=await store.head())
            async with together([follows, watching, searching, lease.keep()]) as tasks:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)

    def _missing(self, relay: Relay, lease: Lease) -> Missing:
        async def again(run: str, path: str) -> None:
            await lease.check()
            if await relay.resend(run, path):
                self._log.warning("sent again", run=run, path=path, why="it was in no queue, and no worker had it")

        agenda, bus = StepsAgenda(self._servers.views, None), self._servers.bus
        return Missing(agenda, self._servers.survey, bus, relay.put_until, again, new_message_id())

    def _stands_by(self, held: Held) -> None:
        self._log.info("standing by", part="relay", holder=held.holder, since=held.since)

    async def _parked(self) -> int:
        """How many letters are parked."""
        from redraft.events.rabbit_survey import PARKED

        depth = await self._servers.survey.queue(PARKED)
        return depth.waiting if depth else 0


async def _require_same_log(store: EventStore, after: int) -> None:
    """Raises StoreUnusable when the relay has come further than the log: then nothing of it would be sent."""
    head = await store.head()
    if after > head:
        raise StoreUnusable(
            f"store {store.where}: its relay has passed on {after} events, but the log ends at {head}: it is another "
            "log, or a part of one; end every coordinator, delete the file .relay.db beside the store, and start them "
            "again: then the log is passed on from its beginning"
        )


def _report(log: FilteringBoundLogger, run: str, why: str) -> None:
    log.error("run set aside", run=run, why=why)


def _everyones(run: str) -> bool:
    return True


def _now() -> datetime:
    return datetime.now(UTC)
