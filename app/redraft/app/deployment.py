"""The parts as processes of their own, on many machines: what `redraft coordinator`, `worker` and `submit` run.

Each part goes on when a server was away, however long: nothing is kept in a process that is not in the log or the bus.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import stamina
from redraft.events.relay_lease import RelayLease, open_relay_lease
from structlog.typing import FilteringBoundLogger

from redraft.actors.coordinator import Coordinator
from redraft.actors.relay import Relay
from redraft.actors.roles import Actor
from redraft.actors.timekeeper import Timekeeper
from redraft.actors.worker import Worker
from redraft.app.agenda import StepsAgenda
from redraft.app.client import Client
from redraft.app.compose import PROJECTIONS, together
from redraft.app.ids import new_message_id, new_run_id
from redraft.app.settings import Settings, views_path
from redraft.events.errors import BusError, InputError, StoreError, StoreUnusable
from redraft.events.store import EventStore, open_store
from redraft.projections.projector import follow
from redraft.projections.views import open_views

if TYPE_CHECKING:
    from redraft.events.rabbit_bus import RabbitBus

Part: TypeAlias = Callable[[], Coroutine[None, None, None]]

LONGEST_WAIT: Final = 5.0
"""Seconds between two tries of a part whose server is away, at most."""


@asynccontextmanager
async def open_bus(settings: Settings) -> AsyncIterator[RabbitBus]:
    """The bus that several processes share. Raises InputError for `local:`, which is one process's own; BusError."""
    if settings.bus == "local:":
        raise InputError("setting 'bus': local: is a bus inside one process; name a server: --bus amqp://user@host/")
    from redraft.events.rabbit_bus import open_rabbit_bus

    async with open_rabbit_bus(settings.bus) as bus:
        yield bus


@asynccontextmanager
async def open_client(settings: Settings) -> AsyncIterator[Client]:
    """A client of a deployment: it submits to the bus, and reads the log. Raises BusError, StoreError, InputError."""
    async with open_store(settings.store) as store, open_bus(settings) as bus:
        client = Client(store, bus, _nothing, _forget, new_run_id, new_message_id, settings.draft_limit)
        async with together([client.notice(await store.head())]):
            yield client


async def coordinate(settings: Settings, ready: Callable[[], None], log: FilteringBoundLogger) -> None:
    """Decides, relays, keeps time and projects for every run, until it is cancelled. Several may do so at once.

    One of them relays at a time; another takes over by itself. `ready` is called when the inbox is being served.
    """
    async with (
        open_store(settings.store) as store,
        await open_views(views_path(settings.store), PROJECTIONS) as views,
        open_bus(settings) as bus,
        open_relay_lease(settings.store) as lease,
    ):
        relay = Relay(store, bus, _everyones, announcer=bus)

        async def again(run: str, path: str, sent: int) -> None:
            await relay.resend(run, path, sent=sent, confirmed=True)

        coordinator = Coordinator(store, bus, _now, again, settings.draft_limit)
        keeper = Timekeeper(StepsAgenda(views, None), bus, _now, new_message_id)
        parts: dict[str, Part] = {
            "coordinator": coordinator.run,
            "relay": partial(_relayed, relay, lease, log),
            "timekeeper": keeper.run,
            "projector": partial(follow, views, store),
        }
        ready()
        await _all(parts, log)


async def work(
    settings: Settings,
    actors: Sequence[Actor],
    drain: asyncio.Event,
    ready: Callable[[], None],
    log: FilteringBoundLogger,
) -> None:
    """Serves these actors until `drain` is set and what is under way is reported. It needs no store."""
    async with open_bus(settings) as bus:
        worker = Worker(actors, bus, new_message_id, settings.concurrency, settings.draft_limit)
        draining = asyncio.create_task(_drain(worker, drain))
        try:
            ready()
            await _kept_up("worker", worker.run, log)
        finally:
            draining.cancel()


async def rebuild_broker(settings: Settings) -> int:
    """Sends again, for every run that goes on, each request without an answer; gives the number of them.

    For a broker that lost its queues. What was not lost is sent twice, and confirmed before it is worked on.
    """
    async with open_store(settings.store) as store, open_bus(settings) as bus:
        relay = Relay(store, bus, _everyones)
        return sum([await relay.resend(run) for run in await _going_on(store)])


async def _going_on(store: EventStore) -> list[str]:
    from redraft.events.domain_events import RunEnded, RunStarted

    runs: dict[str, None] = {}
    async for batch in store.tail(0, follow=False):
        for event in batch:
            if isinstance(event.data, RunStarted):
                runs[event.run] = None
            elif isinstance(event.data, RunEnded):
                runs.pop(event.run, None)
    return list(runs)


async def _relayed(relay: Relay, lease: RelayLease, log: FilteringBoundLogger) -> None:
    async with lease.held() as checkpoint:
        after = await checkpoint.load()
        log.info("relaying", after=after)
        await relay.run(after, checkpoint.save)


async def _all(parts: dict[str, Part], log: FilteringBoundLogger) -> None:
    async with together([_kept_up(name, part, log) for name, part in parts.items()]) as tasks:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)


async def _kept_up(name: str, part: Part, log: FilteringBoundLogger) -> None:
    """Runs a part; when a server is away, tries again, first soon and then less and less often."""
    attempts = stamina.retry_context(_may_pass, attempts=None, timeout=None, wait_max=LONGEST_WAIT)
    async for attempt in attempts:
        with attempt:
            try:
                await part()
            except (BusError, StoreError) as error:
                log.warning("stopped", part=name, error=str(error))
                raise


def _may_pass(error: Exception) -> bool:
    return isinstance(error, BusError | StoreError) and not isinstance(error, StoreUnusable)


async def _drain(worker: Worker, drain: asyncio.Event) -> None:
    await drain.wait()
    worker.drain()


async def _nothing(run: str, known: bool) -> None:
    """Nobody takes on a run that is submitted: whoever coordinates will."""


def _forget(run: str) -> None:
    """There is nothing to let go of."""


def _everyones(run: str) -> bool:
    return True


def _now() -> datetime:
    return datetime.now(UTC)
