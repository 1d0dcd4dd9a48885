"""Reads a run's record from its beginning: the state at each event, and the next event that the plan must explain.

`peek` handles events from outside that leave the position in the plan unchanged (advice, other limits, a pause, a late
verdict); events that divert the run are raised as exceptions.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal

import msgspec

from redraft.events.messages import domain_events as events
from redraft.events.messages.conditions import Condition
from redraft.events.messages.content import DraftRef
from redraft.events.messages.domain_events import DomainEvent, Outcome
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import Node, Plan, Repeat, Step, loops_of
from redraft.events.messages.usage import Usage
from redraft.projections.record_check.chain import Deviates
from redraft.projections.record_check.loop_conditions import Trail, asks_critics
from redraft.projections.record_check.ratings import Rated, Rating, Swings, critics_of, judges_itself
from redraft.projections.record_check.run_state import StateFold
from redraft.projections.record_check.unmet import Unmet

_COUNTED: Final[tuple[Literal["tokens", "cost", "calls"], ...]] = ("tokens", "cost", "calls")
_ROUNDING: Final = 1e-9
"""The largest error of a sum of prices, which are floating-point numbers."""

_NEEDS_GOING_ON: Final = (
    *(events.IterationStarted, events.StepRequested, events.CriticSkipped),
    *(events.LoopClosing, events.LoopEnded),
)


class RecordEnds(Exception):
    """The record is read to its end, and the run goes on."""


class Unclear(Exception):
    """The record alone does not determine what must follow, so nothing is claimed."""


class Over(Exception):
    """The run ends here, with this outcome and draft."""

    def __init__(self, outcome: Outcome, draft: Rated | None) -> None:
        super().__init__(outcome)
        self.outcome, self.draft = outcome, draft


class Broken(Exception):
    """A step failed for good, or the budget is reached: what can still be published is."""

    def __init__(self, outcome: Outcome = "failed", *, publishing: bool = False) -> None:
        super().__init__(outcome)
        self.outcome, self.publishing = outcome, publishing


class Edited(Exception):
    """A person replaced the current draft."""

    def __init__(self, ref: DraftRef) -> None:
        super().__init__(ref)
        self.ref = ref


class Asked(msgspec.Struct):
    """A request without an answer. `again`: its attempt failed, and the next one is due."""

    step: Step
    request: events.StepRequested
    again: bool = False


class Frame(msgspec.Struct):
    """The body of nodes that the run is in: the plan's own, an iteration of a loop, or critics of a person's edit.

    By rules 1, `best` and `last` may leave a loop. By rules 2, the draft that leaves it is one that its critics
    `judged`, the rated draft that it began with (`entry`), or the last result of an inner loop (`inner`). `place` is
    the loop's path in the plan. `due` says why the condition must be checked, if it must. `closing` and `review` mark
    critics of a last draft, and of an edit (the suffix of their names). `heard` are the ratings of a row of critics in
    progress. `questioned`: people are asked about the draft of the loop before `index`, as that loop ended. `excused`
    counts the failures of steps after which the loop went on. `first` is the version of the draft it began with.
    `unmet` is the draft that it looked at last in this iteration, and that did not end it.
    """

    body: tuple[Node, ...]
    path: str = ""
    place: str = ""
    loop: Repeat | None = None
    index: int = 0
    iteration: int = 0
    closing: bool = False
    review: str | None = None
    due: str = ""
    exit: bool = False
    best: Rated | None = None
    last: Rated | None = None
    judged: tuple[Rated, ...] = ()
    entry: Rated | None = None
    inner: Rated | None = None
    peaks: tuple[float, ...] = ()
    seen: tuple[str, ...] = ()
    outputs: tuple[DraftRef, ...] = ()
    swings: Swings | None = None
    trails: dict[str, Trail] = {}
    heard: tuple[Rating, ...] = ()
    questioned: bool = False
    excused: int = 0
    first: int = 0
    unmet: Unmet | None = None

    @property
    def prefix(self) -> str:
        """The prefix of the paths of its nodes."""
        if self.review is not None or self.loop is None:
            return self.path
        return f"{self.path}[closing]/" if self.closing else f"{self.path}[{self.iteration}]/"


class Walk:
    """All that is known of a run up to the event that is to come next."""

    def __init__(self, stream: Sequence[Recorded], begun: events.RunStarted) -> None:
        self.events = stream
        self.next = 1
        self.plan: Plan = begun.plan
        self.started: datetime = begun.at
        self.rules = begun.rules
        self.inherited = begun.parent.version if begun.parent else 0
        self.limits: dict[str, tuple[Condition | None, int | None]] = {}
        self.frames: list[Frame] = [Frame(begun.plan.steps)]
        self.current: Rated | None = None
        self.best: Rated | None = None
        self.open: dict[str, Asked] = {}
        self.late: dict[str, Asked] = {}
        self.usage = Usage()
        self.iterations = 0
        self.ended: Outcome | None = None
        self.approved: DraftRef | None = None
        self.rejected: set[str] = set()
        self.failed: set[str] = set()
        self.vetoed: set[str] = set()
        self.overruled: set[str] = set()
        self.asking = False
        self.breaking: Broken | None = None
        self.advice: tuple[int, ...] = ()
        self.paused = False
        self.edits = 0
        self.drafts = 0
        self.untold: tuple[int, ...] = ()
        """The failures of steps on the current draft that no refinement was told of."""
        self.unmet: dict[int, Unmet] = {}
        """The drafts that did not end their loop, by the version of the event with which the loop went on."""
        self.state = StateFold(stream[0], begun.plan, inherits=begun.parent is not None)

    def peek(self) -> Recorded:
        """Returns the next event that the plan must explain. Raises RecordEnds, Over, Broken, Edited."""
        while self.next < len(self.events):
            event = self.events[self.next]
            if not self._take_outside(event):
                if self.paused and isinstance(event.data, _NEEDS_GOING_ON):
                    raise Deviates("paused", event, "the run was paused, and not resumed")
                return event
        raise RecordEnds

    def take(self) -> None:
        """Moves past the event that `peek` returned."""
        self.next += 1

    def note_unmet(self, event: Recorded) -> None:
        """Notes that the innermost loop goes on with this event, as what it looked at did not end it."""
        if self.top.unmet is not None:
            self.unmet[event.version] = self.top.unmet

    def repeats(self, event: Recorded) -> bool:
        """Returns whether a fork repeats the event: then its parent's plan decided it, at another time."""
        return event.version <= self.inherited

    @property
    def top(self) -> Frame:
        return self.frames[-1]

    def until(self, frame: Frame) -> Condition:
        """Returns the loop's current condition."""
        assert frame.loop is not None  # noqa: S101 - only asked of loops
        changed = self.limits.get(frame.place, (None, None))[0]
        return frame.loop.until if changed is None else changed

    def needs_rating(self, frame: Frame) -> bool:
        """Returns whether somebody has to rate a draft before the loop's condition can hold for it.

        By rules 8 nobody has to where no critic stands in the body and the condition asks for no rating; a judge there
        is for choosing.
        """
        loop = frame.loop
        if loop is None or not judges_itself(loop):
            return False
        return self.rules < 8 or bool(critics_of(loop)) or asks_critics(self.until(frame))

    def max_iterations(self, frame: Frame) -> int:
        """Returns the loop's current limit of iterations."""
        assert frame.loop is not None  # noqa: S101 - only asked of loops
        return self.limits.get(frame.place, (None, None))[1] or frame.loop.max_iterations

    def best_or_current(self) -> Rated | None:
        return self.best or self.current

    def elapsed(self, now: datetime) -> float:
        """Returns the seconds since the start of the run."""
        return (now - self.started).total_seconds()

    def _take_outside(self, event: Recorded) -> bool:
        """Handles an event from outside; returns False for one that the plan must explain."""
        data: DomainEvent = event.data
        match data:
            case events.RunGuided():
                self.advice = (*self.advice, event.version)
            case events.LimitsChanged(path=path, until=until, max_iterations=most):
                self._change_limits(event, path, until, most)
            case events.RunPaused() | events.RunResumed():
                self._pause(event, paused=isinstance(data, events.RunPaused))
            case events.VerdictLate():
                self._take_late_verdict(event, data)
            case events.RunCancelled():
                self.next += 1
                raise Over("cancelled", self.best_or_current())
            case events.DraftEdited(draft=draft, before=before):
                self.next += 1
                self._take_edit(event, draft.ref, before)
            case events.BudgetReached():
                if not self.repeats(event):
                    _check_reached(self, event, data)
                self.next += 1
                self.open = {}
                if self._ends_paused(data):
                    raise Over("over_budget", self.best_or_current())
                raise Broken("over_budget")
            case events.StepRequested():
                return self._asks_again(event, data)
            case events.StateChanged(path=""):
                self.state.take_persons(event, data, self.inherited)
            case events.ChoicesCredited() if event.version == self.inherited:
                pass  # its parent was about to end
            case _:
                return False
        self.next += 1
        return True

    def _change_limits(self, event: Recorded, path: str, until: Condition | None, most: int | None) -> None:
        if path not in dict(loops_of(self.plan.steps)):
            raise Deviates("limits", event, f"the plan has no loop {path}")
        if self.top.review is not None and self.rules < 2:
            raise Unclear  # these rules lost their place among the critics
        before = self.limits.get(path, (None, None))
        self.limits[path] = (before[0] if until is None else until, before[1] if most is None else most)

    def _pause(self, event: Recorded, *, paused: bool) -> None:
        if paused is self.paused:
            raise Deviates("paused", event, "the run was paused already" if paused else "the run was not paused")
        self.paused = paused

    def _ends_paused(self, reached: events.BudgetReached) -> bool:
        """Returns whether the run ends while paused: its wall time is over, and no one resumed it before its end."""
        following = (event.data for event in self.events[self.next :])
        after = next((data for data in following if not isinstance(data, events.ChoicesCredited)), None)
        return self.paused and reached.quantity == "seconds" and isinstance(after, events.RunEnded)

    def _take_late_verdict(self, event: Recorded, data: events.VerdictLate) -> None:
        asked = self.late.pop(data.path, None)
        if asked is None or asked.request.attempt != data.attempt or asked.request.draft != data.draft:
            raise Deviates("late", event, f"no panel went on without attempt {data.attempt} of {data.path}")
        self.usage += data.usage

    def _take_edit(self, event: Recorded, ref: DraftRef, before: DraftRef) -> None:
        if self.breaking is not None:
            raise Unclear
        top = self.top
        if not self.asking and (top.loop is None or top.closing or top.review is not None):
            raise Deviates("edit", event, "a person's draft was used where the plan allows no edit")
        if not (self.asking or self.repeats(event)) and self.rules >= 9 and self._rates_no_single_draft(top):
            raise Deviates("edit", event, "a person's draft was used in a loop in which nobody would judge it")
        if self.asking and self.rules >= 9:
            for frame in self.frames:
                frame.outputs = tuple(ref if each == before else each for each in frame.outputs)
        self.edits += 1
        self.drafts = ref.version
        self.open = {}
        raise Edited(ref)

    def _rates_no_single_draft(self, frame: Frame) -> bool:
        """Returns whether critics stand in loops inside a loop alone, or only a judge compares its drafts."""
        if frame.loop is None or critics_of(frame.loop):
            return False
        return self.needs_rating(frame) or any(judges_itself(each) for _, each in loops_of(frame.loop.body))

    def _asks_again(self, event: Recorded, data: events.StepRequested) -> bool:
        """Returns whether a fork repeats a request that its parent had no answer to."""
        asked = self.open.get(data.path)
        if asked is None or asked.again or asked.request.attempt != data.attempt:
            return False
        if not self.repeats(next(each for each in self.events if each.data is asked.request)):
            return False
        if data.role == "refiner":
            self.note_unmet(event)
        self.open[data.path] = Asked(asked.step, data)
        self.next += 1
        return True


