from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.actors.strategies_plans import plans, steady

from redraft.actors.plans.check import MAX_DEPTH, MAX_NODES, check_plan, check_ready
from redraft.events.errors import PlanError
from redraft.events.messages.conditions import AnyOf, Compare, Condition, approved, outputs, plateau, score
from redraft.events.messages.plan import Approve, Arm, Node, Parallel, Plan, Repeat, Retry, Role, Step


def work(role: Role, name: str, **settings: Any) -> Step:
    return Step(role, name, name, **settings)


WRITE = work("generator", "write")
JUDGE = work("critic", "judge")
IMPROVE = work("refiner", "improve")
SAVE = work("publisher", "save")
LINT = work("critic", "lint", gate=True)
TEST = work("critic", "test", gate=True)


def loop(*body: Node, until: Condition = score >= 0.9, limit: int = 3, name: str = "Refinement", **more: Any) -> Repeat:
    return Repeat(name, until, limit, body, **more)


def plan(*steps: Node) -> Plan:
    return Plan("article", steps)


def twice(role: Role, **settings: Any) -> Parallel:
    return Parallel("Panel", (work(role, "one"), work(role, "two")), **settings)


FIT = [
    plan(WRITE),
    plan(WRITE, JUDGE, SAVE),
    plan(WRITE, loop(JUDGE, IMPROVE), SAVE),
    plan(WRITE, loop(IMPROVE, JUDGE), SAVE),
    plan(loop(WRITE, JUDGE), SAVE),
    plan(WRITE, loop(JUDGE, SAVE, IMPROVE)),
    plan(WRITE, loop(JUDGE, IMPROVE), IMPROVE, JUDGE, SAVE),
    plan(loop(WRITE, loop(JUDGE, IMPROVE), until=outputs >= 5, name="Chapters"), SAVE),
    plan(WRITE, loop(twice("critic", wait=1), IMPROVE), SAVE),
    plan(twice("generator", judge=JUDGE), SAVE),
    plan(WRITE, loop(twice("refiner", judge=JUDGE)), SAVE),
    plan(WRITE, twice("critic", combine="weights", weights=(1, 0)), SAVE),
    plan(WRITE, JUDGE, twice("publisher", wait="first")),
    plan(work("generator", "é-1_"), work("critic", "9"), work("publisher", "x" * 100, timeout=86_400)),
    plan(work("generator", "w", retry=Retry(100, 0, 1, 0), options={"a": ["x", 1], "b": {}, "c": 2**63 - 1})),
    plan(WRITE, loop(JUDGE, limit=1_000_000, rollback_margin=0), loop(JUDGE, name="Again", rollback_margin=1)),
]


@pytest.mark.parametrize("fit", FIT)
def test_a_plan_that_can_be_run_is_given_back(fit: Plan) -> None:
    assert check_plan(fit) is fit


def nested(levels: int) -> Node:
    inner: Node = loop(JUDGE, IMPROVE)
    for _ in range(levels - 1):
        inner = loop(inner, name="Around")
    return inner


def test_the_limits_themselves_are_within_them() -> None:
    check_plan(plan(WRITE, nested(MAX_DEPTH)))
    check_plan(plan(WRITE, *(work("critic", f"c{n}") for n in range(MAX_NODES - 1))))


def nested_under(name: str) -> Node:
    inner: Node = loop(JUDGE, IMPROVE)
    for number in range(MAX_DEPTH - 1):
        inner = loop(inner, name=f"{number}{name}")
    return inner


def test_names_around_a_node_are_bounded_together_in_new_runs_alone() -> None:
    check_ready(plan(WRITE, nested_under("x" * 99)))
    long = plan(WRITE, nested_under("\N{CUNEIFORM SIGN A}" * 80))
    with pytest.raises(PlanError) as refusal:
        check_ready(long)
    assert refusal.value.fault == "its name and those around it have 1,609 bytes; shorten them to 1,500 together"
    check_ready(long, begun=True)


def test_the_name_of_an_actor_is_no_longer_than_an_exchange_may_be_called_in_new_runs_alone() -> None:
    check_ready(plan(Step("generator", "京" * 12, "w")))
    for long in (
        Step("generator", "京" * 13, "w"),
        Step("generator", "", "w", choose=(Arm("a", "a"), Arm("京" * 13, "b"))),
    ):
        with pytest.raises(PlanError, match=r"a queue's name of 135 bytes, .* shorten it, 127 are allowed"):
            check_ready(plan(long))
        check_ready(plan(long), begun=True)


