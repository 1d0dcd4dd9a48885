"""Rules 2: what bars a draft, what leaves a loop, what is published when a run cannot go on; and rules 1 beside it."""

from __future__ import annotations

from typing import TypeAlias

import pytest
from tests.actors.rules_two import check_rules_two
from tests.properties.test_deciding_properties import NOW, RUN, Run, step

from redraft.actors.deciding.decider import continue_from
from redraft.actors.deciding.state import RunState
from redraft.actors.plans.check import check_plan
from redraft.events.messages.commands import ApproveDraft, ChangeLimits, EditDraft, ExpireStep, RejectDraft
from redraft.events.messages.conditions import Condition, approved, outputs, plateau, score
from redraft.events.messages.content import Brief
from redraft.events.messages.domain_events import (
    ApprovalRequested,
    DraftPublished,
    LoopEnded,
    RunEnded,
    RunStarted,
    StepRequested,
)
from redraft.events.messages.plan import Approve, Budget, Combine, Node, Parallel, Plan, Repeat, Step

WRITE, JUDGE, OTHER = step("generator", "write"), step("critic", "judge"), step("critic", "other")
IMPROVE, SAVE, WEB = step("refiner", "improve"), step("publisher", "save"), step("publisher", "web")
GATE = Step("critic", "gate", "gate", gate=True)
ASK = Approve("editor")

Answer: TypeAlias = str | float | tuple[float, bool]


def begun(plan: Plan, rules: int = 2) -> Run:
    run = Run(check_plan(plan))
    decision = continue_from(RunState(), RunStarted(plan, Brief("brief"), NOW, rules=rules), NOW)
    run.events, run.state = list(decision.events), decision.state
    return run


def played(plan: Plan, *answers: Answer, rules: int = 2) -> Run:
    """The run after these answers, each to the request that is open first.

    A text is a draft, or `fail` a failure for good; a number is a score, with False a veto; publishers publish.
    """
    return play(begun(plan, rules), *answers)


def play(run: Run, *answers: Answer) -> Run:
    for answer in answers:
        published(run)
        path = next(iter(run.state.open))
        match answer:
            case "fail":
                run.fail(path, retryable=False)
            case str():
                run.answer(path, value=0, text=answer)
            case float():
                run.answer(path, value=answer, text="")
            case (value, verdict):
                run.answer(path, value=value, text="", verdict=verdict)
    return published(run)


def published(run: Run) -> Run:
    """The run after all publishers that are asked have published."""
    while path := next((path for path, step in run.state.open.items() if step.step.role == "publisher"), None):
        run.answer(path, value=0, text="")
    if run.state.status == "ended" and run.state.rules >= 2:
        check_rules_two(run.events)
    return run


def drafts(run: Run) -> list[int]:
    """The versions that were published."""
    return [event.draft.version for event in run.events if isinstance(event, DraftPublished)]


def ended(run: Run) -> tuple[str, list[int]]:
    """How the run ended, and which drafts were published."""
    end = run.events[-1]
    assert isinstance(end, RunEnded), run.state.open
    return end.outcome, drafts(run)


def reason(run: Run) -> str:
    end = run.events[-1]
    assert isinstance(end, RunEnded)
    return end.reason


def plan(*nodes: Node, budget: Budget | None = None, on_failure: str = "fail") -> Plan:
    return Plan("p", (WRITE, *nodes), on_failure, budget)  # type: ignore[arg-type]


def loop(*body: Node, most: int = 2, until: Condition = score >= 0.9, name: str = "L", keep: str = "best") -> Repeat:
    return Repeat(name, until, most, body, keep)  # type: ignore[arg-type]


def decide(run: Run, kind: type[ApproveDraft] | type[RejectDraft]) -> Run:
    assert run.state.approval is not None
    run.send(kind(RUN, run.state.approval.request.draft, "so", "ann"))
    return published(run)


# a veto and a failed gate speak of one draft, which is never published


def test_a_veto_outside_of_loops_ends_the_run_before_a_publisher_is_asked() -> None:
    straight = plan(JUDGE, OTHER, SAVE)
    run = played(straight, "one", (0.9, False), 0.9)
    assert (ended(run), reason(run)) == (("rejected", []), "critic judge vetoed draft 1")
    assert ended(played(straight, "one", (0.9, False), 0.9, rules=1)) == ("accepted", [1])


