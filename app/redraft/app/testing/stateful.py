"""Random free steps, conditions on the run's state and of one's own, and changes of values, for a history."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Final

from msgspec.structs import replace

from redraft.actors import Actor, WithState
from redraft.actors.plans.check import check_ready
from redraft.actors.plans.paths import is_critic, map_nodes, role_of
from redraft.actors.workflow.actor import Function
from redraft.events.errors import PlanError
from redraft.events.messages.conditions import Compare, Condition, exit_, score, state, tokens
from redraft.events.messages.content import Brief
from redraft.events.messages.plan import Node, Parallel, Plan, Repeat, Retry, Role, StateField, StateSpec, Step
from redraft.events.messages.run_state import Value, Values

FREE: Final[dict[str, tuple[str, ...]]] = {
    "research": ("topics", "audience"),
    "tests": ("passed",),
    "measure": ("count", "passed"),
}
"""The actors of free steps, and the values that they change, but for now and then."""

OTHERS: Final = ("passed", "count")
"""The values that others change, but for now and then."""

SURE: Final = "sure"
"""The condition of one's own."""

FIELDS: Final = (
    StateField("passed", "bool"),
    StateField("count", "float"),
    StateField("audience", "str", optional=True),
    StateField("topics", "list"),
)
EVERY: Final = tuple(field.name for field in FIELDS)
_TRIES: Final = 20

BARE: Final[Sequence[Condition]] = (
    state.passed.condition,
    state.passed & (state.count >= 2),
    state.passed & ~(state.audience == "children"),
    (state.count >= 3) | state.topics,
    (state.passed & ~state.topics) | (tokens >= 1500),
    state.passed | exit_(),
    ~state.passed & (state.count < 3),
)
"""Conditions that ask nothing of critics."""

JUDGED: Final[Sequence[Condition]] = (
    *BARE[:5],
    state.passed & (score >= 0.6),
    state.passed | (score >= 0.9),
    (state.count >= 2) & ~(score < 0.5),
    ~(state.audience == "children") & (score >= 0.6),
)


def stateful_plan(random: Random, plan: Plan) -> Plan:
    """Returns the plan with free steps, and loops whose conditions look at the run's state, some without critics."""
    for _ in range(_TRIES):
        spec = random.choice((None, StateSpec(FIELDS, {"count": 1}), StateSpec(defaults={"passed": False, "count": 0})))
        made = replace(plan, steps=_around(random, map_nodes(plan.steps, lambda _, node: _changed(random, node))))
        try:
            return check_ready(replace(made, state=spec))
        except PlanError:
            continue
    return plan


def stateful_brief(random: Random, text: str) -> Brief:
    """Returns a brief, half of the time with values."""
    return Brief(text, state=_valid(random)) if random.random() < 0.5 else Brief(text)


def _around(random: Random, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """Returns a plan's own nodes with free steps between them."""
    made = list(nodes)
    for number in range(random.choice((0, 0, 1, 1, 2))):
        made.insert(random.randrange(len(made)), _free(random, f"begin{number or ''}"))
    return tuple(made)


def _changed(random: Random, node: Node) -> Node:
    match node:
        case Repeat():
            return _loop(random, node)
        case Step() if random.random() < 0.15:
            return replace(node, writes=OTHERS)
        case _:
            return node


def _loop(random: Random, loop: Repeat) -> Repeat:
    """Returns the loop with free steps in its body; without its critics in about a third."""
    body, bare = list(loop.body), random.random() < 0.35
    if bare:
        body = [node for node in body if isinstance(node, Repeat) or role_of(node) in ("generator", "refiner")]
    until: Condition = random.choice(BARE if bare else JUDGED)
    last = max((place for place, node in enumerate(body) if is_critic(node)), default=-1)
    if not bare and last >= 0 and random.random() < 0.4:
        body.insert(last + 1, replace(_step(random, "critic", SURE), condition=True, measures=(SURE,)))
        holds = Compare("criterion", ">=", 1.0, SURE)
        until = random.choice((holds, holds & state.passed, until | holds))
    for number in range(random.choice((1, 1, 2, 3))):
        body.insert(random.randint(0, len(body)), _free(random, f"look{number or ''}"))
    kept = loop.until if not bare and random.random() < 0.3 else until
    return replace(loop, until=kept, body=tuple(body), rollback_of="", rollback_margin=0.1, rollback_top=None)


def _free(random: Random, name: str) -> Node:
    """Returns a free step, or two in parallel."""
    if random.random() < 0.75:
        actor = random.choice(tuple(FREE))
        return replace(_step(random, "step", actor), name=name, writes=random.choice((FREE[actor], ())))
    both = tuple(_step(random, "step", actor) for actor in random.sample(tuple(FREE), 2))
    return Parallel(name, both, random.choice(("all", "all", "first")))


def _step(random: Random, role: Role, actor: str) -> Step:
    retry = Retry(random.randint(1, 4), random.choice((0.0, 1.0, 30.0)))
    return Step(role, actor, actor, random.choice((30.0, 300.0)), retry)


def free_actors(random: Random, function: Function) -> list[Actor]:
    """Returns the actors of free steps, and the condition; `function` makes the function of one by role and name."""
    steps = [
        Actor(name, "step", function("step", name, partial(_answer, random, names)), ("context",), is_async=True)
        for name, names in FREE.items()
    ]
    said = function("critic", SURE, lambda *_: random.choice((True, True, False, "not yet")))
    return [*steps, Actor(SURE, "critic", said, ("context",), is_async=True, condition=True, measures=(SURE,))]


def _answer(random: Random, names: Sequence[str], *given: object) -> Values | None:
    return random_changes(random, names)


def beside(random: Random, result: object) -> object:
    """Returns what an actor returns, now and then with changes of the state beside it."""
    return WithState(result, random_changes(random, OTHERS)) if random.random() < 0.2 else result


def random_changes(random: Random, names: Sequence[str]) -> Values | None:
    """Returns changes of these values; now and then none, or of others, or some that no plan with fields allows."""
    kind = random.random()
    if kind < 0.1:
        return None
    if kind < 0.12:
        return {"colour": "red"}
    if kind < 0.14:
        return {"passed": "yes"}
    if kind < 0.145:
        return {"topics": ["x" * 300_000]}
    return _valid(random, names if kind < 0.97 else EVERY)


def _valid(random: Random, names: Sequence[str] = EVERY) -> Values:
    """Returns values of these names that every plan here allows, or none."""
    values: dict[str, Value] = {
        "passed": random.random() < 0.6,
        "count": random.choice((0, 1, 2, 2.5, 3, 5)),
        "audience": random.choice(("children", "adults", None)),
        "topics": random.choice(([], ["tides"])),
    }
    return {name: values[name] for name in names if random.random() < 0.7}