def test_the_name_of_a_person_has_a_bound_in_new_runs_alone() -> None:
    for make in (lambda named: (JUDGE, named), lambda named: (loop(JUDGE, IMPROVE, on_exhausted="ask", ask=named),)):
        check_ready(plan(WRITE, *make(Approve("Sign", ("é" * 500,)))))
        long = plan(WRITE, *make(Approve("Sign", ("é" * 501,))))
        with pytest.raises(PlanError, match="approvers: a name has 1,002 bytes; shorten it, 1,000 are allowed"):
            check_ready(long)
        check_ready(long, begun=True)


class Unwritten:
    pass


REFUSED: list[tuple[Plan, str, str]] = [
    (Plan("", (WRITE,)), "", "name is empty; give the workflow a name"),
    (Plan("a/b", (WRITE,)), "", "name 'a/b' cannot be used; write only letters, digits, _ and -"),
    (Plan("a", ()), "", "the workflow 'a' has no steps"),
    (Plan("a", [WRITE]), "", "is not a tuple of nodes"),  # type: ignore[arg-type]
    (Plan("a", (WRITE,), "explode"), "", "on_failure is 'explode'; write fail or publish_best"),  # type: ignore[arg-type]
    (Plan("a", (WRITE,), "publish-best"), "", "did you mean publish_best?"),  # type: ignore[arg-type]
    (plan(Unwritten()), "", "this is not a node of a plan"),  # type: ignore[arg-type]
    (plan(work("generator", "")), "''", "name is empty; give the node a name"),
    (plan(work("generator", "a b")), "'a b'", "name 'a b' cannot be used"),
    (plan(work("generator", "a[1]")), "'a[1]'", "cannot be used"),
    (plan(work("generator", "a#1")), "'a#1'", "cannot be used"),
    (plan(work("generator", "a\nb")), "'a\\nb'", "cannot be used"),
    (
        plan(work("generator", "x" * 101)),
        "'xxxxxxxxxxxx...xxxxxxxxxxxxx'",
        "name has 101 characters; shorten",
    ),
    (plan(Step("generator", "", "write")), "write", "actor is empty; give the actor a name"),
    (plan(Step("generator", "a.b", "write")), "write", "actor 'a.b' cannot be used"),
    (plan(WRITE, WRITE), "write", "name 'write' is already that of a node beside it"),
    (plan(WRITE, loop(JUDGE, IMPROVE, JUDGE)), "Refinement/judge", "name 'judge' is already"),
    (plan(work("writer", "w")), "w", "role is 'writer'; write generator or critic or refiner or publisher"),  # type: ignore[arg-type]
    (plan(work("critc", "w")), "w", "role is 'critc'; did you mean critic?"),  # type: ignore[arg-type]
    (plan(work("generator", "w", timeout=0)), "w", "timeout is 0; write seconds, above 0 and at most 24 hours"),
    (plan(work("generator", "w", timeout=-1.5)), "w", "timeout is -1.5"),
    (plan(work("generator", "w", timeout=86_401)), "w", "timeout is 86401"),
    (plan(work("generator", "w", timeout=math.inf)), "w", "timeout is inf"),
    (plan(work("generator", "w", timeout=math.nan)), "w", "timeout is nan"),
    (plan(work("generator", "w", timeout=True)), "w", "timeout is True"),
    (plan(work("generator", "w", timeout="5m")), "w", "timeout is '5m'"),
    (plan(work("generator", "w", retry=3)), "w", "retry is 3; write Retry(attempts=3)"),
    (plan(work("generator", "w", retry=Retry(0))), "w", "retry.attempts is 0; write a whole number, 1 to 100"),
    (plan(work("generator", "w", retry=Retry(101))), "w", "retry.attempts is 101"),
    (plan(work("generator", "w", retry=Retry(2.0))), "w", "retry.attempts is 2.0"),  # type: ignore[arg-type]
    (plan(work("generator", "w", retry=Retry(initial=-1))), "w", "retry.initial is -1; write seconds, from 0"),
    (plan(work("generator", "w", retry=Retry(maximum=-1))), "w", "retry.maximum is -1"),
    (plan(work("generator", "w", retry=Retry(maximum=math.inf))), "w", "retry.maximum is inf"),
    (plan(work("generator", "w", retry=Retry(factor=0.5))), "w", "retry.factor is 0.5; write a number, 1 to 1,000"),
    (plan(work("generator", "w", retry=Retry(factor=math.nan))), "w", "retry.factor is nan"),
    (plan(work("generator", "w", options=["a"])), "w", "with is ['a']; give names with values"),
    (plan(work("generator", "w", options={1: "a"})), "w", "with has the name 1; an option's name is text"),
    (plan(work("generator", "w", options={"": "a"})), "w", "with has the name ''"),
    (plan(work("generator", "w", options={"t": math.nan})), "w", "with.t is nan; give text, a finite number"),
    (plan(work("generator", "w", options={"t": None})), "w", "with.t is None"),
    (plan(work("generator", "w", options={"t": 2**63})), "w", "with.t is 9223372036854775808"),
    (plan(work("generator", "w", options={"t": [True]})), "w", "with.t is [True]"),
    (plan(work("generator", "w", options={"t": [1.5]})), "w", "with.t is [1.5]"),
    (plan(work("generator", "w", options={"t": [["a"]]})), "w", "with.t is [['a']]"),
    (plan(work("generator", "w", options={"t": {"a": True}})), "w", "with.t is {'a': True}"),
    (plan(work("generator", "w", options={"t": "\ud800"})), "w", "with.t is '\\ud800'"),
    (
        plan(Step("generator", "京" * 28, "w")),
        "w",
        "makes a queue's name of 270 bytes, in which each letter that is not ASCII counts for up to 12; shorten it",
    ),
    (plan(Step("generator", "", "w", choose=(Arm("a", "a"), Arm("京" * 28, "b")))), "w", "choose: actor '京"),
    (Plan("京" * 28, (WRITE,)), "", "makes a routing key of 27"),
    (plan(work("generator", "w", options={"reserve_calls": 10**15})), "w", "with.reserve_calls is 1000000000000000; "),
    (plan(work("generator", "w", options={"reserve_tokens": -1})), "w", "write a number, 0 to 1,000,000,000,000"),
    (plan(work("generator", "w", options={"max_tokens": 10**15})), "w", "with.max_tokens is 1000000000000000"),
    (plan(work("generator", "w", options={"reserve_cost": 1e300})), "w", "with.reserve_cost is 1e+300"),
    (plan(WRITE, loop(JUDGE, limit=0)), "Refinement", "max_iterations is 0; write a whole number, 1 to 1,000,000"),
    (plan(WRITE, loop(JUDGE, limit=-3)), "Refinement", "max_iterations is -3"),
    (plan(WRITE, loop(JUDGE, limit=True)), "Refinement", "max_iterations is True"),
    (plan(WRITE, loop(JUDGE, limit=2.0)), "Refinement", "max_iterations is 2.0"),  # type: ignore[arg-type]
    (plan(WRITE, loop(JUDGE, keep="first")), "Refinement", "keep is 'first'; write best or last"),
    (plan(WRITE, loop(JUDGE, rollback_margin=1.1)), "Refinement", "rollback_margin is 1.1; write a number, 0 to 1"),
    (plan(WRITE, loop(JUDGE, rollback_margin=-0.1)), "Refinement", "rollback_margin is -0.1"),
    (plan(WRITE, loop(JUDGE, rollback_margin=math.nan)), "Refinement", "rollback_margin is nan"),
    (plan(WRITE, loop()), "Refinement", "body is empty"),
    (plan(WRITE, loop(JUDGE, until=score > 1)), "Refinement", "until: score > 1 can never hold"),
    (plan(WRITE, loop(JUDGE, until=score >= 1.01)), "Refinement", "until: scores are 0..1"),
    (plan(WRITE, loop(JUDGE, until=AnyOf(()))), "Refinement", "until: AnyOf joins 0 conditions"),
    (plan(WRITE, loop(JUDGE, until=(score >= 0.9) | plateau(over=0))), "Refinement", "until: plateau: over is 0"),
    (plan(WRITE, loop(JUDGE, until=plateau(gain=2))), "Refinement", "until: plateau: gain is 2"),
    (plan(WRITE, loop(JUDGE, until=~(score >= 0))), "Refinement", "until: the condition can never hold"),
    (
        plan(WRITE, loop(JUDGE, until=Compare("score", ">=", math.nan))),
        "Refinement",
        "until: score is compared",
    ),
    (plan(WRITE, loop(JUDGE, until=True)), "Refinement", "until: True is not a condition"),  # type: ignore[arg-type]
    (plan(WRITE, loop(JUDGE, until=outputs >= 2)), "Refinement", "until uses outputs"),
    (plan(WRITE, loop(JUDGE, until=approved | ~(outputs < 2))), "Refinement", "until uses outputs"),
    (plan(WRITE, Parallel("Panel", (JUDGE,))), "Panel", "steps: 1 given; give at least two"),
    (plan(WRITE, Parallel("Panel", ())), "Panel", "steps: 0 given"),
    (plan(WRITE, Parallel("Panel", (JUDGE, JUDGE))), "Panel/judge", "name 'judge' is already"),
    (plan(WRITE, Parallel("Panel", (JUDGE, IMPROVE))), "Panel/improve", "role refiner beside critic"),
    (plan(WRITE, Parallel("Panel", (JUDGE, loop(JUDGE)))), "Panel/Refinement", "only steps can be in parallel"),  # type: ignore[arg-type]
    (plan(WRITE, twice("critic", wait=0)), "Panel", "wait is 0; write all, first, or a whole number 1 to 2"),
    (plan(WRITE, twice("critic", wait=3)), "Panel", "wait is 3"),
    (plan(WRITE, twice("critic", wait=True)), "Panel", "wait is True"),
    (plan(WRITE, twice("critic", wait="some")), "Panel", "wait is 'some'"),
    (plan(WRITE, twice("critic", wait=score)), "Panel", "wait is "),
    (plan(WRITE, twice("critic", combine="max")), "Panel", "combine is 'max'"),
    (plan(WRITE, twice("critic", combine="weights")), "Panel", "weights are (); give 2 numbers, one for each step"),
    (plan(WRITE, twice("critic", combine="weights", weights=(1,))), "Panel", "weights are (1,); give 2 numbers"),
    (
        plan(WRITE, twice("critic", combine="weights", weights=(1, -1))),
        "Panel",
        "weights are (1, -1); write numbers",
    ),
    (plan(WRITE, twice("critic", combine="weights", weights=(0, 0))), "Panel", "at least one above 0"),
    (plan(WRITE, twice("critic", combine="weights", weights=(1, math.nan))), "Panel", "weights are (1, nan)"),
    (plan(WRITE, twice("critic", weights=(1, 1))), "Panel", "weights need combine: weights, and combine is min"),
    (plan(WRITE, twice("critic", judge=JUDGE)), "Panel", "judge is for generators and refiners"),
    (plan(WRITE, JUDGE, twice("publisher", judge=JUDGE)), "Panel", "judge is for generators and refiners"),
    (plan(twice("generator")), "Panel", "judge is missing: a critic must say which generator's draft is best"),
    (plan(WRITE, twice("refiner")), "Panel", "judge is missing: a critic must say which refiner's draft is best"),
    (plan(twice("generator", judge=SAVE)), "Panel/save", "role is publisher, but a judge must be a critic"),
    (plan(twice("generator", judge=work("critic", "one"))), "Panel/one", "name 'one' is already"),
    (plan(twice("generator", judge=JUDGE, combine="mean")), "Panel", "combine joins the scores of critics"),
    (plan(JUDGE), "judge", "nothing has written a draft yet for this critic; put a generator before it"),
    (plan(IMPROVE), "improve", "nothing has written a draft yet for this refiner"),
    (plan(SAVE), "save", "nothing has written a draft yet for this publisher"),
    (plan(twice("critic")), "Panel", "nothing has written a draft yet for this critic"),
    (plan(loop(JUDGE, IMPROVE)), "Refinement/judge", "nothing has written a draft yet for this critic"),
    (plan(WRITE, SAVE), "save", "nothing judges the draft before it is published; add a critic before this step"),
    (plan(WRITE, JUDGE, IMPROVE, SAVE), "save", "nothing judges the draft before it is published"),
    (plan(WRITE, JUDGE, work("generator", "again"), SAVE), "save", "nothing judges the draft before it is published"),
    (
        plan(WRITE, JUDGE, loop(SAVE, JUDGE, IMPROVE)),
        "Refinement/save",
        "nothing judges the draft before it is published",
    ),
    (plan(WRITE, loop(SAVE, JUDGE)), "Refinement/save", "nothing judges the draft"),
    (plan(WRITE, twice("critic"), IMPROVE, twice("publisher", wait=1)), "Panel", "is already that of a node beside it"),
    (plan(WRITE, loop(IMPROVE)), "Refinement", "nothing in the body judges what an iteration ends with; add a critic"),
    (plan(WRITE, JUDGE, loop(SAVE)), "Refinement", "nothing in the body judges what an iteration ends with"),
    (plan(WRITE, loop(loop(JUDGE), IMPROVE, name="A")), "A", "nothing in the body judges what an iteration ends with"),
    (
        plan(WRITE, loop(IMPROVE, loop(JUDGE), name="A")),
        "A",
        "its refiner may end the loop with a draft",
    ),
    (plan(WRITE, nested(MAX_DEPTH + 1)), "Around/" * MAX_DEPTH + "Refinement", "nest more than 8 deep"),
    (plan(WRITE, *(work("critic", f"c{n}") for n in range(200))), "c199", "the plan has more than 200 nodes"),
]


