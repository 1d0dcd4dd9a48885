"""Whether what was recorded is whole: every step once, in order, verified, and how much was done twice."""

from __future__ import annotations

from bisect import bisect
from collections import defaultdict
from collections.abc import Sequence

from tests.chaos.loop import DRAFTS
from tests.chaos.scene import Scene

from redraft.events.backends import open_store
from redraft.events.messages.domain_events import (
    DraftCritiqued,
    DraftGenerated,
    DraftPublished,
    DraftRefined,
    RunEnded,
    RunStarted,
    StepRequested,
)
from redraft.events.messages.envelope import Recorded

ANSWERS = DraftGenerated | DraftCritiqued | DraftRefined | DraftPublished
STEPS = [
    "write",
    *(f"Loop[{number}]/{actor}" for number in range(1, DRAFTS) for actor in ("judge", "improve")),
    f"Loop[{DRAFTS}]/judge",
    "save",
]


async def require_whole(scene: Scene, runs: Sequence[str]) -> None:
    """Each of these runs, and the first one, has its steps once and in order, and `audit` verifies all of them."""
    found = await _histories(scene)
    assert set(runs) < set(found)
    assert len(found) == len(runs) + 1
    for run, events in found.items():
        _require_whole_run(run, events)
    verified = await scene.json("audit", "--all", "--verify", within=240)
    assert (verified["runs"], verified["events"]) == (len(found), sum(map(len, found.values())))
    assert (verified["faults"], verified["fault_count"]) == ([], 0)


def doubles(scene: Scene, faults: Sequence[int] = (0,)) -> list[int]:
    """How many pieces of work were begun again after each fault; `faults` are how many had begun when it came.

    Every step of every run was done at least once, none before there was a fault twice.
    """
    worked = scene.worked()
    runs = {line.split()[0] for line in worked}
    assert set(worked) == {f"{run} {step}#1" for run in runs for step in STEPS}
    seen: set[str] = set()
    again = [0] * (len(faults) + 1)
    for number, line in enumerate(worked):
        again[bisect(faults, number)] += line in seen
        seen.add(line)
    assert again[0] == 0
    return again[1:]


def _require_whole_run(run: str, events: Sequence[Recorded]) -> None:
    assert [event.version for event in events] == list(range(1, len(events) + 1)), run
    asked = [(event.data.path, event.data.attempt) for event in events if isinstance(event.data, StepRequested)]
    answered = [(event.data.path, event.data.attempt) for event in events if isinstance(event.data, ANSWERS)]
    assert asked == answered == [(step, 1) for step in STEPS], run
    assert [event.version for event in events if isinstance(event.data, RunStarted)] == [1], run
    ends = [(event.version, event.data.outcome) for event in events if isinstance(event.data, RunEnded)]
    assert ends == [(len(events), "accepted")], run


async def _histories(scene: Scene) -> dict[str, list[Recorded]]:
    found: defaultdict[str, list[Recorded]] = defaultdict(list)
    async with open_store(scene.store) as store:
        async for batch in store.tail(0, follow=False):
            for event in batch:
                found[event.run].append(event)
    return dict(found)
