"""Rules 3: a refiner that leaves its loop, and drafts of equal score; and rules 2 beside them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.actors.deciding.test_rules_two import (
    ASK,
    GATE,
    IMPROVE,
    JUDGE,
    OTHER,
    SAVE,
    WRITE,
    Answer,
    begun,
    decide,
    ended,
    loop,
    plan,
    play,
    played,
    published,
    reason,
)
from tests.properties.test_deciding_properties import RUN, Run, step
from tests.streams import recorded

from redraft.actors.conditions.text import parse_condition
from redraft.events.messages.commands import ApproveDraft, Critiqued, RejectDraft
from redraft.events.messages.content import Critique
from redraft.events.messages.domain_events import DraftCritiqued, LoopClosing, LoopEnded, RunEnded, StepFailed
from redraft.events.messages.plan import Parallel, Plan, Step
from redraft.projections.record_check.check import check_events

LEFT = "the refiner left"
ACCEPTED = "the refiner left, and nothing stands against its draft"


def left(
    until: str,
    *before: Answer,
    text: str = "two",
    after: tuple[Answer, ...] = (),
    rules: int = 3,
    body: tuple[object, ...] = (JUDGE, IMPROVE),
) -> Run:
    """A run whose refiner leaves with this text, once the critics have judged draft 1 so."""
    made = plan(loop(*body, until=parse_condition(until), most=5), SAVE)  # type: ignore[arg-type]
    run = played(made, "one", *before, rules=rules)
    run.answer(next(iter(run.state.open)), value=0, text=text, leave=True)
    return checked(play(run, *after))


def checked(run: Run) -> Run:
    """The run, that the independent checker has nothing against either."""
    assert check_events(recorded(RUN, [("somebody", event) for event in run.events])) == ()
    return run


@pytest.mark.parametrize(
    ("until", "score", "how"),
    [
        ("approved", 0.3, "accepted"),
        ("exit()", 0.3, "accepted"),
        ("score >= 0.9", 0.3, "exhausted"),
        ("score >= 0.9 or exit()", 0.3, "accepted"),
        ("score >= 0.9 and exit()", 0.3, "exhausted"),
        ("approved and score >= 0.5", 0.6, "accepted"),
        ("approved and score >= 0.5", 0.4, "exhausted"),
        ("approved or score >= 0.5", 0.4, "exhausted"),
        ("score >= 0.9 or plateau()", 0.4, "exhausted"),
        ("approved or plateau() or tokens > 100000", 0.4, "accepted"),
        ("errors == 0 and score >= 0.9", 0.5, "exhausted"),
        ("not (score >= 0.2) or approved", 0.4, "exhausted"),
    ],
)
def test_a_changed_draft_is_judged_and_accepted_unless_a_score_stands_against_it(
    until: str, score: float, how: str
) -> None:
    run = left(until, 0.3, after=(score,))
    assert [event.draft.version for event in run.events if isinstance(event, DraftCritiqued)] == [1, 2]
    assert LoopClosing("L", "exhausted", LEFT) in run.events
    assert (ended(run), reason(run)) == ((how, [2]), ACCEPTED if how == "accepted" else LEFT)


def test_a_draft_that_meets_the_condition_is_accepted_for_that() -> None:
    run = left("score >= 0.9", 0.3, after=(0.95,))
    assert (ended(run), reason(run)) == (("accepted", [2]), "the condition holds: score 0.95 >= 0.9")


def test_an_unchanged_draft_is_not_judged_again() -> None:
    run = left("exit()", 0.3, text="one")
    assert sum(isinstance(event, DraftCritiqued) for event in run.events) == 1
    assert (ended(run), reason(run)) == (("accepted", [2]), ACCEPTED)
    assert ended(left("score >= 0.9", 0.3, text="one")) == ("exhausted", [2])


def test_the_draft_that_the_refiner_left_with_leaves_the_loop_even_if_another_was_better() -> None:
    run = left("score >= 0.9", 0.8, after=(0.3,))
    assert ended(run) == ("exhausted", [2])
    assert [event.score for event in run.events if isinstance(event, LoopEnded)] == [0.3]


def test_a_veto_and_a_failed_gate_stand_against_it_and_nothing_is_published() -> None:
    for until in ("approved", "exit()", "score >= 0.2"):
        run = left(until, (0.1, False), after=((0.3, False),))
        assert (ended(run), reason(run)) == (("exhausted", []), LEFT)
        end = run.events[-1]
        assert isinstance(end, RunEnded)
        assert end.draft is not None
        assert (end.draft.version, end.score) == (2, 0.3)
    run = left("exit()", 0.3, after=(0.3,), body=(GATE, JUDGE, IMPROVE))
    assert (ended(run), reason(run)) == (("exhausted", []), LEFT)


def test_people_who_did_not_approve_it_stand_against_it() -> None:
    run = begun(plan(loop(JUDGE, ASK, IMPROVE, until=parse_condition("approved"), most=5), SAVE), 3)
    play(run, "one", 0.5)
    assert run.state.approval is not None
    decide(run, RejectDraft)
    run.answer(next(iter(run.state.open)), value=0, text="two", leave=True)
    checked(play(run, 0.6))
    assert (ended(run), reason(run)) == (("exhausted", []), LEFT)


def test_in_an_inner_loop_the_outer_one_goes_on_with_its_draft() -> None:
    inner = loop(JUDGE, IMPROVE, name="Inner", until=parse_condition("exit()"), most=5)
    run = played(plan(loop(inner, OTHER, IMPROVE, name="Outer", most=2), SAVE), "one", 0.5, rules=3)
    run.answer(next(iter(run.state.open)), value=0, text="two", leave=True)
    checked(play(run, 0.4, 0.95))
    assert ended(run) == ("accepted", [2])


def test_by_rules_2_the_loop_ends_as_plateaued_with_its_best_draft() -> None:
    run = left("score >= 0.9", 0.8, after=(0.3,), rules=2)
    assert (ended(run), reason(run)) == (("plateaued", [1]), "the refiner had nothing more to change")
    assert reason(left("approved", 0.8, text="one", rules=2)) == "the refiner had nothing more to change"


@pytest.mark.parametrize(("rules", "best"), [(1, 1), (2, 1), (3, 3)])
def test_among_equal_scores_the_later_draft_is_the_best(rules: int, best: int) -> None:
    answers = ("one", 0.5, "two", 0.4, "three", 0.5)
    assert ended(checked(played(plan(loop(JUDGE, IMPROVE), SAVE), *answers, rules=rules))) == ("exhausted", [best])


@pytest.mark.parametrize(("rules", "best"), [(2, 1), (3, 2)])
def test_and_among_those_that_a_judge_compares(rules: int, best: int) -> None:
    writers = Parallel("drafts", (step("generator", "a"), step("generator", "b")), judge=JUDGE)
    run = checked(played(Plan("p", (writers, SAVE)), "one", "two", 0.5, 0.5, rules=rules))
    assert ended(run) == ("accepted", [best])


@pytest.mark.parametrize(("rules", "best"), [(2, 1), (3, 2)])
def test_and_where_a_run_cannot_go_on(rules: int, best: int) -> None:
    made = plan(loop(JUDGE, IMPROVE, most=4), SAVE, on_failure="publish_best")
    assert ended(checked(played(made, "one", 0.5, "two", 0.5, "fail", rules=rules))) == ("failed", [best])


def test_a_barred_draft_is_not_the_best_for_being_later() -> None:
    run = checked(played(plan(loop(JUDGE, IMPROVE), SAVE), "one", 0.5, "two", 0.5, "three", (0.5, False), rules=3))
    assert ended(run) == ("exhausted", [2])


@pytest.mark.parametrize(("rules", "again"), [(2, True), (3, False)])
def test_a_score_out_of_range_is_not_asked_for_again(rules: int, again: bool) -> None:
    run = played(Plan("p", (WRITE, Step("critic", "judge", "judge"), SAVE)), "one", rules=rules)
    assert run.state.current is not None
    run.send(Critiqued(RUN, "judge", 1, run.state.current.ref, Critique(1.5)))
    failed = next(event for event in run.events if isinstance(event, StepFailed))
    assert (failed.retry_at is not None) is again


def test_people_may_approve_the_draft_that_was_left() -> None:
    run = begun(plan(loop(JUDGE, IMPROVE, until=parse_condition("score >= 0.9"), most=5), ASK, SAVE), 3)
    play(run, "one", 0.5)
    run.answer(next(iter(run.state.open)), value=0, text="two", leave=True)
    decide(play(run, 0.6), ApproveDraft)
    assert ended(checked(published(run))) == ("exhausted", [2])


def verdict_only(run: Run, *, approved: bool) -> Run:
    asked, open_step = next(iter(run.state.open.items()))
    assert open_step.draft is not None
    run.send(Critiqued(RUN, asked, 1, open_step.draft, Critique(0.0, approved=approved, scored=False)))
    return published(run)


def test_a_verdict_alone_is_no_score() -> None:
    run = verdict_only(played(plan(loop(JUDGE, IMPROVE), SAVE), "one", rules=3), approved=True)
    assert (ended(checked(run)), reason(run)) == (("accepted", [1]), "the critic approved the draft")
    assert [event.score for event in run.events if isinstance(event, LoopEnded | RunEnded)] == [None, None]


@pytest.mark.parametrize(("rules", "score"), [(2, 0.3), (3, 0.6)])
def test_in_a_panel_the_scores_of_the_others_count(rules: int, score: float) -> None:
    panel = Parallel("panel", (JUDGE, OTHER), combine="mean")
    run = played(plan(loop(panel, IMPROVE, most=1), SAVE), "one", rules=rules)
    play(verdict_only(run, approved=True), 0.6)
    checked(run)
    assert run.state.current is not None
    assert run.state.current.judgement is not None
    assert run.state.current.judgement.score == score
    assert run.state.current.judgement.scored


def test_a_refusal_alone_is_a_veto() -> None:
    run = verdict_only(played(plan(loop(JUDGE, IMPROVE, most=1), SAVE), "one", rules=3), approved=False)
    run.answer(next(iter(run.state.open)), value=0, text="two")
    assert ended(checked(verdict_only(run, approved=False))) == ("rejected", [])


def test_the_checker_notices_a_loop_that_ended_otherwise() -> None:
    run = left("score >= 0.9", 0.8, after=(0.3,))
    best = next(event.draft for event in run.events if isinstance(event, DraftCritiqued))
    for changes in ({"outcome": "accepted"}, {"outcome": "plateaued"}, {"draft": best, "score": 0.8}):
        forged = [replace(event, **changes) if isinstance(event, LoopEnded) else event for event in run.events]
        assert check_events(recorded(RUN, [("somebody", event) for event in forged])) != ()
