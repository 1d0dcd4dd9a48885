"""What makes a budget no budget. Each fault is a PlanError of the whole plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from redraft.actors.values import is_number, is_whole, shown
from redraft.events.errors import PlanError
from redraft.events.plan import Budget

MAX_COUNT: Final = 10**12
"""The highest number of tokens and of calls."""

MAX_COST: Final = 1e9
"""The highest cost."""

MAX_WALL: Final = 90 * 86_400.0
"""The longest wall time: 90 days, in seconds."""


RESERVES: Final = ("reserve_tokens", "reserve_calls", "reserve_cost", "max_tokens", "samples")
"""The options of a step that say how much is set aside for it."""


def check_reserves(path: str, options: Mapping[str, object]) -> None:
    """Raises PlanError when one of these options is a number that cannot be counted with."""
    for name in RESERVES:
        value = options.get(name)
        if isinstance(value, (int, float)) and not (is_number(value) and 0 <= value <= MAX_COUNT):
            raise PlanError(path, f"with.{name} is {shown(value)}; write a number, 0 to {MAX_COUNT:,}")


def check_budget(name: str, budget: object, *, a_day: bool = False) -> None:
    """Raises PlanError unless this is None, or a budget with at least one limit. One of `a_day` has no wall time."""
    if budget is None:
        return
    if not isinstance(budget, Budget):
        raise PlanError("", f"{name} is {shown(budget)}; write Budget(cost=2.0)")
    for quantity in ("tokens", "calls"):
        value = getattr(budget, quantity)
        if value is not None and not is_whole(value, 1, MAX_COUNT):
            raise PlanError("", f"{name}.{quantity} is {shown(value)}; write a whole number, 1 to {MAX_COUNT:,}")
    for quantity, most in (("cost", MAX_COST), ("seconds", MAX_WALL)):
        value = getattr(budget, quantity)
        if value is not None and not (is_number(value) and 0 < value <= most):
            raise PlanError("", f"{name}.{quantity} is {shown(value)}; write a number above 0, at most {most:,.0f}")
    if a_day and budget.seconds is not None:
        raise PlanError("", f"{name}.seconds is given; a wall time is for one run, put it into budget")
    if budget == Budget():
        raise PlanError("", f"{name} has no limit; give tokens, cost, calls{'' if a_day else ', seconds'}")
