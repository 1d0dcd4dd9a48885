"""The ends of loops that no draft has satisfied: publish, ask people, or fail; decided, and checked independently."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.actors.deciding.test_approval import IMPROVE, JUDGE, SAVE, WRITE, approve, plan, reject, waiting
from tests.projections.random_runs import as_recorded
from tests.properties.test_deciding_properties import RUN, Run, step

from redraft.actors.conditions.text import parse_condition
from redraft.actors.deciding.forking import why_unfit
from redraft.actors.plans.check import check_plan, check_ready
from redraft.events.errors import PlanError
from redraft.events.messages.commands import ApproveDraft, ChangeLimits, Completed, EditDraft, ExpireStep, StartRun
from redraft.events.messages.conditions import outputs, plateau, score, state
from redraft.events.messages.content import Brief
from redraft.events.messages.domain_events import (
    ApprovalRequested,
    DraftPublished,
    LimitsChanged,
    LoopEnded,
    Outcome,
    Parent,
    RunEnded,
)
from redraft.events.messages.plan import Approve, Budget, Ending, Node, OnFailure, OnOscillation, Parallel, Plan, Repeat
from redraft.projections.record_check import check_events

BODY = (JUDGE, IMPROVE)


def loop(
    *,
    most: int = 2,
    exhausted: Ending = "publish",
    plateaued: Ending = "publish",
    oscillation: OnOscillation = "ignore",
    ask: Approve | None = None,
    name: str = "L",
    body: tuple[Node, ...] = BODY,
) -> Repeat:
    until = (score >= 0.95) | plateau(0.05, 1) if plateaued != "publish" else score >= 0.95
    return Repeat(
        name, until, most, body, on_oscillation=oscillation, on_exhausted=exhausted, on_plateau=plateaued, ask=ask
    )


def go(run: Run, *answers: tuple[float, str]) -> None:
    """Answers one request after the other, each with a score and a text."""
    for value, text in answers:
        path, asked = next(iter(run.state.open.items()))
        if asked.step.role == "step":
            run.send(Completed(RUN, path, asked.attempt, {}))
        else:
            run.answer(path, value=value, text=text)


def begun(*nodes: Node, on_failure: OnFailure = "fail", budget: Budget | None = None) -> Run:
    run = Run(replace(plan(*nodes), on_failure=on_failure, budget=budget))
    go(run, (0, "one"))
    return run


def exhausted_run(ending: Ending, ask: Approve | None = None, *after: Node) -> Run:
    """A run whose loop made two drafts more: scores 0.5, 0.7 and 0.6, so that the second one is the best."""
    run = begun(loop(exhausted=ending, ask=ask), *after)
    go(run, (0.5, ""), (0, "two"), (0.7, ""), (0, "three"), (0.65, ""))
    return run


def end_of(run: Run) -> tuple[Outcome, int]:
    ended = run.events[-1]
    assert isinstance(ended, RunEnded)
    return ended.outcome, ended.draft.version if ended.draft else 0


def publications(run: Run) -> int:
    return sum(isinstance(event, DraftPublished) for event in run.events)


def findings(run: Run) -> object:
    return check_events(as_recorded(run.events, run.times))


def test_a_loop_that_fails_when_it_is_exhausted_ends_the_run_as_exhausted_with_nothing_published() -> None:
    run = exhausted_run("fail")
    assert (end_of(run), publications(run)) == (("exhausted", 2), 0)
    assert not any(isinstance(event, LoopEnded) for event in run.events)
    assert findings(run) == ()


def test_a_loop_that_asks_when_it_is_exhausted_publishes_its_best_draft_once_people_approve_it() -> None:
    run = exhausted_run("ask", Approve("editor", ("ann",)))
    asked = run.events[-1]
    assert isinstance(asked, ApprovalRequested)
    assert (asked.path, asked.draft.version, asked.approvers) == ("L[editor]", 2, ("ann",))
    assert publications(run) == 0
    assert approve(run, "eve") == ()
    approve(run, "ann")
    go(run, (0, ""))
    assert (end_of(run), publications(run)) == (("exhausted", 2), 1)
    assert findings(run) == ()


def test_a_rejection_of_the_draft_that_people_are_asked_about_ends_the_run_as_rejected() -> None:
    run = exhausted_run("ask")
    reject(run)
    assert (end_of(run)[0], publications(run)) == ("rejected", 0)
    assert findings(run) == ()


def test_an_edit_of_the_draft_that_people_are_asked_about_is_judged_and_asked_about_again() -> None:
    run = exhausted_run("ask")
    run.send(EditDraft(RUN, waiting(run), "by hand", by="ann"))
    assert list(run.state.open) == ["L[edit1]/judge"]
    go(run, (0.8, ""))
    assert waiting(run).version == 4
    approve(run)
    go(run, (0, ""))
    assert (end_of(run), publications(run)) == (("exhausted", 4), 1)
    assert findings(run) == ()


@pytest.mark.parametrize("ending", ["ask", "fail"])
def test_nobody_is_asked_and_nothing_fails_where_a_draft_met_the_condition(ending: Ending) -> None:
    run = begun(loop(exhausted=ending, plateaued=ending, oscillation=ending))
    go(run, (0.99, ""), (0, ""))
    assert (end_of(run), publications(run)) == (("accepted", 1), 1)
    assert findings(run) == ()


@pytest.mark.parametrize(("ending", "outcome"), [("fail", "plateaued"), ("ask", None), ("publish", "plateaued")])
def test_a_plateau_has_its_own_ending(ending: Ending, outcome: Outcome | None) -> None:
    node = Repeat("L", (score >= 0.95) | plateau(0.05, 1), 5, BODY, on_exhausted="publish", on_plateau=ending)
    run = begun(node)
    go(run, (0.5, ""), (0, "two"), (0.5, ""))
    if outcome is None:
        assert waiting(run).version == 2
        approve(run)
    if ending != "fail":
        go(run, (0, ""))
    assert (end_of(run)[0], publications(run)) == ("plateaued", ending != "fail")
    assert findings(run) == ()


@pytest.mark.parametrize("limit", ["elapsed > 3", "elapsed > 3 and not score >= 0.95"])
@pytest.mark.parametrize(("ending", "outcome"), [("fail", "timed_out"), ("ask", None), ("publish", "timed_out")])
def test_a_limit_that_the_condition_names_ends_a_loop_as_its_iterations_do(
    ending: Ending, outcome: Outcome | None, limit: str
) -> None:
    node = Repeat("L", parse_condition(f"score >= 0.95 or {limit}"), 5, BODY, on_exhausted=ending)
    run = begun(node)
    run.now += timedelta(seconds=10)
    go(run, (0.5, ""))
    if outcome is None:
        assert waiting(run).version == 1
        approve(run)
    if ending != "fail":
        go(run, (0, ""))
    assert (end_of(run)[0], publications(run)) == ("timed_out", ending != "fail")
    assert findings(run) == ()


@pytest.mark.parametrize("ending", ["publish", "stop", "ask", "fail"])
def test_a_loop_that_goes_in_circles_has_its_own_ending(ending: OnOscillation) -> None:
    run = begun(loop(most=5, oscillation=ending))
    go(run, (0.5, ""), (0, "two"), (0.5, ""), (0, "one"))
    while run.state.open and run.state.frames[-1].node is not None:
        go(run, (0.5, ""))
    if ending == "ask":
        assert waiting(run).version
        approve(run)
    if ending != "fail":
        go(run, (0, ""))
    assert (end_of(run)[0], publications(run)) == ("oscillating", ending != "fail")
    assert findings(run) == ()


def test_people_are_asked_about_a_loop_in_a_loop_before_the_outer_condition_is_looked_at() -> None:
    inner = loop(most=1, exhausted="ask", name="Inner")
    outer = Repeat("Outer", outputs >= 1, 3, (inner,))
    run = begun(outer)
    go(run, (0.5, ""), (0, "two"), (0.6, ""))
    asked = run.events[-1]
    assert isinstance(asked, ApprovalRequested)
    assert asked.path == "Outer[1]/Inner[ask]"
    approve(run)
    go(run, (0, ""))
    assert (end_of(run)[0], publications(run)) == ("accepted", 1)
    assert findings(run) == ()


def test_a_rejected_draft_of_a_loop_in_a_loop_is_for_the_next_iteration_of_the_outer_one() -> None:
    inner = loop(most=1, exhausted="ask", name="Inner")
    run = begun(Repeat("Outer", outputs >= 1, 2, (inner,)))
    go(run, (0.5, ""), (0, "two"), (0.6, ""))
    reject(run)
    assert list(run.state.open) == ["Outer[2]/Inner[1]/judge"]
    assert findings(run) == ()


def test_a_loop_in_a_loop_that_fails_ends_the_run() -> None:
    inner = loop(most=1, exhausted="fail", name="Inner")
    run = begun(Repeat("Outer", outputs >= 2, 3, (inner,)))
    go(run, (0.5, ""), (0, "two"), (0.6, ""))
    assert (end_of(run), publications(run)) == (("exhausted", 2), 0)
    assert findings(run) == ()


def test_people_are_not_asked_about_drafts_that_a_gate_refused() -> None:
    gate = replace(step("critic", "gate"), gate=True)
    run = begun(loop(most=1, exhausted="ask", body=(gate, IMPROVE)))
    go(run, (0.1, ""), (0, "two"), (0.2, ""))
    assert (end_of(run)[0], publications(run)) == ("rejected", 0)
    assert findings(run) == ()


def test_a_later_loop_that_is_accepted_publishes_without_the_question_of_the_first() -> None:
    run = begun(loop(exhausted="ask"), loop(name="Second", exhausted="ask"))
    go(run, (0.99, ""), (0.99, ""), (0, ""))
    assert (end_of(run)[0], publications(run)) == ("accepted", 1)
    assert findings(run) == ()


PLATEAUS = (score >= 0.9) | plateau(0.1, 1)


@pytest.mark.parametrize(
    "steps",
    [
        (loop(exhausted="ask"), loop(name="Second")),
        (loop(exhausted="ask"), loop(name="Second", plateaued="ask")),
        (loop(exhausted="ask"), replace(loop(name="Second", exhausted="ask"), until=PLATEAUS)),
        (loop(exhausted="ask"), loop(name="Second", exhausted="ask", oscillation="publish")),
        (loop(exhausted="ask"), IMPROVE, JUDGE),
        (Repeat("Outer", score >= 0.9, 2, (loop(name="Inner", exhausted="ask"), JUDGE, IMPROVE)),),
    ],
)
def test_a_plan_that_changes_what_people_were_asked_about_at_a_loops_end_is_refused(steps: tuple[Node, ...]) -> None:
    with pytest.raises(PlanError, match="save: a step before this one changes what people approved"):
        check_ready(plan(*steps))
    check_ready(plan(*steps), begun=True)


@pytest.mark.parametrize(
    "steps",
    [
        (loop(exhausted="ask"), loop(name="Second", exhausted="ask")),
        (loop(exhausted="ask"), replace(loop(name="Second", exhausted="ask", plateaued="fail"), until=PLATEAUS)),
        (loop(exhausted="ask"), loop(name="Second"), Approve("editor")),
        (Repeat("Outer", score >= 0.9, 2, (JUDGE, IMPROVE, loop(name="Inner", exhausted="ask"))),),
    ],
)
def test_a_plan_that_asks_about_each_change_is_right(steps: tuple[Node, ...]) -> None:
    check_ready(plan(*steps))


def test_a_run_that_began_with_a_plan_that_is_refused_today_goes_on_with_other_limits() -> None:
    gate = replace(step("critic", "gate"), gate=True)
    old = plan(loop(exhausted="ask"), loop(name="Second", body=(gate, IMPROVE, JUDGE)))
    run = Run(old)
    go(run, (0, "one"))
    run.send(ChangeLimits(RUN, "Second", max_iterations=5, by="ann"))
    assert [type(each) for each in run.events][-1] is LimitsChanged
    assert findings(run) == ()


def test_people_may_let_the_state_decide_where_a_judge_chose() -> None:
    """Then the loop's condition judges, and the checker knows it."""
    best = Parallel("Best", (step("generator", "one"), step("generator", "two")), judge=step("critic", "rate"))
    run = begun(Repeat("L", score >= 0.95, 2, (step("generator", "anew"), step("step", "look"), best)))
    go(run, (0, "two"))
    run.send(ChangeLimits(RUN, until=parse_condition("state.passed"), by="ann"))
    run.send(Completed(RUN, "L[1]/look", 1, {"passed": True}))
    go(run, (0, ""))
    assert (end_of(run)[0], publications(run)) == ("accepted", 1)
    assert findings(run) == ()


