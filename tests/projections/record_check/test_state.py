"""What the checker of records finds about a run's state, and free steps: right records, and what is wrong in others."""

from __future__ import annotations

from typing import Final

import pytest
from msgspec.structs import replace
from tests.projections.record_check.told import LATER, Told

from redraft.events.messages.conditions import Condition, score, state, tokens
from redraft.events.messages.content import Brief, Critique, new_draft
from redraft.events.messages.domain_events import (
    ApprovalRequested,
    CriticSkipped,
    DraftCritiqued,
    DraftEdited,
    DraftGenerated,
    EventRef,
    RunEnded,
    StateChanged,
    StepRequested,
)
from redraft.events.messages.plan import Approve, Node, Parallel, Plan, Repeat, StateField, StateSpec, Step
from redraft.events.messages.reuse import verdict_key
from redraft.events.messages.run_state import Value, Values

RESEARCH: Final = Step("step", "research", "research")
TESTS: Final = Step("step", "tests", "tests", writes=("passed",))
WRITE, SAVE = Step("generator", "write", "write"), Step("publisher", "save", "save")
JUDGE, IMPROVE = Step("critic", "judge", "judge"), Step("refiner", "improve", "improve")
PASSED: Final = state.passed.condition
FIELDS: Final = StateSpec((StateField("passed", "bool"), StateField("topics", "list", optional=True)), {"topics": []})


def plan(until: Condition, *body: Node, before: tuple[Node, ...] = (), spec: StateSpec | None = None) -> Plan:
    return Plan("p", (*before, WRITE, Repeat("L", until, 2, body), SAVE), state=spec)


def begun(until: Condition, *body: Node, **brief: Value) -> Told:
    """A run of this loop up to the first step of its body."""
    return Told(plan(until, *body), **brief).write(WRITE, "write", "a").iteration("L")


FULL: Final = plan(PASSED & (score >= 0.8), JUDGE, TESTS, IMPROVE, before=(RESEARCH,), spec=FIELDS)


def full(passed: Value = True, topics: Value = None) -> Told:
    """A whole run: the tests of the first draft fail, those of the second pass."""
    told = Told(FULL).free(RESEARCH, "research", topics=topics)
    told.write(WRITE, "write", "a").iteration("L").judge(JUDGE, "L[1]/judge", 0.9)
    told.free(TESTS, "L[1]/tests", passed=False).write(IMPROVE, "L[1]/improve", "b").iteration("L", 2)
    told.judge(JUDGE, "L[2]/judge", 0.8).free(TESTS, "L[2]/tests", passed=passed)
    return told.loop_ends("L", "accepted", 2).ends(SAVE, iterations=2)


def test_a_run_with_free_steps_is_right() -> None:
    assert full(topics=["tides"]).findings() == []


def test_every_beginning_of_a_run_with_free_steps_is_right() -> None:
    events = full().events
    for length in range(1, len(events) + 1):
        told = Told(FULL)
        told.events = events[:length]
        assert told.findings() == [], length


@pytest.mark.parametrize("passed", [1, None, "yes", []])
def test_a_value_of_another_kind_is_found(passed: Value) -> None:
    assert full(passed).findings()[0] == ("state", 17)


def test_a_value_that_the_plan_does_not_have_is_found() -> None:
    told = Told(FULL).free(RESEARCH, "research", topics=[], sources=["tides.org"])
    assert told.findings() == [("state", 3)]


def test_a_value_that_the_step_does_not_write_is_found() -> None:
    told = begun(PASSED, JUDGE, TESTS, IMPROVE).judge(JUDGE, "L[1]/judge", 0.9)
    assert told.free(TESTS, "L[1]/tests", topics=["tides"]).findings() == [("state", 8)]


def test_a_value_that_the_run_cannot_begin_with_is_found() -> None:
    assert Told(FULL, passed="yes").findings() == [("state", 1)]
    assert Told(FULL, colour="red").findings() == [("state", 1)]
    assert Told(FULL, passed=False).findings() == []


def test_a_state_that_is_too_large_is_found() -> None:
    half = "x" * 131_000
    told = Told(Plan("p", (RESEARCH, replace(RESEARCH, name="more"), WRITE))).free(RESEARCH, "research", one=half)
    assert told.findings() == []
    assert told.free(RESEARCH, "more", two="x" * 132_000).findings() == [("state", 5)]


