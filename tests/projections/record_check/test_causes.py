"""False causes, times and ids planted in records that coordinators made: the checker finds each at its event."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from functools import cache

import pytest
from msgspec.structs import replace

from redraft.app.testing.history import Setting, history
from redraft.events.messages.domain_events import (
    DraftCritiqued,
    DraftRefined,
    LoopEnded,
    RunEnded,
    RunStarted,
    StepFailed,
    StepRequested,
    VerdictLate,
)
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import Parallel, nodes_of
from redraft.projections.record_check import check_events

Run = Sequence[Recorded]


@cache
def runs() -> tuple[Run, ...]:
    """The runs of some simulated histories."""
    events = [(seed, event) for seed in range(14) for event in history(seed, Setting()).events]
    kept: dict[tuple[int, str], list[Recorded]] = {(seed, event.run): [] for seed, event in events}
    for seed, event in events:
        kept[seed, event.run].append(event)
    return tuple(kept.values())


def where(is_it: Callable[[Recorded], bool]) -> tuple[Run, int]:
    """The first run with such an event, and its index there."""
    own = ((run, at) for run in runs() for at, event in enumerate(run) if at and not event.repeats)
    return next((run, at) for run, at in own if is_it(run[at]))


def found(run: Run, at: int, **other: object) -> list[tuple[str, int]]:
    """What is found anew where an event is another, with the code and the index of each finding."""
    known = check_events(run)
    now = check_events([*run[:at], replace(run[at], **other), *run[at + 1 :]])
    return [(each.code, each.version - 1) for each in now if each not in known]


def is_first(event: Recorded, *kinds: type) -> bool:
    return event.id.endswith(".0") and isinstance(event.data, kinds)


@pytest.mark.parametrize("kind", [DraftCritiqued, DraftRefined, VerdictLate])
def test_an_answer_is_caused_by_its_request(kind: type) -> None:
    run, at = where(lambda event: is_first(event, kind))
    assert found(run, at, causation="no.such.event") == [("cause", at)]
    assert found(run, at, causation=run[0].id) == [("cause", at)]
    assert found(run, at, causation=run[-1].id) == [("cause", at)]
    assert found(run, at, causation="") == []  # the answer of a worker that does not name what it answers


def test_the_request_of_another_attempt_is_not_the_cause() -> None:
    run, at = where(lambda event: is_first(event, StepRequested))
    again = run[at].data
    assert isinstance(again, StepRequested)
    answered = next(n for n, each in enumerate(run) if each.causation == run[at].id and is_first(each, object))
    before = next(each for each in run if isinstance(each.data, StepRequested) and each.data.path == again.path)
    assert before.id != run[at].id
    assert found(run, answered, causation=before.id) == [("cause", answered)]


@pytest.mark.parametrize("kind", [StepFailed, StepRequested])
def test_a_failure_and_a_retry_name_no_other_event_of_their_run(kind: type) -> None:
    run, at = where(lambda event: is_first(event, kind))
    assert found(run, at, causation=run[0].id) == [("cause", at)]
    assert found(run, at, causation="lost when the log was set back") == []


@pytest.mark.parametrize("kind", [StepRequested, LoopEnded, RunEnded])
def test_what_was_decided_is_caused_by_the_first_event_of_its_decision(kind: type) -> None:
    run, at = where(lambda event: not is_first(event, object) and isinstance(event.data, kind))
    others = ["", "no.such.event", *(each.id for each in run if each.id != run[at].causation)]
    assert all(found(run, at, causation=other) == [("cause", at)] for other in others)


def test_what_was_decided_has_time_chain_and_author_of_its_decision() -> None:
    run, at = where(lambda event: not is_first(event, object) and isinstance(event.data, LoopEnded))
    assert found(run, at, time=run[at].time - timedelta(days=9_000)) == [("decision", at)]
    assert found(run, at, correlation="another") == [("decision", at)]
    assert found(run, at, actor="ann") == [("decision", at)]


def test_each_event_has_the_id_that_its_decision_gives() -> None:
    run, at = where(lambda event: not is_first(event, object) and isinstance(event.data, LoopEnded))
    assert ("decision", at) in found(run, at, id="another")
    assert ("decision", at) in found(run, at, id=f"{run[at].id}1", causation="no.such.event")


def test_an_event_from_outside_is_not_caused_by_a_later_one() -> None:
    run, at = where(lambda event: event.actor == "client" and bool(event.id.endswith(".0")))
    assert found(run, at, causation=run[-1].id) == [("cause", at)]
    assert found(run, at, causation="said elsewhere") == []


@pytest.mark.parametrize("days", [-1, 0, 1, 9])
def test_an_answer_is_due_within_what_its_step_may_take(days: int) -> None:
    run, at = where(lambda event: isinstance(event.data, StepRequested))
    late = run[at].time + timedelta(days=days)
    assert ("due", at) in found(run, at, data=replace(run[at].data, due=late))


@pytest.mark.parametrize(
    "due", [datetime.max, datetime.min, datetime.max.replace(tzinfo=timezone(-timedelta(hours=12)))]
)
def test_a_time_at_the_end_of_the_calendar_is_found_too(due: datetime) -> None:
    run, at = where(lambda event: isinstance(event.data, StepRequested))
    assert ("due", at) in found(run, at, data=replace(run[at].data, due=due))


def test_a_critic_of_a_panel_may_be_asked_after_the_time_of_the_panel() -> None:
    """As a budget has critics asked one after the other: it is due already then."""
    panels = [run for run in runs() if "Panel" in hurried(run)]
    run, at = next((run, at) for run in panels for at, event in enumerate(run) if is_asked_in_panel(event))
    asked = run[at].data
    assert isinstance(asked, StepRequested)
    before = replace(asked, due=run[at].time - timedelta(seconds=1))
    assert "due" not in [code for code, _ in found(run, at, data=before)]


def hurried(run: Run) -> list[str]:
    """The names of the panels of a run's plan that have a deadline."""
    begun = run[0].data
    assert isinstance(begun, RunStarted)
    return [node.name for _, node in nodes_of(begun.plan.steps) if isinstance(node, Parallel) and node.deadline]


def is_asked_in_panel(event: Recorded) -> bool:
    return isinstance(event.data, StepRequested) and "/Panel/" in event.data.path
