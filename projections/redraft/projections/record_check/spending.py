"""Whether what was asked for fits the budget, and whether a budget that is said to be reached was."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final, Literal

from redraft.events.domain_events import BudgetReached, StepRequested
from redraft.events.envelope import Recorded
from redraft.events.plan import Plan
from redraft.events.usage import Usage
from redraft.projections.record_check.findings import Deviates

_COUNTED: Final[tuple[Literal["tokens", "cost", "calls"], ...]] = ("tokens", "cost", "calls")


def check_reached(plan: Plan, used: Usage, started: datetime, event: Recorded, said: BudgetReached) -> None:
    """Raises Deviates unless the budget is reached as it is said to be. What other runs used of a day is not known."""
    budget = plan.daily if said.daily else plan.budget
    limit = getattr(budget, said.quantity) if budget else None
    if limit is None or limit != said.limit:
        raise Deviates("budget", event, f"the plan has no such limit of {said.quantity}")
    if said.daily:
        return
    gone = (event.time - started).total_seconds() if said.quantity == "seconds" else getattr(used, said.quantity)
    if gone != said.used:
        raise Deviates("budget", event, f"{gone:g} {said.quantity} were used, not {said.used:g}")
    unpriced = said.quantity == "cost" and used.unpriced > 0
    if not (gone >= limit or gone + said.reserved > limit or unpriced):
        raise Deviates("budget", event, f"{gone:g} and {said.reserved:g} {said.quantity} do not reach the limit")


def check_afforded(
    plan: Plan, used: Usage, started: datetime, event: Recorded, asked: StepRequested, under_way: Iterable[Usage]
) -> None:
    """Raises Deviates when more is asked for than the budget of the run allows. Publishing is always allowed."""
    budget = plan.budget
    if budget is None or asked.role == "publisher":
        return
    reserved = sum(under_way, asked.reserved)
    for quantity in _COUNTED:
        limit, gone = getattr(budget, quantity), getattr(used, quantity)
        if limit is not None and (gone >= limit or gone + getattr(reserved, quantity) > limit):
            raise Deviates("budget", event, f"the budget of {limit:g} {quantity} does not allow it: {gone:g} are used")
    if budget.cost is not None and used.unpriced:
        raise Deviates("budget", event, "the budget cannot be kept: the price of a call that was made is not known")
    if budget.seconds is not None and (event.time - started).total_seconds() >= budget.seconds:
        raise Deviates("budget", event, f"the wall time of {budget.seconds:g} s was over")