def test_a_request_for_a_free_step_without_what_was_said_of_its_draft_is_found() -> None:
    told = begun(PASSED, JUDGE, TESTS, IMPROVE).judge(JUDGE, "L[1]/judge", 0.9)
    told.ask(TESTS, "L[1]/tests", critiques=(), score=None)
    assert told.findings() == [("critiques", 7)]


def test_a_change_by_another_than_a_free_step_is_found() -> None:
    told = Told(plan(PASSED, TESTS, IMPROVE))
    told.ask(WRITE, "write")
    assert told.add(StateChanged("write", 1, {"passed": True})).findings() == [("role", 3)]


def test_a_draft_by_a_free_step_is_found() -> None:
    drafted = begun(PASSED, TESTS, IMPROVE).events[2]
    assert isinstance(drafted, DraftGenerated)
    told = Told(plan(PASSED, JUDGE, before=(RESEARCH,)))
    told.ask(RESEARCH, "research")
    assert ("role", 3) in told.add(replace(drafted, path="research")).findings()


def test_a_change_by_nobody_that_was_asked_is_found() -> None:
    told = begun(PASSED, TESTS, IMPROVE).add(StateChanged("L[1]/tests", 1, {"passed": True}))
    assert told.findings() == [("unasked", 5)]


# --- when a loop ends


def test_a_loop_without_critics_keeps_its_last_draft_and_has_no_score() -> None:
    told = begun(PASSED, TESTS, IMPROVE).free(TESTS, "L[1]/tests", passed=False).write(IMPROVE, "L[1]/improve", "b")
    told.iteration("L", 2).free(TESTS, "L[2]/tests", passed=True)
    assert told.loop_ends("L", "accepted", 2).ends(SAVE, iterations=2).findings() == []


def test_a_loop_that_goes_on_though_its_condition_holds_is_found() -> None:
    told = begun(PASSED, TESTS, IMPROVE).free(TESTS, "L[1]/tests", passed=True)
    told.ask(IMPROVE, "L[1]/improve")
    assert told.findings() == [("loop", 7)]


def test_a_loop_that_ends_though_its_condition_does_not_hold_is_found() -> None:
    told = begun(PASSED, TESTS, IMPROVE).free(TESTS, "L[1]/tests", passed=False).loop_ends("L", "accepted", 1)
    assert told.findings() == [("loop", 7)]


def test_free_steps_run_once_more_where_none_has_answered_since_the_last_draft() -> None:
    def left(*, closed: bool) -> Told:
        told = begun(PASSED, TESTS, IMPROVE)
        for number, text in ((1, "b"), (2, "c")):
            told = told.iteration("L", number) if number > 1 else told
            told.free(TESTS, f"L[{number}]/tests", passed=False).write(IMPROVE, f"L[{number}]/improve", text)
        if closed:
            told.closing("L").free(TESTS, "L[closing]/tests", passed=True)
        return told

    assert left(closed=True).loop_ends("L", "accepted", 2).findings() == []
    assert left(closed=True).loop_ends("L", "exhausted", 2).findings() == [("loop", 17)]
    assert left(closed=False).loop_ends("L", "exhausted", 2).findings() == [("loop", 14)]


def test_no_free_step_runs_once_more_where_one_has_answered_since_the_last_draft() -> None:
    told = begun(PASSED, IMPROVE, TESTS)
    for number, text in ((1, "b"), (2, "c")):
        told = told.iteration("L", number) if number > 1 else told
        told.write(IMPROVE, f"L[{number}]/improve", text).free(TESTS, f"L[{number}]/tests", passed=False)
    count = len(told.events)
    assert told.loop_ends("L", "exhausted", 2).findings() == []
    told.events[count:] = []
    assert told.closing("L").findings() == [("loop", count + 1)]


def test_critics_and_free_steps_close_a_loop_in_the_order_of_the_body() -> None:
    def left() -> Told:
        told = begun(score >= 2, JUDGE, TESTS, IMPROVE)
        for number, text in ((1, "b"), (2, "c")):
            told = told.iteration("L", number) if number > 1 else told
            told.judge(JUDGE, f"L[{number}]/judge", 0.5).free(TESTS, f"L[{number}]/tests", passed=True)
            told.write(IMPROVE, f"L[{number}]/improve", text)
        return told.closing("L")

    good = left().judge(JUDGE, "L[closing]/judge", 0.6).free(TESTS, "L[closing]/tests", passed=True)
    assert good.loop_ends("L", "exhausted", 2).findings() == []
    without = left().judge(JUDGE, "L[closing]/judge", 0.6)
    assert without.loop_ends("L", "exhausted", 2).findings()[0][0] == "step"
    first = left()
    first.ask(TESTS, "L[closing]/tests")
    assert first.findings()[0][0] == "step"