@pytest.mark.parametrize(
    ("wrong", "path", "fault"), REFUSED, ids=[f"{path}-{fault[:30]}" for _, path, fault in REFUSED]
)
def test_a_plan_that_cannot_be_run_is_refused_with_the_path_of_the_fault(wrong: Plan, path: str, fault: str) -> None:
    with pytest.raises(PlanError) as refusal:
        check_ready(wrong)
    assert fault in refusal.value.fault
    if path:
        assert refusal.value.path == path
    assert len(str(refusal.value).splitlines()) == 1
    assert len(str(refusal.value)) < 300


def test_what_is_no_plan_is_refused() -> None:
    with pytest.raises(PlanError, match="is not a plan; build one with Workflow, or read it from YAML"):
        check_plan("article")  # type: ignore[arg-type]


@steady
@given(plans())
def test_random_plans_of_our_strategy_are_fit_and_come_back_from_the_store(fit: Plan) -> None:
    assert check_plan(fit) is fit
    assert msgspec.json.decode(msgspec.json.encode(fit), type=Plan) == fit


JUNK: list[object] = [
    None,
    True,
    -1,
    0,
    1.5,
    math.nan,
    math.inf,
    "",
    "x" * 101,
    "a/b",
    "\ud800",
    [],
    (),
    {},
    10**400,
    object,
    score,
]


