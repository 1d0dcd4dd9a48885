"""A policy: when a loop ends and which draft leaves it. Another one can be put in the place of a plan's own."""

from __future__ import annotations

import msgspec
from msgspec.structs import asdict

from redraft.actors.condition_text import print_condition
from redraft.actors.limits import with_loop
from redraft.events.conditions import Condition
from redraft.events.errors import PlanError
from redraft.events.plan import Keep, Plan, loops_of


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
        said = {**asdict(self), "until": print_condition(self.until) if self.until is not None else None}
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
    return with_loop(plan, loop_named(plan, loop), asdict(policy))