def test_a_loop_with_critics_waits_until_they_have_judged_the_draft() -> None:
    told = begun(PASSED, TESTS, JUDGE, IMPROVE).free(TESTS, "L[1]/tests", passed=True)
    ended = len(told.events) + 1
    assert begun(PASSED, TESTS, JUDGE, IMPROVE).free(TESTS, "L[1]/tests", passed=True).loop_ends(
        "L", "accepted", 1
    ).findings() == [("step", ended)]
    assert told.judge(JUDGE, "L[1]/judge", 0.1).loop_ends("L", "accepted", 1).findings() == []


def test_an_answer_that_changes_the_state_has_the_condition_checked() -> None:
    told = begun(PASSED, IMPROVE, RESEARCH).write(IMPROVE, "L[1]/improve", "b", passed=True)
    assert told.loop_ends("L", "accepted", 1).findings() == []


def test_a_loop_whose_critic_changes_what_its_condition_looks_at() -> None:
    told = begun(PASSED & (score >= 0.5), JUDGE, IMPROVE).judge(JUDGE, "L[1]/judge", 0.5, {"passed": True})
    assert told.loop_ends("L", "accepted", 1).findings() == []


def test_critics_with_a_free_step_between_them_judge_a_draft_together() -> None:
    taste = Step("critic", "taste", "taste")

    def judged(second: float) -> Told:
        told = begun(score >= 0.8, JUDGE, TESTS, taste, IMPROVE).judge(JUDGE, "L[1]/judge", 0.9)
        return told.free(TESTS, "L[1]/tests", passed=True).judge(taste, "L[1]/taste", second)

    early = begun(score >= 0.8, JUDGE, TESTS, taste, IMPROVE).judge(JUDGE, "L[1]/judge", 0.9)
    assert early.loop_ends("L", "accepted", 1).findings() == [("step", 7)]
    assert judged(0.8).loop_ends("L", "accepted", 1).findings() == []
    low = judged(0.3)
    low.said = (6, 10)
    low.ask(IMPROVE, "L[1]/improve")
    assert low.findings() == []


def test_critics_behind_a_free_step_are_not_asked_once_a_gate_has_failed() -> None:
    gate = Step("critic", "gate", "gate", gate=True)

    def failed() -> Told:
        told = begun(score >= 0.8, gate, TESTS, JUDGE, IMPROVE).judge(gate, "L[1]/gate", 0.1)
        return told.free(TESTS, "L[1]/tests", passed=True)

    right = failed()
    right.ask(IMPROVE, "L[1]/improve")
    assert right.findings() == []
    wrong = failed()
    wrong.ask(JUDGE, "L[1]/judge")
    assert wrong.findings() == [("step", 9)]


def test_a_loop_without_critics_checks_its_condition_after_each_draft() -> None:
    told = begun(PASSED | (tokens >= 0), IMPROVE, TESTS).write(IMPROVE, "L[1]/improve", "b")
    assert told.loop_ends("L", "over_budget", 1).findings() == []


def test_people_asked_about_an_edit_hear_of_it_only_once_critics_and_free_steps_have_seen_it() -> None:
    ask = Approve("ask")
    told = Told(Plan("p", (WRITE, JUDGE, TESTS, ask, SAVE))).write(WRITE, "write", "a").judge(JUDGE, "judge", 0.5)
    told.free(TESTS, "tests", passed=True)
    assert told.draft is not None
    told.add(ApprovalRequested("ask", told.draft, LATER))
    edited = new_draft(2, "by ann")
    told.add(DraftEdited(edited, told.draft, "ann"))
    told.draft, told.said, told.score = edited.ref, (), None
    told.judge(JUDGE, "judge[edit1]", 0.6).free(TESTS, "tests[edit1]", passed=True)
    assert told.add(ApprovalRequested("ask", edited.ref, LATER)).findings() == []


# --- values that are outdated


def test_a_value_that_is_to_be_written_about_this_draft_does_not_count_yet() -> None:
    def second(**asked: object) -> Told:
        told = begun(PASSED & (score >= 0.8), JUDGE, TESTS, IMPROVE)
        told.judge(JUDGE, "L[1]/judge", 0.1).free(TESTS, "L[1]/tests", passed=True)
        return told.write(IMPROVE, "L[1]/improve", "b").iteration("L", 2).judge(JUDGE, "L[2]/judge", 0.9)

    assert second().loop_ends("L", "accepted", 2).findings()[0][0] == "loop"
    assert second().free(TESTS, "L[2]/tests", passed=True).loop_ends("L", "accepted", 2).findings() == []


