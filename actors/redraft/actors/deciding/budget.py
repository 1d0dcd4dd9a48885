"""The budget of a run: usage is reserved before a call, and settled after it. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from math import ceil
from typing import Final, Literal

from msgspec.structs import replace

from redraft.actors.deciding.state import RunState
from redraft.actors.plans.arms import requested_step
from redraft.actors.values import is_number
from redraft.events.messages.domain_events import BudgetReached, StepAnswered, StepRequested, VerdictLate
from redraft.events.messages.plan import Budget, Step
from redraft.events.messages.usage import MOST, Usage

NOTHING: Final = Usage()

ROUNDING: Final = 1e-9
"""The amount by which a sum may exceed its limit: in floating point, 0.1 three times is more than 0.3."""

QUANTITIES: Final[tuple[Literal["tokens", "cost", "calls"], ...]] = ("tokens", "cost", "calls")


def reserve_for(state: RunState, request: StepRequested) -> Usage:
    """Returns the usage reserved for one attempt of a step: the most that one attempt of its actor has used so far.

    It is multiplied if the step's option `reserve_calls` asks for more calls than that, as a critic that samples does.
    Before the first attempt it is taken from the options `reserve_tokens`, `reserve_cost` and `reserve_calls`; without
    the first, from `max_tokens`, if the step has that.
    """
    known = state.used.get(f"{request.role} {request.actor}")
    said = _reserve_of_options(state, request)
    if known is None:
        return said
    more = said.calls / known.calls if known.calls else 1
    return known if more <= 1 else Usage(min(MOST, ceil(known.tokens * more)), min(MOST, known.cost * more), said.calls)


def _reserve_of_options(state: RunState, request: StepRequested) -> Usage:
    """Returns the usage that the options of a step reserve; nothing if the plan has no such step."""
    try:
        return reserve_in_options(requested_step(state.plan, request))
    except LookupError:
        return NOTHING


def reserve_in_options(step: Step) -> Usage:
    """Returns the usage that the options reserve for one attempt: `reserve_tokens` (or `max_tokens`), …"""
    tokens = _number(step, "reserve_tokens") or _number(step, "max_tokens")
    return Usage(int(tokens), float(_number(step, "reserve_cost")), int(_number(step, "reserve_calls")))


def _number(step: Step, name: str) -> int | float:
    """Returns the number in an option, from 0 to the largest of a usage; 0 if it is no such number."""
    value = step.options.get(name, 0)
    return value if is_number(value) and isinstance(value, int | float) and 0 <= value <= MOST else 0


def add_usage(state: RunState, event: StepAnswered | VerdictLate) -> RunState:
    """Returns the state after the usage of an answer, with the most that its actor used if there is a budget."""
    if event.usage.is_nothing:
        return state
    state = replace(state, usage=state.usage + event.usage)
    open_step = state.open.get(event.path) or state.late.get(event.path)
    if open_step is None or (state.plan.budget is None and state.plan.daily is None):
        return state
    who = f"{open_step.step.role} {open_step.step.actor}"
    known, usage = state.used.get(who, NOTHING), event.usage
    highest = Usage(max(known.tokens, usage.tokens), max(known.cost, usage.cost), max(known.calls, usage.calls))
    return replace(state, used={**state.used, who: highest})


def time_is_up(state: RunState, now: datetime) -> BudgetReached | None:
    """Returns the event that the run's wall time is over; None when it is not."""
    budget = state.plan.budget
    if budget is None or budget.seconds is None or state.started is None:
        return None
    elapsed = (now - state.started).total_seconds()
    return BudgetReached("seconds", budget.seconds, elapsed) if elapsed >= budget.seconds else None


def ends_at(state: RunState, due: datetime) -> datetime:
    """Returns the earlier of this time and the end of the run's wall time."""
    budget = state.plan.budget
    if budget is None or budget.seconds is None or state.started is None:
        return due
    return min(due, state.started + timedelta(seconds=budget.seconds))


def within_budget(
    state: RunState, request: StepRequested, now: datetime, others: Usage
) -> StepRequested | BudgetReached | None:
    """Returns the request with its reserved usage, if the budget allows it.

    Otherwise it returns None while calls are under way, which may use less than was reserved, and then that the budget
    is reached. `others` is the usage of the workflow's other runs that began on the same day, see `less_repeated`.
    Publishing is always allowed.
    """
    due = ends_at(state, request.due)
    if request.role == "publisher":
        return request
    needed = reserve_for(state, request)
    over = time_is_up(state, now) or _first_over(state, needed, others)
    if over is None:
        return replace(request, due=due, reserved=needed)
    under_way = any(each.retry_at is None for each in state.open.values())
    return None if under_way and over.quantity != "seconds" else over


def less_repeated(others: Usage, repeated: Usage) -> Usage:
    """Returns the usage of a day's other runs less what a fork repeats: its own usage counts that, too.

    So the sum of both counts it only if it was used on that day. Numbers may be negative.
    """
    less = {name: getattr(others, name) - getattr(repeated, name) for name in (*QUANTITIES, "unpriced")}
    return replace(others, **less)


def _first_over(state: RunState, needed: Usage, others: Usage) -> BudgetReached | None:
    """Returns the first limit that the used and reserved usage together would exceed."""
    for each in state.open.values():
        if each.retry_at is None:
            needed += each.request.reserved
    found = first_limit(state.plan.budget, state.usage, needed, daily=False)
    return found or first_limit(state.plan.daily, state.usage + others, needed, daily=True)


def first_limit(budget: Budget | None, used: Usage, needed: Usage, *, daily: bool) -> BudgetReached | None:
    """Returns the first limit of a budget that the used and the needed usage together would exceed; None if none is."""
    if budget is None:
        return None
    for quantity in QUANTITIES:
        limit, gone, more = getattr(budget, quantity), getattr(used, quantity), getattr(needed, quantity)
        if limit is not None and (gone >= limit or gone + more > limit + ROUNDING):
            return BudgetReached(quantity, limit, gone, more, daily)
    if budget.cost is not None and used.unpriced:
        return BudgetReached("cost", budget.cost, used.cost, daily=daily)
    return None


def describe_reached(event: BudgetReached) -> str:
    """Returns the reason for which the run ends, in a sentence."""
    whose = "of the workflow's runs that began today" if event.daily else "of the run"
    if event.quantity == "seconds":
        return f"the wall time {whose}, {event.limit:g} s, is over"
    if event.quantity == "cost" and event.used < event.limit and not event.reserved:
        return (
            f"the budget {whose} is {event.limit:g} cost, and cannot be kept: nobody knows the price of a call that "
            "was made; state it, model_prices"
        )
    left = f", and {event.reserved:g} more would be needed" if event.reserved else ""
    return f"the budget {whose} is {event.limit:g} {event.quantity}: {event.used:g} are used{left}"
