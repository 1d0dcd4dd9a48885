"""The messages between a run and the runs of its items: an event of the one becomes a command to the other.

A run of an item is begun by a `StartRun`, and its end is the answer to the request for it. What is said to a run while
runs of its items are under way is said to these as well. All of it follows from the log: a message that was lost is
sent again when its run is looked after.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Final, Protocol, TypeAlias

from msgspec.structs import replace

from redraft.actors.deciding.budget import QUANTITIES
from redraft.actors.deciding.evolve import fold
from redraft.actors.deciding.item_result import result_of
from redraft.actors.deciding.state import RunState
from redraft.actors.plans.items import item_brief, item_plan
from redraft.actors.plans.paths import step_key
from redraft.actors.runtime.admission import LONGEST_ID
from redraft.events.bus.port import BusMessage, size_of
from redraft.events.errors import CodecError, InputError, Tampered
from redraft.events.messages.codec import encode_message
from redraft.events.messages.commands import (
    CancelRun,
    ChangeLimits,
    Failed,
    Message,
    PauseRun,
    QuarantineRun,
    ResumeRun,
    StartRun,
)
from redraft.events.messages.domain_events import (
    BudgetReached,
    DomainEvent,
    DraftGenerated,
    ItemOf,
    LimitsChanged,
    RunEnded,
    RunPaused,
    RunQuarantined,
    RunResumed,
    RunStarted,
    StepFailed,
    StepRequested,
)
from redraft.events.messages.envelope import Entry, Origin, Recorded
from redraft.events.messages.item_ids import number_of_item, run_of_item
from redraft.events.messages.plan import Budget, Each, Plan, eaches_of
from redraft.events.messages.run_state import size_fault
from redraft.events.messages.usage import Usage

ReadRun: TypeAlias = Callable[[str], Awaitable[Sequence[Recorded]]]
"""Returns the events of a run; none for a run that does not exist."""

AROUND: Final = "the run around it"
"""The name recorded as the author of a cancellation that ends the run of an item because the run around it needs it no
more."""


class RunLog(Protocol):
    """Reads the events of a run, and the rows that are none (`Unreadable`)."""

    async def read(self, run: str, upto: int | None = None, after: int = 0) -> Sequence[Recorded]: ...

    async def entries(self, run: str, upto: int | None = None, after: int = 0) -> Sequence[Entry]: ...


def reader_of(log: RunLog) -> ReadRun:
    """Returns what reads runs: of one that cannot be read and was set aside, the events that can be.

    So that the run around it is told that it was set aside.
    """

    async def read(run: str) -> Sequence[Recorded]:
        try:
            return await log.read(run)
        except (CodecError, Tampered):
            known = [each for each in await log.entries(run) if isinstance(each, Recorded)]
            if not any(isinstance(each.data, RunQuarantined) for each in known):
                raise
            return known

    return read


class ItemRuns:
    """Makes the commands between runs and the runs of their items, from what `read` returns of them."""

    def __init__(self, read: ReadRun) -> None:
        self._read = read

    async def start(self, event: Recorded, asked: StepRequested, *, again: bool) -> BusMessage | None:
        """Returns the command that begins the run of an item; `again`, the answer of one that has ended meanwhile.

        None for a run that is under way. Raises InputError if the run cannot begin, `again` also where one with its id
        is there that this request did not begin: its answer would not count.
        """
        of = ItemOf(event.run, asked.path)
        if (size := size_of(run_of_item(of))) > LONGEST_ID:
            raise InputError(
                f"its run's id would have {size} bytes; give run {of.run[:20]}… a shorter id, {LONGEST_ID} are allowed"
            )
        if again and (known := await self._read(run_of_item(of))):
            if known[0].causation != event.id:
                raise InputError(
                    f"the run of item {number_of_item(of.path)} cannot begin: run {known[0].run} is there already, and "
                    "another request began it; begin this one with another key, or in another store"
                )
            return _answer(known)
        return _message(event, "item", _start(of, asked, event, await self._read(event.run)))

    async def follow(self, event: Recorded, of: ItemOf | None, *, has_items: bool) -> Sequence[BusMessage]:
        """Returns the commands that follow from an event: to the runs of its run's items, and to the run around it."""
        found: list[BusMessage] = []
        if of is not None and isinstance(event.data, RunEnded | RunQuarantined):
            answer = _answer(await self._read(event.run))
            found += [answer] if answer is not None else ()
        if has_items and isinstance(
            event.data, RunPaused | RunResumed | LimitsChanged | StepFailed | BudgetReached | RunEnded | RunQuarantined
        ):
            found += _commands(event, await self._read(event.run))
        return found

    async def look_after(self, run: str) -> Sequence[BusMessage]:
        """Returns the commands to a run of an item that it has missed: its own run has ended, or goes on or pauses."""
        events = await self._read(run)
        begun = events[0].data if events else None
        if not isinstance(begun, RunStarted) or begun.of is None:
            return ()
        around = await self._read(begun.of.run)
        state = fold(event.data for event in events)
        if not around or state.status != "running":
            return ()
        pauses = {event.data.key for event in events if isinstance(event.data, RunPaused)}
        return list(_missed(begun.of, state, pauses, around))


def _missed(of: ItemOf, state: RunState, pauses: set[str], around: Sequence[Recorded]) -> Iterator[BusMessage]:
    outer = fold(event.data for event in around)
    last = around[-1]
    if outer.status == "quarantined":
        ended = next(event for event in around if isinstance(event.data, RunQuarantined))
        yield _steer(ended, of, _end(ended, of))
    elif of.path not in outer.open:
        yield _steer(last, of, _end(last, of))
    elif outer.paused:
        paused = next(event for event in reversed(around) if isinstance(event.data, RunPaused))
        if not state.paused and _key(paused) not in pauses:
            yield _steer(paused, of, _pause(paused, of))
    elif state.paused:
        turns = [event for event in around if isinstance(event.data, RunPaused | RunResumed)]
        if turns and any(_key(event) in pauses for event in turns):
            yield _steer(turns[-1], of, _pause(turns[-1], of))


