"""Runs everything in one process, on an in-process bus; or opens the log and read models for looking at alone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from redraft.actors.runtime.coordinating.command_handler import CommandHandler
from redraft.actors.runtime.coordinating.coordinator import Outlasts, outlasts_nothing
from redraft.actors.runtime.relaying.item_words import pass_on
from redraft.actors.runtime.relaying.queue_publisher import Offer
from redraft.actors.runtime.relaying.relay import Relay
from redraft.actors.runtime.working.active_calls import Differs
from redraft.actors.values import ignore
from redraft.actors.workflow.actor import Actor
from redraft.app.client.client import Client
from redraft.app.client.ports import MessagePublisher, RunOwner
from redraft.app.isolation.isolated_actor import Isolation, open_isolation
from redraft.app.process.ids import new_message_id
from redraft.app.process.lifecycle import Part, is_over_soon, retry_forever, together
from redraft.app.settings.settings import Settings, views_path
from redraft.app.subscribing.feed import StoreFeed
from redraft.app.subscribing.subscriber import Subscriber, is_end
from redraft.app.telemetry.log_follower import followed
from redraft.app.telemetry.sampling import sample
from redraft.app.telemetry.telemetry import find_telemetry
from redraft.app.wiring.dead_letter_replies import DeadLetterReplies
from redraft.app.wiring.lags import Lags
from redraft.app.wiring.parts import (
    OtherRuns,
    Resources,
    build_coordinator,
    build_handler,
    build_timekeeper,
    build_worker,
)
from redraft.app.wiring.stores import open_store_of, open_views_of
from redraft.events.backends import open_subscriptions
from redraft.events.bus.local import LocalBus
from redraft.events.bus.port import Bus, BusMessage, Queues
from redraft.events.errors import BusError, NoSuchRun
from redraft.events.messages.commands import Request
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.item_ids import MARK, root_of
from redraft.events.store.event_store import EventStore
from redraft.projections.backends import ReadModels
from redraft.projections.engine.projector import catch_up, follow
from redraft.projections.engine.views import Views

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

_LOG: Final = logging.getLogger("redraft.actors")
_LOG.addHandler(logging.NullHandler())


@dataclass(slots=True)
class Keeping:
    """Since when this process, which lacks the key of encrypted runs, leaves the read models to others; None: never."""

    left_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class LocalRuntime:
    """A system in one process: its client, event store, bus and read models; `drain` lets it finish its calls.

    Once it has, `worked` is set.
    `views` are the read models that are followed; `models` gives all others, each brought up to date when it is asked
    for: `views = await runtime.models.of(CRITIQUES)`.
    """

    client: Client
    store: EventStore
    bus: Bus
    views: Views
    models: ReadModels
    drain: Callable[[], None]
    worked: asyncio.Event
    keeping: Keeping = field(default_factory=Keeping)


@dataclass(frozen=True, slots=True)
class Endurance:
    """How a runtime goes on while its store is away: each of its parts is begun again for ever, and `log` says so.

    `check` raises StoreError while this process may not serve the store: then no request is sent.
    """

    log: FilteringBoundLogger
    check: Callable[[], Awaitable[None]] | None = None


@asynccontextmanager
async def open_readonly(settings: Settings) -> AsyncIterator[LocalRuntime]:
    """Opens the log, and read models that have caught up with it, for reading. Nothing runs.

    Its client subscribes and waits for what other processes record; what it would send raises BusError. Raises
    StoreError when log or read models cannot be opened.
    """
    async with (
        open_store_of(settings) as store,
        open_views_of(settings) as views,
        LocalBus() as bus,
        ReadModels(views_path(settings.store), store) as models,
    ):
        await catch_up(views, store)
        at_rest = asyncio.Event()
        at_rest.set()

        async def caught_up(position: int) -> int:
            await catch_up(views, store)
            return await views.wait_for(position)

        client = build_client(settings, store, _Nobody(), caught_up, _Nobody())
        yield LocalRuntime(client, store, bus, views, models, lambda: None, at_rest)


@asynccontextmanager
async def open_local(
    settings: Settings,
    actors: Iterable[Actor],
    *,
    resume: Sequence[str] = (),
    log: EventStore | None = None,
    differs: Differs = ignore,
    endurance: Endurance | None = None,
) -> AsyncIterator[LocalRuntime]:
    """Runs everything in this process: coordinator, relay, worker, timekeeper, read models, and an in-process bus.

    It works for the runs that are submitted to it and for those to `resume`, and leaves those of other processes alone.
    `log` stands in for the store of the settings, and is closed at the end. `differs` is called for an actor whose code
    has another version than the plan of a run names. Raises NoSuchRun for a run that is not in the log, ActorError for
    an actor that cannot be isolated, StoreError when the log or the read models cannot be opened (its
    EncryptionKeyMissing where new runs are encrypted and no key is given); an error of one of the parts ends the block
    with that error. With `endurance` a part is begun again when the store was away.
    """
    serving = tuple(actors)
    async with (
        open_isolation(serving, settings.max_draft_bytes) as isolation,
        log or open_store_of(settings) as store,
        open_views_of(settings) as views,
        LocalBus() as bus,
        ReadModels(views_path(settings.store), store) as models,
    ):
        await _require_ready(store, resume)
        await catch_up(views, store)
        resources = Resources(settings, store, views, models, bus)
        parts = _LocalParts(resources, serving, isolation, differs, bus.offer, endurance)
        telemetry, head = find_telemetry(), await store.head()
        if telemetry is not None:
            store.measure_appends(telemetry.meters.note_append)
        running = [parts.work(), *parts.kept_up(head, bus)]
        if telemetry is not None:
            running.append(sample(telemetry.meters, parts.lags(bus).readings()))
        with closing(parts.resending):
            async with followed(store, telemetry, parts.has_owned, head), together(running):
                for run in resume:
                    await parts.adopt(run, True)
                runtime = LocalRuntime(parts.client, store, bus, views, models, parts.worker.drain, parts.worked)
                yield runtime
        await _end_items(settings, runtime, parts.around)


async def _end_items(settings: Settings, runtime: LocalRuntime, runs: Iterable[str]) -> None:
    """Ends the items of runs that have ended, which the relay of this process may not have told before it ended."""
    for run in runs:
        ends = [each for each in await runtime.store.read(run) if is_end(each)]
        async with open_handler(settings, runtime) as handler:
            await pass_on(handler, ends)


async def _require_ready(store: EventStore, resume: Sequence[str]) -> None:
    """Raises NoSuchRun for a run to resume that is not there, EncryptionKeyMissing where new runs need a key."""
    if not resume:
        await store.require_sealing()
    for run in resume:
        if not await store.read(run, upto=1):
            raise NoSuchRun(run)


def _log_error(actor: Actor, request: Request, error: BaseException) -> None:
    """Logs an exception of an actor with its traceback, for programs that have set up Python's own logging."""
    where = f"{actor.role} {actor.name} raised at {request.path}, attempt {request.attempt}, run {request.run}"
    _LOG.error(where, exc_info=error)


