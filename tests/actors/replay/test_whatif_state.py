"""What if, for runs with a state: free steps change again what they changed, and conditions look at it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from tests.actors.replay.test_whatif import record_of
from tests.properties.test_deciding_properties import NOW, Run

from redraft.actors.deciding.forking import begin_fork
from redraft.actors.deciding.policy import Policy
from redraft.actors.deciding.state import OpenStep, RunState
from redraft.actors.replay.whatif import WhatIf, decide_again, plan_of, what_if
from redraft.events.messages.commands import (
    Completed,
    Critiqued,
    Generated,
    Message,
    Published,
    Refined,
    StartRun,
)
from redraft.events.messages.conditions import score, state
from redraft.events.messages.content import Brief, Critique, Receipt
from redraft.events.messages.domain_events import LoopEnded, Parent, StateChanged, StepRequested
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import Plan, Repeat, StateSpec, Step
from redraft.events.messages.run_state import Values

RESEARCH, TESTS = Step("step", "research", "research"), Step("step", "run_tests", "run_tests", writes=("passed",))
WRITE, JUDGE, IMPROVE = (
    Step("generator", "write", "write"),
    Step("critic", "judge", "judge"),
    Step("refiner", "improve", "improve"),
)
SAVE = Step("publisher", "save", "save")
LOOP = Repeat("Loop", state.passed >= 3, 5, (TESTS, JUDGE, IMPROVE))
PLAN = Plan("p", (RESEARCH, WRITE, LOOP, SAVE), state=StateSpec(defaults={"audience": "adults"}))

Answering = Callable[[RunState, OpenStep], Values]


def as_many_as_drafts(now: RunState, step: OpenStep) -> Values:
    """A free step in the loop counts drafts, and the critic changes the state beside its verdict."""
    match step.step.name:
        case "research":
            return {"sources": ["tides.org"]}
        case "run_tests":
            return {"passed": now.drafts}
        case "judge":
            return {"judged": now.drafts}
        case _:
            return {}


def ran(plan: Plan = PLAN, answering: Answering = as_many_as_drafts, *, asks: int = 100) -> Run:
    """A run whose answers take 10 seconds each; it is left after so many of them."""
    run = Run(plan)
    for _ in range(asks):
        if run.state.status != "running":
            break
        path, step = next(iter(run.state.open.items()))
        run.now += timedelta(seconds=10)
        run.send(answer(run.state, path, step, answering(run.state, step)))
    return run


def answer(now: RunState, path: str, step: OpenStep, values: Values) -> Message:
    place, draft = ("r", path, step.attempt), step.draft
    match step.step.role:
        case "generator":
            return Generated(*place, f"draft {now.drafts + 1}", state=values)
        case "refiner":
            return Refined(*place, f"draft {now.drafts + 1}", state=values)
        case "step":
            return Completed(*place, values)
        case _:
            assert draft is not None
            if step.step.role == "publisher":
                return Published(*place, draft, Receipt("here"), state=values)
            return Critiqued(*place, draft, Critique(draft.version / 10, critic="judge"), state=values)


def again(run: Run, policy: Policy = Policy()) -> WhatIf:  # noqa: B008 - frozen
    return what_if(record_of(run), policy)


def test_a_run_with_a_state_decided_again_by_its_own_plan_is_itself() -> None:
    run = ran()
    assert run.state.values == {"audience": "adults", "sources": ["tides.org"], "passed": 3, "judged": 3}
    found = again(run)
    assert (found.parting, found.ends_at) == (None, None)
    assert found.imagined == found.recorded
    assert found.recorded.outcome == "accepted"
    assert found.recorded.steps == 11, "free steps are counted too"


def test_a_looser_condition_on_the_state_ends_where_the_recorded_change_meets_it() -> None:
    found = again(ran(), Policy(state.passed >= 2))
    assert (found.imagined.outcome, found.imagined.iterations, found.ends_at) == ("accepted", 2, None)
    assert found.imagined.reason.startswith("the condition holds: state.passed 2 >= 2")
    assert found.saved == 3
    assert found.parting is not None
    assert isinstance(found.parting.instead, LoopEnded)
    assert isinstance(found.parting.recorded, StepRequested)


def test_a_stricter_condition_on_the_state_ends_the_record_at_the_first_request_that_was_never_made() -> None:
    found = again(ran(), Policy(state.passed >= 4))
    assert found.imagined.outcome is None
    assert found.ends_at == "Loop[3]/improve"


def test_a_value_that_another_actor_changed_beside_its_result_is_taken_too() -> None:
    found = again(ran(), Policy(state.judged >= 1))
    assert (found.imagined.outcome, found.imagined.iterations) == ("accepted", 1)


def test_a_free_step_changes_again_what_it_changed_of_the_same_draft_at_another_path() -> None:
    """The tests of the last draft were asked for after the last iteration; with more of them, they are in the next."""
    run = ran(Plan("p", (WRITE, Repeat("Loop", state.passed >= 2, 1, (TESTS, JUDGE, IMPROVE)))))
    assert "Loop[closing]/run_tests" in {each.path for each in run.events if isinstance(each, StateChanged)}
    found = again(run, Policy(max_iterations=3))
    assert (found.imagined.outcome, found.ends_at) == ("accepted", None)
    assert found.imagined.iterations == 2


def test_an_answer_that_was_given_to_another_state_is_not_taken() -> None:
    """The critic that was told the state after one test is not known to say the same after none."""
    run = ran(Plan("p", (WRITE, Repeat("Loop", score >= 0.3, 5, (JUDGE, IMPROVE))), state=StateSpec(defaults={"a": 1})))
    other = Plan("p", run.state.plan.steps, state=StateSpec(defaults={"a": 2}))
    found = decide_again(record_of(run), other)
    assert found.ends_at == "write"


def test_a_fork_that_changed_the_state_changes_it_again_where_it_began() -> None:
    parent = ran(asks=3)  # up to the first answer of the tests: the critic is asked next
    past = record_of(parent)
    start = StartRun(
        "fork", PLAN, Brief("brief"), parent=Parent("r", len(past)), state={"audience": "children"}, by="ann"
    )
    fork = Run(PLAN)
    began = begin_fork(start, past, NOW + timedelta(hours=1))
    fork.events, fork.state = list(began.events), began.state
    fork.times = [*parent.times, *(NOW + timedelta(hours=1) for _ in fork.events[len(past) :])]
    fork.now = NOW + timedelta(hours=1)
    while fork.state.status == "running":
        path, step = next(iter(fork.state.open.items()))
        fork.now += timedelta(seconds=10)
        fork.send(answer(fork.state, path, step, as_many_as_drafts(fork.state, step)))
    events: tuple[Recorded, ...] = record_of(fork)
    assert [each.data.by for each in events if isinstance(each.data, StateChanged) and not each.data.path] == ["ann"]
    found = decide_again(events, plan_of(events))
    assert (found.parting, found.ends_at) == (None, None)
    assert found.imagined == found.recorded
    assert found.recorded.outcome == "accepted"
