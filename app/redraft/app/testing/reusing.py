"""Random critics whose verdicts are taken again, for the plans of a history."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from msgspec.structs import replace

from redraft.actors.plans.check import check_ready
from redraft.actors.plans.paths import map_nodes
from redraft.events.errors import PlanError
from redraft.events.messages.plan import Node, Plan, Step

TEXTS: Final = 3
"""The number of texts that the refiners of such a history write, so that they come back."""


def reusing_plans(random: Random, plans: Sequence[Plan]) -> tuple[Plan, ...]:
    """Returns the plans with critics that reuse verdicts; mostly the same, so that runs take from each other."""
    made = tuple(_reusing_plan(random, each) for each in plans)
    return made[:1] * len(made) if random.random() < 0.7 else made


def _reusing_plan(random: Random, plan: Plan) -> Plan:
    """Returns the plan in which most critics reuse verdicts."""

    def changed(path: str, node: Node) -> Node:
        if isinstance(node, Step) and node.role == "critic" and not node.choose and random.random() < 0.8:
            return replace(node, reuse=random.choice(("run", "always")), history=None)
        return node

    made = replace(plan, steps=map_nodes(plan.steps, changed))
    try:
        return check_ready(made)
    except PlanError:
        return plan


def text_again(random: Random) -> str:
    """Returns one of a few texts."""
    return f"draft {random.randrange(TEXTS)}"