def test_a_veto_with_no_publisher_after_it_is_not_accepted_either() -> None:
    assert ended(played(plan(JUDGE), "one", (0.9, False)))[0] == "rejected"
    assert ended(played(plan(JUDGE, SAVE, OTHER), "one", 0.9, (0.9, False))) == ("rejected", [1])


@pytest.mark.parametrize("combine", ["min", "median", "mean", "weights", "veto"])
def test_in_a_panel_one_veto_bars_the_draft_however_scores_are_combined(combine: Combine) -> None:
    panel = Parallel("panel", (JUDGE, OTHER), "all", combine, (1.0, 2.0) if combine == "weights" else ())
    run = played(plan(loop(panel, IMPROVE), SAVE), "one", (0.8, False), 0.8, "two", 0.3, 0.3, "three", 0.1, 0.1)
    assert ended(run) == ("exhausted", [2])
    run = played(plan(panel, SAVE), "one", 1.0, (0.95, False))
    assert (ended(run), reason(run)) == (("rejected", []), "critic other vetoed draft 1")


ENDINGS: dict[str, tuple[Repeat, tuple[Answer, ...]]] = {
    "max_iterations": (loop(JUDGE, IMPROVE), ((0.8, False), "two", (0.5, False), "three", (0.6, False))),
    "plateau": (
        loop(JUDGE, IMPROVE, until=(score >= 0.9) | plateau(0.5, 1), most=5),
        ((0.8, False), "two", (0.8, False)),
    ),
    "oscillating": (
        Repeat("L", score >= 0.9, 5, (JUDGE, IMPROVE), on_oscillation="stop"),
        ((0.8, False), "two", (0.75, False), "one", (0.7, False)),
    ),
    "one pass": (loop(JUDGE, most=1), ((0.95, False),)),
    "keep last": (loop(JUDGE, IMPROVE, keep="last"), ((0.8, False), "two", (0.5, False), "three", (0.6, False))),
}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("no", ["veto", "gate"])
def test_a_loop_whose_drafts_are_all_barred_ends_the_run_whatever_ends_it(ending: str, no: str) -> None:
    ends, answers = ENDINGS[ending]
    if no == "gate":
        body = tuple(GATE if node == JUDGE else node for node in ends.body)
        ends = Repeat(ends.name, ends.until, ends.max_iterations, body, ends.keep, on_oscillation=ends.on_oscillation)
    run = played(plan(ends, SAVE), "one", *answers)
    assert ended(run) == ("rejected", [])
    assert ("gate gate did not pass draft" if no == "gate" else "critic judge vetoed draft") in reason(run)


def test_the_best_draft_without_a_veto_leaves_not_the_best() -> None:
    judged = ("one", 0.3, "two", (0.8, False), "three", 0.2)
    assert ended(played(plan(loop(JUDGE, IMPROVE), SAVE), *judged)) == ("exhausted", [1])
    assert ended(played(plan(loop(JUDGE, IMPROVE), SAVE), *judged, rules=1)) == ("exhausted", [2])


def test_the_last_draft_leaves_where_the_plan_says_so_but_not_with_a_veto() -> None:
    last = plan(loop(JUDGE, IMPROVE, keep="last"), SAVE)
    assert ended(played(last, "one", 0.5, "two", 0.3, "three", 0.2)) == ("exhausted", [3])
    assert ended(played(last, "one", 0.3, "two", 0.5, "three", (0.7, False))) == ("exhausted", [2])


def test_a_draft_that_was_not_yet_good_enough_is_not_vetoed() -> None:
    assert ended(played(plan(JUDGE, SAVE), "one", 0.1)) == ("accepted", [1])


def test_a_closing_pass_judges_what_may_leave() -> None:
    run = played(plan(loop(JUDGE, IMPROVE, most=1), SAVE), "one", (0.8, False), "two", 0.3)
    assert ended(run) == ("exhausted", [2])
    run = played(plan(loop(JUDGE, IMPROVE, most=1), SAVE), "one", 0.3, "two", (0.95, False))
    assert ended(run) == ("exhausted", [1])


def test_the_same_text_stays_barred() -> None:
    run = played(plan(loop(JUDGE, IMPROVE), SAVE), "one", (0.5, False), "two", 0.5, "one", (0.95, True))
    assert ended(run) == ("exhausted", [2])