ENDED: Final = 100
"""The number of ended runs whose items this process may have to tell."""

LOOK: Final = 0.2
"""Seconds between two looks for requests that the worker of this process has refused: their steps fail."""


class _LocalParts:
    """The parts of a local runtime, and the runs that it owns: others in the log belong to other processes."""

    def __init__(
        self,
        resources: Resources,
        actors: Sequence[Actor],
        isolation: Isolation,
        differs: Differs,
        offer: Offer,
        endurance: Endurance | None,
    ) -> None:
        settings, store, views, bus = resources.settings, resources.store, resources.views, resources.bus
        self._resources = resources
        self._endurance = endurance
        self._owned: set[str] = set()
        self._adopted: set[str] = set()
        self._adopting = asyncio.Lock()
        self._items: dict[str, set[str]] = {}
        self._ended: list[str] = []
        self.worked = asyncio.Event()
        self.around: set[str] = set()
        """The runs that asked for runs of their items: owned until these have been told of their end."""
        self._new_relay = partial(Relay, store, bus, self._owns, offer=offer, on_item=self._take_on)
        self.resending = self._new_relay()
        self._relay: Relay | None = None
        self.worker = build_worker(settings, actors, bus, isolation, differs, on_error=_log_error)
        self.client = build_client(settings, store, bus, views.wait_for, self)

    def kept_up(self, start: int, queues: Queues) -> list[Coroutine[None, None, None]]:
        """Returns the parts that need the store, each to be run; they begin after the position `start` of the log."""
        resources, others = self._resources, OtherRuns(self._resources)
        store, bus, refuse = resources.store, resources.bus, self.client.refuse
        lost = DeadLetterReplies(store, bus, new_message_id, ignore, never_begun=refuse)
        parts: dict[str, Part] = {
            "coordinator": build_coordinator(resources, self.resending, others, outlasts=self._outlasts()).run,
            **others.parts(),
            "relay": partial(self._pass_on, start),
            "timekeeper": build_timekeeper(resources, self._owned, queues).run,
            "projector": partial(follow, resources.views, resources.store),
            "dead letters": partial(lost.run, self._count_dead_letters, LOOK),
            "client": partial(self.client.notice, start),
        }
        if self._endurance is None:
            return [part() for part in parts.values()]
        return [retry_forever(name, part, self._endurance.log) for name, part in parts.items()]

    def _outlasts(self) -> Outlasts:
        """Returns which errors of the store the coordinator waits out, with what it has taken in hand."""
        return partial(is_over_soon, "coordinator", self._endurance.log) if self._endurance else outlasts_nothing

    async def _pass_on(self, start: int) -> None:
        """Relays from the position `start` on; after an interruption, from where the relay before it came to.

        Workers have to confirm what that may have sent already.
        """
        before, doubtful = self._relay, 0
        if before is not None:
            start, doubtful = before.put_until(), await self._resources.store.head()
        self._relay = relay = self._new_relay()
        await relay.run(start, check=self._endurance.check if self._endurance else None, doubtful=doubtful)

    def lags(self, bus: LocalBus) -> Lags:
        """Returns what reads the gauges of this process."""
        store, views = self._resources.store, self._resources.views
        return Lags(store, views, bus, self._relayed, self._count_dead_letters)

    def _relayed(self) -> int | None:
        return self._relay.put_until() if self._relay is not None else None

    async def _count_dead_letters(self) -> int:
        return len(await self._resources.bus.dead_letters(lambda each: each.id))

    async def work(self) -> None:
        """Works until it is drained. It needs no store: what is under way goes on while that is away."""
        await self.worker.run()
        self.worked.set()

    async def adopt(self, run: str, known: bool) -> None:
        """Takes on a run; if it may be `known`, sends again each of its requests that has no answer.

        One that has ended is not taken on. Raises StoreError, and has not taken it on; the next attempt may send a
        request for the second time. Who comes meanwhile waits until it is known whether the run was taken on.
        """
        if not known:
            self._adopted.add(run)
            self._owned.add(run)
            return
        async with self._adopting:
            sent = 2 if run in self._adopted else 1
            if run in self._owned:
                return
            self._adopted.add(run)
            self._owned.add(run)
            try:
                await self.resending.resend(run, sent=sent)
                if await self._has_ended(run):  # whoever ends it later tells `let_go`
                    self._owned.discard(run)
            except BaseException:
                self._owned.discard(run)
                raise

    async def _has_ended(self, run: str) -> bool:
        """Returns whether no more of a run will come. Raises StoreError."""
        return any(isinstance(each, Recorded) and is_end(each) for each in await self._resources.store.entries(run))

    def has_owned(self, run: str) -> bool:
        """Returns whether this process works on a run, or did."""
        return run in self._adopted

    def let_go(self, run: str) -> None:
        self.worker.cancel_run(run)
        if run not in self.around:
            self._owned.discard(run)
            return
        for each in self._items.get(run, ()):
            self.worker.cancel_run(each)
        if len(self._ended) == ENDED:
            first = self._ended.pop(0)
            self.around.discard(first)
            self._owned.difference_update(self._items.pop(first, ()), (first,))
        self._ended.append(run)

    def _take_on(self, around: str, item: str) -> None:
        """Takes on the run of an item that `around` asks for: its timers are due also where it records nothing new."""
        self.around.add(around)
        self._owns(item)

    def _owns(self, run: str) -> bool:
        """Returns whether a run is owned; a run of an item is, once it is asked for, if the run around it is."""
        if run not in self._owned and MARK in run and (root := root_of(run)) in self._owned:
            self._owned.add(run)
            self._items.setdefault(root, set()).add(run)
        return run in self._owned


