"""Runs whose critics count: what ends a loop, what panels keep, and what is not known."""

from __future__ import annotations

from typing import Any

import pytest
from tests.actors.deciding.test_criteria import Course, check

from redraft.actors.conditions.text import parse_condition
from redraft.actors.deciding.forking import shape
from redraft.actors.plans.check import check_ready
from redraft.events.errors import PlanError
from redraft.events.messages.commands import Refined
from redraft.events.messages.content import Critique
from redraft.events.messages.domain_events import LoopEnded, StepFailed
from redraft.events.messages.plan import Node, Parallel, Plan, Repeat, Retry, Step

WRITE, IMPROVE = Step("generator", "write", "write"), Step("refiner", "improve", "improve")


def critic(name: str = "count", *measures: str, **more: Any) -> Step:
    return Step("critic", name, name, retry=Retry(1), measures=measures or ("words", "failing"), **more)


def loop(*critics: Node, until: str, **more: Any) -> Plan:
    body = (*critics, IMPROVE)
    return check_ready(Plan("p", (WRITE, Repeat("Refinement", parse_condition(until), 6, body, **more))))


def said(score: float = 0.5, **measures: float) -> Critique:
    return Critique(score, measures=measures)


def ended(run: Course) -> bool:
    return any(isinstance(event, LoopEnded) for event in run.events)


@pytest.mark.parametrize(
    ("until", "short", "good"),
    [
        ("failing == 0 and words >= 300", said(words=300, failing=1), said(words=300, failing=0)),
        ("failing == 0 and words >= 300", said(words=299, failing=0), said(words=301, failing=0)),
        ("count.words < 0", said(words=0, failing=0), said(words=-1, failing=0)),
        ("not failing > 0", said(words=1, failing=0.5), said(words=1, failing=0)),
        ("failing", said(words=1, failing=0.5), said(words=1, failing=1)),
        ("change(words) < 0.1", said(words=300, failing=0), said(words=329, failing=0)),
        ("change(words) >= 0.5 and score < 1", said(words=0, failing=0), said(words=2, failing=0)),
        ("change(words) == 0", said(words=0, failing=0), said(words=0, failing=0)),
        ("change(words) > 0", said(words=10**14, failing=0), said(words=10**14 + 1, failing=0)),
    ],
)
def test_a_loop_ends_by_what_is_counted(until: str, short: Critique, good: Critique) -> None:
    run = Course(loop(critic(), until=until))
    run.judge(short)
    assert not ended(run)
    run.judge(good)
    assert (run.last.outcome, run.last.draft.version) == ("accepted", 2)
    check(run)


def test_a_change_is_from_the_draft_judged_before() -> None:
    run = Course(loop(critic(), until="change(words) < 0.1"))
    for words in (100, 110, 90, 101):
        run.judge(said(words=words, failing=0))
        assert not ended(run)
    run.judge(said(words=110, failing=0))
    assert run.last.reason == "the condition holds: change(words) 0.089109 < 0.1"
    check(run)


@pytest.mark.parametrize(
    ("until", "reason"),
    [
        ("not words >= 9", "not words 5 >= 9"),
        ("not (words >= 9 or failing == 1)", "not words 5 >= 9, not failing 0 == 1"),
        ("not (words >= 9 and failing == 0)", "not words 5 >= 9"),
        ("not not words >= 5", "words 5 >= 5"),
        ("failing == 0 and not score >= 0.5", "failing 0 == 0, not score 0.40 >= 0.5"),
        ("not (approved or score >= 0.5)", "not approved, not score 0.40 >= 0.5"),
    ],
)
def test_the_reason_tells_what_held_under_not(until: str, reason: str) -> None:
    run = Course(loop(critic("count", "words", "failing"), until=until))
    run.judge(said(0.4, words=5, failing=0))
    assert run.last.outcome == "accepted"
    assert run.last.reason == f"the condition holds: {reason}"
    check(run)


def test_the_reason_tells_numbers_as_they_are() -> None:
    run = Course(loop(critic(), until="words >= 1000000 and failing == 0"))
    run.judge(said(words=1234567, failing=0))
    assert run.last.reason == "the condition holds: words 1,234,567 >= 1000000, failing 0 == 0"


