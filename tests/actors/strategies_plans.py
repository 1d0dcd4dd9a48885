"""Random conditions and plans that can be run, for hypothesis."""

from __future__ import annotations

from typing import Literal, get_args

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from redraft.actors.conditions.text import check_printable, term_fault
from redraft.actors.plans.check import check_flow
from redraft.actors.plans.check_nodes import RESERVES
from redraft.actors.plans.paths import is_name
from redraft.events.errors import ConditionError
from redraft.events.messages.conditions import (
    AllOf,
    AnyOf,
    Approved,
    Compare,
    Condition,
    Exit,
    Not,
    Oscillating,
    Plateau,
    State,
)
from redraft.events.messages.plan import (
    Approve,
    Arm,
    Budget,
    Combine,
    Ending,
    Keep,
    Node,
    OnDeadline,
    OnFailure,
    OnOscillation,
    Option,
    Parallel,
    Plan,
    Repeat,
    Retry,
    Role,
    StateSpec,
    Step,
)
from redraft.events.messages.run_state import Value

steady = settings(suppress_health_check=[HealthCheck.too_slow])
"""For tests with these strategies: a busy machine is no fault."""

TRICKY_NAMES = (
    "critique",
    "refine",
    "no",
    "on",
    "null",
    "1",
    "2m",
    "1e3",
    "0x1",
    "end",
    "subgraph",
    "class",
    "score",
    "-",
    "_",
    "---",
    "é",
)

names = st.one_of(
    st.sampled_from(("write", "judge", "improve", "save", *TRICKY_NAMES)),
    st.text("abzAZ019_-éß漢ह", min_size=1, max_size=12).filter(is_name),
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
seconds = st.one_of(st.sampled_from([1.0, 90.0, 120.0, 3600.0, 7200.0]), st.floats(1e-6, 86_400.0))

value_names = st.sampled_from(("done", "tests_pass", "n", "audience", "state", "score", "of", "_x1"))
state_values: st.SearchStrategy[Value] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(-1e300, 1e300) | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
values: st.SearchStrategy[Option] = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    texts,
    st.lists(texts | st.integers(-9, 2**63 - 1), max_size=3),
    st.dictionaries(texts, texts, max_size=3),
)
options = st.dictionaries(texts.filter(lambda name: name and name not in RESERVES), values, max_size=3)
retries = st.builds(Retry, st.integers(1, 100), st.just(0.0) | seconds, st.floats(1, 1_000), seconds)


def _terms(*quantities: str) -> st.SearchStrategy[Condition]:
    """Conditions of one term, with numbers that their quantity can be compared with."""
    numbers = st.integers(0, 5).map(float) | st.floats(0, 1) | st.floats(0, 1e300)
    compares = st.builds(Compare, st.sampled_from(quantities), st.sampled_from([">=", ">", "<=", "<", "=="]), numbers)
    return st.one_of(
        compares.filter(lambda term: term_fault(term) is None),
        st.sampled_from([Approved(), Exit()]),
        st.builds(Plateau, st.floats(0, 1, exclude_min=True), st.integers(1, 9)),
        st.builds(Oscillating, st.integers(1, 9)),
        st.builds(State, value_names),
        st.builds(
            State, value_names, st.sampled_from([">=", ">", "<=", "<", "=="]), numbers | st.integers(-9, 9).map(float)
        ),
        st.builds(State, value_names, st.just("=="), texts.filter(lambda text: "\\" not in text)).filter(
            lambda term: term_fault(term) is None
        ),
    )