def test_limits_changed_while_a_free_step_looks_at_the_last_draft_ask_nobody_else_about_it() -> None:
    look = step("step", "look")
    node = Repeat("L", (score >= 0.95) & state.ok, 1, (look, IMPROVE, JUDGE), on_exhausted="fail")
    run = begun(node)
    go(run, (0, ""), (0, "two"), (0.5, ""))
    assert list(run.state.open) == ["L[closing]/look"]
    run.send(ChangeLimits(RUN, until=(score >= 0.4) & state.ok, by="ann"))
    run.send(Completed(RUN, "L[closing]/look", 1, {"ok": True}))
    assert list(run.state.open) == ["save"]
    go(run, (0, ""))
    assert (end_of(run)[0], publications(run)) == ("accepted", 1)
    assert findings(run) == ()


@pytest.mark.parametrize(
    ("node", "fault"),
    [
        (Repeat("L", score >= 0.9, 2, BODY, on_exhausted="skip"), "L: on_exhausted is 'skip'; write publish or ask"),
        (Repeat("L", score >= 0.9, 2, BODY, ask=Approve("ann")), "L: ask says who is asked, but no end of this loop"),
        (
            Repeat("L", score >= 0.9, 2, BODY, on_plateau="ask", ask=Approve("ask", quorum=0)),
            "quorum is 0; write a whole number",
        ),
    ],
    ids=["unknown", "nobody asks", "quorum"],
)
def test_endings_that_make_no_sense_are_refused(node: Repeat, fault: str) -> None:
    with pytest.raises(PlanError) as refused:
        check_plan(Plan("p", (WRITE, node, SAVE)))
    assert fault in str(refused.value)


