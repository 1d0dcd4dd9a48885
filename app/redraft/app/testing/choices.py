"""Random choices of the best of several refinements, in loops with critics of their own, for the plans of a history."""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from redraft.actors.plans.check import check_ready
from redraft.actors.plans.paths import map_nodes
from redraft.events.errors import PlanError
from redraft.events.messages.plan import Node, Parallel, Plan, Repeat, Step, steps_of


def choosing_plan(random: Random, plan: Plan) -> Plan:
    """Returns the plan in which a judge chooses the best of several refinements in the bodies of some loops."""

    def changed(path: str, node: Node) -> Node:
        return _with_choice(random, node) if isinstance(node, Repeat) and random.random() < 0.8 else node

    try:
        return check_ready(replace(plan, steps=map_nodes(plan.steps, changed)))
    except PlanError:
        return plan


def _with_choice(random: Random, loop: Repeat) -> Repeat:
    """Returns the loop with such a choice in place of its refiner, or before or after any of its nodes."""
    refiner = next((each for each in loop.body if isinstance(each, Step) and each.role == "refiner"), None)
    critic = next((each for _, each in steps_of(loop.body) if each.role == "critic"), None)
    if refiner is None or critic is None:
        return loop
    best = Parallel("Best", _candidates(random, refiner), random.choice(("all", "all", 2)), judge=_judge(critic))
    if random.random() < 0.5:
        return replace(loop, body=tuple(best if each is refiner else each for each in loop.body))
    place = random.randint(0, len(loop.body))
    return replace(loop, body=(*loop.body[:place], best, *loop.body[place:]))


def _candidates(random: Random, refiner: Step) -> tuple[Step, ...]:
    count = random.choice((2, 2, 3))
    return tuple(replace(refiner, name=f"improve-{number}", only_issues=False) for number in range(count))


def _judge(critic: Step) -> Step:
    """Returns a judge with the scale and the criteria of a critic of its loop."""
    plain = replace(critic, gate=False, passes=None, choose=(), success=None, when=None)
    return replace(plain, actor="taste", name="judge")
