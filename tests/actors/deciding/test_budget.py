"""Budgets: reserved before a call, settled after it; at the limit the run ends with its best judged draft."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.projections.random_runs import as_recorded
from tests.properties.test_deciding_properties import NEVER, NOW, RUN, Run, examples, plans, step
from tests.streams import recorded

from redraft.actors.deciding.decider import handle
from redraft.actors.deciding.evolve import fold
from redraft.actors.plans.check import check_plan
from redraft.events.errors import PlanError
from redraft.events.messages.commands import (
    Critiqued,
    ExpireStep,
    Failed,
    Generated,
    Message,
    PauseRun,
    Published,
    Refined,
    RetryStep,
)
from redraft.events.messages.content import Critique, DraftRef, Receipt
from redraft.events.messages.domain_events import (
    BudgetReached,
    DomainEvent,
    DraftCritiqued,
    DraftPublished,
    RunEnded,
    StepRequested,
)
from redraft.events.messages.plan import Budget, OnFailure, Option, Parallel, Plan, Repeat, Role
from redraft.events.messages.usage import Usage
from redraft.projections.record_check import check_events

WRITE, JUDGE = step("generator", "write"), step("critic", "judge")
IMPROVE, SAVE = step("refiner", "improve", 2), step("publisher", "save")
LOOP = Repeat("L", NEVER, 9, (JUDGE, IMPROVE))


def plan(budget: Budget | None, *, on_failure: OnFailure = "fail", daily: Budget | None = None) -> Plan:
    return check_plan(Plan("p", (WRITE, LOOP, SAVE), on_failure, budget, daily))


class Spender(Run):
    """A run whose every answer says what it used."""

    others = Usage()

    def send(self, message: Message) -> tuple[DomainEvent, ...]:
        decision = handle(self.state, message, self.now, others=self.others)
        self.state = decision.state
        self.events.extend(decision.events)
        self.times.extend(self.now for _ in decision.events)
        self.said.append(message)
        return decision.events

    def spend(self, path: str, used: Usage, *, value: float = 0.5, text: str = "") -> tuple[DomainEvent, ...]:
        asked = self.state.open[path]
        known = asked.draft or DraftRef(0, "")
        text = text or f"text {len(self.said)}"
        messages: dict[Role, Message] = {
            "generator": Generated(RUN, path, asked.attempt, text, usage=used),
            "critic": Critiqued(RUN, path, asked.attempt, known, Critique(value), used),
            "refiner": Refined(RUN, path, asked.attempt, text, usage=used),
            "publisher": Published(RUN, path, asked.attempt, known, Receipt("here"), used),
        }
        return self.send(messages[asked.step.role])

    def until_over(self, used: Usage) -> RunEnded:
        while self.state.status == "running":
            self.spend(next(iter(self.state.open)), used, value=0.9 - len(self.said) / 1000)
        last = self.events[-1]
        assert isinstance(last, RunEnded)
        return last


@pytest.mark.parametrize(
    ("budget", "reason"),
    [
        (Budget(tokens=100), "the budget of the run is 100 tokens: 90 are used, and 30 more would be needed"),
        (Budget(cost=1.0), "the budget of the run is 1 cost: 0.9 are used, and 0.3 more would be needed"),
        (Budget(calls=3), "the budget of the run is 3 calls: 3 are used, and 1 more would be needed"),
    ],
)
def test_a_run_ends_over_budget_with_its_best_judged_draft(budget: Budget, reason: str) -> None:
    run = Spender(plan(budget))
    ended = run.until_over(Usage(30, 0.3, 1))
    assert (ended.outcome, ended.reason) == ("over_budget", reason)
    assert ended.draft
    assert ended.draft.version == 1
    assert ended.score == pytest.approx(0.9, abs=0.01)
    assert not any(isinstance(event, DraftPublished) for event in run.events)


def test_what_is_left_is_published_if_the_plan_says_so_and_that_is_never_too_dear() -> None:
    run = Spender(plan(Budget(tokens=100), on_failure="publish_best"))
    ended = run.until_over(Usage(30))
    assert ended.outcome == "over_budget"
    assert ended.reason.endswith("; the best draft so far was published")
    published = [event.draft.version for event in run.events if isinstance(event, DraftPublished)]
    assert published == [1]


def test_each_request_says_what_was_set_aside_the_most_that_its_actor_used_before() -> None:
    run = Spender(plan(Budget(tokens=1000)))
    for used in (10, 50, 5, 30, 5, 70):
        run.spend(next(iter(run.state.open)), Usage(used))
    reserved = [event.reserved.tokens for event in run.events if isinstance(event, StepRequested)]
    assert reserved == [0, 0, 0, 50, 5, 50, 5]


def test_the_first_call_reserves_what_its_option_max_tokens_allows() -> None:
    dear = msgspec.structs.replace(JUDGE, options={"max_tokens": 500})
    run = Spender(Plan("p", (WRITE, Repeat("L", NEVER, 2, (dear, IMPROVE))), budget=Budget(tokens=400)))
    run.spend("write", Usage(10))
    assert isinstance(run.events[-2], BudgetReached)
    assert run.events[-2] == BudgetReached("tokens", 400, 10, 500)


def test_the_first_call_reserves_what_its_step_says() -> None:
    said: dict[str, Option] = {"reserve_tokens": 90, "reserve_cost": 0.5, "reserve_calls": 2, "max_tokens": 500}
    dear = msgspec.structs.replace(JUDGE, options=said)
    wrong = msgspec.structs.replace(IMPROVE, options={"reserve_tokens": -4, "reserve_cost": "much"})
    run = Spender(Plan("p", (WRITE, Repeat("L", NEVER, 2, (dear, wrong))), budget=Budget(tokens=400)))
    run.spend("write", Usage(10))
    run.spend("L[1]/judge", Usage(20))
    reserved = [event.reserved for event in run.events if isinstance(event, StepRequested)]
    assert reserved == [Usage(), Usage(90, 0.5, 2), Usage()]


def test_a_step_that_makes_more_calls_than_its_actor_did_before_reserves_so_many_times_as_much() -> None:
    thrice = msgspec.structs.replace(JUDGE, name="thrice", options={"reserve_tokens": 900, "reserve_calls": 3})
    run = Spender(Plan("p", (WRITE, Repeat("L", NEVER, 2, (JUDGE, thrice, IMPROVE))), budget=Budget(tokens=4000)))
    run.spend("write", Usage())
    run.spend("L[1]/judge", Usage(101, 0.5, 1))
    asked = run.events[-1]
    assert isinstance(asked, StepRequested)
    assert asked.reserved == Usage(303, 1.5, 3)
    run.spend("L[1]/thrice", Usage(200, 0.5, 3))
    run.spend("L[1]/improve", Usage(1, 0.0, 1))
    assert [each.request.reserved for each in run.state.open.values()] == [Usage(200, 0.5, 3)]


def test_side_by_side_only_as_many_are_asked_as_fit_and_the_others_when_there_is_room() -> None:
    panel = Parallel("P", tuple(step("critic", f"c{n}") for n in range(3)))
    again = Parallel("Q", tuple(msgspec.structs.replace(JUDGE, name=f"d{n}") for n in range(3)))
    run = Spender(Plan("p", (WRITE, JUDGE, panel, again, SAVE), budget=Budget(tokens=100)))
    run.spend("write", Usage())
    run.spend("judge", Usage(30))
    for number in range(3):
        run.spend(f"P/c{number}", Usage())
    assert sorted(run.state.open) == ["Q/d0", "Q/d1"], "30 are used, 60 set aside: a third would be too much"
    assert run.spend("Q/d0", Usage(1))[-1].path == "Q/d2"  # type: ignore[union-attr]
    run.spend("Q/d1", Usage(30))
    run.spend("Q/d2", Usage(30))
    run.spend("save", Usage())
    assert isinstance(run.events[-1], RunEnded)
    assert run.events[-1].outcome == "accepted"


def test_the_wall_time_ends_a_run_also_while_it_waits_for_an_answer() -> None:
    run = Spender(plan(Budget(seconds=100)))
    asked = run.state.open["write"]
    assert asked.due == run.now + timedelta(seconds=100), "the timekeeper has to look at it by then"
    run.now += timedelta(seconds=99)
    assert run.send(ExpireStep(RUN, "write", 1)) == ()
    run.now += timedelta(seconds=1)
    reached, ended = run.send(ExpireStep(RUN, "write", 1))
    assert isinstance(reached, BudgetReached)
    assert isinstance(ended, RunEnded)
    assert (ended.outcome, ended.reason) == ("over_budget", "the wall time of the run, 100 s, is over")


def test_failed_attempts_count_and_are_not_tried_again_over_the_budget() -> None:
    run = Spender(plan(Budget(tokens=50)))
    run.spend("write", Usage())
    run.spend("L[1]/judge", Usage(10))
    run.send(Failed(RUN, "L[1]/improve", 1, "error", "broke", usage=Usage(39)))
    retry_at = run.state.open["L[1]/improve"].retry_at
    assert retry_at is not None
    run.now = retry_at
    reached, ended = run.send(RetryStep(RUN, "L[1]/improve", 1))
    assert reached == BudgetReached("tokens", 50, 49, 39)
    assert isinstance(ended, RunEnded)


def test_a_day_counts_the_other_runs_of_the_workflow_too() -> None:
    Spender.others = Usage(70)
    try:
        ended = Spender(plan(None, daily=Budget(tokens=100))).until_over(Usage(20))
    finally:
        Spender.others = Usage()
    assert ended.outcome == "over_budget"
    assert ended.reason == "the budget of the workflow's runs that began today is 100 tokens: 110 are used"


@pytest.mark.parametrize(
    ("budget", "fault"),
    [
        (Budget(), "budget has no limit"),
        (Budget(tokens=0), "budget.tokens is 0; write a whole number, 1 to"),
        (Budget(cost=float("nan")), "budget.cost is nan; write a number above 0"),
        (Budget(seconds=-1), "budget.seconds is -1"),
        ("2", "budget is '2'; write Budget"),
    ],
)
def test_what_is_no_budget_is_refused(budget: Budget, fault: str) -> None:
    with pytest.raises(PlanError, match=fault):
        plan(budget)


def test_a_day_has_no_wall_time() -> None:
    with pytest.raises(PlanError, match=r"daily_budget.seconds is given"):
        plan(None, daily=Budget(seconds=5))


@examples
@given(plans(), st.integers(1, 200), st.data())
def test_no_run_asks_for_more_than_its_budget_holds(made: Plan, limit: int, data: st.DataObject) -> None:
    run = Spender(msgspec.structs.replace(made, budget=Budget(tokens=limit)))
    judged: set[str] = set()
    for _ in range(2000):
        if run.state.status != "running":
            break
        path = data.draw(st.sampled_from(sorted(run.state.open)))
        waiting = run.state.open[path].retry_at
        if waiting is not None:
            run.now = max(run.now, waiting)
            run.send(RetryStep(RUN, path, run.state.open[path].attempt))
        elif data.draw(st.integers(0, 9)) == 9:
            run.fail(path)
        else:
            value = data.draw(st.sampled_from([0.95, 0.6, 0.2]))
            run.spend(path, Usage(data.draw(st.integers(0, 40)), calls=1), value=value)
    assert run.state.status == "ended"
    assert fold(run.events) == run.state
    used = 0
    for event in run.events:
        if isinstance(event, StepRequested) and event.role != "publisher":
            assert used < limit
            assert used + event.reserved.tokens <= limit
        used += getattr(event, "usage", Usage()).tokens
        if isinstance(event, DraftCritiqued):
            judged.add(event.draft.sha256)
        if isinstance(event, DraftPublished):
            assert event.draft.sha256 in judged
    reached = any(isinstance(event, BudgetReached) for event in run.events)
    assert isinstance(run.events[-1], RunEnded)
    assert (run.events[-1].outcome == "over_budget") <= reached


def test_a_budget_that_is_used_to_its_last_allows_no_more_not_even_what_is_free() -> None:
    run = Spender(plan(Budget(tokens=100)))
    assert run.spend("write", Usage(99))[-1] == run.events[-1]
    assert isinstance(run.events[-1], StepRequested), "nothing is set aside for who was never asked"
    run = Spender(plan(Budget(tokens=100)))
    run.spend("write", Usage(100))
    assert run.events[-2] == BudgetReached("tokens", 100, 100)


def test_a_cost_that_is_over_is_told_as_one_that_is_known() -> None:
    run = Spender(plan(Budget(cost=1.0)))
    run.spend("write", Usage(1, 1.25))
    ended = run.events[-1]
    assert isinstance(ended, RunEnded)
    assert ended.reason == "the budget of the run is 1 cost: 1.25 are used"
    run = Spender(plan(Budget(cost=1.0)))
    run.spend("write", Usage(1, 0.0, 1, unpriced=True))
    ended = run.events[-1]
    assert isinstance(ended, RunEnded)
    assert "is 1 cost, and cannot be kept: nobody knows the price" in ended.reason


def test_a_step_is_not_tried_again_when_the_day_is_used_up_meanwhile() -> None:
    for others, reached in ((Usage(50), False), (Usage(100), True)):
        run = Spender(plan(None, daily=Budget(tokens=100)))
        run.spend("write", Usage())
        run.spend("L[1]/judge", Usage())
        run.fail("L[1]/improve")
        run.others = others
        run.wake("L[1]/improve")
        assert any(isinstance(event, BudgetReached) for event in run.events) is reached


def test_nothing_is_set_aside_where_there_is_no_budget_also_for_another_attempt() -> None:
    dear = msgspec.structs.replace(WRITE, retry=IMPROVE.retry, options={"reserve_tokens": 90})
    run = Spender(Plan("p", (dear,)))
    run.fail("write")
    run.wake("write")
    assert [event.reserved for event in run.events if isinstance(event, StepRequested)] == [Usage(), Usage()]


def test_what_is_set_aside_grows_as_the_calls_do() -> None:
    six = msgspec.structs.replace(JUDGE, name="six", options={"reserve_calls": 6})
    run = Spender(Plan("p", (WRITE, Repeat("L", NEVER, 2, (JUDGE, six, IMPROVE))), budget=Budget(tokens=4000)))
    run.spend("write", Usage())
    run.spend("L[1]/judge", Usage(101, 0.5, 4))
    asked = run.events[-1]
    assert isinstance(asked, StepRequested)
    assert asked.reserved == Usage(152, 0.75, 6)


def faults(run: Run) -> list[str]:
    """What is wrong with the record of a run, as it would lie in a store."""
    kept = recorded(RUN, [("coordinator", event) for event in run.events])
    return [
        each.message
        for each in check_events([replace(event, time=at) for event, at in zip(kept, run.times, strict=True)])
    ]


@pytest.mark.parametrize("on_failure", ["fail", "publish_best"])
def test_the_wall_time_of_a_paused_run_ends_it_and_nothing_is_published(on_failure: OnFailure) -> None:
    run = Spender(plan(Budget(seconds=3600), on_failure=on_failure))
    run.spend("write", Usage())
    run.send(PauseRun(RUN, by="ann"))
    run.spend("L[1]/judge", Usage())
    assert run.state.open == {}
    run.now = NOW + timedelta(seconds=3599)
    assert run.send(ExpireStep(RUN, "", 1)) == ()
    run.now = NOW + timedelta(seconds=3600)
    over, ended = run.send(ExpireStep(RUN, "", 1))
    assert isinstance(over, BudgetReached)
    assert isinstance(ended, RunEnded)
    assert (ended.outcome, ended.reason) == ("over_budget", "the wall time of the run, 3600 s, is over")
    assert ended.draft
    assert faults(run) == []


def test_the_wall_time_of_a_paused_run_that_has_failed_ends_it() -> None:
    run = Spender(plan(Budget(seconds=3600), on_failure="publish_best"))
    run.spend("write", Usage())
    run.spend("L[1]/judge", Usage())
    run.send(PauseRun(RUN, by="ann"))
    run.send(Failed(RUN, "L[1]/improve", 1, "error", "no", retryable=False))
    assert run.state.status == "running"
    run.now = NOW + timedelta(seconds=3600)
    *_, ended = run.send(ExpireStep(RUN, "", 1))
    assert isinstance(ended, RunEnded)
    assert faults(run) == []


@pytest.mark.parametrize("price", [0.1, 0.01, 0.07])
def test_a_cost_that_is_exactly_the_budget_is_within_it_however_floating_numbers_add_up(price: float) -> None:
    for calls in range(4, 16):
        run = Spender(plan(Budget(cost=round(calls * price, 10))))
        run.until_over(Usage(1, price, 1))
        assert len(run.said) == 1 + calls
        assert check_events(as_recorded(run.events, run.times)) == ()