@pytest.mark.parametrize(("at", "outdated"), [(0, True), (1, False)])
def test_who_wrote_a_value_last_counts_where_it_declares_nothing(at: int, outdated: bool) -> None:
    """It is asked again about this draft if it stands behind the critic, and not if it stands before it."""
    tests = replace(TESTS, writes=())
    body: tuple[Step, ...] = (JUDGE, tests) if at == 0 else (tests, JUDGE)
    told = Told(plan(PASSED & (score >= 0.8), *body, IMPROVE)).write(WRITE, "write", "a").iteration("L")
    for step in body:
        if step is JUDGE:
            told.judge(JUDGE, "L[1]/judge", 0.1)
        else:
            told.free(tests, "L[1]/tests", passed=True)
    told.write(IMPROVE, "L[1]/improve", "b").iteration("L", 2)
    if at == 1:
        told.free(tests, "L[2]/tests")
    told.judge(JUDGE, "L[2]/judge", 0.9)
    assert bool(told.loop_ends("L", "accepted", 2).findings()) is outdated


def test_a_default_does_not_count_before_the_step_that_declares_it_has_looked_at_the_draft() -> None:
    told = begun(PASSED, JUDGE, IMPROVE, TESTS, passed=True).judge(JUDGE, "L[1]/judge", 0.1)
    assert [code for code, _ in told.loop_ends("L", "accepted", 1).findings()] == ["loop"]


def test_a_step_behind_the_next_refiner_makes_no_value_outdated_that_it_wrote_about_this_draft() -> None:
    told = begun(PASSED & (score >= 0.8), JUDGE, IMPROVE, TESTS).judge(JUDGE, "L[1]/judge", 0.1)
    told.write(IMPROVE, "L[1]/improve", "b").free(TESTS, "L[1]/tests", passed=True).iteration("L", 2)
    assert told.judge(JUDGE, "L[2]/judge", 0.9).loop_ends("L", "accepted", 2).findings() == []


def test_a_value_about_the_draft_before_does_not_count_where_the_tests_stand_before_the_refiner() -> None:
    told = begun(PASSED & (score >= 0.8), TESTS, IMPROVE, JUDGE).free(TESTS, "L[1]/tests", passed=True)
    told.write(IMPROVE, "L[1]/improve", "b").judge(JUDGE, "L[1]/judge", 0.9)
    right = told.iteration("L", 2).free(TESTS, "L[2]/tests", passed=True).loop_ends("L", "accepted", 2)
    assert right.findings() == []
    wrong = begun(PASSED & (score >= 0.8), TESTS, IMPROVE, JUDGE).free(TESTS, "L[1]/tests", passed=True)
    wrong.write(IMPROVE, "L[1]/improve", "b").judge(JUDGE, "L[1]/judge", 0.9)
    assert wrong.loop_ends("L", "accepted", 1).findings() == [("iteration", 11)]


def test_free_steps_look_at_the_last_draft_before_the_loop_ends_where_its_condition_reads_the_state() -> None:
    def last(until: Condition) -> Told:
        told = begun(until, TESTS, IMPROVE, JUDGE)
        for iteration, text in ((1, "b"), (2, "c")):
            told = told if iteration == 1 else told.iteration("L", iteration)
            told.free(TESTS, f"L[{iteration}]/tests", passed=False).write(IMPROVE, f"L[{iteration}]/improve", text)
            told.judge(JUDGE, f"L[{iteration}]/judge", 0.5 + iteration / 10)
        return told

    reads, reads_not = PASSED & (score >= 0.7), score >= 0.8
    closed = last(reads).closing("L").free(TESTS, "L[closing]/tests", passed=True)
    assert closed.loop_ends("L", "accepted", 2).findings() == []
    assert last(reads).loop_ends("L", "exhausted", 2).findings()[0][0] == "loop"
    assert last(reads_not).loop_ends("L", "exhausted", 2).findings() == []
    again = last(reads).closing("L").free(TESTS, "L[closing]/tests", passed=True)
    again.ask(JUDGE, "L[closing]/judge")
    assert again.findings() != []


