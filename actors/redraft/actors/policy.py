"""A policy: when a loop ends and which draft leaves it. Another one can be put in the place of a plan's own."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from redraft.actors.condition_text import print_condition
from redraft.actors.limits import loops_of
from redraft.actors.plan_check import check_plan
from redraft.events.conditions import Condition
from redraft.events.errors import PlanError
from redraft.events.plan import Keep, Node, Plan, Repeat


class Policy(msgspec.Struct, frozen=True):
    """What of a loop is to be different. What is None stays as its plan has it."""

    until: Condition | None = None
    max_iterations: int | None = None
    keep: Keep | None = None
    rollback_margin: float | None = None

    @property
    def changes_nothing(self) -> bool:
        return self == Policy()

    def __str__(self) -> str:
        said = {
            "until": print_condition(self.until) if self.until is not None else None,
            "max_iterations": self.max_iterations,
            "keep": self.keep,
            "rollback_margin": self.rollback_margin,
        }
        return ", ".join(f"{name} {value}" for name, value in said.items() if value is not None)


def loop_named(plan: Plan, name: str = "") -> str:
    """The path of the loop of this name or path; of the only loop when none is given.

    Raises PlanError, with the loops that there are, when it could be none or several.
    """
    paths = [path for path, _ in loops_of(plan.steps)]
    fit = [path for path in paths if not name or name in (path, path.rpartition("/")[2])]
    exact = [path for path in fit if path == name]
    match exact or fit:
        case [one]:
            return one
        case []:
            there = f"it has {', '.join(paths)}" if paths else "it has no loop"
            raise PlanError(plan.name, f"there is no loop {name!r}; {there}" if name else there)
        case several:
            raise PlanError(plan.name, f"which loop is meant? Name one with its path: {', '.join(several)}")


def under(plan: Plan, policy: Policy, loop: str = "") -> Plan:
    """The plan with another policy for the loop of this name or path, checked. Raises PlanError."""
    names = loop_named(plan, loop).split("/")
    return check_plan(replace(plan, steps=_with(plan.steps, names, policy)))


def _with(nodes: tuple[Node, ...], names: list[str], policy: Policy) -> tuple[Node, ...]:
    return tuple(
        _looped(node, names[1:], policy) if isinstance(node, Repeat) and node.name == names[0] else node
        for node in nodes
    )


def _looped(loop: Repeat, names: list[str], policy: Policy) -> Repeat:
    if names:
        return replace(loop, body=_with(loop.body, names, policy))
    return replace(
        loop,
        until=loop.until if policy.until is None else policy.until,
        max_iterations=loop.max_iterations if policy.max_iterations is None else policy.max_iterations,
        keep=loop.keep if policy.keep is None else policy.keep,
        rollback_margin=loop.rollback_margin if policy.rollback_margin is None else policy.rollback_margin,
    )