@steady
@given(plans(depth=1), st.data())
def test_a_plan_with_one_wrong_value_is_fit_or_refused_in_one_line(fit: Plan, data: st.DataObject) -> None:
    places = [place for place in _places(fit, lambda changed: changed) if place[0].__struct_fields__]
    struct, rebuilt = data.draw(st.sampled_from(places))
    field = data.draw(st.sampled_from([each.name for each in msgspec.structs.fields(struct)]))
    junk = data.draw(st.sampled_from(JUNK))
    refusal = _refusal(rebuilt(msgspec.structs.replace(struct, **{field: junk})))
    assert len(refusal.splitlines()) <= 1


Rebuild = Callable[[Any], Plan]


def _places(struct: msgspec.Struct, rebuilt: Rebuild) -> Iterator[tuple[msgspec.Struct, Rebuild]]:
    """Every struct of a plan, and how to put another in its place."""
    yield struct, rebuilt
    for field in struct.__struct_fields__:
        value = getattr(struct, field)
        if isinstance(value, msgspec.Struct):
            yield from _places(value, _in_field(struct, field, rebuilt))
        for index, item in enumerate(value if isinstance(value, tuple) else ()):
            if isinstance(item, msgspec.Struct):
                yield from _places(item, _in_tuple(struct, field, value, index, rebuilt))


