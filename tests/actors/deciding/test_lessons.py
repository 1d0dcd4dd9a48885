"""A run is given lessons as it begins, and a person may strike out one that an ended run left."""

from __future__ import annotations

from msgspec.structs import replace
from tests.given import NOON, given

from redraft.actors.deciding.decider import handle
from redraft.actors.deciding.evolve import fold
from redraft.actors.deciding.state import RunState
from redraft.events.messages.commands import StartRun, StrikeLesson
from redraft.events.messages.content import Brief
from redraft.events.messages.domain_events import LessonStruck, RunEnded, RunErased, RunQuarantined, RunStarted
from redraft.events.messages.lessons import Lesson, Lessons, cut_text, fitting
from redraft.events.messages.plan import LessonsSpec, Plan, Step

PLAN = Plan("article", (Step("generator", "write", "write"),), lessons=LessonsSpec())
LESSONS = Lessons("article", 7, (Lesson("a1", "Name the moon.", "judge", "suggestion", 2, 1),))
BEGUN = RunStarted(PLAN, Brief("b"), NOON)
ENDED = (BEGUN, RunEnded("failed", "why", 0))
STRIKE = StrikeLesson("r", "a1", "ann", "of one text", key="k")
STRUCK = LessonStruck("a1", "article", "ann", "of one text", key="k")


def started(plan: Plan) -> RunStarted:
    decision = handle(RunState(), StartRun("r", plan, Brief("b")), NOON, lessons=LESSONS)
    begun = decision.events[0]
    assert isinstance(begun, RunStarted)
    return begun


def test_a_run_is_given_lessons_if_its_plan_asks_for_them() -> None:
    assert started(PLAN).lessons == LESSONS
    assert started(replace(PLAN, lessons=None)).lessons is None


def test_a_lesson_is_struck_out_once_and_given_again_once() -> None:
    back = replace(STRIKE, withdrawn=True)
    given(*ENDED).when(STRIKE).then(STRUCK)
    given(*ENDED, STRUCK).when(STRIKE).then_nothing()
    given(*ENDED).when(back).then_nothing()
    given(*ENDED, STRUCK).when(back).then(replace(STRUCK, withdrawn=True))
    given(*ENDED, STRUCK, replace(STRUCK, withdrawn=True)).when(STRIKE).then(STRUCK)


def test_only_a_run_that_ended_and_was_kept_has_lessons_to_strike_out() -> None:
    for events in ((BEGUN,), (*ENDED, RunErased("ann")), (*ENDED, RunQuarantined("ann", "odd"))):
        assert handle(fold(events), STRIKE, NOON).events == ()


def test_lessons_are_cut_to_their_bounds() -> None:
    assert cut_text("é" * 10, 20) == "é" * 10
    assert cut_text("é" * 11, 20) == "é" * 8 + " …"
    long = [Lesson(str(number), "a" * 500, "judge", "error", 1, 1, mended="b" * 500) for number in range(50)]
    assert len(fitting(long, 50)) == 16
    assert len(fitting(long, 3)) == 3
