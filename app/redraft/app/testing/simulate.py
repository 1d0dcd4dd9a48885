"""Tests a user's own workflow and actors in simulated histories with faults.

Coordinators, relay, workers and timekeeper are the shipped ones, on an event loop with virtual time; the user's actors
run on it too. Each seed is one history, the same each time.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from redraft.actors import Workflow
from redraft.app.client.result import as_brief
from redraft.app.testing.faults import CALM, Odds, check_odds
from redraft.app.testing.history import History, Setting
from redraft.app.testing.nodes import Outside
from redraft.app.testing.own_actors import forbid_real_work
from redraft.app.testing.stage import ActorsGiven, Check, Played, Stage
from redraft.events.messages.content import Brief, check_brief
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import Plan
from redraft.projections.run_views.sentences import sentences as tell

BRIEFS: Final = ("Why tides exist", "Why the sky is blue", "Why ice floats")


class SimulationFailed(AssertionError):
    """A history in which something is wrong: `seed` reproduces it, `wrong` says what, `faults` are those it takes."""

    def __init__(self, text: str, seed: int, wrong: Sequence[str], faults: Sequence[str]) -> None:
        super().__init__(text)
        self.seed = seed
        self.wrong = tuple(wrong)
        self.faults = tuple(faults)


class Simulated(msgspec.Struct, frozen=True):
    """The extent of a simulation that found nothing wrong: histories, submitted runs, and the number of each outcome.

    `faults` is the number of planted faults, `calls` the number of calls of actors.
    """

    seeds: int
    runs: int
    outcomes: dict[str, int]
    faults: int
    calls: int


def simulate(
    workflow: Workflow | Plan,
    actors: ActorsGiven | Callable[[Outside], ActorsGiven] = (),
    *,
    seeds: int | Iterable[int] = 200,
    check: Check | None = None,
    briefs: Sequence[Brief | str] = BRIEFS,
    odds: Odds = Odds(),  # noqa: B008 - frozen
) -> Simulated:
    """Runs a workflow with these actors under faults, one history for each seed, and returns what was tested.

    Messages are lost, duplicated, delayed and reordered; the database fails before and after commits; workers and
    coordinators are killed, also during an actor's call, and start again, or stall for minutes.

    `actors` replace those of the same role and name in the workflow. A function makes them from an `Outside` for each
    worker that starts, so that a crash loses what they remember. `seeds` is a number of seeds, from 0, or the seeds.
    `check` is called at the end of each history with its `Outside` and all recorded events, and raises AssertionError,
    or returns False, when something is wrong. Each history has one to three runs, each with a different one of the
    `briefs`.

    Raises SimulationFailed, an AssertionError with the seed, the story and the faults that it takes, when an effect
    reported to `Outside.did` happened twice, a publication returned two receipts, the check failed, a run is stuck, the
    record violates its plan, or every run fails without faults. Raises RealWork when an actor uses the network, a
    program, a thread or the real clock, ActorError for an actor that is missing or that no step asks for, PlanError for
    a faulty plan, ContentError for a brief that no run may have, ValueError for seeds, briefs or odds with which
    nothing is tested, TypeError for an async `check` and for arguments of other types, RuntimeError when an event loop
    is already running.
    """
    __tracebackhide__ = True
    _refuse_loop()
    numbers, texts = read_seeds(seeds), read_briefs(briefs)
    check_odds(odds)
    stage = Stage(workflow, actors, check, texts)
    options = _name_options(check, briefs, odds)
    outcomes: Counter[str] = Counter()
    faults = calls = 0
    with forbid_real_work():
        _play(stage, numbers[0], CALM, options)
        for seed in numbers:
            played = _play(stage, seed, odds, options)
            outcomes.update(played.outcomes())
            faults += len(played.history.planted)
            calls += played.calls
    if not calls:
        raise ValueError("with these odds no actor was called in any history: nothing was tested")
    return Simulated(len(numbers), outcomes.total(), dict(outcomes.most_common()), faults, calls)


def _play(stage: Stage, seed: int, odds: Odds, options: str) -> Played:
    """Makes the history of a seed. Raises SimulationFailed, with the fewest faults that it takes, if it goes wrong."""
    __tracebackhide__ = True
    played = stage.play(seed, Setting(odds))
    if not played.wrong:
        return played
    fewest = stage.shorten(played)
    replay = f"simulate({stage.name}, actors, seeds=[{seed}]{options})"
    raise SimulationFailed(
        story(stage.name, fewest, replay), seed, fewest.wrong, fewest.history.planted
    ) from fewest.cause


def _name_options(check: Check | None, briefs: Sequence[Brief | str], odds: Odds) -> str:
    """Returns the arguments to replay a history with, by their names, where others than the usual ones were given."""
    name = getattr(check, "__name__", "")
    named = {
        f"check={name if name.isidentifier() else 'check'}": check is not None,
        "briefs=briefs": briefs is not BRIEFS,
        "odds=odds": odds != Odds(),
    }
    return "".join(f", {each}" for each, is_given in named.items() if is_given)


def read_seeds(seeds: int | Iterable[int]) -> Sequence[int]:
    """Returns the seeds. Raises TypeError for another type, ValueError for a seed below 0, or where there is none."""
    if isinstance(seeds, str | bytes | bool) or not isinstance(seeds, int | Iterable):
        raise TypeError(f"seeds: give how many, such as 200, or a list of them, not {seeds!r}")
    numbers = range(seeds) if isinstance(seeds, int) else tuple(seeds)
    for each in numbers if isinstance(numbers, tuple) else ():
        if type(each) is not int or each < 0:
            raise ValueError(f"seeds: {each!r} is none; give whole numbers from 0 on")
    if not numbers:
        raise ValueError("give at least one seed and one brief")
    return numbers


def read_briefs(briefs: Sequence[Brief | str]) -> tuple[Brief | str, ...]:
    """Returns the briefs. Raises TypeError for no list, ValueError for an empty one, ContentError for a wrong brief."""
    if isinstance(briefs, str | Brief) or not isinstance(briefs, Iterable):
        raise TypeError(f"briefs: give a list of texts, such as [{briefs!r}]")
    texts = tuple(briefs)
    if not texts:
        raise ValueError("give at least one seed and one brief")
    for number, each in enumerate(texts, 1):
        check_brief(as_brief(each), f"brief {number}")
    return texts


def _refuse_loop() -> None:
    """Raises RuntimeError when an event loop is running, as loops cannot be nested."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError("simulate runs an event loop of its own: call it from a test that is not async")


