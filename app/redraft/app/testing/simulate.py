"""`simulate(workflow, actors, seeds=200)`: a user's own workflow and actors in histories in which all goes wrong.

Coordinators, relay, workers and timekeeper are the shipped ones, on a loop on which time is a number; the actors are
the user's own, and run on it too. Each seed is one history, the same each time.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from redraft.actors import Workflow
from redraft.app.testing.faults import CALM, Odds
from redraft.app.testing.outside import Outside
from redraft.app.testing.stage import Check, Course, Given, Played, Stage
from redraft.app.testing.story import story
from redraft.events.content import Brief
from redraft.events.plan import Plan

BRIEFS: Final = ("Why tides exist", "Why the sky is blue", "Why ice floats")


class SimulationFailed(AssertionError):
    """A history in which something is wrong: `seed` makes it again, `wrong` says what, `faults` what it takes."""

    def __init__(self, told: str, seed: int, wrong: Sequence[str], faults: Sequence[str]) -> None:
        super().__init__(told)
        self.seed = seed
        self.wrong = tuple(wrong)
        self.faults = tuple(faults)


class Simulated(msgspec.Struct, frozen=True):
    """What was tried and nothing was wrong with: so many histories with so many runs, and how often each way to end.

    `faults` is how many things went wrong on purpose, `calls` how often actors were called.
    """

    seeds: int
    runs: int
    outcomes: dict[str, int]
    faults: int
    calls: int


def simulate(
    workflow: Workflow | Plan,
    actors: Given | Callable[[Outside], Given] = (),
    *,
    seeds: int | Iterable[int] = 200,
    check: Check | None = None,
    briefs: Sequence[Brief | str] = BRIEFS,
    odds: Odds = Odds(),  # noqa: B008 - frozen
) -> Simulated:
    """Runs a workflow with these actors under faults, a history for each seed, and says what was tried.

    Letters get lost, come twice, late and in another order; the database fails before and after it has recorded;
    workers and coordinators are killed, also in the middle of an actor's work, and start again, or stand still for
    minutes.

    `actors` take the place of those of the same role and name that the workflow was built with. A function makes them
    from an `Outside` for each worker that starts, so that a crash takes what they remember. `seeds` is how many, from
    0, or which. `check` is called at the end of each history with its `Outside` and all recorded events, and raises
    AssertionError, or returns False, where something is not as it should be. Each history has one to three runs, each
    with another of the `briefs`.

    Raises SimulationFailed, an AssertionError that tells the seed, the story and the faults that it takes, when an
    effect that was told to `Outside.did` happened twice, a publication gave two receipts, the check failed, a run is
    stuck, the record is not what its plan allows, or every run fails where nothing goes wrong. Raises RealWork when an
    actor reaches for the network, a program, a thread or the real clock, ActorError for an actor that is missing,
    PlanError for a faulty plan, ValueError without a seed or a brief, RuntimeError where an event loop runs already.
    """
    __tracebackhide__ = True
    _refuse_loop()
    numbers = range(seeds) if isinstance(seeds, int) else tuple(seeds)
    if not numbers or not briefs:
        raise ValueError("give at least one seed and one brief")
    stage = Stage(workflow, actors, check, tuple(briefs))
    calm = stage.play(Course(numbers[0], CALM))
    if calm.wrong:
        raise _failed(stage.shortened(calm), stage.name, check) from calm.cause
    outcomes: Counter[str] = Counter()
    faults = calls = 0
    for seed in numbers:
        played = stage.play(Course(seed, odds))
        if played.wrong:
            fewest = stage.shortened(played)
            raise _failed(fewest, stage.name, check) from fewest.cause
        outcomes.update(played.outcomes())
        faults += len(played.history.planted)
        calls += played.calls
    return Simulated(len(numbers), outcomes.total(), dict(outcomes.most_common()), faults, calls)


def _failed(played: Played, workflow: str, check: Check | None) -> SimulationFailed:
    seed = played.course.seed
    checked = f", check={getattr(check, '__name__', '...')}" if check else ""
    told = story(workflow, played.history, played.wrong, f"simulate({workflow}, actors, seeds=[{seed}]{checked})")
    return SimulationFailed(told, seed, played.wrong, played.history.planted)


def _refuse_loop() -> None:
    """Raises RuntimeError in code that an event loop runs: one cannot run within another."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError("simulate runs an event loop of its own: call it from a test that is not async")
