"""The items of an Each: which of their runs is asked for next, within which budget, and what comes of it. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from msgspec.structs import replace

from redraft.actors.deciding.budget import NOTHING, QUANTITIES, first_limit, time_is_up
from redraft.actors.deciding.candidates import forget_older_drafts
from redraft.actors.deciding.excusing import with_other_draft
from redraft.actors.deciding.requests import make_request
from redraft.actors.deciding.state import Candidate, EachState, Frame, RunState, close_step, frame_at, prefix, with_top
from redraft.actors.plans.items import items_in
from redraft.events.messages.domain_events import BudgetReached, DraftGenerated, StepRequested
from redraft.events.messages.item_ids import each_path, item_path, number_of_item
from redraft.events.messages.plan import Each, Retry, Step
from redraft.events.messages.usage import Usage

_ONCE: Final = Retry(attempts=1)


def step_of_item(node: Each, path: str) -> Step:
    """Returns the step that stands for the run of an item: it is asked for once."""
    return Step("run", node.name, path.rpartition("/")[2], retry=_ONCE)


def request_next_item(state: RunState, top: Frame, node: Each, now: datetime) -> StepRequested | None:
    """Returns the request for the run of the next item; None while as many as may be are under way, or all are."""
    each = top.each or _begin(state, node)
    if each.requested == len(each.items) or len(state.open) >= node.concurrency:
        return None
    path = item_path(f"{prefix(top)}{node.name}", each.requested + 1)
    return make_request(state, step_of_item(node, path), path, now)


def enter_item(state: RunState, event: StepRequested) -> tuple[Step, Frame] | None:
    """Returns the step of an item that was asked for, and the frame after that; None if the plan has no such Each."""
    top = frame_at(state.frames[-1], each_path(event.path))
    node = top.body[top.index]
    if not isinstance(node, Each):
        return None
    each = top.each or _begin(state, node)
    top = replace(top, each=replace(each, requested=each.requested + 1), due="nothing")
    return step_of_item(node, event.path), top


def end_item(state: RunState, top: Frame, each: EachState, event: DraftGenerated) -> RunState:
    """Returns the state after the run of an item gave its draft; after the last of them the Each is done.

    Its drafts are then finished ones, in the order of the items, and that of the last item is the current draft.
    """
    made = {**each.made, number_of_item(event.path): event.draft.ref}
    state = close_step(state, event.path)
    if len(made) < len(each.items):
        return with_top(state, replace(top, each=replace(each, made=made)))
    drafts = tuple(made[number] for number in sorted(made))
    due = "output" if top.node is not None else "nothing"
    outputs = (*top.outputs, *drafts)
    top = replace(top, each=None, index=top.index + 1, outputs=outputs, due=due, verdicts=())
    return forget_older_drafts(with_top(replace(with_other_draft(state), current=Candidate(drafts[-1])), top))


def with_slice(
    state: RunState, request: StepRequested, now: datetime, others: Usage
) -> StepRequested | BudgetReached | None:
    """Returns the request for the run of an item with its part of the budget: what is left, divided by the items that
    were not asked for yet.

    Where nothing is left it returns None while runs are under way, which may give some back, and else that the budget
    is reached. `others` is the usage of the workflow's other runs that began on the same day.
    """
    if (over := time_is_up(state, now)) is not None:
        return over
    top = frame_at(state.frames[-1], each_path(request.path))
    node = top.body[top.index]
    assert isinstance(node, Each)  # noqa: S101 - only such a node's request has this role
    each = top.each or _begin(state, node)
    waiting = len(each.items) - each.requested
    reserved = sum((asked.request.reserved for asked in state.open.values()), NOTHING)
    parts = dict.fromkeys(QUANTITIES, 0.0)
    for budget, used, daily in (
        (state.plan.budget, state.usage, False),
        (state.plan.daily, state.usage + others, True),
    ):
        if (reached := first_limit(budget, used, reserved, daily=daily)) is not None:
            return None if state.open else reached
        for quantity in QUANTITIES:
            limit = getattr(budget, quantity, None)
            if limit is not None:
                left = limit - getattr(used, quantity) - getattr(reserved, quantity)
                share = left / waiting if quantity == "cost" else max(left // waiting, min(left, 1))
                if share <= 0:
                    return None if state.open else BudgetReached(quantity, limit, getattr(used, quantity), daily=daily)
                parts[quantity] = min(share, parts[quantity] or share)
    return replace(request, reserved=Usage(int(parts["tokens"]), parts["cost"], int(parts["calls"])))


def _begin(state: RunState, node: Each) -> EachState:
    return EachState(node, items_in(state.values, node.over)[0])
