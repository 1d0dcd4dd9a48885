"""What a run may still use: reserved before a call, settled after it. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from math import ceil
from typing import Final, Literal

from msgspec.structs import replace

from redraft.actors.arms import asked_step
from redraft.actors.run_state import RunState
from redraft.actors.values import is_number
from redraft.events.domain_events import BudgetReached, StepRequested
from redraft.events.plan import Budget, Step
from redraft.events.usage import MOST, Usage

NOTHING: Final = Usage()
QUANTITIES: Final[tuple[Literal["tokens", "cost", "calls"], ...]] = ("tokens", "cost", "calls")


def reserve_for(state: RunState, asked: StepRequested) -> Usage:
    """Returns the usage set aside for one attempt of a step: the most that one of its actor used in this run so far.

    That is multiplied where the step's option `reserve_calls` says that it makes more calls, as a critic that samples
    does. Before the first attempt it is what the options `reserve_tokens`, `reserve_cost` and `reserve_calls` say;
    without the first, `max_tokens`, if it has that.
    """
    known = state.used.get(f"{asked.role} {asked.actor}")
    said = _said(state, asked)
    if known is None:
        return said
    more = said.calls / known.calls if known.calls else 1
    return known if more <= 1 else Usage(min(MOST, ceil(known.tokens * more)), min(MOST, known.cost * more), said.calls)


def _said(state: RunState, asked: StepRequested) -> Usage:
    """Returns the usage that the options of a step ask for."""
    try:
        return reserve_said(asked_step(state.plan, asked))
    except LookupError:
        return NOTHING


def reserve_said(step: Step) -> Usage:
    """Returns what the options reserve for one attempt: `reserve_tokens` (or `max_tokens`), `reserve_cost`, …"""
    tokens = _number(step, "reserve_tokens") or _number(step, "max_tokens")
    return Usage(int(tokens), float(_number(step, "reserve_cost")), int(_number(step, "reserve_calls")))


def _number(step: Step, name: str) -> int | float:
    """The number that an option is, from 0 to the largest of a usage; 0 when it is none."""
    value = step.options.get(name, 0)
    return value if is_number(value) and isinstance(value, int | float) and 0 <= value <= MOST else 0


def largest(one: Usage | None, other: Usage) -> Usage:
    """The most of each that either used."""
    if one is None:
        return Usage(other.tokens, other.cost, other.calls)
    return Usage(max(one.tokens, other.tokens), max(one.cost, other.cost), max(one.calls, other.calls))


def time_is_up(state: RunState, now: datetime) -> BudgetReached | None:
    """The wall time of the run is over."""
    budget = state.plan.budget
    if budget is None or budget.seconds is None or state.started is None:
        return None
    elapsed = (now - state.started).total_seconds()
    return BudgetReached("seconds", budget.seconds, elapsed) if elapsed >= budget.seconds else None


def ends_at(state: RunState, due: datetime) -> datetime:
    """The time, or that at which the run's wall time is over, if that comes first."""
    budget = state.plan.budget
    if budget is None or budget.seconds is None or state.started is None:
        return due
    return min(due, state.started + timedelta(seconds=budget.seconds))


def afforded(
    state: RunState, asked: StepRequested, now: datetime, others: Usage
) -> StepRequested | BudgetReached | None:
    """The request with what is set aside for it, if the budget allows it.

    If not, calls under way are awaited first (None), which may use less than was set aside; then the budget is reached.
    `others` is what the other runs of the workflow used that began on the same day. Publishing is always allowed.
    """
    due = ends_at(state, asked.due)
    if asked.role == "publisher":
        return asked
    needed = reserve_for(state, asked)
    over = time_is_up(state, now) or _first_over(state, needed, others)
    if over is None:
        return replace(asked, due=due, reserved=needed)
    under_way = any(each.retry_at is None for each in state.open.values())
    return None if under_way and over.quantity != "seconds" else over


def _first_over(state: RunState, needed: Usage, others: Usage) -> BudgetReached | None:
    """The first limit that would be passed, with what is used and what is set aside."""
    for each in state.open.values():
        if each.retry_at is None:
            needed += each.request.reserved
    found = _over(state.plan.budget, state.usage, needed, daily=False)
    return found or _over(state.plan.daily, state.usage + others, needed, daily=True)


def _over(budget: Budget | None, used: Usage, needed: Usage, *, daily: bool) -> BudgetReached | None:
    if budget is None:
        return None
    for quantity in QUANTITIES:
        limit, gone, more = getattr(budget, quantity), getattr(used, quantity), getattr(needed, quantity)
        if limit is not None and (gone >= limit or gone + more > limit):
            return BudgetReached(quantity, limit, gone, more, daily)
    if budget.cost is not None and used.unpriced:
        return BudgetReached("cost", budget.cost, used.cost, daily=daily)
    return None


def told(event: BudgetReached) -> str:
    """Why the run ends, in a sentence."""
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
