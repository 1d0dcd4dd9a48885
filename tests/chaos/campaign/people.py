"""Those who submit runs at a steady rate, steer them, and decide what they are asked, on a broker that breaks."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final

from tests.chaos.campaign.watch import Seen, Watch
from tests.chaos.campaign.workflow import WORKFLOWS

from redraft.app.client.client import Client
from redraft.app.settings.settings import Settings
from redraft.app.wiring.deployment import open_client
from redraft.events.errors import BusError
from redraft.events.messages.commands import (
    ApproveDraft,
    CancelRun,
    ChangeLimits,
    GuideRun,
    PauseRun,
    RejectDraft,
    ResumeRun,
    SteeringMessage,
)

AGAIN: Final = timedelta(seconds=10)
"""After how long a person says once more what nothing came of."""

MOST: Final = 20
"""Runs that go on at once, at most: where the machine is busy they are submitted less often."""

PATIENCE: Final = 30.0
"""Seconds in which the broker is to take what a person says, before they try again."""


@dataclass
class Said:
    """What was said, and when the broker had confirmed it; `runs` that were submitted, by id."""

    runs: dict[str, datetime] = field(default_factory=dict)
    words: list[tuple[str, str, datetime]] = field(default_factory=list)
    """The id of a message that always means something, the run, the time."""

    steered: int = 0
    wiped: list[datetime] = field(default_factory=list)
    """When the broker's data was taken away: what was confirmed before that may be gone."""


class People:
    """`rate` is how many runs they submit a second, at most; after `leave` they only decide."""

    def __init__(self, settings: Settings, watch: Watch, rate: float, chance: Random) -> None:
        self.said = Said()
        self._settings = settings
        self._watch = watch
        self._rate = rate
        self._chance = chance
        self._told: dict[str, datetime] = {}
        self._leaving = asyncio.Event()
        self._at_it: set[asyncio.Task[None]] = set()

    async def live(self) -> None:
        """Speaks until it is cancelled."""
        async with open_client(self._settings, reads=False) as client, asyncio.TaskGroup() as group:
            group.create_task(self._submit_all(client, group))
            group.create_task(self._steer(client))

    def leave(self) -> None:
        """Submits and steers no more."""
        self._leaving.set()

    @property
    def is_at_it(self) -> bool:
        """Whether something that was begun to be said is not said yet."""
        return bool(self._at_it)

    def emptied(self) -> None:
        """Has every run that is not recorded submitted once more: the broker lost what it had confirmed."""
        self.said.wiped.append(datetime.now(UTC))

    async def _submit_all(self, client: Client, group: asyncio.TaskGroup) -> None:
        number = 0
        while not self._leaving.is_set():
            if len(self._at_it) + len(self._watch.going) < MOST:
                number += 1
                self._begin(group, self._submit(client, number))
            with suppress(TimeoutError):
                async with asyncio.timeout(1 / self._rate):
                    await self._leaving.wait()

    async def _submit(self, client: Client, number: int) -> None:
        """Submits until it is confirmed, and once more whenever the broker was emptied before it was recorded."""
        workflow = WORKFLOWS[self._chance.choice((0, 0, 1, 1, 2))]
        emptied = -1
        while emptied != len(self.said.wiped):
            emptied = len(self.said.wiped)
            with suppress(BusError, TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    run = await client.submit(workflow, f"brief {number}", key=f"k{number}")
                self.said.runs[run] = datetime.now(UTC)
                await self._recorded(run, emptied)
                continue
            emptied = -1
            await asyncio.sleep(0.5)

    async def _recorded(self, run: str, emptied: int) -> None:
        """Returns when the run is in the log, or the broker was emptied meanwhile, or people have left."""
        while run not in self._watch.runs and len(self.said.wiped) == emptied:
            if self._leaving.is_set() and self.said.runs[run] + 3 * AGAIN < datetime.now(UTC):
                return
            await asyncio.sleep(0.5)

    async def _steer(self, client: Client) -> None:
        while True:
            await asyncio.sleep(self._chance.uniform(0.1, 0.5))
            for run, seen in list(self._watch.going.items()):
                if word := self._due(run, seen) or (None if self._leaving.is_set() else self._unasked(run, seen)):
                    self._told[run] = datetime.now(UTC)
                    await self._say(client, word)

    def _due(self, run: str, seen: Seen) -> SteeringMessage | None:
        """What a run waits for, if nobody said it lately."""
        if self._told.get(run, datetime.min.replace(tzinfo=UTC)) + AGAIN > datetime.now(UTC):
            return None
        if seen.paused:
            return ResumeRun(run, by="ann")
        if seen.asked is not None:
            no = self._chance.random() < 0.1
            return RejectDraft(run, seen.asked, "no", "ben") if no else ApproveDraft(run, seen.asked, "", "ben")
        return None

    def _unasked(self, run: str, seen: Seen) -> SteeringMessage | None:
        """Now and then a word that nobody waits for."""
        if seen.paused or self._chance.random() > 0.03:
            return None
        match self._chance.random():
            case chance if chance < 0.5:
                return GuideRun(run, "shorter", by="ann")
            case chance if chance < 0.7:
                return ChangeLimits(run, "", None, self._chance.randint(2, 5), by="ann")
            case chance if chance < 0.9:
                return PauseRun(run, by="ann")
            case _:
                return CancelRun(run, "enough", by="ann")

    async def _say(self, client: Client, word: SteeringMessage) -> None:
        with suppress(BusError, TimeoutError):
            async with asyncio.timeout(PATIENCE):
                said = await client.steer(word)
            self.said.steered += 1
            if isinstance(word, GuideRun):
                self.said.words.append((said, word.run, datetime.now(UTC)))

    def _begin(self, group: asyncio.TaskGroup, work: Coroutine[Any, Any, None]) -> None:
        task = group.create_task(work)
        self._at_it.add(task)
        task.add_done_callback(self._at_it.discard)