def _commands(event: Recorded, events: Sequence[Recorded]) -> Iterator[BusMessage]:
    """Yields what an event of a run means for the runs of its items that are under way."""
    past = events[: event.version]
    asked = _under_way(past)
    if not asked:
        return
    state = fold(each.data for each in past)
    for path in asked:
        of = ItemOf(event.run, path)
        match event.data:
            case RunPaused() | RunResumed():
                yield _steer(event, of, _pause(event, of))
            case LimitsChanged(path=loop) if loop.startswith(f"{step_key(path)}/"):
                yield _steer(event, of, _limits(event, event.data, of))
            case StepFailed() | BudgetReached() | RunEnded() | RunQuarantined() if path not in state.open:
                yield _steer(event, of, _end(event, of))
            case _:
                pass


def _under_way(events: Sequence[Recorded]) -> Mapping[str, Recorded]:
    """Returns the requests for runs of items that have no answer, by path; not those that a fork repeats."""
    asked: dict[str, Recorded] = {}
    for event in events:
        match event.data:
            case StepRequested(role="run", path=path) if not event.repeats:
                asked[path] = event
            case DraftGenerated(path=path) | StepFailed(path=path):
                asked.pop(path, None)
            case _:
                pass
    return asked


def _start(of: ItemOf, asked: StepRequested, event: Recorded, events: Sequence[Recorded]) -> StartRun:
    """Returns the command that begins the run of an item. Raises InputError if its state would be too large."""
    begun = events[0].data
    assert isinstance(begun, RunStarted)  # noqa: S101 - every run begins so
    state = fold(each.data for each in events[: event.version])
    top, number = state.frames[-1], number_of_item(of.path)
    items = top.each.items if top.each is not None else ()
    node = dict(eaches_of(state.plan.steps))[step_key(of.path)]
    brief = item_brief(state.brief, state.values, items[number - 1], number)
    if fault := size_fault(brief.state):
        raise InputError(f"the run of item {number} cannot begin: {fault}")
    plan = plan_with_budget(state.plan, node, asked.reserved)
    return StartRun(run_of_item(of), plan, brief, "", begun.tags, files=begun.files, of=of)


def plan_with_budget(plan: Plan, each: Each, part: Usage) -> Plan:
    """Returns the plan of an item's run, with its part of the budget."""
    inner = item_plan(plan, each)
    limited = [budget for budget in (plan.budget, plan.daily) if budget is not None]
    limits = {
        quantity: getattr(part, quantity)
        for quantity in QUANTITIES
        if any(getattr(budget, quantity) is not None for budget in limited)
    }
    return replace(inner, budget=Budget(**limits)) if limits else inner


def _answer(events: Sequence[Recorded]) -> BusMessage | None:
    """Returns the answer that the end of an item's run is; None while it goes on, and for a run of no item."""
    begun = events[0].data
    last = next((event for event in events if isinstance(event.data, RunEnded | RunQuarantined)), None)
    if not isinstance(begun, RunStarted) or begun.of is None or last is None:
        return None
    if events[0].run != run_of_item(begun.of):
        return None
    if isinstance(last.data, RunQuarantined):
        said = f"run {last.run} was set aside: {last.data.reason}"
        result: Message = Failed(begun.of.run, begun.of.path, 1, "error", said, retryable=False)
    else:
        result = result_of([event.data for event in events[: last.version]], begun.of, last.run)
    origin = Origin(f"{last.id}.answer", "relay", events[0].causation, last.correlation, last.trace)
    return BusMessage(*encode_message(result), origin, begun.of.run)


def _message(event: Recorded, what: str, message: Message) -> BusMessage:
    origin = Origin(f"{event.id}.{what}", "relay", event.id, event.correlation, event.trace)
    return BusMessage(*encode_message(message), origin, message.run, message)


def _steer(event: Recorded, of: ItemOf, message: Message) -> BusMessage:
    return _message(event, f"item{number_of_item(of.path)}", message)


def _key(event: Recorded) -> str:
    """Returns the idempotency key of what an event of a run means for the runs of its items."""
    return f"{event.run}.{event.version}"


def _pause(event: Recorded, of: ItemOf) -> Message:
    data, run = event.data, run_of_item(of)
    assert isinstance(data, RunPaused | RunResumed)  # noqa: S101 - the callers see to it
    kind = PauseRun if isinstance(data, RunPaused) else ResumeRun
    return kind(run, data.reason, data.by, _key(event))


def _limits(event: Recorded, data: LimitsChanged, of: ItemOf) -> Message:
    loop = data.path.removeprefix(f"{step_key(of.path)}/")
    return ChangeLimits(run_of_item(of), loop, data.until, data.max_iterations, data.reason, data.by, _key(event))


def _end(event: Recorded, of: ItemOf) -> Message:
    run, data = run_of_item(of), event.data
    if isinstance(data, RunQuarantined):
        return QuarantineRun(run, data.by, data.reason, _key(event))
    return CancelRun(run, f"run {of.run} {_why_ended(data)}", AROUND, _key(event))


def _why_ended(data: DomainEvent) -> str:
    match data:
        case RunEnded():
            return f"ended: {data.reason}"
        case StepFailed():
            return f"needs it no more: {data.path} failed"
        case BudgetReached():
            return "needs it no more: its budget is reached"
        case _:
            return "goes on without it"
