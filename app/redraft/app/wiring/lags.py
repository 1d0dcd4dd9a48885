"""How far a deployment is behind: its relay, its projections, its queues, its dead letters."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from cachetools import LRUCache

from redraft.actors.workflow.actor import ActorKey
from redraft.app.telemetry.instruments import Values
from redraft.app.telemetry.sampling import Readings
from redraft.events.bus.port import Queues, work_queue
from redraft.events.errors import BusUnusable
from redraft.events.store.event_store import EventStore
from redraft.projections.engine.views import Views
from redraft.projections.read_models.steps import list_asked_actors, oldest_waiting

MOST_ACTORS: Final = 1_000
"""The number of actors, those asked last, whose queues are looked at."""


class Lags:
    """Reads the gauges of a coordinator, or of a process in which everything runs.

    Those of the whole deployment have values only where it relays.

    `relayed` returns the position up to which this process has relayed the log, None while another does;
    `dead_letters` counts them.
    """

    def __init__(
        self,
        store: EventStore,
        views: Views,
        queues: Queues,
        relayed: Callable[[], int | None],
        dead_letters: Callable[[], Awaitable[int]],
    ) -> None:
        self._dead = dead_letters
        self._store = store
        self._views = views
        self._queues = queues
        self._relayed = relayed
        self._waiting: dict[tuple[str, ...], float] = {}
        self._actors: LRUCache[ActorKey, None] = LRUCache(MOST_ACTORS)

    def readings(self) -> Readings:
        """Returns what reads each gauge; the ages of queues follow the numbers in them."""
        return {
            "redraft.relay.lag": self._relay,
            "redraft.projection.lag": self._projections,
            "redraft.dead_letters": self._dead_letters,
            "redraft.queue.age": self._ages,
            "redraft.queue.waiting": self._numbers,
        }

    async def _relay(self) -> Values:
        position = self._relayed()
        return {} if position is None else {(): max(0, await self._store.head() - position)}

    async def _projections(self) -> Values:
        head = await self._store.head()
        reached: Mapping[str, int] = {name: each.position for name, each in (await self._views.checkpoints()).items()}
        return {(name,): max(0, head - position) for name, position in reached.items()}

    async def _dead_letters(self) -> Values:
        return {} if self._relayed() is None else {(): await self._dead()}

    async def _ages(self) -> Values:
        """Returns the ages of the queues of actors that were asked so far; one without requests has the age 0."""
        self._waiting = {}
        ages: dict[tuple[str, ...], float] = {}
        if self._relayed() is None:
            return ages
        now = datetime.now(UTC)
        self._actors.update(dict.fromkeys(await list_asked_actors(self._views)))
        for actor in list(self._actors):
            try:
                depth = await self._queues.queue(work_queue(*actor))
            except BusUnusable:  # one that cannot be looked at
                continue
            waiting = depth.waiting if depth else 0
            since = await oldest_waiting(self._views, actor, waiting) if waiting else None
            self._waiting[actor] = waiting
            ages[actor] = max(0.0, (now - since).total_seconds()) if since else 0.0
        return ages

    async def _numbers(self) -> Values:
        return self._waiting