def _check_reached(walk: Walk, event: Recorded, said: events.BudgetReached) -> None:
    """Raises Deviates unless the budget is reached as recorded. The usage of other runs on a day is not known."""
    budget = walk.plan.daily if said.daily else walk.plan.budget
    limit = getattr(budget, said.quantity) if budget else None
    if limit is None or limit != said.limit:
        raise Deviates("budget", event, f"the plan has no such limit of {said.quantity}")
    if said.daily:
        return
    used = walk.elapsed(event.time) if said.quantity == "seconds" else getattr(walk.usage, said.quantity)
    if used != said.used:
        raise Deviates("budget", event, f"{used:g} {said.quantity} were used, not {said.used:g}")
    unpriced = said.quantity == "cost" and walk.usage.unpriced > 0
    if not (used >= limit or used + said.reserved > limit + _ROUNDING or unpriced):
        raise Deviates("budget", event, f"{used:g} and {said.reserved:g} {said.quantity} do not reach the limit")


def check_afforded(walk: Walk, event: Recorded, asked: events.StepRequested) -> None:
    """Raises Deviates when a request exceeds the run's budget. Publishing and a verdict taken again are allowed."""
    budget, used = walk.plan.budget, walk.usage
    if budget is None or asked.role == "publisher" or asked.reused:
        return
    reserved = sum((each.request.reserved for each in walk.open.values() if not each.again), asked.reserved)
    for quantity in _COUNTED:
        limit, gone = getattr(budget, quantity), getattr(used, quantity)
        if limit is not None and (gone >= limit or gone + getattr(reserved, quantity) > limit + _ROUNDING):
            raise Deviates("budget", event, f"the budget of {limit:g} {quantity} does not allow it: {gone:g} are used")
    if budget.cost is not None and used.unpriced:
        raise Deviates("budget", event, "the budget cannot be kept: the price of a call that was made is not known")
    if budget.seconds is not None and walk.elapsed(event.time) >= budget.seconds:
        raise Deviates("budget", event, f"the wall time of {budget.seconds:g} s was over")
