"""What if: a record decided again by its own plan is itself; by another, it parts where it has to, or where it ends."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.properties.test_deciding_properties import Run, driven, examples, plans
from tests.streams import recorded

from redraft.actors.deciding.decider import handle
from redraft.actors.deciding.policy import Policy, with_policy
from redraft.actors.plans.paths import find_loop
from redraft.actors.replay.whatif import WhatIf, decide_again, plan_of, what_if
from redraft.events.errors import InputError, PlanError
from redraft.events.messages.commands import ApproveDraft, CancelRun, Critiqued, EditDraft, ExpireStep, GuideRun
from redraft.events.messages.conditions import elapsed, plateau, score, tokens
from redraft.events.messages.content import Brief, Critique, Mark
from redraft.events.messages.domain_events import (
    DraftCritiqued,
    DraftRefined,
    LoopClosing,
    LoopEnded,
    RunEnded,
    RunStarted,
    StepFailed,
    StepRequested,
    VerdictLate,
)
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import Approve, Criterion, Parallel, Plan, Repeat, Retry, Step, loops_of
from redraft.events.messages.redaction import ERASED
from redraft.events.messages.usage import Usage

WRITE, JUDGE = Step("generator", "write", "write"), Step("critic", "judge", "judge")
IMPROVE, SAVE = Step("refiner", "improve", "improve", retry=Retry(3, 5.0)), Step("publisher", "save", "save")
NEVER = score >= 1.0


def record_of(run: Run) -> tuple[Recorded, ...]:
    events = recorded("r", [("somebody", event) for event in run.events])
    return tuple(replace(event, time=time) for event, time in zip(events, run.times, strict=True))


def looped(*body: Step, until=score >= 0.9, most: int = 5, **settings) -> Plan:
    return Plan("p", (WRITE, Repeat("Loop", until, most, body or (JUDGE, IMPROVE), **settings), SAVE))


def ran(plan: Plan, scores: Sequence[float], *, failures: Sequence[str] = ()) -> Run:
    """A run in which the nth draft is `draft n` and critics give it the nth score; an answer takes 10 seconds."""
    run = Run(plan)
    broken = list(failures)
    while run.state.status == "running" and run.state.open:
        path = next(iter(run.state.open))
        step = run.state.open[path]
        run.now += timedelta(seconds=10)
        if step.retry_at is not None:
            run.wake(path)
        elif path in broken:
            broken.remove(path)
            run.fail(path)
        elif step.step.role == "critic" and step.draft and step.draft.version > len(scores):
            break
        else:
            value = scores[step.draft.version - 1] if step.draft and step.step.role == "critic" else 0.0
            run.answer(path, value=value, text=f"draft {run.state.drafts + 1}")
    return run


def asked_again(run: Run, policy: Policy, loop: str = "") -> WhatIf:
    return what_if(record_of(run), policy, loop)


@examples
@given(plans(), st.data())
def test_a_record_decided_on_by_its_own_plan_is_itself(plan: Plan, data: st.DataObject):
    events = record_of(driven(plan, data))
    found = decide_again(events, plan_of(events))
    assert found.parting is None
    assert found.ends_at is None
    assert found.imagined == found.recorded


@examples
@given(plans(), st.data())
def test_a_record_that_was_cut_ends_where_it_was_cut(plan: Plan, data: st.DataObject):
    run = driven(plan, data)
    events = record_of(run)[: data.draw(st.integers(1, len(run.events) - 1))]
    found = decide_again(events, plan_of(events))
    assert found.recorded.outcome is None
    assert found.recorded.steps <= found.imagined.steps
    if found.imagined.outcome is None:
        assert found.ends_at
        asked = [event.data.path for event in events if isinstance(event.data, StepRequested)]
        assert found.ends_at in asked or found.parting


@examples
@given(plans(), st.data())
def test_another_policy_ends_or_names_where_the_record_does(plan: Plan, data: st.DataObject):
    events = record_of(driven(plan, data))
    path = data.draw(st.sampled_from([path for path, _ in loops_of(plan.steps)]))
    policy = Policy(
        data.draw(st.sampled_from([None, score >= 0.5, score >= 0.99, plateau(0.05, 1), elapsed > 5])),
        data.draw(st.sampled_from([None, 1, 2, 9])),
        data.draw(st.sampled_from([None, "best", "last"])),
        data.draw(st.sampled_from([None, 0.0, 1.0])),
    )
    found = decide_again(events, with_policy(plan, policy, path))
    assert (found.imagined.outcome is None) == (found.ends_at is not None)
    if found.parting is None:
        assert replace(found.imagined, reason="") == replace(found.recorded, reason="")
    if found.imagined.outcome is None:
        assert found.parting is not None


def test_a_stricter_condition_ends_the_record_where_it_was_accepted():
    found = asked_again(ran(looped(), [0.2, 0.92]), Policy(score >= 0.95))
    assert found.parting is not None
    assert isinstance(found.parting.recorded, LoopEnded)
    assert isinstance(found.parting.instead, StepRequested)
    assert (found.parting.instead.path, found.ends_at) == ("Loop[2]/improve", "Loop[2]/improve")
    assert (found.imagined.outcome, found.imagined.score, found.imagined.draft) == (None, 0.92, 2)
    assert (found.recorded.outcome, found.recorded.steps, found.imagined.steps) == ("accepted", 5, 4)


def test_a_looser_condition_saves_steps():
    found = asked_again(ran(looped(), [0.2, 0.6, 0.7, 0.95]), Policy(score >= 0.5))
    assert (found.imagined.outcome, found.imagined.score, found.imagined.iterations) == ("accepted", 0.6, 2)
    assert (found.recorded.steps, found.imagined.steps, found.saved) == (9, 5, 4)
    assert found.ends_at is None
    assert found.parting is not None
    assert isinstance(found.parting.instead, LoopEnded)
    assert isinstance(found.parting.recorded, StepRequested)
    assert found.parting.recorded.path == "Loop[2]/improve"


def test_the_same_outcome_for_another_reason_is_no_parting():
    found = asked_again(ran(looped(), [0.2, 0.97]), Policy(score >= 0.95))
    assert found.parting is None
    assert (found.saved, found.ends_at) == (0, None)
    assert "0.95" in found.imagined.reason


def test_fewer_iterations_take_the_critics_word_of_the_next_pass_for_the_closing_look():
    found = asked_again(ran(looped(until=NEVER), [0.2, 0.6, 0.7, 0.8, 0.9, 0.95]), Policy(max_iterations=2))
    assert found.parting is not None
    assert isinstance(found.parting.instead, LoopClosing)
    assert (found.imagined.outcome, found.imagined.score, found.imagined.draft) == ("exhausted", 0.7, 3)
    assert found.ends_at is None
    assert (found.recorded.steps, found.imagined.steps) == (13, 7)


def test_more_iterations_go_on_with_the_closing_look_until_the_record_ends():
    found = asked_again(ran(looped(until=NEVER, most=2), [0.2, 0.6, 0.7]), Policy(max_iterations=9))
    assert (found.imagined.outcome, found.ends_at) == (None, "Loop[3]/improve")
    assert (found.imagined.score, found.imagined.steps, found.recorded.steps) == (0.7, 6, 7)


@pytest.mark.parametrize(("keep", "score_kept"), [("best", 0.7), ("last", 0.65)])
def test_what_is_kept_can_be_another_draft(keep, score_kept: float):
    plan = looped(until=NEVER, most=2, keep="last" if keep == "best" else "best")
    found = asked_again(ran(plan, [0.2, 0.7, 0.65]), Policy(keep=keep))
    assert (found.imagined.outcome, found.imagined.score) == ("exhausted", score_kept)
    assert found.imagined.score != found.recorded.score
    assert found.parting is not None
    assert isinstance(found.parting.instead, LoopEnded)
    assert (found.saved, found.ends_at) == (0, None)


def test_a_roll_back_asks_for_a_refinement_that_was_never_made():
    plan = looped(until=NEVER, most=3, rollback_margin=1.0)
    found = asked_again(ran(plan, [0.7, 0.2, 0.8, 0.9]), Policy(rollback_margin=0.1))
    assert (found.imagined.outcome, found.ends_at) == (None, "Loop[2]/improve")
    assert found.parting is not None
    assert isinstance(found.parting.instead, StepRequested)
    assert found.parting.instead.draft is not None
    assert found.parting.instead.draft.version == 1


def test_failed_attempts_are_recorded_outcomes_too_and_time_passes_as_it_did():
    run = ran(looped(), [0.2, 0.6, 0.7, 0.95], failures=["Loop[1]/improve", "Loop[2]/improve"])
    assert [event.path for event in run.events if isinstance(event, StepFailed)] == [
        "Loop[1]/improve",
        "Loop[2]/improve",
    ]
    late = next(
        time
        for event, time in zip(run.events, run.times, strict=True)
        if isinstance(event, DraftCritiqued) and event.path == "Loop[3]/judge"
    )
    started = run.times[0]
    for seconds, iterations in (
        ((late - started).total_seconds() - 0.5, 3),
        ((late - started).total_seconds() + 0.5, 4),
    ):
        found = asked_again(run, Policy((score >= 0.99) | (elapsed > seconds)))
        assert found.imagined.iterations == iterations
    assert asked_again(run, Policy(elapsed > 1)).imagined.outcome == "timed_out"


def test_advice_is_passed_over_and_a_cancelled_run_ends_the_record():
    run = ran(looped(until=NEVER), [0.2, 0.6])
    run.send(GuideRun("r", "say more", by="ann"))
    run.send(CancelRun("r", "enough", by="ann"))
    assert isinstance(run.events[-1], RunEnded)
    found = asked_again(run, Policy(max_iterations=9))
    assert found.recorded.outcome == "cancelled"
    assert (found.imagined.outcome, found.ends_at) == (None, "Loop[3]/judge")
    assert asked_again(run, Policy(score >= 0.5)).imagined.outcome == "accepted"


def test_people_have_said_what_they_said_of_the_same_draft():
    plan = Plan("p", (*looped().steps[:2], Approve("ok"), SAVE))
    run = ran(plan, [0.2, 0.6, 0.95])
    assert run.state.approval is not None
    run.send(ApproveDraft("r", run.state.approval.request.draft, by="ann"))
    run.answer("save", value=0, text="")
    assert isinstance(run.events[-1], RunEnded)
    assert asked_again(run, Policy(max_iterations=4)).imagined.outcome == "accepted"
    other = asked_again(run, Policy(score >= 0.5))
    assert (other.imagined.outcome, other.ends_at) == (None, "ok")


def test_people_have_made_the_edit_that_they_made_of_the_same_draft_when_they_were_asked():
    plan = Plan("p", (*looped().steps[:2], Approve("ok"), SAVE))
    run = ran(plan, [0.2, 0.6, 0.95])
    assert run.state.approval is not None
    run.send(EditDraft("r", run.state.approval.request.draft, "my own", "shorter", "ben"))
    run.answer("Loop[edit1]/judge", value=0.5, text="")
    assert run.state.approval is not None
    run.send(ApproveDraft("r", run.state.approval.request.draft, by="ann"))
    run.answer("save", value=0, text="")
    assert isinstance(run.events[-1], RunEnded)
    found = asked_again(run, Policy(max_iterations=5))
    assert (found.parting, found.ends_at, found.imagined) == (None, None, found.recorded)
    other = asked_again(run, Policy(score >= 0.5))
    assert (other.imagined.outcome, other.ends_at) == (None, "ok")


CRITICS = (
    Step("critic", "judge", "judge", scale=(20, 80), criteria=(Criterion("accuracy"),)),
    Step("critic", "late", "late", scale=(1, 10), criteria=(Criterion("accuracy"),), when=score >= 75),
)


def test_a_criterion_is_shown_on_the_scale_of_the_critics_that_judged_the_draft():
    said = Critique(0.5, scale=(20, 80), criteria=(Mark("accuracy", 0.5, scale=(20, 80)),))
    plan = Plan("p", (WRITE, *CRITICS, SAVE))
    run = Run(plan)
    run.answer("write", value=0, text="one")
    request = run.state.open["judge"].request
    assert request.draft is not None
    run.send(Critiqued("r", "judge", 1, request.draft, said))
    run.answer("save", value=0, text="")
    found = decide_again(record_of(run), plan)
    (mark,) = found.recorded.criteria
    assert (mark.name, mark.score, mark.scale, found.recorded.scale) == ("accuracy", 0.5, (20, 80), (20, 80))
    assert found.imagined == found.recorded


def test_loops_are_named_where_there_are_several():
    inner = Repeat("Inner", score >= 0.9, 2, (JUDGE, IMPROVE))
    nested = Plan("p", (WRITE, Repeat("Outer", score >= 0.9, 3, (inner,)), SAVE))
    twice = Plan("p", (WRITE, Repeat("Outer", score >= 0.9, 3, (JUDGE, IMPROVE)), inner, SAVE))
    assert [find_loop(nested, name) for name in ("Outer", "Inner", "Outer/Inner")] == [
        "Outer",
        "Outer/Inner",
        "Outer/Inner",
    ]
    assert (find_loop(looped()), find_loop(nested)) == ("Loop", "Outer")
    changed = dict(loops_of(with_policy(nested, Policy(max_iterations=7), "Inner").steps))
    assert (changed["Outer/Inner"].max_iterations, changed["Outer"].max_iterations) == (7, 3)
    for plan, name, said in (
        (twice, "", "which loop is meant? Name one with its path: Outer, Inner"),
        (nested, "Innner", "there is no loop 'Innner'; it has Outer, Outer/Inner"),
        (Plan("p", (WRITE, JUDGE, SAVE)), "", "it has no loop"),
    ):
        with pytest.raises(PlanError, match=re.escape(said)):
            find_loop(plan, name)
    with pytest.raises(PlanError, match="max_iterations is 0"):
        with_policy(nested, Policy(max_iterations=0), "Inner")


def test_a_nested_loop_under_another_policy():
    inner = Repeat("Inner", NEVER, 2, (JUDGE, IMPROVE))
    plan = Plan("p", (WRITE, Repeat("Outer", NEVER, 2, (inner,)), SAVE))
    run = ran(plan, [0.1, 0.2, 0.3, 0.4, 0.5])
    assert isinstance(run.events[-1], RunEnded)
    found = asked_again(run, Policy(score >= 0.25), "Outer")
    assert (found.imagined.outcome, found.imagined.iterations, found.recorded.iterations) == ("accepted", 1, 2)
    other = asked_again(run, Policy(max_iterations=1), "Inner")
    assert other.parting is not None
    assert other.parting.version is not None


def test_parallel_critics_and_drafts_are_answered_as_they_were():
    panel = Parallel("panel", (Step("critic", "a", "a"), Step("critic", "b", "b")), combine="mean")
    drafts = Parallel(
        "drafts", (Step("generator", "w1", "w1"), Step("generator", "w2", "w2")), judge=Step("critic", "j", "j")
    )
    plan = Plan("p", (drafts, Repeat("Loop", score >= 0.9, 4, (panel, IMPROVE)), SAVE))
    run = ran(plan, [0.3, 0.5, 0.6, 0.95])
    assert isinstance(run.events[-1], RunEnded)
    found = asked_again(run, Policy(score >= 0.55))
    assert (found.imagined.outcome, found.imagined.score) == ("accepted", 0.6)


def test_what_is_no_record_or_was_erased_is_told():
    events = record_of(ran(looped(), [0.95]))
    with pytest.raises(InputError, match="does not begin with its start"):
        plan_of(events[1:])
    first = events[0].data
    assert isinstance(first, RunStarted)
    with pytest.raises(InputError, match="was erased"):
        plan_of((replace(events[0], data=replace(first, brief=Brief(ERASED))), *events[1:]))


def test_a_refiners_draft_is_given_once():
    """A refiner that gives the same text again and again does not keep an imagined run going for ever."""
    run = Run(looped(until=NEVER, most=3))
    while run.state.open:
        path = next(iter(run.state.open))
        run.answer(path, value=0.5, text="always the same")
    assert len([event for event in run.events if isinstance(event, DraftRefined)]) == 3
    found = asked_again(run, Policy(max_iterations=1_000_000))
    assert found.imagined.outcome is None
    assert found.ends_at == "Loop[4]/improve"
    assert handle(run.state, CancelRun("r", ""), run.now).events == ()


def test_a_panel_that_went_on_without_a_critic_does_so_again():
    critics = tuple(Step("critic", name, name) for name in ("a", "b"))
    panel = Parallel("Panel", critics, wait=1, combine="mean", deadline=60.0)
    run = Run(Plan("p", (WRITE, Repeat("L", score >= 0.9, 3, (panel, IMPROVE)), SAVE)))
    run.answer("write", value=0, text="one")
    for number, value in enumerate((0.5, 0.95), start=1):
        run.answer(f"L[{number}]/Panel/a", value=value, text="")
        run.now += timedelta(seconds=61)
        run.send(ExpireStep("r", f"L[{number}]/Panel/b", 1))
        if number == 1:
            run.answer("L[1]/improve", value=0, text="two")
    run.answer("save", value=0, text="")
    assert isinstance(run.events[-1], RunEnded)
    same = decide_again(record_of(run), plan_of(record_of(run)))
    assert (same.parting, same.ends_at, same.imagined) == (None, None, same.recorded)
    found = asked_again(run, Policy(score >= 0.5))
    assert (found.imagined.outcome, found.imagined.score, found.saved) == ("accepted", 0.5, 2)


def test_verdicts_that_came_too_late_cost_what_they_cost():
    critics = tuple(Step("critic", name, name) for name in ("quick", "slow"))
    panel = Parallel("Panel", critics, wait="first", combine="mean")
    run = Run(Plan("p", (WRITE, Repeat("L", (score >= 0.9) | (tokens > 1500), 5, (panel, IMPROVE)), SAVE)))
    run.answer("write", value=0, text="one")
    for number in (1, 2):
        asked = run.state.open[f"L[{number}]/Panel/slow"]
        run.now += timedelta(seconds=1)
        run.answer(f"L[{number}]/Panel/quick", value=0.5, text="")
        run.now += timedelta(seconds=1)
        assert asked.draft is not None
        said = Critiqued("r", asked.request.path, 1, asked.draft, Critique(0.4), Usage(1000))
        assert isinstance(run.send(said)[0], VerdictLate)
        run.now += timedelta(seconds=1)
        run.answer(f"L[{number}]/improve", value=0, text=f"draft {number + 1}")
    run.answer("L[3]/Panel/quick", value=0.5, text="")
    run.answer("save", value=0, text="")
    assert isinstance(run.events[-1], RunEnded)
    same = decide_again(record_of(run), plan_of(record_of(run)))
    assert same.recorded.tokens == 2000
    assert (same.parting, same.ends_at, same.imagined) == (None, None, same.recorded)
