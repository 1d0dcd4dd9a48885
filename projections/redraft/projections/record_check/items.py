"""Walks the items of an Each, and compares what a run took from the runs of its items with those runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from redraft.events.messages.content import DraftRef
from redraft.events.messages.domain_events import (
    BudgetReached,
    DraftGenerated,
    DraftMade,
    ItemOf,
    IterationStarted,
    LoopEnded,
    RunEnded,
    RunStarted,
    StepFailed,
    StepRequested,
)
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.item_ids import run_of_item
from redraft.events.messages.plan import Budget, Each, Retry, Step, eaches_of
from redraft.events.messages.redaction import ERASED
from redraft.events.messages.run_state import Value, Values
from redraft.events.messages.usage import Usage
from redraft.projections.record_check.answers import forget_judged, is_asked_next, take_answer, take_request
from redraft.projections.record_check.chain import Deviates, Finding, finding_at
from redraft.projections.record_check.ratings import Rated
from redraft.projections.record_check.reused import UNPROVEN, Sources
from redraft.projections.record_check.run_state import place_of, values_after
from redraft.projections.record_check.walk import Broken, Frame, Over, Walk

_MOST: Final = 100
"""The number of items that a list may have."""

_QUANTITIES: Final = ("tokens", "cost", "calls")


def walk_each(walk: Walk, frame: Frame, node: Each) -> None:
    """Walks the items of a list: they are asked for in order, so many at once, and answered in any order.

    A list without items is passed over; the run ends where there is no list.
    """
    walk.peek()  # a fork may begin here with another list
    items = _items_of(walk.state.values, node.over)
    if items is None:
        raise Over("failed", walk.best_or_current())
    if not items:
        frame.index += 1
        return
    path = f"{frame.prefix}{node.name}"
    asked, made = 0, dict[int, DraftRef]()
    while len(made) < len(items):
        following = f"{path}[{asked + 1}]"
        if asked < len(items) and (not asked or is_asked_next(walk, following)):
            _ask(walk, node, following, len(items) - asked)
            asked += 1
            continue
        given = take_answer(walk)
        if given is None:
            continue
        if isinstance(given[2], StepFailed):
            raise Broken
        assert isinstance(given[2], DraftGenerated)  # noqa: S101 - `take_answer` saw to it
        walk.drafts = given[2].draft.version
        made[int(given[2].path.rpartition("[")[2][:-1])] = given[2].draft.ref
    drafts = tuple(made[number + 1] for number in range(len(items)))
    walk.current, walk.untold = Rated(drafts[-1]), ()
    forget_judged(walk)
    frame.outputs += drafts
    frame.index += 1
    frame.due = "output" if frame.loop is not None else ""


def _ask(walk: Walk, node: Each, path: str, waiting: int) -> None:
    """Takes the request for the run of an item. Raises Deviates unless fewer run than may, and its budget is fair."""
    event = walk.peek()
    if len(walk.open) >= node.concurrency:
        raise Deviates("items", event, f"{node.concurrency} items of {node.name} are under way, and no more may be")
    data = event.data
    if isinstance(data, StepRequested) and not walk.repeats(event):
        for quantity, part in _parts(walk, waiting):
            said = getattr(data.reserved, quantity)
            if said > part or (said != part and walk.plan.daily is None):
                raise Deviates("budget", event, f"{path} should have {part:g} {quantity} of the budget, not {said:g}")
    take_request(walk, Step("run", node.name, path.rpartition("/")[2], retry=Retry(attempts=1)), path)


def _parts(walk: Walk, waiting: int) -> Iterator[tuple[str, float]]:
    """Yields what is left of each limit of the budget, divided by the items that were not asked for."""
    budget = walk.plan.budget
    for quantity in _QUANTITIES:
        limit = getattr(budget, quantity) if budget is not None else None
        if limit is None:
            continue
        kept = sum(getattr(each.request.reserved, quantity) for each in walk.open.values())
        left = limit - getattr(walk.usage, quantity) - kept
        yield quantity, left / waiting if quantity == "cost" else max(left // waiting, 1)


def _items_of(values: Values, over: str) -> list[Value] | None:
    """Returns the items of the list of this name; None where there is none, or one that is too long."""
    found: object = values
    for name in over.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, list) and len(found) <= _MOST else None


def relatives_of(events: Sequence[Recorded]) -> Iterator[str]:
    """Yields the runs with which a run is compared: those of its items, and the one whose item it works on."""
    for event in events:
        match event.data:
            case RunStarted(of=ItemOf(run=run)):
                yield run
            case StepRequested(role="run", path=path) if not event.repeats:
                yield run_of_item(ItemOf(event.run, path))
            case _:
                pass


def item_findings(events: Sequence[Recorded], sources: Sources) -> Iterator[Finding]:
    """Yields what is wrong between a run and the runs of its items, among `sources`."""
    begun = events[0].data if events else None
    if not isinstance(begun, RunStarted):
        return
    if begun.of is not None:
        yield from _faults_of_start(events, begun, begun.of, sources.get(begun.of.run))
    if not any(True for _ in eaches_of(begun.plan.steps)):
        return
    asked = {data.path for event in events if (data := _item_asked_for(event)) is not None}
    for event in events:
        if isinstance(event.data, DraftGenerated) and event.data.path in asked and not event.repeats:
            run = run_of_item(ItemOf(event.run, event.data.path))
            if (there := sources.get(run)) is None:
                yield finding_at(UNPROVEN, event, f"that this is the draft of run {run} is not proven: it is not here")
            elif fault := _fault_of_end(event.data, there):
                yield finding_at("items", event, f"run {run} {fault}")


def _item_asked_for(event: Recorded) -> StepRequested | None:
    """Returns the request for the run of an item that an event is; None for any other, and for what a fork repeats."""
    data = event.data
    return data if isinstance(data, StepRequested) and data.role == "run" and not event.repeats else None


def _fault_of_end(taken: DraftGenerated, there: Sequence[Recorded]) -> str:
    """Returns why a run did not end with the draft, and the usage, that was taken from it; empty if it did."""
    ended = next((event.data for event in there if isinstance(event.data, RunEnded)), None)
    if ended is None:
        return "has not ended"
    drafts = (event.data.draft for event in there if isinstance(event.data, DraftMade))
    made = next((draft for draft in drafts if draft.ref == ended.draft), None)
    if made is None or (made.sha256, made.text) != (taken.draft.sha256, taken.draft.text):
        texts = "" if made is None else made.text
        return "" if ERASED in (texts, taken.draft.text) else "ended with another draft"
    used = sum((getattr(event.data, "usage", Usage()) for event in there), Usage())
    if any(getattr(used, quantity) != getattr(taken.usage, quantity) for quantity in _QUANTITIES):
        return "used something else"
    return "" if _gives_draft(there, ended) else f"ended {ended.outcome}, and its plan gives no draft then"


def _gives_draft(there: Sequence[Recorded], ended: RunEnded) -> bool:
    """Returns whether a run ended behind its loops, or with what its plan saves from a failure."""
    begun, under_way, failed, spent = there[0].data, "", False, False
    for event in there:
        match event.data:
            case IterationStarted(path=path) if "/" not in path:
                under_way = path
            case LoopEnded(path=path) if path == under_way:
                under_way = ""
            case BudgetReached():
                spent = True
            case StepFailed(retry_at=None):
                failed = True
            case _:
                pass
    if (ended.outcome == "over_budget" and spent) or (ended.outcome == "failed" and (failed or spent)):
        return isinstance(begun, RunStarted) and begun.plan.on_failure == "publish_best"
    return not under_way and ended.outcome not in ("rejected", "cancelled", "failed")


def _faults_of_start(
    events: Sequence[Recorded], begun: RunStarted, of: ItemOf, around: Sequence[Recorded] | None
) -> Iterator[Finding]:
    if events[0].run != run_of_item(of):
        yield finding_at("items", events[0], f"this is not the run of {of.path} of run {of.run}")
    if around is None:
        return
    cause = next((each for each in around if each.id == events[0].causation), None)
    asked, first = None if cause is None else _item_asked_for(cause), around[0].data
    if cause is None or asked is None or asked.path != of.path:
        yield finding_at("items", events[0], f"run {of.run} did not ask for it at {of.path}")
    elif isinstance(first, RunStarted) and ERASED not in (first.brief.text, begun.brief.text):
        node = dict(eaches_of(first.plan.steps)).get(place_of(of.path))
        items = _items_read_at(around, of, node) if node is not None else []
        values = values_after(around[: cause.version])
        yield from (finding_at("items", events[0], each) for each in _faults_of_begun(begun, of, items, values, asked))


def _items_read_at(around: Sequence[Recorded], of: ItemOf, node: Each) -> list[Value]:
    """Returns the list as it was when its first item was asked for: what changes in it afterwards changes no item."""
    place = of.path.rpartition("[")[0]
    for event in around:
        data = event.data
        if isinstance(data, StepRequested) and data.role == "run" and data.path.rpartition("[")[0] == place:
            return _items_of(values_after(around[: event.version]), node.over) or []
    return []


def _faults_of_begun(
    begun: RunStarted, of: ItemOf, items: Sequence[Value], values: Values, asked: StepRequested
) -> Iterator[str]:
    """Yields what a run should not have begun with, as an item of this list of a run that had these values."""
    number = int(of.path.rpartition("[")[2][:-1])
    if not 1 <= number <= len(items):
        yield f"the plan of run {of.run} has no such item {of.path}"
        return
    if begun.brief.state != {**values, "item": items[number - 1], "index": number}:
        yield f"it does not begin with the state of run {of.run} and its item {number}"
    limits = begun.plan.budget or Budget()
    if any(getattr(asked.reserved, quantity) != (getattr(limits, quantity) or 0) for quantity in _QUANTITIES):
        yield f"its budget is not what run {of.run} set aside for it"
