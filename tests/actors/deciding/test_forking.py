"""Forks: what they begin with, at every point of any run, and that they end as runs do."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.properties.test_deciding_properties import NOW, Run, driven, driven_on, examples, plans
from tests.streams import article, book, recorded

from redraft.actors.deciding.decider import handle
from redraft.actors.deciding.evolve import fold
from redraft.actors.deciding.forking import begin_fork, why_unfit
from redraft.actors.deciding.policy import with_limits
from redraft.actors.deciding.state import RunState
from redraft.actors.deciding.steering import steered
from redraft.events.messages.commands import (
    ApproveDraft,
    CancelRun,
    Completed,
    Critiqued,
    ExpireStep,
    Failed,
    Generated,
    Message,
    PauseRun,
    Refined,
    RetryStep,
    StartRun,
)
from redraft.events.messages.conditions import State, score
from redraft.events.messages.content import Brief, Critique, DraftRef, digest
from redraft.events.messages.domain_events import (
    ApprovalRequested,
    DomainEvent,
    DraftCritiqued,
    DraftGenerated,
    DraftPublished,
    DraftRefined,
    LimitsChanged,
    LoopEnded,
    Parent,
    RunEnded,
    RunResumed,
    RunStarted,
    StateChanged,
    StepFailed,
    StepRequested,
    VerdictLate,
)
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import Approve, Parallel, Plan, Repeat, Retry, StateField, StateSpec, Step, loops_of
from redraft.events.messages.redaction import ERASED
from redraft.events.messages.run_state import Values

LATER = NOW + timedelta(days=30)
ANSWERS = DraftGenerated | DraftCritiqued | DraftRefined | DraftPublished


def past_of(run: Run) -> tuple[Recorded, ...]:
    return recorded("parent", [("somebody", event) for event in run.events])


def started(past: Sequence[Recorded]) -> RunStarted:
    assert isinstance(past[0].data, RunStarted)
    return past[0].data


def start_of(past: Sequence[Recorded], plan: Plan | None = None) -> StartRun:
    begun = started(past)
    return StartRun("fork", plan or begun.plan, begun.brief, parent=Parent("parent", len(past)))


def resumed(events: Sequence[DomainEvent], state: RunState, at: datetime = LATER) -> Run:
    """A run that goes on from here."""
    run = Run(state.plan)
    run.events, run.state, run.now = list(events), state, at
    return run


@pytest.mark.check
@examples
@given(plans(), st.data())
def test_a_fork_at_every_event_stands_where_its_parent_stood_and_ends_as_runs_do(plan: Plan, data: st.DataObject):
    past = past_of(driven(plan, data))
    for version in range(1, len(past) + 1):
        beginning = past[:version]
        assert why_unfit(start_of(beginning), beginning) == ""
        decision = begin_fork(start_of(beginning), beginning, LATER)
        assert [event.data for event in beginning[1:]] == list(decision.events[1:version])
        assert decision.state == fold(decision.events)
        stood = fold(event.data for event in beginning)
        assert decision.state.drafts == stood.drafts
        assert decision.state.usage == stood.usage
        again = [event.path for event in decision.events[version:] if isinstance(event, StepRequested)]
        waiting = [path for path, step in stood.open.items() if step.retry_at is None]
        assert again[: len(waiting)] == waiting
        run = driven_on(resumed(decision.events, decision.state), data)
        assert [type(event) for event in run.events].count(RunEnded) == 1
        assert isinstance(run.events[-1], RunEnded)


@examples
@given(plans(), st.data())
def test_nothing_that_was_answered_is_asked_or_done_again_in_forks_of_forks(plan: Plan, data: st.DataObject):
    past = past_of(driven(plan, data))
    for _ in range(3):
        version = data.draw(st.integers(1, len(past)))
        decision = begin_fork(start_of(past[:version]), past[:version], LATER)
        run = driven_on(resumed(decision.events, decision.state), data)
        done = {(e.data.path, e.data.attempt) for e in past[:version] if isinstance(e.data, ANSWERS | StepFailed)}
        asked = {(e.path, e.attempt) for e in run.events[version:] if isinstance(e, StepRequested)}
        assert not done & asked
        answered = [event.path for event in run.events if isinstance(event, ANSWERS)]
        assert len(answered) == len(set(answered))
        past = recorded("fork", [("somebody", event) for event in run.events])


@examples
@given(plans(), st.data())
def test_another_policy_from_any_event_on_is_the_one_that_counts(plan: Plan, data: st.DataObject):
    past = past_of(driven(plan, data))
    loops = dict(loops_of(plan.steps))
    path = data.draw(st.sampled_from(sorted(loops)))
    version = data.draw(st.integers(1, len(past)))
    other = with_limits(plan, path, score >= 0.99, data.draw(st.integers(1, 4)))
    decision = begin_fork(start_of(past[:version], other), past[:version], LATER)
    if decision.state.status == "running":
        assert decision.state.plan == other
    run = driven_on(resumed(decision.events, decision.state), data)
    assert isinstance(run.events[-1], RunEnded)


def test_elapsed_goes_on_from_where_it_stood():
    past = article()[:12]
    decision = begin_fork(start_of(past), past, LATER)
    stood = past[-1].time - started(past).at
    assert decision.state.started == LATER - stood
    again = recorded("fork", [("somebody", event) for event in decision.events[:12]])
    later = [replace(event, time=LATER) for event in again]
    assert (
        begin_fork(start_of(later), later, LATER + timedelta(days=1)).state.started == LATER + timedelta(days=1) - stood
    )


def test_the_first_event_names_the_parent_and_what_is_open_is_asked_again_as_the_fork_has_it():
    past = article()[:2]
    begun = started(past)
    steps = (replace(begun.plan.steps[0], actor="other", timeout=7.0), *begun.plan.steps[1:])
    start = replace(start_of(past, replace(begun.plan, steps=steps)), brief=Brief("Another"), tags=("spring",))
    first, asked, again = begin_fork(start, past, LATER).events
    assert first == RunStarted(
        start.plan, start.brief, LATER - (past[-1].time - begun.at), "", ("spring",), start.parent
    )
    assert asked == past[1].data
    assert isinstance(again, StepRequested)
    assert (again.path, again.attempt, again.actor) == ("write", 1, "other")
    assert again.due == LATER + timedelta(hours=1, seconds=7)


def test_an_attempt_that_waits_to_be_tried_again_is_left_to_its_time():
    past = article()
    failed = next(event.version for event in past if isinstance(event.data, StepFailed))
    decision = begin_fork(start_of(past[:failed]), past[:failed], LATER)
    assert len(decision.events) == failed
    (step,) = decision.state.open.values()
    assert step.retry_at is not None


def test_what_people_had_changed_holds_but_for_what_the_fork_changes():
    run = Run(Plan("p", (Step("generator", "write", "write"), _loop())))
    run.answer("write", value=0, text="one")
    run.events.append(LimitsChanged("Loop", "ann", score >= 0.8, 7))
    run.state = fold(run.events)
    past = past_of(run)
    plan = run.state.plan
    same = begin_fork(start_of(past, plan), past, LATER)
    assert same.state.plan == plan
    other = begin_fork(start_of(past, with_limits(plan, "Loop", score >= 0.6, None)), past, LATER)
    assert [event for event in other.events if isinstance(event, LimitsChanged)][1:] == [
        LimitsChanged("Loop", "fork", score >= 0.6, 7, "as the fork was begun")
    ]
    run.state = other.state
    run.answer("Loop[1]/judge", value=0.7, text="")
    assert isinstance(run.events[-1], RunEnded)
    assert run.events[-1].outcome == "accepted"


def test_a_fork_of_a_paused_run_goes_on_and_of_a_cancelled_one_is_cancelled():
    run = Run(Plan("p", (Step("generator", "write", "write"), _loop())))
    run.send(PauseRun("r", by="ann"))
    past = past_of(run)
    decision = begin_fork(start_of(past), past, LATER)
    assert [event for event in decision.events if isinstance(event, RunResumed)] == [
        RunResumed("fork", "a fork goes on")
    ]
    assert not decision.state.paused
    word = steered(fold(run.events), CancelRun("r", "enough", "ann"))
    assert word is not None
    cut = recorded("parent", [*(("somebody", event) for event in run.events), ("ann", word)])
    ended = begin_fork(start_of(cut), cut, LATER)
    assert isinstance(ended.events[-1], RunEnded)
    assert ended.events[-1].outcome == "cancelled"


def test_people_who_had_not_decided_are_asked_again_with_their_whole_time():
    run = Run(Plan("p", (Step("generator", "write", "write"), _loop(), Approve("ok", ("ann", "bo"), quorum=2))))
    run.answer("write", value=0, text="one")
    run.answer("Loop[1]/judge", value=1, text="")
    run.send(ApproveDraft("r", DraftRef(1, digest("one")), by="ann"))
    past = past_of(run)
    decision = begin_fork(start_of(past), past, LATER)
    (again,) = decision.events[len(past) :]
    assert isinstance(again, ApprovalRequested)
    assert (again.path, again.due) == ("ok", LATER + timedelta(days=1))
    fork = resumed(decision.events, decision.state)
    for name in ("ann", "bo"):
        fork.send(ApproveDraft("fork", DraftRef(1, digest("one")), by=name))
    assert isinstance(fork.events[-1], RunEnded)
    assert fork.events[-1].outcome == "accepted"


def test_a_panel_of_a_fork_waits_its_whole_time_again():
    critics = tuple(Step("critic", name, name) for name in ("a", "b"))
    panel = Parallel("Panel", critics, wait=1, combine="mean", deadline=60.0)
    run = Run(Plan("p", (Step("generator", "write", "write"), Repeat("L", score >= 0.5, 2, (panel,)))))
    run.answer("write", value=0, text="one")
    run.answer("L[1]/Panel/a", value=0.9, text="")
    past = past_of(run)
    decision = begin_fork(start_of(past), past, LATER)
    (again,) = decision.events[len(past) :]
    assert isinstance(again, StepRequested)
    assert (again.path, again.due) == ("L[1]/Panel/b", LATER + timedelta(seconds=60))
    fork = resumed(decision.events, decision.state)
    fork.now = LATER + timedelta(seconds=59)
    assert fork.send(ExpireStep("fork", "L[1]/Panel/b", 1)) == ()
    fork.now = LATER + timedelta(seconds=60)
    fork.send(ExpireStep("fork", "L[1]/Panel/b", 1))
    assert isinstance(fork.events[-1], RunEnded)
    assert (fork.events[-1].outcome, fork.events[-1].score) == ("accepted", 0.9)


def _loop() -> Repeat:
    return Repeat("Loop", score >= 0.9, 3, (Step("critic", "judge", "judge"), Step("refiner", "improve", "improve")))


def test_what_cannot_be_forked_is_told():
    past = article()
    assert "no event 99 of run parent" in why_unfit(replace(start_of(past), parent=Parent("parent", 99)), past)
    assert "no event 1 of run parent" in why_unfit(replace(start_of(past), parent=Parent("parent", 1)), ())
    assert "no event 3 of run parent" in why_unfit(replace(start_of(past), parent=Parent("parent", 3)), past[1:3])
    assert why_unfit(replace(start_of(past), parent=None), past) == "it has no parent"
    erased = (replace(past[0], data=replace(started(past), brief=Brief(ERASED))), *past[1:])
    assert why_unfit(start_of(past), erased) == "run parent was erased"
    for plan in (started(book()).plan, Plan("p", ()), replace(started(past).plan, steps=started(past).plan.steps[:2])):
        assert "other steps" in why_unfit(start_of(past, plan), past)


@pytest.mark.parametrize("state", [RunState(), fold(event.data for event in article()[:3])])
def test_a_fork_never_begins_as_a_plain_run(state: RunState):
    """Whoever has only the message, and not the history, brings nothing about."""
    assert handle(state, start_of(article()[:3]), LATER).events == ()


def test_the_last_loop_of_a_fork_can_come_out_otherwise():
    past = article()
    ended = next(event.version for event in past if isinstance(event.data, LoopEnded))
    last = past[ended - 2]
    assert isinstance(last.data, DraftCritiqued)
    judged = (*past[: ended - 2], replace(last, data=replace(last.data, critique=Critique(0.931))))
    for limit, following in ((score >= 0.99, "Refinement[3]/improve"), (score >= 0.9, "save")):
        plan = with_limits(started(past).plan, "Refinement", limit, 9)
        asked = begin_fork(start_of(judged, plan), judged, LATER).events[-1]
        assert isinstance(asked, StepRequested)
        assert asked.path == following


COUNTED = Plan(
    "counted",
    (
        Step("step", "begin", "begin"),
        Step("generator", "write", "write"),
        Repeat("Loop", State("n", ">=", 2), 5, (Step("refiner", "improve", "improve"), Step("step", "add", "add"))),
    ),
    state=StateSpec((StateField("n", "int"), StateField("audience", "str")), {"n": 0}),
)


def counted(*said: Message) -> tuple[Recorded, ...]:
    """The events of a run of `COUNTED` in which this was said."""
    events, state = list[DomainEvent](), RunState()
    for message in (StartRun("r", COUNTED, Brief("brief", state={"audience": "adults"})), *said):
        decision = handle(state, message, NOW)
        events, state = [*events, *decision.events], decision.state
    return recorded("parent", [("somebody", event) for event in events])


BEGUN = (Completed("r", "begin", 1), Generated("r", "write", 1, "text"))


def test_a_fork_changes_the_state_before_anything_is_asked_again():
    past = counted(*BEGUN, Refined("r", "Loop[1]/improve", 1, "text!"))
    start = replace(start_of(past), state={"n": 1}, by="ann")
    events = begin_fork(start, past, LATER).events
    assert events[len(past)] == StateChanged("", 0, {"n": 1}, by="ann")
    asked = events[-1]
    assert isinstance(asked, StepRequested)
    assert asked.path == "Loop[1]/add"
    state = begin_fork(start, past, LATER).state
    assert state.values == {"n": 1, "audience": "adults"}
    ended = handle(state, Completed("fork", "Loop[1]/add", 1, {"n": 2}), LATER).events[-1]
    assert isinstance(ended, RunEnded)
    assert ended.outcome == "accepted"


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({"m": 1}, "m is no value of the plan's state; there are n, audience"),
        ({"n": "x"}, "n is 'x'; the plan's state has int there"),
        ({"audience": "x" * 300_000}, "more than 262,144"),
    ],
)
def test_a_fork_with_a_state_that_the_plan_has_not_is_refused(values: Values, fault: str):
    past = counted(*BEGUN)
    assert fault in why_unfit(replace(start_of(past), state=values), past)


def test_what_came_too_late_changes_no_state():
    panel = Parallel("panel", tuple(Step("critic", name, name) for name in "ab"), wait="first")
    plan = Plan("late", (Step("generator", "write", "write"), panel, Step("publisher", "save", "save")))
    state = handle(RunState(), StartRun("r", plan, Brief("brief")), NOW).state
    state = handle(state, Generated("r", "write", 1, "text"), NOW).state
    ref = DraftRef(1, digest("text"))
    state = handle(state, Critiqued("r", "panel/a", 1, ref, Critique(0.5, critic="a"), state={"a": 1}), NOW).state
    late = handle(state, Critiqued("r", "panel/b", 1, ref, Critique(0.5, critic="b"), state={"a": 2}), NOW)
    assert [type(event) for event in late.events] == [VerdictLate]
    assert late.state.values == {"a": 1}


def test_a_verdict_that_changes_the_state_is_not_taken_again_nor_one_of_another_state():
    judge = Step("critic", "judge", "judge", reuse="run")
    loop = Repeat("Loop", score >= 0.9, 3, (judge, Step("refiner", "improve", "improve")))
    plan = Plan("again", (Step("generator", "write", "write"), loop))

    def asked_after(changes: Values, of_refiner: Values) -> DomainEvent:
        state = handle(RunState(), StartRun("r", plan, Brief("brief")), NOW).state
        state = handle(state, Generated("r", "write", 1, "text"), NOW).state
        verdict = Critiqued("r", "Loop[1]/judge", 1, DraftRef(1, digest("text")), Critique(0.5, critic="judge"))
        state = handle(state, replace(verdict, state=changes), NOW).state
        same = Refined("r", "Loop[1]/improve", 1, "text", state=of_refiner)
        return next(each for each in handle(state, same, NOW).events if isinstance(each, StepRequested))

    assert replace(asked_after({}, {}), reused=None) != asked_after({}, {})
    for changes, of_refiner in (({"a": 1}, {}), ({}, {"a": 1})):
        asked = asked_after(changes, of_refiner)
        assert isinstance(asked, StepRequested)
        assert asked.reused is None


def test_a_fork_whose_plan_has_another_state_is_refused():
    past = counted(*BEGUN)
    other = replace(COUNTED, state=replace(COUNTED.state, defaults={"n": 1}))
    assert "its plan has another state than run parent" in why_unfit(start_of(past, other), past)


def test_a_critic_that_is_tried_again_is_asked_with_the_state_of_then():
    first = Step("critic", "a", "a", retry=Retry(2, 0.0), reuse="run")
    plan = Plan("again", (Step("generator", "write", "write"), Parallel("panel", (first, Step("critic", "b", "b")))))
    state = handle(RunState(), StartRun("r", plan, Brief("brief")), NOW).state
    state = handle(state, Generated("r", "write", 1, "text"), NOW).state
    before = state.open["panel/a"].request.verdict_key
    state = handle(state, Failed("r", "panel/a", 1, "error", "broke"), NOW).state
    ref = DraftRef(1, digest("text"))
    state = handle(state, Critiqued("r", "panel/b", 1, ref, Critique(0.5, critic="b"), state={"n": 1}), NOW).state
    again = handle(state, RetryStep("r", "panel/a", 1), NOW).events[0]
    assert isinstance(again, StepRequested)
    assert again.attempt == 2
    assert again.verdict_key not in ("", before)
