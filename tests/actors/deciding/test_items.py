"""Items of a list, worked on by runs of their own: what a run asks for, and what it makes of the answers."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace
from tests.given import NOON
from tests.projections.random_runs import as_recorded
from tests.properties.test_deciding_properties import RUN, step

from redraft.actors.deciding.decider import handle
from redraft.actors.deciding.evolve import fold
from redraft.actors.deciding.forking import begin_fork
from redraft.actors.deciding.item_result import result_of
from redraft.actors.deciding.state import RunState
from redraft.actors.deciding.steering import why_void
from redraft.actors.plans.check import check_plan, check_ready
from redraft.events.errors import PlanError
from redraft.events.messages.commands import (
    CancelRun,
    ChangeLimits,
    Critiqued,
    EditDraft,
    ExpireStep,
    Failed,
    Generated,
    Message,
    PauseRun,
    Refined,
    ResumeRun,
    StartRun,
)
from redraft.events.messages.conditions import outputs, score
from redraft.events.messages.content import MAX_DRAFT_BYTES, Brief, Critique, DraftRef
from redraft.events.messages.domain_events import (
    BudgetReached,
    DomainEvent,
    ItemOf,
    LimitsChanged,
    Parent,
    RunEnded,
    StepRequested,
)
from redraft.events.messages.plan import Budget, Each, Node, OnFailure, Plan, Repeat, StateSpec
from redraft.events.messages.run_state import Value, Values
from redraft.events.messages.usage import Usage
from redraft.projections.record_check import check_events

WRITE, JUDGE, IMPROVE = step("generator", "write"), step("critic", "judge"), step("refiner", "improve")
BIND = step("generator", "bind")
LOOP = Repeat("Refinement", score >= 0.9, 3, (JUDGE, IMPROVE))
CHAPTERS = Each("Chapters", "chapters", (WRITE, LOOP), 2)
THREE: list[Value] = ["a", "b", "c"]


def book(
    *nodes: Node,
    chapters: Value = THREE,
    budget: Budget | None = None,
    daily: Budget | None = None,
    on_failure: OnFailure = "fail",
) -> Plan:
    given: Values = {"chapters": chapters}
    return check_ready(Plan("book", nodes or (CHAPTERS, BIND), on_failure, budget, daily, StateSpec(defaults=given)))


class Book:
    """A run of a book, with all its events."""

    def __init__(self, plan: Plan | None = None, others: Usage = Usage()) -> None:  # noqa: B008 - frozen
        self.state = RunState()
        self.events: list[DomainEvent] = []
        self.times: list[datetime] = []
        self.now = NOON
        self._others = others
        self.send(StartRun(RUN, plan or book(), Brief("tides")))

    def send(self, message: Message) -> tuple[DomainEvent, ...]:
        decision = handle(self.state, message, self.now, others=self._others)
        self.state = decision.state
        self.events += decision.events
        self.times += [self.now for _ in decision.events]
        return decision.events

    def give(self, number: int, text: str = "", used: Usage = Usage(), path: str = "Chapters") -> None:  # noqa: B008
        self.send(Generated(RUN, f"{path}[{number}]", 1, text or f"text {number}", usage=used))

    @property
    def asked(self) -> list[str]:
        return sorted(self.state.open)

    def is_right(self) -> bool:
        """Returns whether the checker, which shares no code with the decider, finds nothing in the record."""
        found = check_events(as_recorded(self.events, self.times))
        return [each for each in found if each.code != "unproven"] == []


def test_so_many_items_are_asked_for_at_once_and_another_when_one_has_ended():
    run = Book()
    assert run.asked == ["Chapters[1]", "Chapters[2]"]
    run.give(2)
    assert run.asked == ["Chapters[1]", "Chapters[3]"]
    run.give(1)
    run.give(3)
    assert run.asked == ["bind"]
    assert run.is_right()


def test_drafts_are_outputs_in_the_order_of_the_list_and_the_last_is_the_current_one():
    run = Book()
    for number in (2, 3, 1):
        run.give(number)
    assert [ref.version for ref in run.state.open["bind"].request.outputs] == [3, 1, 2]
    assert run.state.current is not None
    assert run.state.current.ref.version == 2
    assert run.is_right()


def test_a_list_without_items_is_passed_over():
    run = Book(book(chapters=[]))
    assert run.asked == ["bind"]
    assert run.is_right()


@pytest.mark.parametrize(
    ("chapters", "why"),
    [
        ("many", "the value chapters is no list"),
        (None, "the value chapters is no list"),
        (list(range(101)), "the list chapters has 101 items; 100 are allowed"),
    ],
)
def test_where_there_is_no_list_the_run_ends_and_says_so(chapters: Value, why: str):
    run = Book(book(chapters=chapters))
    ended = run.events[-1]
    assert isinstance(ended, RunEnded)
    assert (ended.outcome, ended.reason) == ("failed", f"Chapters: {why}")
    assert run.is_right()


def test_a_list_within_a_mapping_has_a_name_with_dots():
    plan = book(replace(CHAPTERS, over="chapters.first"), BIND, chapters={"first": ["a"], "second": []})
    assert Book(plan).asked == ["Chapters[1]"]
    missing = Book(book(replace(CHAPTERS, over="chapters.third"), BIND, chapters={"first": ["a"]}))
    assert "there is no value chapters.third in the run's state" in str(missing.events[-1])


def test_an_item_that_fails_ends_the_run_and_the_others_are_no_longer_waited_for():
    run = Book()
    run.send(Failed(RUN, "Chapters[2]", 1, "error", "its run ended rejected"))
    ended = run.events[-1]
    assert isinstance(ended, RunEnded)
    assert ended.outcome == "failed"
    assert "Chapters[2] failed for good: its run ended rejected" in ended.reason
    assert run.state.open == {}
    assert run.is_right()


def test_an_answer_counts_once_and_one_for_another_item_or_attempt_does_not():
    run = Book()
    run.give(1)
    before = list(run.events)
    run.give(1, "again")
    run.give(7)
    run.send(Generated(RUN, "Chapters[2]", 2, "a second attempt"))
    assert run.events == before


def test_each_item_has_what_is_left_of_the_budget_divided_by_those_that_were_not_begun():
    run = Book(book(budget=Budget(tokens=900, calls=10)))
    parts = [each.reserved for each in run.events if isinstance(each, StepRequested)]
    assert [(each.tokens, each.calls) for each in parts] == [(300, 3), (300, 3)]
    run.give(1, used=Usage(tokens=100, calls=1))  # 200 tokens and 2 calls are given back
    third = run.state.open["Chapters[3]"].request.reserved
    assert (third.tokens, third.calls) == (900 - 100 - 300, 10 - 1 - 3)
    assert run.is_right()


def test_an_item_waits_for_what_others_give_back_and_where_they_give_nothing_the_budget_is_reached():
    run = Book(book(budget=Budget(calls=2)))
    assert run.asked == ["Chapters[1]", "Chapters[2]"]
    run.give(1, used=Usage(calls=1))
    assert run.asked == ["Chapters[2]"]  # its call is all that is left
    run.give(2, used=Usage(calls=1))
    assert isinstance(run.events[-2], BudgetReached)
    assert isinstance(run.events[-1], RunEnded)
    assert run.events[-1].outcome == "over_budget"
    assert run.is_right()


def test_what_other_runs_used_today_counts_for_a_daily_budget():
    run = Book(book(daily=Budget(tokens=900)), others=Usage(tokens=600))
    assert run.state.open["Chapters[1]"].request.reserved.tokens == 100


def test_a_paused_run_begins_no_more_items_and_takes_the_drafts_of_those_under_way():
    run = Book()
    run.send(PauseRun(RUN, by="ann"))
    run.give(1)
    assert run.asked == ["Chapters[2]"]
    run.send(ResumeRun(RUN, by="ann"))
    assert run.asked == ["Chapters[2]", "Chapters[3]"]
    assert run.is_right()


def test_a_cancelled_run_waits_for_nothing():
    run = Book()
    run.send(CancelRun(RUN, "enough", "ann"))
    assert run.state.status == "ended"
    assert run.state.open == {}
    assert run.is_right()


def test_an_item_has_no_deadline_and_is_only_looked_after():
    run = Book()
    run.now = NOON + timedelta(days=2)
    assert run.send(ExpireStep(RUN, "Chapters[1]", 1)) == ()
    assert run.send(ExpireStep(RUN, "Chapters[1]", 1, unserved=10_000.0)) == ()


def test_the_wall_time_ends_a_run_whose_items_are_under_way():
    run = Book(book(budget=Budget(seconds=60)))
    run.now = NOON + timedelta(seconds=61)
    run.send(ExpireStep(RUN, "", 1))
    assert isinstance(run.events[-1], RunEnded)
    assert run.events[-1].outcome == "over_budget"
    assert run.state.open == {}


def test_a_persons_edit_waits_until_the_items_are_done():
    around = Repeat("Loop", (outputs >= 3) & (score >= 0.5), 2, (CHAPTERS, BIND, JUDGE, IMPROVE))
    run = Book(book(WRITE, around))
    run.send(Generated(RUN, "write", 1, "a plan"))
    assert run.asked == ["Loop[1]/Chapters[1]", "Loop[1]/Chapters[2]"]
    edit = EditDraft(RUN, DraftRef(1, ""), "my own", by="ann")
    assert "runs of the items of Chapters are under way" in why_void(run.state, edit, MAX_DRAFT_BYTES)
    for number in (1, 2, 3):
        run.give(number, path="Loop[1]/Chapters")
    run.send(Generated(RUN, "Loop[1]/bind", 1, "bound"))
    assert why_void(run.state, edit, MAX_DRAFT_BYTES) == ""
    draft = run.state.open["Loop[1]/judge"].draft
    assert draft is not None
    run.send(Critiqued(RUN, "Loop[1]/judge", 1, draft, Critique(0.7, critic="judge")))
    assert run.state.status == "ended"
    assert run.is_right()


def test_limits_of_a_loop_in_the_body_change_with_the_plan():
    run = Book()
    (changed,) = run.send(ChangeLimits(RUN, "Chapters/Refinement", max_iterations=9, by="ann"))
    assert isinstance(changed, LimitsChanged)
    each = run.state.plan.steps[0]
    assert isinstance(each, Each)
    assert isinstance(each.body[1], Repeat)
    assert each.body[1].max_iterations == 9
    assert run.is_right()


def test_a_fork_has_the_drafts_that_there_were_and_asks_for_the_other_items_again():
    run = Book()
    run.give(1)
    past = as_recorded(run.events, run.times)
    start = StartRun("fork", run.state.plan, Brief("tides"), parent=Parent(RUN, len(past)))
    fork = begin_fork(replace(start, state={"chapters": ["z"]}, by="ann"), past, NOON)
    assert sorted(fork.state.open) == ["Chapters[2]", "Chapters[3]"]
    top = fork.state.frames[-1]
    assert top.each is not None
    assert top.each.items == ("a", "b", "c")  # those that there were when the run came to them


CHILD = Plan("book-Chapters", (WRITE, Repeat("L", score >= 0.9, 1, (JUDGE, IMPROVE))))
OF = ItemOf("book", "Chapters[1]")


def child(plan: Plan, value: float, *, broken: bool = False) -> list[DomainEvent]:
    """Returns the events of a run of an item whose critic gives this score, or breaks when it is asked once more."""
    state = RunState()
    events: list[DomainEvent] = []
    messages: list[Message] = [StartRun("c", check_plan(plan), Brief("tides"), of=OF)]
    while messages:
        decision = handle(state, messages.pop(), NOON)
        state = decision.state
        events += decision.events
        for path, asked in state.open.items():
            if asked.step.role == "critic" and asked.draft is not None:
                fails = broken and asked.draft.version > 1
                said = Critiqued("c", path, 1, asked.draft, Critique(value, critic="judge"), Usage(tokens=5))
                messages.append(Failed("c", path, 1, "error", "broken", retryable=False) if fails else said)
            else:
                messages.append(Generated("c", path, 1, "one") if path == "write" else Refined("c", path, 1, "two"))
    assert state.status == "ended"
    return events


@pytest.mark.parametrize(
    ("plan", "value", "broken", "text"),
    [
        (CHILD, 0.95, False, "one"),
        (CHILD, 0.5, False, "two"),
        (replace(CHILD, steps=(WRITE, replace(CHILD.steps[1], on_exhausted="fail"))), 0.5, False, None),
        (CHILD, 0.5, True, None),
        (replace(CHILD, on_failure="publish_best"), 0.5, True, "one"),
    ],
    ids=["accepted", "exhausted", "on_exhausted fail", "failed", "publish_best"],
)
def test_the_run_of_an_item_answers_with_its_draft_if_its_plan_came_to_its_end(
    plan: Plan, value: float, broken: bool, text: str | None
):
    events = child(plan, value, broken=broken)
    answer = result_of(events, OF, "c")
    assert (answer.run, answer.path, answer.attempt) == ("book", "Chapters[1]", 1)
    assert answer.usage == fold(events).usage
    if text is None:
        assert isinstance(answer, Failed)
        assert not answer.retryable
        assert answer.message.startswith("run c ended ")
    else:
        assert isinstance(answer, Generated)
        assert answer.text == text


@pytest.mark.parametrize(
    ("each", "fault"),
    [
        (replace(CHAPTERS, over="a chapter"), "Chapters: over is 'a chapter'; name a list in the run's state, such as"),
        (replace(CHAPTERS, over=""), "Chapters: over is ''; name a list"),
        (replace(CHAPTERS, concurrency=0), "Chapters: concurrency is 0; write a whole number, 1 to 100"),
        (replace(CHAPTERS, body=()), "Chapters: body is empty; begin it with a generator"),
        (replace(CHAPTERS, body=(JUDGE,)), "Chapters/judge: nothing has written a draft yet for this critic"),
        (replace(CHAPTERS, body=(step("step", "note"),)), "Chapters: nothing in the body writes a draft"),
        (replace(CHAPTERS, body=(WRITE, WRITE)), "Chapters/write: name 'write' is already that of a node beside it"),
        (
            replace(CHAPTERS, body=(WRITE, Repeat("L", outputs >= 2, 2, (JUDGE, IMPROVE)))),
            "Chapters/L: until uses outputs",
        ),
    ],
)
def test_a_plan_that_cannot_be_carried_out_is_refused_with_the_place_and_the_remedy(each: Each, fault: str):
    with pytest.raises(PlanError) as refused:
        check_plan(Plan("book", (each, BIND)))
    assert fault in str(refused.value)


def test_conditions_in_the_body_are_checked_as_those_of_a_plan():
    loop = Repeat("L", score >= 0.9, 2, (JUDGE, IMPROVE), rollback_of="nothing")
    with pytest.raises(PlanError, match="Chapters/L: rollback_of"):
        check_ready(Plan("book", (replace(CHAPTERS, body=(WRITE, loop)), BIND)))


def test_the_last_items_draft_counts_as_unjudged():
    with pytest.raises(PlanError, match="nothing judges the draft before it is published"):
        check_plan(Plan("book", (CHAPTERS, step("publisher", "save"))))