def test_a_refinement_that_leaves_the_loop_with_a_vetoed_draft_does_not() -> None:
    run = played(plan(loop(JUDGE, IMPROVE), SAVE), "one", (0.8, False))
    run.answer(next(iter(run.state.open)), value=0, text="one", leave=True)
    assert ended(published(run)) == ("rejected", [])


def test_of_the_drafts_that_a_judge_compares_one_without_a_veto_goes_on() -> None:
    writers = Parallel("drafts", (step("generator", "a"), step("generator", "b")), judge=JUDGE)
    run = played(Plan("p", (writers, SAVE)), "one", "two", (0.9, False), 0.4)
    assert ended(run) == ("accepted", [2])


def test_a_critic_of_the_outer_loop_bars_what_an_inner_loop_ended_with() -> None:
    inner = loop(JUDGE, name="Inner", most=1)
    outer = loop(inner, OTHER, IMPROVE, name="Outer", most=1, until=score >= 0.99)
    run = played(plan(outer, SAVE), "one", 0.95, (0.8, False), "two", 0.3)
    assert ended(run) == ("exhausted", [2])
    assert sent(run) == [(2, [])]


def test_a_loop_without_critics_ends_with_what_it_made_not_with_the_outline() -> None:
    chapters = loop(step("generator", "chapter"), loop(OTHER, name="C", most=1), name="Chapters", until=outputs >= 9)
    judged = ("outline", 0.99, "first", 0.3, "second", 0.2)
    assert ended(played(plan(JUDGE, chapters, SAVE), *judged)) == ("exhausted", [3])
    assert ended(played(plan(JUDGE, chapters, SAVE), *judged, rules=1)) == ("exhausted", [1])


def test_a_publisher_in_a_loop_is_passed_over_for_a_barred_draft() -> None:
    run = played(plan(loop(JUDGE, SAVE, IMPROVE), WEB), "one", (0.8, False), "two", 0.5, "three", 0.4)
    assert ended(run) == ("exhausted", [2, 2])


# people


def test_people_may_overrule_a_veto_and_their_approval_is_of_that_hash() -> None:
    run = played(plan(JUDGE, ASK, SAVE), "one", (0.9, False))
    assert run.state.approval is not None
    assert ended(decide(run, ApproveDraft)) == ("accepted", [1])


def test_people_do_not_overrule_a_gate() -> None:
    run = played(plan(GATE, ASK, SAVE), "one", 0.9)
    assert ended(decide(run, ApproveDraft)) == ("rejected", [])


def test_a_deadline_overrules_nobody() -> None:
    late = Approve("editor", on_deadline="approve")
    for said, end in (((0.9, False), ("rejected", [])), (0.9, ("accepted", [1]))):
        run = played(plan(JUDGE, late, SAVE), "one", said)
        assert run.state.approval is not None
        run.now = run.state.approval.request.due
        run.send(ExpireStep(RUN, "editor", 1))
        assert ended(published(run)) == end


def test_two_have_to_approve_before_a_veto_is_overruled() -> None:
    run = played(plan(JUDGE, Approve("editor", quorum=2), SAVE), "one", (0.9, False))
    decide(run, ApproveDraft)
    assert run.state.approval is not None
    run.send(ApproveDraft(RUN, run.state.approval.request.draft, "so", "ben"))
    assert ended(published(run)) == ("accepted", [1])


def test_a_veto_after_the_approval_of_that_hash_does_not_count() -> None:
    run = decide(played(plan(JUDGE, ASK, OTHER, SAVE), "one", 0.9), ApproveDraft)
    assert ended(play(run, (0.9, False))) == ("accepted", [1])


def test_in_a_loop_people_are_asked_of_a_vetoed_draft_if_their_approval_would_end_it() -> None:
    review = loop(JUDGE, ASK, IMPROVE, until=approved & (score >= 0.5), name="Review")
    run = played(plan(review, SAVE), "one", (0.3, False), "two", (0.6, False))
    assert [event.draft.version for event in run.events if isinstance(event, ApprovalRequested)] == [2]
    assert ended(decide(run, ApproveDraft)) == ("accepted", [2])
    old = played(plan(review, SAVE), "one", (0.3, False), "two", (0.6, False), rules=1)
    assert old.state.approval is None


