"""Random ends of loops and of runs, and failures that refinements mend, for the plans of a history."""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from redraft.actors.plans.check import check_ready
from redraft.actors.plans.paths import map_nodes, role_of
from redraft.events.errors import PlanError
from redraft.events.messages.plan import Approve, Budget, Ending, Node, OnOscillation, Plan, Repeat

_ENDINGS: tuple[Ending, ...] = ("publish", "ask", "ask", "fail")
_CIRCLES: tuple[OnOscillation, ...] = ("ignore", "stop", "ask", "fail")


def ending_plan(random: Random, plan: Plan) -> Plan:
    """Returns the plan with other ends of its loops."""

    def changed(path: str, node: Node) -> Node:
        if not isinstance(node, Repeat):
            return node
        exhausted, plateau = random.choice(_ENDINGS), random.choice(_ENDINGS)
        circles = random.choice(_CIRCLES)
        made = replace(node, on_exhausted=exhausted, on_plateau=plateau, on_oscillation=circles)
        if random.random() < 0.5:
            made = replace(made, on_failure="refine", max_failures=random.randint(1, 3))
        if "ask" in (exhausted, plateau, circles) and random.random() < 0.5:
            asked = Approve("editor", quorum=random.choice((1, 2)), deadline=random.choice((600.0, 7200.0)))
            return replace(made, ask=asked)
        return made

    made = replace(plan, steps=map_nodes(plan.steps, changed))
    for each in (made, replace(made, steps=map_nodes(made.steps, _with_refiners_first))):
        try:
            return check_ready(each)
        except PlanError:
            continue
    return plan


def _with_refiners_first(path: str, node: Node) -> Node:
    """Returns a loop around others that changes drafts before these begin, and not what people approve at their end."""
    if not isinstance(node, Repeat) or not any(isinstance(inner, Repeat) for inner in node.body):
        return node
    return replace(node, body=tuple(sorted(node.body, key=lambda inner: role_of(inner) != "refiner")))


def timed_plan(random: Random, plan: Plan) -> Plan:
    """Returns the plan with a wall time, after which its best draft is published, or nothing."""
    budget = replace(plan.budget or Budget(), seconds=random.choice((30.0, 120.0, 600.0, 3600.0)))
    return replace(plan, budget=budget, on_failure=random.choice(("fail", "publish_best")))