def _in_field(struct: msgspec.Struct, field: str, rebuilt: Rebuild) -> Rebuild:
    return lambda changed: rebuilt(msgspec.structs.replace(struct, **{field: changed}))


def _in_tuple(struct: msgspec.Struct, field: str, value: tuple[Any, ...], index: int, rebuilt: Rebuild) -> Rebuild:
    def put(changed: object) -> Plan:
        return rebuilt(msgspec.structs.replace(struct, **{field: (*value[:index], changed, *value[index + 1 :])}))

    return put


def _refusal(plan: Plan) -> str:
    try:
        check_plan(plan)
    except PlanError as refusal:
        return str(refusal)
    decoded = msgspec.json.decode(msgspec.json.encode(plan), type=Plan)
    assert decoded == plan
    return ""


GATES_APART = [
    (plan(WRITE, loop(JUDGE, IMPROVE, LINT)), "Refinement/lint", "may end with a draft that gate lint has not"),
    (plan(WRITE, loop(LINT, IMPROVE, TEST)), "Refinement/test", "may end with a draft that gate lint has not"),
    (plan(WRITE, loop(JUDGE, IMPROVE, Parallel("Gates", (LINT, TEST)))), "Refinement/Gates", "all critics in one row"),
    (plan(WRITE, loop(LINT, IMPROVE, JUDGE)), "Refinement/judge", "may end with a draft that gate lint has not"),
    (plan(WRITE, loop(JUDGE, Approve("ann"), LINT, until=approved)), "Refinement/lint", "that gate lint has not seen"),
]


@pytest.mark.parametrize(("faulty", "path", "fault"), GATES_APART)
def test_a_loop_that_may_end_with_a_draft_that_its_gate_has_not_seen_is_refused_to_new_runs(
    faulty: Plan, path: str, fault: str
) -> None:
    with pytest.raises(PlanError) as refused:
        check_ready(faulty)
    assert (refused.value.path, fault in refused.value.fault) == (path, True)
    check_ready(faulty, begun=True)