def test_in_a_loop_people_are_not_asked_of_what_a_gate_did_not_pass() -> None:
    review = loop(GATE, ASK, IMPROVE, until=approved, name="Review", most=1)
    run = played(plan(review, SAVE), "one", 0.9, "two", 0.9)
    assert not any(isinstance(event, ApprovalRequested) for event in run.events)
    assert ended(run) == ("rejected", [])


def test_what_people_rejected_in_a_loop_is_not_published() -> None:
    review = loop(JUDGE, ASK, IMPROVE, until=approved, name="Review", most=2)
    run = decide(played(plan(review, SAVE), "one", 0.9), RejectDraft)
    run = decide(play(run, "two", 0.8), RejectDraft)
    assert ended(run) == ("rejected", [])


def test_a_rejected_draft_is_what_is_refined_next() -> None:
    review = loop(JUDGE, ASK, IMPROVE, until=approved & (score >= 0.5), name="Review", most=3)
    run = decide(played(plan(review, SAVE), "one", 0.4, "two", 0.9), RejectDraft)
    (asked,) = run.state.open.values()
    assert (asked.step.role, asked.draft.version if asked.draft else 0) == ("refiner", 2)


def test_a_persons_draft_may_be_vetoed_too_and_people_overrule_it() -> None:
    run = played(plan(JUDGE, ASK, SAVE), "one", 0.9)
    assert run.state.approval is not None
    run.send(EditDraft(RUN, run.state.approval.request.draft, "mine", "", "ann"))
    run = play(run, (0.2, False))
    assert ended(decide(run, ApproveDraft)) == ("accepted", [2])


def test_a_publisher_in_a_loop_waits_for_the_approval_before_it() -> None:
    review = loop(JUDGE, ASK, SAVE, IMPROVE, until=approved & (score >= 0.8), name="Review", most=3)
    run = decide(played(plan(review, WEB), "one", 0.3, "two", 0.9), ApproveDraft)
    assert ended(run) == ("accepted", [2])
    assert drafts(played(plan(review, WEB), "one", 0.3, rules=1)) == [1]


@pytest.mark.parametrize("rules", [1, 2])
def test_limits_changed_while_critics_look_at_an_edit_skip_none_of_them(rules: int) -> None:
    run = played(plan(JUDGE, OTHER, ASK, loop(JUDGE_AGAIN), SAVE), "one", 0.9, 0.9, rules=rules)
    assert run.state.approval is not None
    run.send(EditDraft(RUN, run.state.approval.request.draft, "mine", "", "ann"))
    run.send(ChangeLimits(RUN, "L", None, 4, "", "ann"))
    run = play(run, 0.8)
    assert ("other[edit1]" in run.state.open) == (rules == 2)


JUDGE_AGAIN = Step("critic", "judge", "again")


# what is published when a run cannot go on


def test_a_run_whose_step_failed_ends_failed_though_its_best_draft_was_published() -> None:
    best = plan(loop(JUDGE, IMPROVE), SAVE, on_failure="publish_best")
    assert ended(played(best, "one", 0.5, "fail")) == ("failed", [1])
    assert ended(played(best, "one", 0.5, "fail", rules=1)) == ("exhausted", [1])


def test_a_failure_publishes_the_best_draft_that_nothing_bars() -> None:
    best = plan(loop(JUDGE, IMPROVE, most=3), SAVE, on_failure="publish_best")
    assert ended(played(best, "one", 0.3, "two", (0.8, False), "fail")) == ("failed", [1])
    assert ended(played(best, "one", (0.8, False), "fail")) == ("failed", [])


def test_a_budget_that_ends_publishes_the_best_draft_that_nothing_bars() -> None:
    short = plan(loop(JUDGE, IMPROVE, most=9), SAVE, on_failure="publish_best", budget=Budget(seconds=60))
    run = played(short, "one", 0.3, "two", (0.8, False))
    path = next(iter(run.state.open))
    run.now = run.state.open[path].due
    run.send(ExpireStep(RUN, path, 1))
    assert ended(published(run)) == ("over_budget", [1])


CHAPTER = step("generator", "chapter")
CHAPTERS = loop(CHAPTER, loop(JUDGE, IMPROVE, name="Chapter", most=2), name="Chapters", until=outputs >= 3, most=3)


def sent(run: Run) -> list[tuple[int, list[int]]]:
    """What publishers were asked to publish, with the finished parts."""
    asked = [event for event in run.events if isinstance(event, StepRequested) and event.role == "publisher"]
    return [(event.draft.version if event.draft else 0, [ref.version for ref in event.outputs]) for event in asked]