@asynccontextmanager
async def open_handler(settings: Settings, runtime: LocalRuntime) -> AsyncIterator[CommandHandler]:
    """Yields a handler that decides and records as a coordinator does, for a process in which none runs."""

    async def resend(run: str, path: str, sent: int) -> None:
        """Does nothing: no worker asks about open requests here."""

    others = OtherRuns(resources := Resources(settings, runtime.store, runtime.views, runtime.models, runtime.bus))
    async with together([part() for part in others.parts().values()]):
        yield build_handler(resources, resend, others)


def build_client(
    settings: Settings,
    store: EventStore,
    bus: MessagePublisher,
    caught_up: Callable[[int], Awaitable[int]],
    owner: RunOwner | None = None,
) -> Client:
    """Returns a client that reads from the store; `caught_up` waits for the read models to reach a position."""
    subscriber = Subscriber(StoreFeed(store), partial(open_subscriptions, settings.store), caught_up)
    return Client(store, bus, subscriber, settings.max_draft_bytes, owner=owner)


class _Nobody:
    """Refuses what a client sends and submits where nothing runs, as nobody would take it."""

    async def publish(self, queue: str, bus_messages: Sequence[BusMessage]) -> None:
        raise BusError("this process only reads the log: no coordinator runs in it that could take the message")

    async def adopt(self, run: str, known: bool) -> None:
        raise BusError(f"run {run} cannot be submitted here: this process only reads the log")

    def let_go(self, run: str) -> None:
        """Does nothing: no run is worked on here."""