def test_a_person_who_is_not_asked_cannot_approve_before_the_loop_has_ended() -> None:
    run = begun(loop(exhausted="ask"))
    assert run.state.current is not None
    assert run.send(ApproveDraft(RUN, run.state.current.ref, "good", "ann")) == ()


def test_a_fork_repeats_no_question_that_its_plan_does_not_ask() -> None:
    def outer(ending: Ending) -> Plan:
        return plan(Repeat("Outer", outputs >= 1, 2, (loop(most=1, exhausted=ending, name="Inner"),)))

    run = Run(outer("ask"))
    go(run, (0, "one"), (0.5, ""), (0, "two"), (0.6, ""))
    past = as_recorded(run.events, run.times)
    parent = Parent(past[0].run, past[-1].version)
    assert why_unfit(StartRun("f", outer("ask"), Brief("b"), parent=parent), past) == ""
    refused = why_unfit(StartRun("f", outer("fail"), Brief("b"), parent=parent), past)
    assert refused == "people were asked at Outer[1]/Inner[ask], and its plan asks nobody there; fork earlier"


@pytest.mark.parametrize("nested", [False, True])
def test_nothing_is_published_when_a_step_fails_while_people_are_to_decide_at_a_loops_end(nested: bool) -> None:
    """Seed 115685: the critics of a person's edit fail for good, and `publish_best` has no draft that was approved."""
    inner = loop(most=1, exhausted="ask")
    run = begun(Repeat("Outer", outputs >= 2, 2, (inner,)) if nested else inner, on_failure="publish_best")
    go(run, (0.5, ""), (0, "two"), (0.6, ""))
    run.send(EditDraft(RUN, waiting(run), "by hand", by="ann"))
    run.fail(next(iter(run.state.open)), retryable=False)
    ended = run.events[-1]
    assert isinstance(ended, RunEnded)
    assert (ended.outcome, publications(run)) == ("failed", 0)
    assert "published" not in ended.reason
    assert findings(run) == ()


@pytest.mark.parametrize("edits", [0, 1])
def test_a_budget_that_ends_while_people_are_to_decide_at_a_loops_end_publishes_nothing(edits: int) -> None:
    """Seed 119469: it ends while they are asked, or while the critics look at what one of them wrote."""
    run = begun(loop(most=1, exhausted="ask"), on_failure="publish_best", budget=Budget(seconds=60.0))
    go(run, (0.5, ""), (0, "two"), (0.6, ""))
    if edits:
        run.send(EditDraft(RUN, waiting(run), "by hand", by="ann"))
    run.now += timedelta(seconds=60)
    run.send(ExpireStep(RUN, "L[edit1]/judge" if edits else "L[ask]", 1))
    assert (end_of(run)[0], publications(run)) == ("over_budget", 0)
    assert findings(run) == ()


def test_what_people_approved_at_a_loops_end_is_published_when_a_later_step_fails() -> None:
    run = begun(loop(most=1, exhausted="ask"), step("step", "count"), on_failure="publish_best")
    go(run, (0.5, ""), (0, "two"), (0.6, ""))
    approve(run)
    run.fail("count", retryable=False)
    go(run, (0, ""))
    assert (end_of(run), publications(run)) == (("failed", 2), 1)
    assert findings(run) == ()
