"""Random critics that run late, and steps that ask for the history, for the plans of a history."""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from redraft.actors.plans.check import check_ready
from redraft.actors.plans.paths import map_nodes
from redraft.events.errors import PlanError
from redraft.events.messages.conditions import Compare
from redraft.events.messages.plan import Node, Parallel, Plan, Repeat, Step


def late_plan(random: Random, plan: Plan) -> Plan:
    """Returns the plan in which critics with a condition follow others, and some steps are given the history."""

    def changed(path: str, node: Node) -> Node:
        match node:
            case Step() if node.role != "publisher" and random.random() < 0.3:
                return replace(node, history=random.randint(0, 3))
            case Parallel(wait="all", deadline=None) if node.steps[0].role == "critic":
                return replace(node, steps=(*node.steps, _late(random, node.steps[-1])))
            case Repeat():
                return replace(node, body=tuple(each for inner in node.body for each in _with_late(random, inner)))
            case _:
                return node

    made = replace(plan, steps=map_nodes(plan.steps, changed))
    try:
        return check_ready(made)
    except PlanError:
        return plan


def _with_late(random: Random, node: Node) -> tuple[Node, ...]:
    if isinstance(node, Step) and node.role == "critic" and not node.gate:
        return node, _late(random, node)
    return (node,)


def _late(random: Random, before: Step) -> Step:
    """Returns a critic like the one before it, for drafts that are good, or doubtful, by what others say."""
    when = Compare("score", *random.choice(((">=", 0.5), (">=", 0.8), ("<", 0.7))))
    return replace(before, actor="taste", name="late", gate=False, passes=None, choose=(), success=None, when=when)