@pytest.mark.parametrize("tested", [True, False])
def test_a_late_critic_is_not_asked_for_a_value_that_is_outdated(tested: bool) -> None:
    late = Step("critic", "late", "late", when=PASSED)
    body = (JUDGE, TESTS, late, IMPROVE) if tested else (JUDGE, late, TESTS, IMPROVE)
    told = begun(score >= 2, *body, passed=True).judge(JUDGE, "L[1]/judge", 0.5)
    assert told.draft is not None
    if tested:
        told.free(TESTS, "L[1]/tests", passed=True)
    told.add(CriticSkipped("L[1]/late", "late", told.draft))
    assert [code for code, _ in told.findings()] == (["skipped"] if tested else [])


@pytest.mark.parametrize(
    ("until", "value", "holds"),
    [
        (PASSED, "yes", True),
        (PASSED, 0, False),
        (PASSED, [], False),
        (~PASSED, None, True),
        (state.count >= 3, 3, True),
        (state.count >= 3, 2.5, False),
        (~(state.count >= 3), 2.5, True),
        (state.count >= 3, "3", False),
        (~(state.count >= 3), "3", False),
        (state.count >= 0, True, False),
        (state.name == "children", "children", True),
        (~(state.name == "children"), "adults", True),
        (~(state.name == "children"), 3, False),
        (~state.other, 3, False),
        (state.other | (tokens >= 0), 3, True),
    ],
)
def test_what_a_condition_says_of_a_value(until: Condition, value: Value, holds: bool) -> None:
    told = begun(until, RESEARCH, IMPROVE).free(RESEARCH, "L[1]/research", passed=value, count=value, name=value)
    outcome = "over_budget" if "tokens" in str(until) else "accepted"
    assert (told.loop_ends("L", outcome, 1).findings() == []) is holds


# --- in parallel


def side_by_side(first: Values, second: Values) -> Told:
    both = (replace(RESEARCH, name="one"), replace(RESEARCH, name="two"))
    told = Told(Plan("p", (Parallel("both", both), WRITE)))
    for step in both:
        told.ask(step, f"both/{step.name}")
    told.add(StateChanged("both/two", 1, second)).add(StateChanged("both/one", 1, first))
    return told


def test_steps_side_by_side_write_values_of_their_own() -> None:
    assert side_by_side({"a": 1}, {"b": 2}).write(WRITE, "write", "a").findings() == []


def test_a_second_write_of_one_value_is_found() -> None:
    assert side_by_side({"a": 1}, {"a": 2}).findings() == [("state", 5)]


def test_a_second_write_by_a_judge_of_candidates_is_found() -> None:
    writers = tuple(replace(WRITE, name=name) for name in ("one", "two"))
    told = Told(Plan("p", (Parallel("best", writers, judge=JUDGE), SAVE)))
    for step in writers:
        told.ask(step, f"best/{step.name}")
    events = [Told(Plan("p", (WRITE,))).write(WRITE, "write", text).events[-1] for text in "ab"]
    made = []
    for number, event in enumerate(events, 1):
        assert isinstance(event, DraftGenerated)
        draft = replace(event.draft, version=number)
        made.append(draft.ref)
        told.add(replace(event, path=f"best/{writers[number - 1].name}", draft=draft))
    for number, ref in enumerate(made, 1):
        told.ask(JUDGE, f"best/judge[{number}]", draft=ref, beside=tuple(made))
    for number, ref in enumerate(made, 1):
        said = Critique(0.5, critic="judge")
        told.add(DraftCritiqued(f"best/judge[{number}]", 1, ref, said, state={"seen": number}))
    assert told.findings() == [("state", 9)]


# --- forks


def fork(*more: StateChanged) -> Told:
    told = begun(PASSED, TESTS, IMPROVE).free(TESTS, "L[1]/tests", passed=False).forked(6)
    for event in more:
        told.add(event)
    return told


def test_a_fork_goes_on_with_the_state_of_its_parent() -> None:
    told = fork()
    told.ask(IMPROVE, "L[1]/improve")
    assert told.findings() == []


def test_a_fork_goes_on_with_the_values_that_a_person_changed() -> None:
    told = fork(StateChanged("", 1, {"passed": True}, by="ann"))
    assert told.loop_ends("L", "accepted", 1).findings() == []
    again = fork(StateChanged("", 1, {"passed": True}, by="ann"))
    again.ask(IMPROVE, "L[1]/improve")
    assert again.findings() == [("loop", 8)]


def test_a_change_that_nobody_made_is_found() -> None:
    assert fork(StateChanged("", 1, {"passed": True})).findings() == [("state", 7)]


