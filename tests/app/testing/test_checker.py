"""What the checker of histories allows while an older release is at work, and what it does not; when a history ends."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from types import SimpleNamespace

import msgspec
import pytest
from msgspec.structs import replace
from tests.app.testing.altered import altered
from tests.app.testing.faults.every import EVERY
from tests.streams import START, recorded

from redraft.app.testing.faults import CALM, Faults
from redraft.app.testing.history import Setting, history
from redraft.app.testing.items import check_items
from redraft.app.testing.loop import SimLoop
from redraft.app.testing.storage import SimDatabase
from redraft.events.messages.content import Brief
from redraft.events.messages.domain_events import (
    DraftGenerated,
    ItemOf,
    LessonStruck,
    RunEnded,
    RunPaused,
    RunQuarantined,
    RunResumed,
    RunStarted,
    StepFailed,
    StepRequested,
)
from redraft.events.messages.plan import RULES, Plan

OLDER = Setting(msgspec.structs.replace(CALM, older=1.0, actor_late=0.5), unasked=False)
"""Every coordinator but the first is of an older release, and actors take their time."""


def test_a_fork_that_begins_when_all_else_has_ended_is_waited_for():
    """People asked for it before, and the message came late."""
    told = history(479)
    parent_ended, fork_ended = (each for each in told.events if isinstance(each.data, RunEnded))
    (fork,) = (each for each in told.events if isinstance(each.data, RunStarted) and each.run == fork_ended.run)
    assert parent_ended.position < fork.position
    assert told.wrong == ()


def test_steps_of_newer_runs_may_wait_while_an_older_release_relays():
    """It keeps the time of all runs as well: nobody ends a request at its deadline until it is replaced."""
    told = history(67, OLDER)
    requests = [each for each in reversed(told.events) if isinstance(each.data, StepRequested)]
    asked = {(each.run, each.data.path): each.time for each in requests}
    answers = [each for each in told.events if isinstance(each.data, DraftGenerated)]
    assert max(each.time - asked[each.run, each.data.path] for each in answers) > timedelta(hours=2)
    assert told.wrong == ()


def test_the_time_for_which_an_older_release_relayed_is_known():
    loop = SimLoop(Random(1))
    database = SimDatabase(loop, Faults(Random(1), CALM))
    database.relays += [(10, 2), (100, 1), (200, 2)]
    assert database.held_up(2, since=0, until=50) == timedelta()
    assert database.held_up(2, since=50, until=250) == timedelta(seconds=100)
    assert database.held_up(1, since=50, until=250) == timedelta()
    loop.dispose()


def test_who_relayed_when_is_known():
    loop = SimLoop(Random(1))
    database = SimDatabase(loop, Faults(Random(1), CALM))
    database.relays += [(0, 1), (100, 2), (200, 1), (300, 2)]
    assert database.relayed(2, since=50, until=350) == 150
    assert database.relayed(1, since=50, until=350) == 300
    assert database.relayed(2, since=0, until=90) == 0
    assert database.relayed(2, since=350, until=400) == 50
    loop.dispose()


@pytest.mark.check
def test_beside_an_older_release_too_what_somebody_has_is_not_taken_to_be_lost():
    right = [each for seed in range(8) if (each := history(seed, OLDER)).planted]
    assert [each.wrong for each in right] == [()] * len(right)
    with altered(
        "actors.runtime.working.in_flight", "MissingRequests._count_misses", "not in has and", "is not None or"
    ):
        told = [history(each.seed, OLDER) for each in right]
    assert any("older release" in "".join(each.planted) and "sought" in "".join(each.wrong) for each in told)


def test_an_item_whose_loop_ends_by_what_it_used_gives_its_draft_though_a_critic_had_failed():
    """The others of its panel sufficed, and its plan came to its end: nothing broke it off."""
    told = history(43263)
    broken = {event.run for event in told.events if isinstance(event.data, StepFailed) and event.data.retry_at is None}
    over = {e.run for e in told.events if isinstance(e.data, RunEnded) and e.data.outcome == "over_budget"}
    assert any("~" in run for run in broken & over)
    assert told.wrong == ()


def test_a_history_goes_on_until_each_submitted_run_has_ended_however_many_runs_of_items_have():
    told = history(42581)
    assert told.wrong == ()
    assert sum(isinstance(event.data, RunStarted) and event.data.of is None for event in told.events) == 2


def test_the_run_of_an_item_that_begins_when_all_else_has_ended_is_waited_for():
    """What starts it came late, when the run around it had ended."""
    told = history(107045)
    ends = {each.run: each.position for each in told.events if isinstance(each.data, RunEnded)}
    starts = {each.run: each.position for each in told.events if isinstance(each.data, RunStarted)}
    assert any("~" in run and position > ends[run.rpartition("~")[0]] for run, position in starts.items())
    assert told.wrong == ()


def test_a_fork_that_begins_while_the_last_coordinator_takes_its_share_is_waited_for():
    told = history(170845)
    begun = [each.position for each in told.events if isinstance(each.data, RunStarted)]
    assert max(begun) > min(each.position for each in told.events if isinstance(each.data, RunEnded))
    assert told.wrong == ()


def test_an_answer_that_a_killed_coordinator_has_may_be_asked_for_once_more():
    """Before the broker hears that it is dead; one that has just begun looks for answers at short intervals."""
    told = history(170903)
    assert any("coordinator 4 is killed" in note.what for note in told.notes)
    assert told.wrong == ()


def test_an_older_release_gives_a_lesson_that_was_struck_out_where_it_cannot_read():
    told = history(169457)
    struck = {each.data.lesson: each for each in told.events if isinstance(each.data, LessonStruck)}
    begun = [each for each in told.events if isinstance(each.data, RunStarted) and each.data.rules < RULES]
    given = {one.id: each.position for each in begun if each.data.lessons for one in each.data.lessons.given}
    assert any(each.position < given.get(lesson, 0) for lesson, each in struck.items())
    assert told.wrong == ()


def test_what_is_recorded_while_the_last_coordinator_takes_its_share_is_read_too():
    """People struck a lesson then: a history waits until subscribers and read models have that as well."""
    told = history(131245)
    assert isinstance(told.events[-1].data, LessonStruck)
    assert max(each.position for each in told.events if isinstance(each.data, RunEnded)) < len(told.events)
    assert told.wrong == ()


def test_an_item_that_people_paused_waits_for_people():
    """The run around it goes on meanwhile, and had been paused before (once seen with seed 105133)."""
    loop = SimLoop(Random(1))
    world = SimpleNamespace(database=SimDatabase(loop, Faults(Random(1), CALM)), declined=set())
    around = recorded("r", [("client", begun_around()), ("client", RunPaused("ann")), ("client", RunResumed("ann"))])
    item = replace(begun_around(), of=ItemOf("r", "Parts[1]"))
    world.database.relays += [(0.0, RULES)]

    def found(key: str) -> list[str]:
        told = recorded(
            "r~1", [("relay", item), ("who", RunPaused("who", key=key)), ("who", RunResumed("who", key=key))]
        )
        moved = [replace(each, position=each.position + 10) for each in told]
        world.database.recorded = {each.position: float(each.position) for each in around}
        world.database.recorded |= {each.position: 1_000.0 * each.position for each in moved}
        return list(check_items([*around, *moved], world))

    assert found("ann's own") == []
    assert [each.partition(":")[0] for each in found("r.2")] == ["held"]
    loop.dispose()


def begun_around() -> RunStarted:
    return RunStarted(Plan("p", ()), Brief("b"), START)


def test_an_item_that_stays_paused_while_the_run_around_it_goes_on_is_seen():
    (planted,) = (fault for fault in EVERY if fault.name.startswith("items stay paused"))
    with planted.planted():
        told = history(planted.seed)
    assert any(each.startswith("held: ") for each in told.wrong)


@pytest.mark.parametrize("seed", [149621, 154705])
def test_an_item_may_ask_for_work_until_it_can_have_been_told_that_the_run_around_it_has_ended(seed: int):
    """Clocks differ by ten minutes in one history; in the other an older release relayed until the item began."""
    told = history(seed)
    ends = {each.run: each.position for each in told.events if isinstance(each.data, RunEnded | RunQuarantined)}
    asked = [each for each in told.events if isinstance(each.data, StepRequested) and "~" in each.run]
    assert any(each.position > ends.get(each.run.rpartition("~")[0], len(told.events)) for each in asked)
    assert told.wrong == ()
