"""Runs whose critics declare criteria: what ends a loop, what panels join, what rolls back, passes and succeeds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace
from tests.given import NOON, Given, given
from tests.projections.random_runs import as_recorded

from redraft.actors.conditions.text import parse_condition
from redraft.actors.deciding.declared import as_declared
from redraft.actors.plans.check import check_ready
from redraft.events.messages.commands import Critiqued, Generated, Refined, StartRun
from redraft.events.messages.content import Brief, Critique, DraftRef, Mark, digest
from redraft.events.messages.domain_events import (
    ChoicesCredited,
    DraftCritiqued,
    LoopEnded,
    RunEnded,
    StepFailed,
    StepRequested,
)
from redraft.events.messages.plan import Arm, Criterion, Node, Parallel, Plan, Repeat, Step
from redraft.events.messages.scales import to_share
from redraft.projections.record_check import check_events

SCALE = (1.0, 10.0)
CRITERIA = (Criterion("accuracy", "every claim is right", weight=2.0), Criterion("tone"))
WRITE, IMPROVE = Step("generator", "write", "write"), Step("refiner", "improve", "improve")


def judge(name: str = "judge", **more: Any) -> Step:
    return Step("critic", name, name, scale=SCALE, criteria=CRITERIA, **more)


def loop(*critics: Node, until: str, **more: Any) -> Plan:
    body = (*critics, IMPROVE)
    return check_ready(Plan("p", (WRITE, Repeat("Refinement", parse_condition(until), 6, body, **more))))


def said(accuracy: float, tone: float, confidence: float | None = None, score: float | None = None) -> Critique:
    marks = tuple(Mark(name, to_share(value, SCALE)) for name, value in (("accuracy", accuracy), ("tone", tone)))
    overall = (2 * accuracy + tone) / 3 if score is None else score
    return Critique(to_share(overall, SCALE), criteria=marks, confidence=confidence)


class Course:
    """A run, as its workers answer: drafts are numbered, critiques are given by the name of the critic."""

    def __init__(self, plan: Plan) -> None:
        done = Given(given().state).when(StartRun("r", plan, Brief("b")))
        self.state, self.events = done.state, list(done.events)

    def take(self, message: Any) -> None:
        done = Given(self.state).when(message, at=NOON)
        self.state = done.state
        self.events += done.events

    def write(self) -> None:
        for path, step in dict(self.state.open).items():
            text = f"draft {self.state.drafts + 1}"
            if step.step.role == "generator":
                self.take(Generated("r", path, 1, text))
            elif step.step.role == "refiner":
                self.take(Refined("r", path, 1, text))

    def judge(self, *critiques: Critique, **by_name: Critique) -> None:
        self.write()
        named: Mapping[str, Critique] = by_name or {"": critiques[0]}
        for path, step in dict(self.state.open).items():
            critique = named.get(step.step.name, named.get("", critiques[0] if critiques else said(1, 1)))
            assert step.draft is not None
            self.take(Critiqued("r", path, 1, step.draft, critique))

    @property
    def last(self) -> LoopEnded:
        return next(event for event in reversed(self.events) if isinstance(event, LoopEnded))


def check(run: Course) -> None:
    """The independent checker comes to the same."""
    assert check_events(as_recorded(tuple(run.events), (NOON,) * len(run.events))) == ()


@pytest.mark.parametrize(
    ("until", "short", "good"),
    [
        ("accuracy >= 8 and tone >= 6", said(9, 5), said(8, 6)),
        ("judge.accuracy >= 8", said(7, 9), said(8, 1)),
        ("min(criteria) >= 6", said(10, 5), said(6, 6)),
        ("confidence >= 0.7", said(9, 9, 0.6), said(1, 1, 0.7)),
        ("score >= 8", said(8, 7.9), said(8, 8)),
        ("score >= 8", said(9, 9, score=7), said(1, 1, score=8)),
        ("judge.score >= 1 of 10 and tone > 9", said(9, 9), said(1, 10)),
    ],
)
def test_a_loop_ends_when_its_criteria_are_met(until: str, short: Critique, good: Critique) -> None:
    run = Course(loop(judge(), until=until))
    run.judge(short)
    assert not any(isinstance(event, LoopEnded) for event in run.events)
    run.judge(good)
    assert (run.last.outcome, run.last.draft.version, run.last.scale) == ("accepted", 2, SCALE)


def test_the_reason_is_told_on_the_scale() -> None:
    run = Course(loop(judge(), until="accuracy >= 8 and score >= 7"))
    run.judge(said(9, 6))
    assert run.last.reason == "the condition holds: accuracy 9 of 10 >= 8, score 8 of 10 >= 7"


@pytest.mark.parametrize(
    ("combine", "joined"), [("min", (4, 6)), ("mean", (6, 7)), ("median", (6, 7)), ("weights", (7, 7.5))]
)
def test_a_panel_joins_criterion_by_criterion(combine: Any, joined: tuple[float, float]) -> None:
    weights = (1.0, 3.0) if combine == "weights" else ()
    panel = Parallel("Panel", (judge("one"), judge("two")), combine=combine, weights=weights)
    accuracy, tone = joined
    met = f"accuracy == {accuracy} and tone == {tone} and one.accuracy == 4 and two.accuracy == 8 and confidence == 0.5"
    run = Course(loop(panel, until=met))
    run.judge(one=said(4, 6, 0.9), two=said(8, 8, 0.5))
    assert run.last.outcome == "accepted"


def test_a_plateau_of_one_criterion_ends_the_loop() -> None:
    run = Course(loop(judge(), until="accuracy >= 9 or plateau(gain=2, over=1, of=accuracy)"))
    run.judge(said(3, 1))
    run.judge(said(5, 1))
    assert not any(isinstance(event, LoopEnded) for event in run.events)
    run.judge(said(6, 10))  # the score rises far, and accuracy by one
    assert run.last.outcome == "plateaued"
    assert run.last.reason == "the best accuracy rose by less than 2 of 10 over 1 judged draft"


def test_a_criterion_that_swings_ends_the_loop() -> None:
    run = Course(loop(judge(), until="accuracy >= 9 or oscillating(window=3, of=tone)"))
    for tone in (4, 4, 7):
        run.judge(said(5, tone))
    assert not any(isinstance(event, LoopEnded) for event in run.events)
    run.judge(said(5, 4))
    assert (run.last.outcome, run.last.reason) == ("oscillating", "tone has a score again that it had before")


@pytest.mark.parametrize(("fell", "back"), [(7, False), (6.9, True)])
def test_a_fall_of_one_criterion_is_rolled_back(fell: float, back: bool) -> None:
    plan = loop(judge(), until="accuracy >= 10", rollback_margin=1.0, rollback_top=10.0, rollback_of="tone")
    run = Course(plan)
    run.judge(said(5, 8))
    run.judge(said(9, fell))  # better on the whole
    asked = next(event for event in reversed(run.events) if isinstance(event, StepRequested))
    number = 1 if back else 2
    assert (asked.role, asked.draft) == ("refiner", DraftRef(number, digest(f"draft {number}")))
    assert asked.scale == SCALE


def test_a_gate_of_one_criterion_passes_what_meets_it() -> None:
    gate = judge("gate", gate=True, passes=parse_condition("accuracy >= 6"))
    run = Course(loop(gate, judge(), until="judge.tone >= 5"))
    run.judge(said(5, 9))
    assert [event.actor for event in run.events if isinstance(event, StepRequested)][-1] == "improve"
    run.judge(said(6, 1))
    run.judge(said(1, 5))
    assert (run.last.outcome, run.last.draft.version) == ("accepted", 2)


@pytest.mark.parametrize(("accuracy", "success"), [(8, True), (7, False)])
def test_a_choice_learns_from_one_criterion(accuracy: float, success: bool) -> None:
    arms = (Arm("improve", "quick"), Arm("improve", "thorough", {"level": 2}))
    refine = Step("refiner", "", "refine", choose=arms, success=parse_condition("accuracy >= 8"))
    body = (judge(), refine)
    plan = check_ready(Plan("p", (WRITE, Repeat("Refinement", parse_condition("tone >= 9"), 6, body))))
    run = Course(plan)
    run.judge(said(1, 1))
    run.judge(said(accuracy, 9))
    credited = [event for event in run.events if isinstance(event, ChoicesCredited)]
    assert [each.success for event in credited for each in event.credits] == [success]


def test_a_missing_or_foreign_criterion_makes_the_critique_invalid() -> None:
    run = Course(loop(judge(), until="accuracy >= 8"))
    run.write()
    path, step = next(iter(run.state.open.items()))
    assert step.draft is not None
    run.take(Critiqued("r", path, 1, step.draft, Critique(0.5, criteria=(Mark("accuracy", 0.5),))))
    failed = next(event for event in run.events if isinstance(event, StepFailed))
    assert (failed.kind, failed.message) == ("invalid", "no score for tone, a criterion that the plan declares")


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("語" * 66, ""),
        ("語" * 67, "201 bytes; the limit is 200"),
        ("x" * 200, ""),
        ("l\N{NO-BREAK SPACE}accord \N{ZERO WIDTH NON-JOINER}می", ""),
        ("x" * 201, "201 bytes; the limit is 200"),
        ("to\0ne", "'to\\x00ne' cannot be the name of a criterion: it holds a control character"),
    ],
)
def test_the_name_of_a_criterion_that_no_plan_declares_has_bounds(name: str, fault: str) -> None:
    run = Course(check_ready(Plan("p", (WRITE, Step("critic", "judge", "judge")))))
    run.write()
    path, step = next(iter(run.state.open.items()))
    assert step.draft is not None
    run.take(Critiqued("r", path, 1, step.draft, Critique(0.5, criteria=(Mark("tone", 0.5), Mark(name, 0.5)))))
    failed = [event for event in run.events if isinstance(event, StepFailed)]
    assert not failed if not fault else failed[0].kind == "invalid" and fault in failed[0].message


def test_what_another_language_leaves_to_its_criteria_is_made_of_them() -> None:
    weighted = Step("critic", "judge", "judge", criteria=(Criterion("accuracy", weight=3), Criterion("tone")))
    marks = (Mark("accuracy", 1.0, confidence=0.9), Mark("tone", 0.2, confidence=0.6))
    mean = as_declared(weighted, Critique(0.0, scored=False, criteria=marks))
    assert (mean.score, mean.scored, mean.confidence) == (pytest.approx(0.8), True, 0.6)
    own = as_declared(weighted, Critique(0.5, criteria=marks, confidence=0.7))
    assert (own.score, own.confidence) == (0.5, 0.7)
    assert as_declared(weighted, Critique(0.5, criteria=(Mark("accuracy", 1.0), Mark("tone", 0.2)))).confidence is None


def test_a_recorded_critique_has_the_plans_scale() -> None:
    run = Course(loop(judge(), until="accuracy >= 8"))
    run.judge(said(9, 9))
    recorded = next(event for event in run.events if isinstance(event, DraftCritiqued))
    assert recorded.critique.scale == SCALE
    assert recorded.critique.shown_score == "9 of 10"


@pytest.mark.parametrize(
    ("until", "accuracy", "tone", "reason"),
    [
        ("score >= 7.5", 8, 7.5, "score 7.833 of 10 >= 7.5"),
        ("score >= 0.9", 9.2, 9.6, "score 9.333 of 10 (a share of 0.926) >= 0.9"),
        ("tone >= 90 of 100", 5, 9.2, "tone 9.2 of 10 (91.111 of 100) >= 90"),
    ],
)
def test_a_reason_shows_scores_as_views_do_and_says_where_a_share_is_meant(
    until: str, accuracy: float, tone: float, reason: str
) -> None:
    run = Course(loop(judge(), until=until))
    run.judge(said(accuracy, tone))
    assert (run.last.outcome, run.last.reason) == ("accepted", f"the condition holds: {reason}")


CHECK = Step("critic", "check", "check", scale=SCALE, criteria=(Criterion("accuracy"),))
DEEP = Step("critic", "deep", "deep", scale=SCALE, criteria=(Criterion("depth"),))


def gave(name: str, points: float) -> Critique:
    share = to_share(points, SCALE)
    return Critique(share, criteria=(Mark(name, share),))


@pytest.mark.parametrize("until", ["min(criteria) >= 6", "not min(criteria) < 6", "depth >= 6", "not depth < 6"])
def test_a_criterion_whose_critic_was_not_asked_does_not_end_the_loop(until: str) -> None:
    late = replace(DEEP, when=parse_condition("accuracy >= 8"))
    run = Course(loop(CHECK, late, until=until))
    run.judge(check=gave("accuracy", 7))
    assert not any(isinstance(event, LoopEnded) for event in run.events)
    run.judge(check=gave("accuracy", 8))
    run.judge(deep=gave("depth", 6))
    assert (run.last.outcome, run.last.draft.version) == ("accepted", 2)
    check(run)


@pytest.mark.parametrize("until", ["min(criteria) >= 6", "not min(criteria) >= 6", "depth < 6", "not depth >= 6"])
def test_a_criterion_whose_critic_was_not_waited_for_is_unknown(until: str) -> None:
    run = Course(loop(Parallel("Panel", (CHECK, DEEP), wait=1), until=until))
    run.write()
    path, asked = next((path, step) for path, step in run.state.open.items() if step.step.name == "check")
    assert asked.draft is not None
    run.take(Critiqued("r", path, 1, asked.draft, gave("accuracy", 7)))
    assert not any(isinstance(event, LoopEnded) for event in run.events)
    check(run)


@pytest.mark.parametrize("panel", [False, True])
@pytest.mark.parametrize(
    "until", ["min(criteria) >= 6", "accuracy >= 5 and depth >= 6", "check.score < 6 and deep.score >= 6"]
)
def test_a_criterion_of_a_gate_that_was_passed_is_known_and_none_of_the_lowest(until: str, panel: bool) -> None:
    gate = replace(CHECK, gate=True, passes=parse_condition("accuracy >= 5"))
    critics = (Parallel("Panel", (gate, DEEP)),) if panel else (gate, DEEP)
    run = Course(loop(*critics, until=until))
    run.judge(check=gave("accuracy", 5))
    run.judge(deep=gave("depth", 6))
    assert run.last.outcome == "accepted"
    check(run)


def test_of_what_nobody_said_no_plateau_is_made_and_nothing_is_rolled_back() -> None:
    late = replace(DEEP, when=parse_condition("accuracy >= 8"))
    until = "accuracy >= 10 or plateau(gain=1 of 10, over=1, of=depth)"
    run = Course(loop(CHECK, late, until=until, rollback_margin=1.0, rollback_top=10.0, rollback_of="depth"))
    run.judge(check=gave("accuracy", 8))
    run.judge(deep=gave("depth", 7))
    run.judge(check=gave("accuracy", 3))
    assert not any(isinstance(event, LoopEnded) for event in run.events)
    asked = next(event for event in reversed(run.events) if isinstance(event, StepRequested))
    assert asked.draft == DraftRef(2, digest("draft 2"))
    check(run)


def test_what_a_loop_says_of_the_draft_that_it_began_with_takes_the_place_of_what_was_said_before() -> None:
    before, inside = Step("critic", "before", "before"), Step("critic", "inside", "inside")
    loop = Repeat("L", parse_condition("score >= 0.95"), 3, (inside, IMPROVE))
    run = Course(check_ready(Plan("p", (WRITE, before, loop))))
    run.judge(Critique(0.9))
    for score in (0.5, 0.6, 0.7):
        run.judge(Critique(score))
        asked = next(event for event in reversed(run.events) if isinstance(event, StepRequested))
        assert (asked.role, asked.draft) == ("refiner", run.state.current.ref if run.state.current else None)
    run.judge(Critique(0.8))
    assert (run.last.outcome, run.last.draft.version, run.last.score) == ("exhausted", 4, 0.8)
    check(run)


@pytest.mark.parametrize("first", [True, False])
def test_critics_of_an_inner_loop_do_not_end_one_that_has_its_own(first: bool) -> None:
    """Their scores lie on other scales; what leaves was judged by the loop's own, also at its last iteration."""
    inner = Repeat("I", parse_condition("score >= 7"), 2, (CHECK, IMPROVE))
    own = Step("critic", "own", "own", scale=(0.0, 100.0))
    again = replace(IMPROVE, name="again")
    body = (own, inner, again) if first else (inner, own, again)
    run = Course(check_ready(Plan("p", (WRITE, Repeat("O", parse_condition("score >= 60"), 2, body)))))
    while not (run.events and isinstance(run.events[-1], RunEnded)):
        before = len(run.events)
        run.judge(check=gave("accuracy", 7), own=Critique(0.2))
        assert len(run.events) > before
    assert (run.last.path, run.last.outcome, run.last.score) == ("O", "exhausted", 0.2)
    check(run)
