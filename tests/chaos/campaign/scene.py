"""A part of the campaign on its servers: the deployment at work, people who use it, and who watches the log."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Final
from uuid import uuid4

from tests.chaos.campaign.deployment import Deployment, faked
from tests.chaos.campaign.people import People
from tests.chaos.campaign.servers import Servers
from tests.chaos.campaign.verdict import Delivered, Evidence
from tests.chaos.campaign.watch import BEYOND, Watch
from tests.processes import lines_of

from redraft.app.settings.settings import Settings, read_settings
from redraft.events.backends import open_store
from redraft.events.errors import StoreError
from redraft.events.store.event_store import EventStore
from redraft.events.store.group_commit import Inline
from redraft.projections.backends import FOLLOWED, open_views
from redraft.projections.engine.projector import catch_up
from redraft.projections.record_check import Row

READY: Final = 180.0
"""Seconds in which a deployment serves, on a machine that is busy with something else."""

SUPERVISED: Final = 0.5
"""Seconds between two looks at whether a process has ended by itself."""


class Scene:
    """All that a fault can be done to. `notes` are lines about what happened that is no fault of the record.

    `rate` is how many runs are submitted a second, `freeze` for how many seconds something is frozen. `odd_clock`: the
    second coordinator and worker read the time from the file `clock`; raises Skipped where that cannot be.
    """

    def __init__(
        self,
        folder: Path,
        servers: Servers,
        chance: Random,
        rate: float = 2.0,
        freeze: float = 0.0,
        *,
        odd_clock: bool = False,
    ) -> None:
        name = f"c{uuid4().hex[:10]}"
        self.clock = folder / "clock"
        self.freeze = freeze
        self.servers = servers
        self.chance = chance
        self.notes: Counter[str] = Counter()
        self._unended: list[str] = []
        self.clocks = 0.0
        self._troubles: list[tuple[datetime, datetime]] = []
        self.straight = servers.cluster.new_database(name)
        self.deployment = Deployment(folder, servers.settings(name), faked(self.clock) if odd_clock else {})
        self.watch = Watch(self.straight)
        self.people = People(self._settings(), self.watch, rate, Random(chance.random()))

    def _settings(self) -> Settings:
        given = self.deployment.environment
        return read_settings(
            store=given["REDRAFT_STORE"], bus=given["REDRAFT_BUS"], broker_prefix=given["REDRAFT_BROKER_PREFIX"]
        )

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Everything goes on while the block lasts, and then until every run has ended, or is stuck."""
        await asyncio.to_thread(self.deployment.start)
        try:
            await self.until("all of it serves", self.deployment.serves, READY)
            tasks = [asyncio.create_task(each()) for each in (self.watch.follow, self.people.live, self._supervise)]
            try:
                await self._raised(tasks, self.until("runs end", self._some_ended, READY))
                yield
                self.people.leave()
                await self._raised(tasks, self._settled())
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
        finally:
            for name in await asyncio.to_thread(self.deployment.stop):
                self._unended.append(name)

    async def until(self, what: str, condition: Callable[[], bool], within: float) -> None:
        """Waits for a condition. Raises TimeoutError."""
        end = time.monotonic() + within
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError(f"not within {within:g} s: {what}")
            await asyncio.sleep(0.1)

    async def evidence(self) -> Evidence:
        """What it left."""
        async with await asyncio.to_thread(open_store, self.straight) as store:
            log = await rows_of(store)
            beside = (*await of_log(store), *await _of_views(store, self.straight))
        return Evidence(
            log,
            self.people.said,
            delivered(self.deployment.folder),
            datetime.now(UTC),
            worked(self.deployment.folder),
            beside,
            self.clocks,
            tuple(self._troubles),
            tuple(self._unended),
        )

    @contextmanager
    def trouble(self, lasting: float = 0.0) -> Iterator[None]:
        """Something is broken while the block lasts, and so many seconds longer."""
        begun = datetime.now(UTC)
        try:
            yield
        finally:
            self._troubles.append((begun, datetime.now(UTC) + timedelta(seconds=lasting)))

    def _some_ended(self) -> bool:
        return any(seen.ended for seen in self.watch.runs.values())

    async def _raised(self, tasks: list[asyncio.Task[None]], waiting: object) -> None:
        """Waits, and raises what one of the tasks raises meanwhile: they never end by themselves."""
        waited = asyncio.ensure_future(waiting)  # type: ignore[call-overload]
        await asyncio.wait([waited, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                waited.cancel()
                task.result()
        await waited

    async def _settled(self) -> None:
        """Returns when all that was submitted has ended, or what has not is beyond its deadline and a minute."""
        while not self._is_settled():  # noqa: ASYNC110  other processes move on
            await asyncio.sleep(0.2)

    def _is_settled(self) -> bool:
        now = datetime.now(UTC)
        mended = max((end for _, end in self._troubles), default=now)
        is_calm = now > mended + 2 * BEYOND
        return not self.people.is_at_it and all(is_calm and seen.overdue(now) for seen in self.watch.going.values())

    async def _supervise(self) -> None:
        """Starts again what ended by itself, and tells of it: no fault that is tried here is to end a process."""
        while True:
            await asyncio.sleep(SUPERVISED)
            for name in await asyncio.to_thread(self.deployment.restart_dead):
                self.notes[f"{name.partition('-')[0]} ended by itself"] += 1


def delivered(folder: Path) -> Delivered:
    """What the publisher did in this folder."""
    calls = lines_of(folder / "delivered.txt")
    shelf = [each.read_text() for each in (folder / "shelf").glob("[!.]*")]
    return Delivered(tuple(map(_pair, calls)), dict(map(_pair, shelf)))


def worked(folder: Path) -> Counter[str]:
    """Every piece of work that was begun, and how often."""
    return Counter(lines_of(folder / "worked.txt"))


def _pair(line: str) -> tuple[str, str]:
    key, _, sha = line.rpartition(" ")
    return key, sha


async def rows_of(store: EventStore) -> dict[str, list[Row]]:
    """The rows of every run."""
    runs = dict.fromkeys([event.run async for batch in store.tail(0, follow=False) for event in batch])
    return {run: [Row(*raw) for raw in await store.raw(run)] for run in runs}


async def of_log(store: EventStore) -> list[str]:
    """What is wrong with the log as such."""
    return [f"log: {fault.message}" for fault in (await store.verify_all()).faults]


async def _of_views(store: EventStore, place: str) -> list[str]:
    """What the read models that coordinators kept have, and a rebuild has not, or the other way round."""
    wrong = []
    async with (
        open_views(None, FOLLOWED, threads=lambda name: Inline()) as rebuilt,
        open_views(place, FOLLOWED) as kept,
    ):
        await catch_up(rebuilt, store)
        with suppress(StoreError):
            await catch_up(kept, store)
        for table in ("runs", "steps"):
            every = f"SELECT * FROM {table} ORDER BY 1, 2"  # noqa: S608 - names of our own
            if _plain(await rebuilt.query(every)) != _plain(await kept.query(every)):
                wrong.append(f"projection: the rows of {table} are not those of a rebuild")
    return wrong


def _plain(rows: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """Rows as they are compared: databases order texts and write numbers in ways of their own."""
    return sorted(tuple(map(repr, row)) for row in rows)
