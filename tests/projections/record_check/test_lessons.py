"""The lessons that a run was given are those that its plan asks for, and none that had been struck out."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from tests.streams import START, recorded

from redraft.events.messages.content import Brief
from redraft.events.messages.domain_events import LessonStruck, Parent, RunEnded, RunGuided, RunQuarantined, RunStarted
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.lessons import MAX_LESSON_BYTES, Lesson, Lessons
from redraft.events.messages.plan import LessonsSpec, Plan, Step
from redraft.projections.record_check import check_events
from redraft.projections.record_check.lessons import Strike, Strikes, lesson_findings, strikes_in

PLAN = Plan("p", (Step("generator", "write", "write"),), lessons=LessonsSpec("article", 2))
MANY = Lesson("a", "Name the moon.", "judge", "suggestion", 3, 2, 1, "put in: the moon")
FEW = Lesson("b", "Cite a source.", "judge", "error", 3, 1)
GIVEN = Lessons("article", 10, (MANY, FEW))
BEGUN = RunStarted(PLAN, Brief("b"), START, lessons=GIVEN)


def found(begun: RunStarted, strikes: Strikes | None = None) -> list[str]:
    told = lesson_findings(recorded("r", [("coordinator", begun)]), strikes or {})
    return [each.message.rpartition(": ")[2] for each in told]


def test_lessons_as_the_plan_asks_for_them_are_right() -> None:
    assert found(BEGUN) == found(replace(BEGUN, lessons=Lessons("article", why="none could be read"))) == []
    own = replace(PLAN, lessons=LessonsSpec())
    assert found(replace(BEGUN, plan=own, lessons=replace(GIVEN, workflow="p"))) == []
    assert found(RunStarted(Plan("p", PLAN.steps), Brief("b"), START)) == []


@pytest.mark.parametrize(
    ("lessons", "fault"),
    [
        (None, "the plan asks for lessons, and none are recorded"),
        (replace(GIVEN, workflow="p"), "the lessons are of p, not of article"),
        (
            replace(GIVEN, given=(MANY, FEW, replace(FEW, id="c"))),
            "3 lessons are given, and the plan asks for 2 at most",
        ),
        (replace(GIVEN, given=(MANY, MANY)), "a lesson is given twice"),
        (replace(GIVEN, given=(FEW, MANY)), "a lesson stands before one that came back more often"),
        (
            replace(GIVEN, given=(replace(MANY, text="é" * (MAX_LESSON_BYTES // 2 + 1)),)),
            "the lessons are longer than lessons may be",
        ),
    ],
)
def test_other_lessons_are_found(lessons: Lessons | None, fault: str) -> None:
    assert found(replace(BEGUN, lessons=lessons)) == [fault]


def test_lessons_that_no_plan_asks_for_are_found() -> None:
    assert found(replace(BEGUN, plan=Plan("p", PLAN.steps))) == ["the plan asks for no lessons"]


def test_a_fork_has_its_parents_whatever_its_plan_asks_for() -> None:
    assert found(replace(BEGUN, plan=Plan("p", PLAN.steps), parent=Parent("other", 1))) == []


def test_a_lesson_that_had_been_struck_out_is_found() -> None:
    lesson = ("article", "a")
    said = ["the lesson a had been struck out when the run began"]
    assert found(BEGUN, {lesson: [Strike(9, True)]}) == said
    assert found(BEGUN, {lesson: [Strike(10, True), Strike(11, False)]}) == said
    assert (
        found(BEGUN, {lesson: [Strike(11, True)]}) == found(BEGUN, {lesson: [Strike(8, True), Strike(9, False)]}) == []
    )
    assert found(BEGUN, {("p", "a"): [Strike(9, True)]}) == []


def test_a_strike_that_the_release_of_the_run_could_not_read_is_passed_over() -> None:
    """Found by histories: an older release cannot read runs of newer rules, nor what people strike out in them."""
    begun, lesson = replace(BEGUN, rules=6), ("article", "a")
    assert found(begun, {lesson: [Strike(9, True, 7)]}) == []
    assert found(begun, {lesson: [Strike(8, True, 6), Strike(9, False, 7)]}) != []
    assert found(replace(BEGUN, rules=7), {lesson: [Strike(9, True, 7)]}) != []


def ended(*after: LessonStruck | RunGuided | RunQuarantined) -> Sequence[Recorded]:
    told = [RunStarted(Plan("p", PLAN.steps), Brief("b"), START), RunEnded("failed", "why", 0), *after]
    return recorded("r", [("coordinator", each) for each in told])


def test_strikes_follow_the_end_of_a_run_and_nothing_else_does() -> None:
    strike = LessonStruck("a", "p", "ann")
    back = replace(strike, withdrawn=True)
    begun, end, *struck = ended(strike, back)
    newer = replace(begun, data=replace(BEGUN, rules=7))
    assert [each for _, each in strikes_in([begun, *struck])] == [Strike(103, True), Strike(104, False)]
    assert list(strikes_in([newer, end, *struck])) == [
        (("p", "a"), Strike(place, place == 103, 7)) for place in (103, 104)
    ]

    def codes(*after: LessonStruck | RunGuided | RunQuarantined) -> set[str]:
        return {each.code for each in check_events(ended(*after))} & {"after-end"}

    assert codes(strike, back, RunQuarantined("ann", "odd")) == set()
    assert codes(strike, RunGuided("more", "ann")) == codes(RunQuarantined("ann", "odd"), strike) == {"after-end"}