def test_when_a_chapter_fails_each_finished_one_is_published_once() -> None:
    book = plan(OTHER, CHAPTERS, SAVE, on_failure="publish_best")
    finished: tuple[Answer, ...] = ("outline", 0.99, "first", 0.95)
    for failing, what in (
        (("fail",), [(2, [2])]),  # the second chapter is not written
        (("second", "fail"), [(2, [2])]),  # written, and judged by nobody
        (("second", 0.4, "fail"), [(3, [2, 3])]),  # judged
        (("second", (0.4, False), "fail"), [(2, [2])]),  # vetoed
    ):
        run = played(book, *finished, *failing)
        assert (ended(run)[0], sent(run)) == ("failed", what), failing
    assert sent(played(book, *finished, "fail", rules=1)) == [(1, [2])]


def test_when_the_first_chapter_fails_the_outline_is_not_published() -> None:
    book = plan(OTHER, CHAPTERS, SAVE, on_failure="publish_best")
    assert ended(played(book, "outline", 0.99, "fail")) == ("failed", [])
    assert ended(played(book, "outline", 0.99, "first", "fail")) == ("failed", [])


def test_what_an_earlier_loop_ended_with_is_not_published_in_place_of_a_later_ones() -> None:
    two = plan(loop(JUDGE), SAVE, CHAPTER, loop(OTHER, IMPROVE, name="Second"), WEB, on_failure="publish_best")
    assert ended(played(two, "one", 0.95, "fail")) == ("failed", [1])
    assert ended(played(two, "one", 0.95, "other", "fail")) == ("failed", [1])
    assert ended(played(two, "one", 0.95, "other", 0.3, "fail")) == ("failed", [1, 2])


def test_a_loop_around_ends_with_its_own_best_draft() -> None:
    inner = loop(JUDGE, name="Inner", most=1, until=score >= 0.1)
    outer = loop(inner, OTHER, IMPROVE, name="Outer", most=3)
    best = plan(outer, SAVE, on_failure="publish_best")
    assert ended(played(best, "one", 0.8, 0.5, "two", "fail")) == ("failed", [1])
    assert ended(played(best, "one", 0.8, "fail")) == ("failed", [1])
    ends = [event for event in played(best, "one", 0.8, 0.5, "two", "fail").events if isinstance(event, LoopEnded)]
    assert [(event.path, event.draft.version) for event in ends[1:]] == [("Outer[2]/Inner", 0), ("Outer", 1)]


def test_a_failure_after_the_loop_publishes_what_the_loop_ended_with() -> None:
    best = plan(loop(JUDGE, IMPROVE), OTHER, SAVE, on_failure="publish_best")
    assert ended(played(best, "one", 0.95, "fail")) == ("failed", [1])
    vetoed = plan(loop(JUDGE, IMPROVE), OTHER, JUDGE_AGAIN, SAVE, on_failure="publish_best")
    assert ended(played(vetoed, "one", 0.95, (0.9, False), "fail")) == ("failed", [])


def test_after_an_approval_a_failure_publishes_only_what_people_approved() -> None:
    after = plan(JUDGE, ASK, OTHER, SAVE, on_failure="publish_best")
    run = decide(played(after, "one", 0.9), ApproveDraft)
    assert ended(play(run, "fail")) == ("failed", [1])
    again = plan(JUDGE, ASK, loop(OTHER, IMPROVE, most=3), Approve("chief"), SAVE, on_failure="publish_best")
    run = decide(played(again, "one", 0.9), ApproveDraft)
    assert ended(play(run, 0.3, "two", 0.7, "fail")) == ("failed", [])


def test_while_an_approval_lies_ahead_a_failure_publishes_nothing() -> None:
    ahead = plan(loop(JUDGE, IMPROVE), OTHER, ASK, SAVE, on_failure="publish_best")
    assert ended(played(ahead, "one", 0.95, "fail")) == ("failed", [])
    review = loop(loop(JUDGE, IMPROVE, name="Inner"), ASK, name="Review", until=approved)
    inside = plan(review, SAVE, on_failure="publish_best")
    assert ended(played(inside, "one", 0.3, "fail")) == ("failed", [])