def test_a_persons_change_where_no_fork_begins_is_found() -> None:
    change = StateChanged("", 1, {"passed": True}, by="ann")
    assert begun(PASSED, TESTS, IMPROVE).add(change).findings() == [("state", 5)]
    assert fork(change, change).findings() == [("state", 8)]


# --- verdicts that are taken again

AGAIN: Final = replace(JUDGE, reuse="run")


def taken(*, first: Values, second: Values, known: Values, passed: bool = True) -> Told:
    """A verdict with these changes, taken again with those for the same text; its key is that of what is `known`."""
    told = begun(score >= 2, AGAIN, TESTS, IMPROVE, passed=True)

    def ask(path: str, values: Values, reused: EventRef | None) -> None:
        assert told.draft is not None
        key = verdict_key(AGAIN, 0, Brief("a brief", state={"passed": True}), told.draft, "text/plain", (), values)
        told.ask(AGAIN, path, verdict_key=key, reused=reused)

    def answer(path: str, state: Values, reused: EventRef | None) -> None:
        assert told.draft is not None
        said = Critique(0.5, critic="judge")
        told.add(DraftCritiqued(path, 1, told.draft, said, reused=reused, state=state))
        told.said, told.score = (len(told.events),), 0.5

    ask("L[1]/judge", {"passed": True}, None)
    answer("L[1]/judge", first, None)
    told.free(TESTS, "L[1]/tests", passed=passed).write(IMPROVE, "L[1]/improve", "a").iteration("L", 2)
    again = EventRef("r", 6)
    ask("L[2]/judge", known, again)
    answer("L[2]/judge", second, again)
    return told


def test_a_verdict_is_taken_again_where_the_state_is_the_same() -> None:
    assert taken(first={}, second={}, known={"passed": True}).findings() == []


@pytest.mark.parametrize("known", [True, False])
def test_a_verdict_on_another_state_is_not_taken_again(known: bool) -> None:
    assert taken(first={}, second={}, known={"passed": known}, passed=False).findings() == [("reuse", 12)]


def test_a_verdict_that_is_taken_again_changes_nothing() -> None:
    assert taken(first={}, second={"passed": True}, known={"passed": True}).findings() == [("state", 13)]


def test_a_verdict_with_changes_is_not_taken_again() -> None:
    assert taken(first={"passed": True}, second={}, known={"passed": True}).findings() == [("reuse", 12)]


# --- conditions of one's own

GOOD: Final = Step("critic", "good", "good", condition=True, measures=("good",))


def asked(holds: float, *, heard: bool = True, approved: bool | None = True) -> Told:
    """A condition of one's own has said this after a critic that approved."""
    told = begun(score >= 2, replace(JUDGE), GOOD, IMPROVE)
    told.ask(JUDGE, "L[1]/judge")
    assert told.draft is not None
    told.add(DraftCritiqued("L[1]/judge", 1, told.draft, Critique(0.5, critic="judge", approved=approved)))
    said = {"critiques": (6,), "score": 0.5} if heard else {}
    told.ask(GOOD, "L[1]/good", **said)
    verdict = Critique(0.0, critic="good", scored=False, measures={"good": holds})
    return told.add(DraftCritiqued("L[1]/good", 1, told.draft, verdict))


def test_a_condition_is_given_what_critics_before_it_said_and_has_no_word_in_their_approval() -> None:
    told = asked(0)
    told.score = 0.5
    assert told.loop_ends("L", "accepted", 1).findings() == []


def test_a_condition_that_is_not_given_what_critics_said_is_found() -> None:
    assert asked(1, heard=False).findings() == [("critiques", 7)]


def test_a_condition_that_says_neither_yes_nor_no_is_found() -> None:
    assert asked(0.5).findings() == [("step", 8)]


def test_without_a_score_no_run_has_one() -> None:
    told = begun(PASSED, TESTS, IMPROVE).free(TESTS, "L[1]/tests", passed=True).loop_ends("L", "accepted", 1)
    ended = told.ends(SAVE).events[-1]
    assert isinstance(ended, RunEnded)
    told.events[-1] = replace(ended, score=0.5)
    assert told.findings() == [("score", 10)]


def test_a_draft_that_no_loop_let_out_may_not_be_published() -> None:
    told = Told(Plan("p", (WRITE, RESEARCH, SAVE))).write(WRITE, "write", "a").free(RESEARCH, "research")
    assert ("published", 7) in told.ends(SAVE, iterations=0).findings()
    assert isinstance(told.events[5], StepRequested)