LAST: Final = 40
"""How many lines of what happened are shown, the last."""


def story(workflow: str, played: Played, replay: str) -> str:
    """Returns several lines; runs are numbered in the order in which they began."""
    history, wrong = played.history, played.wrong
    runs = list(dict.fromkeys(event.run for event in history.events))
    concerned = [run for run in runs if any(run in each for each in wrong)] or runs
    happened = [f"{at:9.2f} s  {what}" for at, what in _list_happenings(history, concerned)]
    lines = [
        f"workflow {workflow} goes wrong with seed {history.seed}; replay it: {replay}",
        *(f"  wrong: {each}" for each in wrong),
        *_list_faults(history.planted, is_shortened=played.is_shortened),
        "  what happened, in seconds since the start" + (f" (the last {LAST} lines):" if len(happened) > LAST else ":"),
        *(f"  {line}" for line in happened[-LAST:]),
    ]
    text = "\n".join(lines)
    for number, run in enumerate(runs, 1):
        text = text.replace(f"run {run}", f"run {number}").replace(run, f"run {number}")
    return text


def _list_faults(planted: Sequence[str], *, is_shortened: bool) -> list[str]:
    if not planted:
        return ["  nothing went wrong on purpose"]
    fault = "this fault" if len(planted) == 1 else f"these {len(planted)} faults"
    heading = f"  it takes {fault}, and nothing else:" if is_shortened else f"  it had {fault}:"
    return [heading, *(f"    {each}" for each in planted)]


def _list_happenings(history: History, runs: Sequence[str]) -> list[tuple[float, str]]:
    """Returns the events of these runs, and notes on them or on no single run, in order of time."""
    notes = [(each.at, each.what) for each in history.notes if not each.run or each.run in runs]
    return sorted([*_list_events(history, runs), *notes], key=lambda each: each[0])


def _list_events(history: History, runs: Sequence[str]) -> Iterator[tuple[float, str]]:
    """Yields events by true time, whatever the clocks of processes showed."""
    times = dict(zip((event.id for event in history.events), history.recorded, strict=True))
    by_run: defaultdict[str, list[Recorded]] = defaultdict(list)
    for event in history.events:
        by_run[event.run].append(event)
    for run in runs:
        for event, line in zip(by_run[run], tell(by_run[run]), strict=True):
            yield times[event.id], f"run {run}: {line.sentence}"