def test_a_second_loop_that_leaves_the_draft_as_it_is_adds_no_output():
    first = Repeat("First", score >= 0.9, 1, (IMPROVE, JUDGE))
    second = Repeat("Second", score >= 0.9, 1, (JUDGE, IMPROVE))
    run = played(Plan("two", (WRITE, first, second, SAVE)), "one", "two", 0.5, 0.95)
    asked = [each for each in run.events if isinstance(each, StepRequested) and each.role == "publisher"]
    assert [[ref.version for ref in each.outputs] for each in asked] == [[2]]
    old = played(Plan("two", (WRITE, first, second, SAVE)), "one", "two", 0.5, 0.95, rules=1)
    asked = [each for each in old.events if isinstance(each, StepRequested) and each.role == "publisher"]
    assert [[ref.version for ref in each.outputs] for each in asked] == [[2, 2]]


def test_a_loop_whose_refiner_gives_the_vetoed_text_again_leaves_nothing():
    """Hypothesis found the vetoed draft leaving an inner loop that had judged nothing."""
    inner = Repeat("Inner", score >= 0.9, 1, (IMPROVE, JUDGE))
    outer = Repeat("Outer", score >= 0.9, 2, (OTHER, inner))
    run = begun(Plan("again", (WRITE, outer, SAVE)))
    play(run, "one", (0.5, False))
    path = next(iter(run.state.open))
    run.answer(path, value=0, text="one", leave=True)
    end = run.events[-1]
    assert isinstance(end, RunEnded)
    assert (end.outcome, end.draft) == ("rejected", None)
    assert not any(isinstance(event, LoopEnded) for event in run.events)


def test_people_decide_what_is_left_of_a_run_that_fails_after_they_did() -> None:
    inner = Repeat("Inner", score >= 0.99, 3, (JUDGE, IMPROVE))
    plan = Plan("p", (WRITE, OTHER, ASK, SAVE, inner), "publish_best")
    run = played(plan, "one", 0.5)
    assert run.state.approval is not None
    run.send(ApproveDraft(RUN, run.state.approval.request.draft, "", "ann"))
    play(run, 0.5, "two", 0.8, "fail")
    ends = [event for event in run.events if isinstance(event, LoopEnded | RunEnded)]
    versions = [event.draft and event.draft.version for event in ends]
    assert versions == [1, 1], "the second is better, and nobody approved it"


@pytest.mark.parametrize(("margin", "version"), [(1.0, 2), (0.5, 1)])
def test_after_a_failed_gate_the_last_that_passed_is_refined_unless_the_plan_keeps_to_the_latest(
    margin: float, version: int
) -> None:
    plan = Plan("p", (WRITE, Repeat("L", score >= 0.99, 3, (GATE, JUDGE, IMPROVE), rollback_margin=margin)))
    run = played(plan, "one", 1.0, 0.5, "two", 0.2)
    asked = run.state.open["L[2]/improve"]
    assert asked.draft is not None
    assert asked.draft.version == version


def test_by_rules_1_a_run_that_fails_after_a_gate_said_no_publishes_nothing() -> None:
    plan = Plan("p", (WRITE, GATE, IMPROVE, JUDGE, SAVE), "publish_best")
    assert ended(played(plan, "one", 0.2, "fail", rules=1)) == ("failed", [])
    assert ended(played(plan, "one", 1.0, "fail", rules=1))[1] == [1]


def test_by_rules_1_scores_are_compared_from_the_first_draft_on_that_passed_its_gates() -> None:
    loop = Repeat("L", (score >= 0.99) | plateau(0.01, over=1), 5, (GATE, JUDGE, IMPROVE))
    run = played(Plan("p", (WRITE, loop)), "one", 0.9, "two", 1.0, 0.5, rules=1)
    assert run.state.status == "running", "0.9 was said of a draft that did not pass"
    play(run, "three", 1.0, 0.5)
    assert ended(run)[0] == "plateaued"


def test_a_refinement_that_changes_nothing_has_the_judgement_of_what_it_was_made_from() -> None:
    loop = Repeat("L", score >= 0.99, 3, (JUDGE, IMPROVE), rollback_margin=0.3)
    run = played(Plan("p", (WRITE, loop)), "one", 0.8, "two", 0.2, "one")
    current = run.state.current
    assert current is not None
    assert current.judgement is not None
    assert (current.ref.version, current.judgement.score) == (3, 0.8)
