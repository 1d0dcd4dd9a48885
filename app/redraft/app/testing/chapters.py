"""Plans with a loop around several loops, and without critics of its own: each of its iterations makes a chapter."""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from redraft.actors.plans.check import check_ready
from redraft.events.errors import PlanError
from redraft.events.messages.conditions import Compare
from redraft.events.messages.plan import Node, Plan, Repeat, Step


def chaptered_plan(random: Random, plan: Plan) -> Plan:
    """Returns the plan with its first loop, and another one, in a loop around them, if it is a valid plan then."""
    place = next((index for index, node in enumerate(plan.steps) if isinstance(node, Repeat)), None)
    if place is None:
        return plan
    steps = [*plan.steps]
    steps[place] = _chapters(random, steps[place])
    try:
        return check_ready(replace(plan, steps=tuple(steps)))
    except PlanError:
        return plan


def _chapters(random: Random, inner: Node) -> Repeat:
    made = Step(*random.choice((("generator", "write", "chapter"), ("refiner", "improve", "recast"))))
    body = (Step("critic", "taste", "taste"), Step("refiner", "improve", "polish"))
    enough = Compare("score", ">=", random.choice((0.5, 0.8)))
    polish = Repeat("Polish", enough, random.randint(1, 2), body)
    until = random.choice((Compare("outputs", ">=", random.choice((1.0, 2.0, 3.0))), enough))
    return Repeat("Chapters", until, random.randint(1, 3), (made, inner, polish), random.choice(("best", "last")))
