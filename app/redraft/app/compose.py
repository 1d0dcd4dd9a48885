"""The only place where the parts meet. The command line, `refine`, the tests and the benchmark all go through it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final, TypeAlias

from redraft.actors.command_handler import CommandHandler
from redraft.actors.coordinator import Coordinator
from redraft.actors.crews import Crews
from redraft.actors.relay import Relay
from redraft.actors.roles import Actor
from redraft.actors.signatures import Differs, unheard
from redraft.actors.timekeeper import Timekeeper
from redraft.actors.worker import Worker
from redraft.app.agenda import StepsAgenda
from redraft.app.client import Client, Outlet
from redraft.app.encryption import store_of
from redraft.app.feed import StoreFeed
from redraft.app.ids import new_message_id, new_run_id
from redraft.app.isolation import open_isolation
from redraft.app.known_arms import KnownArms
from redraft.app.settings import Settings, views_path
from redraft.app.subscriber import Subscriber
from redraft.app.together import together
from redraft.events.bus import Bus, Letter
from redraft.events.domain_events import Outcome
from redraft.events.errors import BusError, NoSuchRun
from redraft.events.local_bus import LocalBus
from redraft.events.store import EventStore
from redraft.events.subscriptions import open_subscriptions
from redraft.projections.projector import catch_up, follow
from redraft.projections.read_models import ReadModels
from redraft.projections.run_list import spent_on
from redraft.projections.shipped import FOLLOWED
from redraft.projections.views import Views, open_views

Adopt: TypeAlias = Callable[[str, bool], Awaitable[None]]

PROJECTIONS = FOLLOWED
"""The read models that every deployment keeps up to date while runs go on."""

STOPPED: Final[frozenset[Outcome]] = frozenset({"cancelled", "failed", "over_budget", "rejected", "timed_out"})
"""How a run ends while calls may be under way that nobody needs any more."""


@dataclass(frozen=True, slots=True)
class House:
    """What is open: the client to speak to it, log, bus and read models, and how to let it finish what it does.

    `views` are the read models that are followed; `models` gives all others, each brought up to date when it is asked
    for: `views = await house.models.of(CRITIQUES)`.
    """

    client: Client
    store: EventStore
    bus: Bus
    views: Views
    models: ReadModels
    drain: Callable[[], None]


@asynccontextmanager
async def open_log(settings: Settings) -> AsyncIterator[House]:
    """The log and read models that have caught up with it, for looking at. Nothing runs.

    Its client subscribes and waits for what other processes record; what it would send raises BusError. Raises
    StoreError when log or read models cannot be opened.
    """
    async with (
        await asyncio.to_thread(store_of, settings) as store,
        await open_views(views_path(settings.store), PROJECTIONS) as views,
        LocalBus() as bus,
        ReadModels(views_path(settings.store), store) as models,
    ):
        await catch_up(views, store)

        async def caught_up(position: int) -> int:
            await catch_up(views, store)
            return await views.wait_for(position)

        client = _client(settings, store, _Nobody(), _looking_only, keep_nothing, caught_up)
        yield House(client, store, bus, views, models, lambda: None)


@asynccontextmanager
async def open_house(
    settings: Settings,
    actors: Iterable[Actor],
    *,
    resume: Sequence[str] = (),
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    log: EventStore | None = None,
    differs: Differs = unheard,
) -> AsyncIterator[House]:
    """Everything in this process: coordinator, relay, worker, timekeeper and read models, on an in-process bus.

    It works for the runs that are submitted to it and for those to `resume`, and leaves those of other processes alone.
    `log` stands in for the store of the settings, and is closed at the end. `differs` is told of an actor whose code
    has another version than the plan of a run names.
    Raises NoSuchRun for a run that is not in the log, ActorError for an actor that cannot be isolated, StoreError when
    the log or the read models cannot be opened (its Sealed where new runs are sealed and no key is given); an error of
    one of the parts ends the block with that error.
    """
    owned: set[str] = set()
    serving = tuple(actors)
    async with (
        open_isolation(serving, settings.draft_limit) as isolation,
        log if log is not None else await asyncio.to_thread(store_of, settings) as store,
        await open_views(views_path(settings.store), PROJECTIONS) as views,
        LocalBus() as bus,
        ReadModels(views_path(settings.store), store) as models,
    ):
        if not resume:
            await store.require_sealing()
        for run in resume:
            if not await store.read(run, upto=1):
                raise NoSuchRun(run)
        await catch_up(views, store)

        async def adopt(run: str, known: bool) -> None:
            """Takes on a run; if it may be `known`, what it asked for and has no answer to is asked for again."""
            if run not in owned:
                owned.add(run)
                if known:
                    await relay.resend(run, sent=1)

        async def again(run: str, path: str, sent: int) -> None:
            await relay.resend(run, path, sent=sent, confirmed=True)

        def let_go(run: str, outcome: Outcome) -> None:
            owned.discard(run)
            if outcome in STOPPED:
                worker.call_off(run)

        client = _client(settings, store, bus, adopt, let_go, views.wait_for)
        sizes = settings.concurrency, settings.draft_limit
        worker = Worker(serving, bus, new_message_id, *sizes, differs, apart=isolation.begin)
        relay = Relay(store, bus, owned.__contains__)
        agenda = StepsAgenda(views, owned)
        arms = KnownArms(models)
        start = await store.head()
        parts = (
            Coordinator(store, bus, clock, again, settings.draft_limit, partial(spent_on, views), arms).run(),
            arms.run(),
            relay.run(start),
            worker.run(),
            Timekeeper(agenda, bus, clock, new_message_id, Crews(bus)).run(),
            follow(views, store),
            client.notice(start),
        )
        async with together(parts):
            for run in resume:
                await adopt(run, True)
            yield House(client, store, bus, views, models, worker.drain)


@asynccontextmanager
async def open_handler(settings: Settings, house: House) -> AsyncIterator[CommandHandler]:
    """Yields a handler that decides and records as a coordinator does, for a process in which none runs."""
    arms = KnownArms(house.models)
    spent = partial(spent_on, house.views)
    async with together([arms.run()]):
        yield CommandHandler(house.store, lambda: datetime.now(UTC), _nothing_open, settings.draft_limit, spent, arms)


async def _nothing_open(run: str, path: str, sent: int) -> None:
    """No worker asks here whether a request is still open."""


def keep_nothing(run: str, outcome: Outcome) -> None:
    """Does nothing: in a process in which no run is worked on, there is nothing to let go of when one ends."""


class _Nobody:
    """Where a client's letters would go if anything ran here; lost in silence, as nobody reads the bus."""

    async def publish(self, queue: str, letters: Sequence[Letter]) -> None:
        raise BusError("nobody would hear that here: nothing runs in this process but what looks at the log")


async def _looking_only(run: str, known: bool) -> None:
    raise BusError(f"run {run} cannot be submitted here: nothing runs in this process but what looks at the log")


def _client(
    settings: Settings,
    store: EventStore,
    bus: Outlet,
    adopt: Adopt,
    let_go: Callable[[str, Outcome], None],
    caught_up: Callable[[int], Awaitable[int]],
) -> Client:
    subscriber = Subscriber(StoreFeed(store), partial(open_subscriptions, settings.store), caught_up)
    return Client(store, bus, adopt, let_go, new_run_id, new_message_id, settings.draft_limit, subscriber)