@pytest.mark.parametrize("combine", ["min", "mean", "veto"])
def test_a_panel_keeps_what_each_counts(combine: Any) -> None:
    panel = Parallel("Panel", (critic("one", "words"), critic("two", "words", "lines")), combine=combine)
    run = Course(loop(panel, until="one.words >= 5 and two.words >= 7 and lines == 2"))
    run.judge(one=said(words=5), two=said(words=6, lines=2))
    assert not ended(run)
    run.judge(one=said(words=5), two=said(words=7, lines=2))
    assert run.last.outcome == "accepted"
    check(run)


@pytest.mark.parametrize(
    "until", ["words >= 5", "words < 5", "not words >= 5", "not words < 5", "not change(words) > 1"]
)
def test_what_nobody_counted_meets_no_condition(until: str) -> None:
    panel = Parallel("Panel", (critic("one", "words"), critic("two", "lines")), wait="first")
    run = Course(loop(panel, until=until))
    for _ in range(7):
        run.judge(two=said(1.0, lines=1), one=said(1.0, lines=1))  # what the first says is not declared: it fails
    assert [each for each in run.events if isinstance(each, StepFailed)]
    assert run.last.outcome == "exhausted"
    check(run)


def test_a_gate_passes_by_what_it_counts() -> None:
    gate = critic("tests", "failing", gate=True, passes=parse_condition("failing == 0"))
    run = Course(loop(gate, critic("prose", "words"), until="words >= 3"))
    run.judge(tests=said(failing=1))
    assert not ended(run)
    run.write()
    run.judge(tests=said(failing=0), prose=said(words=3))
    run.judge(prose=said(words=3))
    assert run.last.outcome == "accepted"
    check(run)


def test_what_a_measure_may_lack_is_declared() -> None:
    run = Course(loop(critic("count", "words", "coverage?"), until="coverage >= 0.8 or words >= 9"))
    run.judge(said(words=1))
    assert not any(isinstance(each, StepFailed) for each in run.events)
    run.judge(said(words=1, coverage=0.8))
    assert run.last.outcome == "accepted"
    check(run)


@pytest.mark.parametrize(
    ("critique", "fault"),
    [
        (said(words=1), "no number for failing, a measure that the plan declares"),
        (said(words=1, failing=0, more=2), "a number for more, a measure that the plan does not declare"),
        (said(words=float("inf"), failing=0), "words is inf, and no number up to 10**15"),
        (said(words=10**400, failing=0), f"words is {10**400}, and no number up to 10**15"),
        (said(words=float("nan"), failing=0), "words is nan, and no number up to 10**15"),
        (said(words=2 * 10**15, failing=0), "words is 2000000000000000, and no number up to 10**15"),
    ],
)
def test_a_critique_with_other_measures_than_the_plans_is_invalid(critique: Critique, fault: str) -> None:
    run = Course(loop(critic(), until="words >= 3"))
    run.judge(critique)
    (failed,) = [each for each in run.events if isinstance(each, StepFailed)]
    assert (failed.kind, failed.message) == ("invalid", fault)


@pytest.mark.parametrize(
    ("until", "outcome"),
    [
        ("failing == 0 and words >= 300 and score >= 0.9", "exhausted"),
        ("exit() and words < 300", "accepted"),
        ("exit() and not words > 300", "accepted"),
        ("exit() and not change(words) > 0.5", "accepted"),  # it is the draft that was judged before
        ("exit() and not (change(words) < 0.5 or words > 300)", "exhausted"),
        ("exit() or change(words) > 0.5", "accepted"),
    ],
)
def test_what_is_counted_speaks_for_or_against_a_draft_with_which_a_refiner_left(until: str, outcome: str) -> None:
    run = Course(loop(critic(), until=until))
    run.judge(said(words=1, failing=0))
    for path, step in dict(run.state.open).items():
        assert step.step.role == "refiner"
        run.take(Refined("r", path, 1, "draft 1", exit=True))
    assert run.last.outcome == outcome
    check(run)


def test_a_change_needs_critics_of_the_loops_own() -> None:
    inner = Repeat("Inner", parse_condition("words >= 3"), 2, (critic(), IMPROVE))
    with pytest.raises(PlanError, match=r"Outer: until: change\(words\) < 0.1: critics of an inner loop measure that"):
        check_ready(Plan("p", (WRITE, Repeat("Outer", parse_condition("change(words) < 0.1"), 2, (inner,)))))
    check_ready(Plan("p", (WRITE, Repeat("Outer", parse_condition("words < 9"), 2, (inner,)))))


def test_a_fork_may_count_something_else() -> None:
    before, after = (loop(critic("count", *names), until="score >= 0.9") for names in (("words",), ("lines", "words")))
    assert before != after
    assert shape(before) == shape(after)