def _groups(inner: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
    parts = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.builds(Not, inner) | st.builds(AnyOf, parts) | st.builds(AllOf, parts)


def _is_fit(condition: Condition) -> bool:
    try:
        check_printable(condition)
    except ConditionError:
        return False
    return True


def _conditions(*quantities: str) -> st.SearchStrategy[Condition]:
    return st.recursive(_terms(*quantities), _groups, max_leaves=6).filter(_is_fit)


plain_conditions = _conditions("score", "errors", "elapsed", "tokens", "cost")
"""Conditions for a loop that has no loop in its body."""

conditions = plain_conditions | _conditions("score", "outputs")
"""Conditions for a loop with a loop in its body."""


@st.composite
def choices(draw: st.DrawFn, role: Role, name: str) -> Step:
    """A step that chooses among two or three actors."""
    named = draw(st.lists(names, min_size=2, max_size=3, unique=True))
    arms = tuple(
        Arm(each, each)
        if draw(st.booleans())
        else Arm(draw(names), each, draw(options) | {"number": number}, draw(st.just("") | st.just("2e10")))
        for number, each in enumerate(named)
    )
    return Step(role, "", name, options=draw(st.just({}) | options), choose=arms)


@st.composite
def steps(draw: st.DrawFn, role: Role, name: str) -> Step:
    """A step of this role and name, whose settings are mostly the usual ones; now and then it chooses."""
    if role not in ("publisher", "step") and draw(st.integers(0, 4)) == 0:
        return draw(choices(role, name))
    actor = draw(st.just(name) | names)
    timeout = draw(st.just(300.0) | seconds)
    version = draw(st.just("") | st.sampled_from(["1", "2e10", "3f2a9b01c4de", "v'\"#:"]))
    return Step(role, actor, name, timeout, draw(st.just(Retry()) | retries), draw(st.just({}) | options), version)


@st.composite
def parallels(draw: st.DrawFn, role: Role, name: str) -> Parallel:
    """Two or three steps of this role at the same time."""
    inside = draw(st.lists(names, min_size=3, max_size=4, unique=True))
    members = tuple(draw(steps(role, each)) for each in inside[1:])
    wait: int | Literal["all", "first"] = draw(st.sampled_from(("all", "first", 1, len(members))))
    judge = draw(steps("critic", inside[0])) if role in ("generator", "refiner") else None
    if role != "critic":
        return Parallel(name, members, wait, judge=judge)
    combine: Combine = draw(st.sampled_from(get_args(Combine)))
    weights = draw(st.tuples(*[st.floats(0.5, 9)] * len(members))) if combine == "weights" else ()
    deadline = None if wait == "all" else draw(st.none() | seconds)
    return Parallel(name, members, wait, combine, weights, deadline=deadline)


def work(role: Role, name: str) -> st.SearchStrategy[Node]:
    """A step of this role, or several at the same time."""
    return st.one_of(steps(role, name), steps(role, name), parallels(role, name))


@st.composite
def bodies(draw: st.DrawFn, depth: int, *, first: bool) -> tuple[Node, ...]:
    """Nodes that can follow each other and judge what they end with; `first` when there is no draft before them."""
    form = draw(st.sampled_from(["critic", "critic", "critic", "inner loop", "best of several"]))
    if form == "best of several":
        return (draw(parallels("generator" if first else "refiner", draw(names))),)
    kinds = ["generator", "loop"] if form == "inner loop" and depth else draw(_kinds(first=first))
    roles = [role for kind in kinds for role in (("critic", "publisher") if kind == "published" else (kind,))]
    if depth == 0:
        roles = [role for role in roles if role != "loop"]
    inside = draw(st.lists(names, min_size=len(roles), max_size=len(roles), unique=True))
    return tuple(
        draw(loops(name, depth - 1)) if role == "loop" else draw(work(role, name))  # type: ignore[arg-type]
        for role, name in zip(roles, inside, strict=True)
    )


@st.composite
def _kinds(draw: st.DrawFn, *, first: bool) -> list[str]:
    some = st.sampled_from(["generator", "critic", "refiner", "published", "loop", "step"])
    kinds = draw(st.lists(some, max_size=3))
    kinds.insert(draw(st.integers(0, len(kinds))), "critic")
    return ["generator", *kinds] if first else kinds


@st.composite
def approvals(draw: st.DrawFn, name: str) -> Approve:
    """A decision of people, named or not."""
    people = tuple(draw(st.lists(st.sampled_from(["ann", "no", "12", "Jürgen B.", "a: b", '"']), unique=True)))
    quorum = draw(st.integers(1, len(people) or 100))
    deadline = draw(st.just(86400.0) | seconds)
    return Approve(name, people, quorum, deadline, draw(st.sampled_from(get_args(OnDeadline))))


@st.composite
def budgets(draw: st.DrawFn, *, a_day: bool = False) -> Budget | None:
    """Now and then a budget."""
    if draw(st.integers(0, 3)) < 3:
        return None
    counts, amounts = st.none() | st.integers(1, 10**12), st.none() | st.floats(1e-6, 1e6)
    made = Budget(draw(counts), draw(amounts), draw(counts), None if a_day else draw(st.none() | seconds))
    return None if made == Budget() else made


@st.composite
def loops(draw: st.DrawFn, name: str, depth: int) -> Repeat:
    """A loop with up to `depth` levels of loops in it."""
    body = draw(bodies(depth, first=False))
    until = draw(conditions if any(isinstance(node, Repeat) for node in body) else plain_conditions)
    keep: Keep = draw(st.sampled_from(get_args(Keep)))
    circles = draw(st.sampled_from(get_args(OnOscillation)))
    exhausted, plateaued = draw(st.sampled_from(get_args(Ending))), draw(st.sampled_from(get_args(Ending)))
    asked = draw(st.none() | approvals("ask")) if "ask" in (circles, exhausted, plateaued) else None
    return Repeat(
        name,
        until,
        draw(st.integers(1, 9)),
        body,
        keep,
        draw(st.just(0.1) | st.floats(0, 1)),
        circles,
        on_exhausted=exhausted,
        on_plateau=plateaued,
        ask=asked,
    )


@st.composite
def plans(draw: st.DrawFn, depth: int = 2) -> Plan:
    """A plan that can be run, with up to `depth` levels of loops in each loop."""
    body = draw(bodies(depth + 1, first=True))
    if draw(st.booleans()) and check_flow(body) == "judged":
        taken = {node.name for node in body}
        body = (*body, draw(approvals(draw(names.filter(lambda name: name not in taken)))))
    begins = st.builds(StateSpec, defaults=st.dictionaries(value_names, state_values, max_size=3))
    spec = draw(st.none() | begins)
    failing = draw(st.sampled_from(get_args(OnFailure)))
    return Plan(draw(names), body, failing, draw(budgets()), draw(budgets(a_day=True)), spec)
