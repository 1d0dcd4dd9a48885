"""What runs say of the arms of choices adds up, on every place alike, and rebuilds from the log alone."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

from msgspec.structs import replace
from tests.projections.logs import ListLog, busy_log, chosen_told, view_of
from tests.streams import START, recorded

from redraft.events.messages.domain_events import ChoicesCredited, Tally
from redraft.events.messages.envelope import Recorded
from redraft.projections.backends import open_views
from redraft.projections.engine.projector import rebuild
from redraft.projections.engine.states import Switched
from redraft.projections.engine.storage import StorageLocation
from redraft.projections.engine.writer import Notice
from redraft.projections.read_models.choices import CHOICES, arms, tallies
from redraft.projections.run_views.narrative import narrate
from redraft.projections.run_views.sentences import history
from redraft.projections.run_views.tree import steps, tree


def log_of(runs: int) -> list[Recorded]:
    """One run after the other."""
    events = [event for number in range(runs) for event in recorded(f"run-{number}", chosen_told(number))]
    return [replace(event, position=position) for position, event in enumerate(events, 1)]


async def test_what_runs_say_of_arms_adds_up(anywhere: StorageLocation) -> None:
    async with view_of(log_of(6), anywhere) as views:
        assert [(a.workflow, a.step, a.arm, a.runs, a.successes, a.failures) for a in await arms(views)] == [
            ("chosen", "write", "quick", 3, 2, 1),
            ("chosen", "write", "slow", 3, 2, 1),
        ]
        assert [round(each.expected, 3) for each in await arms(views)] == [0.6, 0.6]
        assert [(a.arm, a.successes, a.failures) for a in await arms(views, "run-1")] == [("slow", 1, 0)]
        assert await arms(views, since=START + timedelta(days=1)) == []
        assert await tallies(views) == {"chosen": {"write": [Tally("quick", 2, 1), Tally("slow", 2, 1)]}}


async def test_tallies_are_those_that_a_fold_of_the_log_gives(anywhere: StorageLocation) -> None:
    log = busy_log(60)
    counted: Counter[tuple[str, bool]] = Counter()
    for event in log:
        if isinstance(event.data, ChoicesCredited):
            counted.update((each.arm, each.success) for each in event.data.credits)
    async with view_of(log, anywhere) as views:
        (told,) = (await tallies(views))["chosen"].values()
    assert told == [Tally(arm, counted[arm, True], counted[arm, False]) for arm in ("quick", "slow")]
    assert counted.total() > 5


async def test_weights_rebuilt_from_the_log_are_those_that_were_kept(place: StorageLocation) -> None:
    log, told = log_of(30), list[Notice]()
    async with open_views(place, (CHOICES,), told.append) as views:
        for event in log:
            await views.write([event], event.position - 1)
        before = await tallies(views)
        assert await rebuild(views, ListLog(log)) == len(log)
        assert await tallies(views) == before
    assert [(each.projection, each.same) for each in told if isinstance(each, Switched)] == [("choices", True)]


async def test_what_a_fork_repeats_is_not_credited_again(anywhere: StorageLocation) -> None:
    parent = recorded("one", chosen_told(1))
    fork = [replace(each, run="two", repeats=each.id if each.version > 1 else "") for each in parent]
    log = [replace(each, position=at) for at, each in enumerate((*parent, *fork), 1)]
    async with view_of(log, anywhere) as views:
        assert [(each.arm, each.runs) for each in await arms(views)] == [("slow", 1)]


def test_the_story_says_who_was_chosen_over_whom_and_why() -> None:
    events = recorded("one", chosen_told(1))
    said = [line.sentence for line in history(events)]
    assert said[1] == "generator slow was asked to write a draft, chosen over quick"
    assert said[5] == "the choices are credited: a success for slow at write"
    (entry,) = [each for each in narrate(events, str) if each.line.version == 2]
    assert entry.details == ("chosen by how runs ended: slow (not known yet) over quick (3 of 4 accepted)",)
    leaf = next(iter(steps(tree(events).branches)))
    assert (leaf.name, leaf.actor, leaf.chosen) == ("write", "slow", "slow")
