"""The state of a run: who changes it, who sees it when, and what conditions make of it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from redraft.actors import (
    Actor,
    Brief,
    Critique,
    Retry,
    Revision,
    WithState,
    Workflow,
    approved,
    condition,
    critic,
    generator,
    parallel,
    publisher,
    refiner,
    repeat,
    score,
    state,
    step,
)
from redraft.actors.plans.check import check_ready
from redraft.app import refine
from redraft.app.client.result import Result
from redraft.app.settings.settings import Settings
from redraft.events.errors import ActorError, PlanError
from redraft.events.messages.plan import Repeat
from redraft.events.messages.run_state import MAX_STATE


@generator
def write(brief):
    return brief.text


@critic
def judge(draft):
    return min(1.0, 0.5 + 0.1 * draft.text.count("!"))


@refiner
def improve(draft):
    return draft.text + "!"


@step(writes=["tested"])
def run_tests(draft):
    return {"tested": draft.text.count("!")}


@step
def count(context):
    return {"n": context.state.get("n", 0) + 1}


async def end_of(workflow: Workflow, brief: Brief | str = "draft") -> Result:
    return await refine(workflow, brief, settings=Settings(store="memory:"))


class Shelf:
    """A publisher that keeps what it saw of the state, and of the draft."""

    def __init__(self) -> None:
        self.states: list[dict[str, object]] = []
        self.texts: list[str] = []

        @publisher
        def save(draft, context):
            self.states.append(dict(context.state))
            self.texts.append(draft.text)
            return "shelf"

        self.save = save


async def test_free_steps_change_the_state_that_all_later_actors_read():
    shelf = Shelf()

    @step
    async def research(context):
        assert dict(context.state) == {"audience": "adults"}
        return {"sources": ["tides.org"], "audience": "children"}

    @generator
    def tell(brief, context):
        return f"{brief.text} for {context.state.audience}"

    workflow = Workflow("told", state={"audience": "adults"}).start_with(research, tell).then(judge, shelf.save)
    result = await end_of(workflow)
    assert shelf.texts == ["draft for children"]
    assert shelf.states == [{"audience": "children", "sources": ["tides.org"]}]
    assert result.outcome == "accepted"


async def test_the_state_begins_with_the_plans_defaults_and_then_the_briefs_values():
    shelf = Shelf()
    workflow = Workflow("begun", state={"audience": "adults", "limit": 3}).start_with(write, judge, shelf.save)
    await end_of(workflow, Brief("draft", state={"audience": "children"}))
    assert shelf.states == [{"audience": "children", "limit": 3}]


async def test_every_role_may_change_the_state_beside_its_result():
    shelf = Shelf()

    @generator
    def tell(brief):
        return WithState(brief.text, {"told": True})

    @critic
    def count_signs(draft):
        return WithState(0.5 + 0.1 * draft.text.count("!"), {"signs": draft.text.count("!")})

    @refiner
    def lengthen(draft):
        return WithState(draft.text + "!", {"longer": [draft.version]})

    workflow = Workflow("beside").start_with(tell)
    workflow = workflow.repeat_until(score >= 0.6, max_iterations=3, body=[count_signs, lengthen])
    result = await end_of(workflow.finally_(shelf.save))
    assert (result.outcome, shelf.texts) == ("accepted", ["draft!"])
    assert shelf.states == [{"told": True, "signs": 1, "longer": [1]}]


async def test_a_condition_on_the_state_ends_a_loop_with_critics():
    workflow = Workflow("both").start_with(write)
    workflow = workflow.repeat_until(state.n >= 3, max_iterations=9, body=[judge, count, improve])
    result = await end_of(workflow)
    assert (result.outcome, result.text, result.iterations) == ("accepted", "draft!!", 3)


async def test_a_value_is_not_seen_before_the_step_that_wrote_it_has_looked_at_the_draft_of_now():
    """Without that, the loop would end after `judge`, on tests of the draft before."""
    seen: list[str] = []

    @step(writes=["clean"])
    def check(draft):
        seen.append(draft.text)
        return {"clean": draft.text.count("!") in (0, 2)}

    @critic
    def strict(draft):
        return 0.9 if "!" in draft.text else 0.1

    workflow = Workflow("stale").start_with(write)
    workflow = workflow.repeat_until(state.clean & (score >= 0.8), max_iterations=9, body=[strict, check, improve])
    result = await end_of(workflow)
    assert (result.outcome, result.text, seen) == ("accepted", "draft!!", ["draft", "draft!", "draft!!"])


async def test_a_value_about_the_draft_before_ends_no_loop_in_which_the_draft_is_changed_after_the_tests():
    seen: list[str] = []

    @step
    def check(draft):
        seen.append(draft.text)
        return {"clean": draft.text.count("!") % 2 == 0}

    @critic
    def strict(draft):
        return 0.9 if "!" in draft.text else 0.1

    workflow = Workflow("before").start_with(write)
    workflow = workflow.repeat_until(state.clean & (score >= 0.8), max_iterations=9, body=[check, improve, strict])
    result = await end_of(workflow)
    assert (result.outcome, result.text, seen) == ("accepted", "draft!!", ["draft", "draft!", "draft!!"])


async def test_free_steps_alone_look_at_a_last_draft_that_the_critics_have_judged():
    judged: list[str] = []
    looked: list[str] = []

    @critic
    def strict(draft):
        judged.append(draft.text)
        return 0.9

    @step
    def look(draft):
        looked.append(draft.text)
        return {"signs": draft.text.count("!")}

    workflow = Workflow("last").start_with(write)
    workflow = workflow.repeat_until(
        (state.signs >= 2) & (score >= 0.8), max_iterations=2, body=[look, improve, strict]
    )
    result = await end_of(workflow)
    assert (result.outcome, result.text, judged) == ("accepted", "draft!!", ["draft!", "draft!!"])
    assert looked == ["draft", "draft!", "draft!!"]


async def test_a_value_about_another_draft_than_the_one_that_left_a_loop_ends_no_loop_around_it():
    """The inner loop leaves with its best draft, the first; its last tests are about its last draft."""
    looked: list[str] = []

    @critic
    def falling(draft):
        return 0.5 - 0.1 * draft.text.count("!")

    @step
    def long_enough(draft):
        looked.append(draft.text)
        return {"long": draft.text.endswith("!!")}

    @step
    def look_outside():
        return None

    inner = repeat(until=score >= 0.9, max_iterations=2, body=[falling, long_enough, improve], name="Inner")
    workflow = Workflow("outer").start_with(write)
    workflow = workflow.repeat_until(state.long, max_iterations=2, body=[inner, look_outside], name="Outer")
    result = await end_of(workflow)
    assert looked[-1] == "draft!!"
    assert (result.outcome, result.text) == ("exhausted", "draft")


async def test_a_default_is_not_seen_before_the_step_that_declares_it_has_answered():
    workflow = Workflow("declared", state={"tested": 5}).start_with(write)
    workflow = workflow.repeat_until(state.tested >= 1, max_iterations=4, body=[judge, run_tests, improve])
    result = await end_of(workflow)
    assert (result.outcome, result.text) == ("accepted", "draft!")


async def test_free_steps_between_critics_do_not_part_their_judgement():
    @critic
    def lenient(draft):
        return 1.0

    workflow = Workflow("row").start_with(write)
    workflow = workflow.repeat_until(score >= 0.6, max_iterations=4, body=[judge, count, lenient, improve])
    result = await end_of(workflow)
    assert (result.outcome, result.score, result.text) == ("accepted", 0.6, "draft!")


async def test_after_a_failed_gate_the_critics_behind_a_free_step_are_passed_over():
    asked: list[str] = []

    @critic
    def gate(draft):
        return Critique(1.0) if "!" in draft.text else Critique(0.0, errors=("no !",))

    @critic
    def last(draft):
        asked.append(draft.text)
        return 0.9

    workflow = Workflow("gated").start_with(write)
    workflow = workflow.repeat_until(score >= 0.9, max_iterations=4, body=[step(gate, gate=True), count, last, improve])
    result = await end_of(workflow)
    assert (result.outcome, result.text, asked) == ("accepted", "draft!", ["draft!"])


async def test_a_loop_without_critics_keeps_its_last_draft_and_has_no_score():
    shelf = Shelf()
    workflow = Workflow("alone").start_with(write)
    workflow = workflow.repeat_until(state.n >= 3, max_iterations=9, body=[improve, count]).finally_(shelf.save)
    result = await end_of(workflow)
    assert (result.outcome, result.text, result.score, result.iterations) == ("accepted", "draft!!!", None, 3)
    assert shelf.texts == ["draft!!!"]


async def test_a_loop_without_critics_that_never_meets_its_condition_is_exhausted_with_its_last_draft():
    workflow = Workflow("alone").start_with(write)
    workflow = workflow.repeat_until(state.n >= 9, max_iterations=3, body=[improve, count])
    result = await end_of(workflow)
    assert (result.outcome, result.text, result.score) == ("exhausted", "draft!!!", None)


async def test_free_steps_look_at_the_last_draft_of_a_loop_without_critics_once_more():
    workflow = Workflow("alone").start_with(write)
    workflow = workflow.repeat_until(state.tested >= 2, max_iterations=2, body=[run_tests, improve])
    result = await end_of(workflow)
    assert (result.outcome, result.text) == ("accepted", "draft!!")


async def test_a_refiner_may_leave_a_loop_without_critics():
    @refiner
    def leave(draft):
        return Revision(draft.text + "!", exit=draft.text.endswith("!"))

    workflow = Workflow("left").start_with(write)
    result = await end_of(workflow.repeat_until("exit()", max_iterations=5, body=[leave]))
    assert (result.outcome, result.text) == ("accepted", "draft!!")


async def test_the_last_draft_is_judged_and_tested_once_more():
    workflow = Workflow("closing").start_with(write)
    workflow = workflow.repeat_until(
        (state.tested >= 1) & (score >= 0.6), max_iterations=1, body=[run_tests, judge, improve]
    )
    result = await end_of(workflow)
    assert (result.outcome, result.text, result.score) == ("accepted", "draft!", 0.6)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"audience": 3}, "audience is 3; the plan's state has str there"),
        ({"audienze": "x"}, "audienze is no value of the plan's state; did you mean audience?"),
        ({"notes": None}, "notes is None; the plan's state has list there"),
        ({"big": "x" * MAX_STATE}, "more than 262,144; put large texts elsewhere"),
    ],
    ids=["type", "name", "null", "size"],
)
async def test_a_change_that_does_not_fit_fails_its_step_once(changes: dict[str, object], fault: str):
    @dataclass
    class Known:
        audience: str = "adults"
        big: str | None = None
        notes: list[str] = field(default_factory=list)

    calls: list[int] = []

    @step
    def wrong(context):
        calls.append(context.attempt)
        return changes

    workflow = Workflow("typed", state=Known).start_with(step(wrong, retry=Retry(3, initial=0)), write, judge)
    result = await end_of(workflow)
    assert result.outcome == "failed"
    assert fault in result.reason
    assert calls == [1]


async def test_a_step_changes_only_what_it_declares():
    @step(writes=["a"])
    def other():
        return {"b": 1}

    result = await end_of(Workflow("declared").start_with(other, write, judge))
    assert result.outcome == "failed"
    assert "changes the value b, which it does not declare" in result.reason


async def test_two_steps_in_parallel_that_declare_one_value_are_refused():
    @step(writes=["a"])
    def first(): ...

    @step(writes=["a", "b"])
    def second(): ...

    workflow = Workflow("both").start_with(parallel("Both", first, second), write, judge)
    with pytest.raises(PlanError, match="Both/second: writes: first writes a at the same time"):
        check_ready(workflow.plan)


@pytest.mark.parametrize("wait", ["all", 1])
async def test_of_two_steps_in_parallel_that_write_one_value_the_second_fails(wait: int):
    shelf = Shelf()

    @step
    def first():
        return {"a": 1}

    @step
    def second():
        return {"a": 2}

    workflow = Workflow("both").start_with(parallel("Both", first, second, wait=wait), write, judge, shelf.save)
    result = await end_of(workflow)
    if wait == 1:
        assert (result.outcome, shelf.states) == ("accepted", [{"a": 1}])
    else:
        assert result.outcome == "failed"
        assert "changes the value a, which Both/first changed at the same time" in result.reason


async def test_steps_in_parallel_get_the_state_of_before_and_both_change_it():
    seen: list[dict[str, object]] = []
    shelf = Shelf()

    @step
    def first(context):
        seen.append(dict(context.state))
        return {"a": 1}

    @step
    def second(context):
        seen.append(dict(context.state))
        return {"b": 2}

    workflow = Workflow("both", state={"n": 0}).start_with(parallel("Both", first, second), write, judge, shelf.save)
    await end_of(workflow)
    assert (seen, shelf.states) == ([{"n": 0}, {"n": 0}], [{"n": 0, "a": 1, "b": 2}])


async def test_a_condition_of_ones_own_ends_a_loop_and_says_why_not():
    told: list[tuple[str, ...]] = []

    @condition
    def long_enough(facts):
        return len(facts.draft.text) >= 7 or f"it has {len(facts.draft.text)} characters"

    @refiner
    def lengthen(draft, critique):
        told.append(critique.weaknesses)
        return draft.text + "!"

    workflow = Workflow("own").start_with(write)
    workflow = workflow.repeat_until(long_enough, max_iterations=5, body=[judge, lengthen])
    result = await end_of(workflow)
    assert (result.outcome, result.text, result.score) == ("accepted", "draft!!", 0.7)
    assert told == [("it has 5 characters",), ("it has 6 characters",)]


async def test_a_condition_is_given_what_critics_said_and_the_state():
    given: list[tuple[object, ...]] = []

    @critic(scale=(0, 10))
    def on_ten(draft):
        return Critique(7, errors=("too short",))

    @condition
    def good(facts):
        given.append((facts.score, facts.errors, facts.approved, dict(facts.state), facts.brief.text))
        return True

    workflow = Workflow("own", state={"a": 1}).start_with(write)
    result = await end_of(workflow.repeat_until("good", max_iterations=5, body=[on_ten, good, improve]))
    assert (result.outcome, given) == ("accepted", [(7, 1, None, {"a": 1}, "draft")])


async def test_a_condition_takes_no_part_in_the_approval_of_critics():
    @critic
    def content(draft):
        return True

    @condition
    def never(facts):
        return False

    workflow = Workflow("own").start_with(write)
    result = await end_of(workflow.repeat_until(approved, max_iterations=2, body=[content, never, improve]))
    assert (result.outcome, result.text) == ("accepted", "draft")


@pytest.mark.parametrize("answer", [None, 1, 0.5, "", {"a": 1}], ids=["none", "int", "float", "empty", "dict"])
async def test_a_condition_returns_a_bool_or_a_text(answer: object):
    @condition
    def odd(facts):
        return answer

    workflow = Workflow("own").start_with(write).repeat_until(odd, max_iterations=2, body=[judge, improve])
    result = await end_of(workflow)
    assert result.outcome == "failed"
    assert "not True, False, or a text that says why not" in result.reason


def test_a_condition_without_facts_is_refused():
    with pytest.raises(ActorError, match="@condition wrong: there is no argument 'draft'"):

        @condition
        def wrong(draft): ...


async def test_nested_loops_without_critics_count_on_the_state():
    @step(writes=["inner"])
    def begin():
        return {"inner": 0}

    @step
    def add(context):
        return {"inner": context.state.inner + 1, "all": context.state.get("all", 0) + 1}

    inner = repeat("Inner", until=state.inner >= 2, max_iterations=5, body=[improve, add])
    workflow = Workflow("nested").start_with(write)
    result = await end_of(workflow.repeat_until(state.all >= 4, name="Outer", max_iterations=5, body=[begin, inner]))
    assert (result.outcome, result.text, result.iterations) == ("accepted", "draft!!!!", 2)


def test_a_loop_whose_condition_asks_for_critics_needs_one():
    workflow = Workflow("none").start_with(write)
    workflow = workflow.repeat_until(state.done & (score >= 0.5), max_iterations=2, body=[improve, count])
    with pytest.raises(PlanError, match="add a critic to the body, or let until read the state alone"):
        check_ready(workflow.plan)


def test_a_plan_that_writes_no_draft_is_refused():
    with pytest.raises(PlanError, match="writes a draft; add a generator"):
        check_ready(Workflow("none").start_with(count).plan)


@pytest.mark.parametrize(
    ("until", "fault"),
    [
        ("state.audienze == 'x'", "state.audienze is no value of the plan's state; did you mean audience?"),
        ("state.audience >= 3", "can never hold, as state.audience is of type str"),
    ],
)
def test_a_condition_on_a_value_that_a_typed_state_has_not_is_refused(until: str, fault: str):
    @dataclass
    class Known:
        audience: str = "adults"

    workflow = Workflow("typed", state=Known).start_with(write)
    with pytest.raises(PlanError, match=fault):
        check_ready(workflow.repeat_until(until, max_iterations=2, body=[judge, improve]).plan)


async def test_a_critic_with_a_condition_may_look_at_the_state():
    asked: list[str] = []

    @critic
    def childproof(draft):
        asked.append(draft.text)
        return 1.0

    workflow = Workflow("when").start_with(write)
    workflow = workflow.then(judge, step(childproof, when="state.audience == 'children'"))
    await end_of(workflow, Brief("draft", state={"audience": "adults"}))
    assert asked == []
    await end_of(workflow, Brief("draft", state={"audience": "children"}))
    assert asked == ["draft"]


async def test_a_critic_with_a_condition_sees_no_value_that_a_step_behind_it_is_about_to_change():
    asked: list[str] = []

    @critic
    def again(draft):
        asked.append(draft.text)
        return 1.0

    late = step(again, when="state.tested >= 1")
    workflow = Workflow("when").start_with(write)
    workflow = workflow.repeat_until(score >= 0.99, max_iterations=3, body=[judge, late, run_tests, improve])
    await end_of(workflow)
    assert asked == []
    workflow = Workflow("when").start_with(write)
    workflow = workflow.repeat_until(score >= 0.99, max_iterations=3, body=[run_tests, judge, late, improve])
    await end_of(workflow)
    assert asked == ["draft!", "draft!!", "draft!!!"]


async def test_a_free_step_between_critics_is_told_what_those_before_it_said():
    told: list[tuple[str, ...] | None] = []

    @critic
    def first(draft):
        return Critique(0.5, errors=("too short",))

    @critic
    def second(draft):
        return Critique(0.6, errors=("too dull",))

    @step
    def note(critique):
        told.append(None if critique is None else critique.errors)

    body = [step(note, name="before"), first, step(note, name="between"), second, step(note, name="after"), improve]
    workflow = Workflow("told").start_with(write)
    await end_of(workflow.repeat_until(score >= 0.9, max_iterations=1, body=body))
    assert told[:3] == [None, ("too short",), ("too short", "too dull")]


@pytest.mark.parametrize(
    ("body", "place"),
    [([run_tests, improve], 1), ([improve, run_tests], 2), ([judge, improve, run_tests], 1), ([run_tests], 1)],
)
def test_a_condition_that_is_not_in_the_body_is_put_where_it_looks_at_what_was_found(body: list[Actor], place: int):
    @condition
    def good(facts):
        return True

    loop = repeat("L", until=good, max_iterations=2, body=body).node
    assert isinstance(loop, Repeat)
    assert [node.name for node in loop.body].index("good") == place


@pytest.mark.parametrize("until", ["errors == 0", "score >= 0.5", "approved", "good and score >= 0.5"])
def test_a_condition_of_ones_own_is_no_critic(until: str):
    @condition
    def good(facts):
        return False

    workflow = Workflow("none").start_with(write).repeat_until(until, max_iterations=2, body=[improve, good])
    with pytest.raises(PlanError, match="nothing in the body judges what an iteration ends with"):
        check_ready(workflow.plan)
    alone = Workflow("own").start_with(write).repeat_until("not good", max_iterations=2, body=[improve, good])
    check_ready(alone.plan)


async def test_a_condition_of_ones_own_stands_beside_others_in_python_and_has_to_be_in_the_body():
    @condition
    def long_enough(facts):
        return len(facts.draft.text) > 6

    for until in (long_enough & (score >= 0.6), (score >= 0.6) & long_enough, ~(~long_enough | (score < 0.6))):
        workflow = Workflow("beside").start_with(write)
        workflow = workflow.repeat_until(until, max_iterations=5, body=[judge, long_enough, improve])
        result = await end_of(workflow)
        assert (result.outcome, result.text) == ("accepted", "draft!!")
    workflow = Workflow("without").start_with(write)
    workflow = workflow.repeat_until(long_enough & (score >= 0.6), max_iterations=5, body=[judge, improve])
    with pytest.raises(PlanError, match="a condition of your own has to stand in the loop's body"):
        check_ready(workflow.plan)
    with pytest.raises(ActorError, match="judge: a critic is no condition; decorate a function with @condition"):
        judge & (score >= 0.6)


async def test_a_refiner_that_declares_a_value_and_changes_nothing_hides_it_from_no_one():
    """It answered about this draft before there was any value."""

    @refiner(writes=["tested"])
    def leave_it(draft):
        return draft.text + "!"

    workflow = Workflow("declared").start_with(write)
    workflow = workflow.repeat_until(state.tested >= 1, max_iterations=1, body=[leave_it, run_tests])
    result = await end_of(workflow)
    assert (result.outcome, result.text) == ("accepted", "draft!")
