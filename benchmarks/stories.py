"""Realistic runs for a long log: recorded once by Redraft itself, then told again with other ids and times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from random import Random
from typing import Final
from uuid import UUID

from msgspec.structs import replace

from redraft.actors import (
    Critique,
    Draft,
    Receipt,
    Retry,
    Revision,
    StepError,
    Workflow,
    critic,
    generator,
    parallel,
    publisher,
    refiner,
    score,
    step,
)
from redraft.app import open_local, read_settings
from redraft.events.errors import Conflict, Unstorable
from redraft.events.messages.codec import GENESIS
from redraft.events.messages.domain_events import RunStarted
from redraft.events.messages.envelope import Origin, Recorded
from redraft.events.store.append import Append, NewEvent
from redraft.events.store.event_store import EventStore

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
AT_ONCE: Final = 64
"""How many runs go on at the same time."""
TURN: Final = 4
"""How many events of a run are recorded together at most."""

_SENTENCES: Final = (
    "Tides exist because gravity weakens with distance. ",
    "The Moon pulls harder on the near side of the Earth than on its centre. ",
    "The far side bulges too, because the Earth is pulled away from its water. ",
    "As the Earth turns, most coasts meet both bulges, twice a day. ",
)
_ADVICE: Final = ("say why the far side bulges", "name the forces", "shorten the first part", "give one example")


def workflows(random: Random) -> Iterator[Workflow]:
    """Loops of one critic, and of three side by side; drafts of about 1 KB; some tries fail, some advice comes back."""

    @generator
    def write() -> str:
        return "".join(random.choice(_SENTENCES) for _ in range(random.randint(8, 20)))

    @critic
    def judge(draft: Draft) -> Critique:
        if random.random() < 0.03:
            raise StepError("the model is busy (503)")
        said = random.sample(_ADVICE, random.randint(0, 3))
        return Critique(random.uniform(0.4, 0.97), strengths=("a clear subject",), suggestions=tuple(said))

    @critic
    def spell(draft: Draft) -> Critique:
        return Critique(random.uniform(0.6, 1.0), errors=("line 3: teh",) if random.random() < 0.3 else ())

    @critic
    def facts(draft: Draft) -> Critique:
        return Critique(random.uniform(0.7, 1.0))

    @refiner
    def improve(draft: Draft, critique: Critique) -> Revision:
        return Revision(draft.text[1:] + draft.text[0], changes=critique.suggestions)

    @publisher
    def save(draft: Draft) -> Receipt:
        return Receipt(f"out/{draft.sha256[:8]}.md", "1 file")

    tried = step(judge, retry=Retry(attempts=4, initial=0.001))
    loop = Workflow("article").start_with(write)
    loop = loop.repeat_until(score >= 0.9, max_iterations=4, name="Refinement", body=[tried, improve])
    yield loop.finally_(save)
    panel = Workflow("panel").start_with(write)
    critics = parallel("critics", tried, spell, facts, combine="mean")
    panel = panel.repeat_until(score >= 0.92, max_iterations=3, name="Refinement", body=[critics, improve])
    yield panel.finally_(save)


async def stories(kinds: int, seed: int = 0) -> list[tuple[Recorded, ...]]:
    """The events of so many different runs, as Redraft recorded them."""
    random = Random(seed)
    told: list[tuple[Recorded, ...]] = []
    for workflow in workflows(random):
        async with open_local(read_settings(store="memory:"), workflow.actors.values()) as runtime:
            plan = workflow.plan
            runs = [await runtime.client.submit(plan, "Why tides exist") for _ in range(kinds // 2)]
            for run in runs:
                await runtime.client.wait(run)
                told.append(await runtime.client.history(run))
    return told


async def fill(store: EventStore, events: int, seed: int = 0) -> None:
    """Records events through the store's own appends, until it has so many."""
    there = await store.head()
    if there >= events:
        return
    random = Random(seed + there)
    kinds = await stories(40, seed)
    going: list[_Telling] = []
    left, number = events - there, there
    last: dict[str, str] = {}
    while left > 0:
        while len(going) < AT_ONCE:
            going.append(_Telling(random, kinds[random.randrange(len(kinds))], number))
            number += 1
        turn = [append for telling in going if (append := telling.turn(last))]
        for append, recorded in zip(turn, await store.append_all(turn), strict=True):
            if isinstance(recorded, Conflict | Unstorable):
                raise recorded
            last[append.run] = recorded[-1].hash
        left -= sum(len(append.events) for append in turn)
        going = [telling for telling in going if not telling.done]


class _Telling:
    """A run that is told once more, a few events at a time."""

    def __init__(self, random: Random, events: Sequence[Recorded], number: int) -> None:
        self.run = f"01jh{number:08d}{UUID(int=random.getrandbits(128)).hex[:14]}"
        self._random = random
        self._version = 0
        self._later = START + timedelta(seconds=number * 3) - events[0].time
        self._events = iter(events)
        self._ids: dict[str, str] = {}
        self._whole = len(events)

    @property
    def done(self) -> bool:
        return self._version == self._whole

    def turn(self, last: Mapping[str, str]) -> Append | None:
        """Tells the next event, on the one whose hash is the last of the run."""
        came = tuple(islice(self._events, self._random.randint(1, TURN)))
        if not came:
            return None
        append = Append(self.run, self._version, tuple(map(self._again, came)), last.get(self.run, GENESIS))
        self._version += len(came)
        return append

    def _again(self, event: Recorded) -> NewEvent:
        number = f"{self.run}-{event.version}"
        cause = self._ids.get(event.causation, event.causation)
        self._ids[event.id] = number
        origin = Origin(number, event.actor, cause, self.run)
        data = event.data
        if isinstance(data, RunStarted):
            data = replace(data, tags=(f"week-{self._random.randint(1, 52)}",))
        return NewEvent(origin, event.time + self._later, data)
