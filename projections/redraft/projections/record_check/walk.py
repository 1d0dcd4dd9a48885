"""A run's record, read from its beginning: what is known at each event, and the next event that the plan is to explain.

What comes from outside and changes no place in the plan (advice, other limits, a pause, a late verdict) is taken in
here; what turns the run elsewhere is raised.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from redraft.events.conditions import Condition
from redraft.events.content import DraftRef
from redraft.events.domain_events import (
    BudgetReached,
    ChoicesCredited,
    DomainEvent,
    DraftEdited,
    IterationStarted,
    LimitsChanged,
    LoopClosing,
    LoopEnded,
    Outcome,
    RunCancelled,
    RunEnded,
    RunGuided,
    RunPaused,
    RunResumed,
    RunStarted,
    StepRequested,
    VerdictLate,
)
from redraft.events.envelope import Recorded
from redraft.events.plan import Node, Plan, Repeat, Step
from redraft.events.usage import Usage
from redraft.projections.record_check.findings import Deviates
from redraft.projections.record_check.ratings import Rated
from redraft.projections.record_check.spending import check_reached
from redraft.projections.record_check.swings import Swings

_NEEDS_GOING_ON: Final = (IterationStarted, StepRequested, LoopClosing, LoopEnded)


class RecordEnds(Exception):
    """All of the record was read, and the run goes on."""


class Unclear(Exception):
    """What follows cannot be told from the record alone; nothing is claimed of it."""


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
    """A person put another draft in place of the current one."""

    def __init__(self, ref: DraftRef) -> None:
        super().__init__(ref)
        self.ref = ref


class Asked(msgspec.Struct):
    """A request without an answer. `again`: its attempt failed and the next is awaited."""

    step: Step
    request: StepRequested
    again: bool = False


class Frame(msgspec.Struct):
    """A body of nodes that the run stands in: the plan's own, a pass of a loop, or critics of a person's edit.

    `best` and `last` are what may leave a loop by rules 1; by rules 2 it is of those that its critics `judged`, of the
    rated draft that it began with (`entry`), and of what a loop inside it ended with last (`inner`).
    `place` is the loop's path in the plan. `due` says why the condition is to be looked at, if it is. `closing` and
    `review` are for critics of a last draft, and of an edit (the suffix of their names).
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

    @property
    def prefix(self) -> str:
        """What stands before the names of its nodes."""
        if self.review is not None or self.loop is None:
            return self.path
        return f"{self.path}[closing]/" if self.closing else f"{self.path}[{self.iteration}]/"


class Walk:
    """All that is known of a run up to the event that is to come next."""

    def __init__(self, events: Sequence[Recorded], begun: RunStarted) -> None:
        self.events = events
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

    def peek(self) -> Recorded:
        """The next event that the plan is to explain. Raises RecordEnds, Over, Broken, Edited."""
        while self.next < len(self.events):
            event = self.events[self.next]
            if not self._aside(event):
                if self.paused and isinstance(event.data, _NEEDS_GOING_ON):
                    raise Deviates("paused", event, "the run was paused, and not resumed")
                return event
        raise RecordEnds

    def take(self) -> None:
        """Goes on behind the event that was peeked at."""
        self.next += 1

    def repeats(self, event: Recorded) -> bool:
        """Whether a fork repeats it: then it was decided by its parent's plan, and at another time."""
        return event.version <= self.inherited

    @property
    def top(self) -> Frame:
        return self.frames[-1]

    def until(self, frame: Frame) -> Condition:
        """The loop's condition as it is now."""
        assert frame.loop is not None  # noqa: S101 - only asked of loops
        changed = self.limits.get(frame.place, (None, None))[0]
        return frame.loop.until if changed is None else changed

    def most(self, frame: Frame) -> int:
        """The loop's limit of passes as it is now."""
        assert frame.loop is not None  # noqa: S101 - only asked of loops
        return self.limits.get(frame.place, (None, None))[1] or frame.loop.max_iterations

    def best_or_current(self) -> Rated | None:
        return self.best or self.current

    def _aside(self, event: Recorded) -> bool:
        """Takes in what comes from outside; False for what the plan is to explain."""
        data: DomainEvent = event.data
        match data:
            case RunGuided():
                self.advice = (*self.advice, event.version)
            case LimitsChanged(path=path, until=until, max_iterations=most):
                self._limit(event, path, until, most)
            case RunPaused() | RunResumed():
                self._pause(event, paused=isinstance(data, RunPaused))
            case VerdictLate():
                self._late(event, data)
            case RunCancelled():
                self.next += 1
                raise Over("cancelled", self.best_or_current())
            case DraftEdited(draft=draft):
                self.next += 1
                self._edited(event, draft.ref)
            case BudgetReached():
                if not self.repeats(event):
                    check_reached(self.plan, self.usage, self.started, event, data)
                self.next += 1
                self.open = {}
                if self._ends_paused(data):
                    raise Over("over_budget", self.best_or_current())
                raise Broken("over_budget")
            case StepRequested(path=path, attempt=attempt):
                return self._again(event, path, attempt)
            case ChoicesCredited() if event.version == self.inherited:
                pass  # its parent was about to end
            case _:
                return False
        self.next += 1
        return True

    def _limit(self, event: Recorded, path: str, until: Condition | None, most: int | None) -> None:
        if path not in places(self.plan.steps):
            raise Deviates("limits", event, f"the plan has no loop {path}")
        if self.top.review is not None and self.rules < 2:
            raise Unclear  # these rules lost their place among the critics
        before = self.limits.get(path, (None, None))
        self.limits[path] = (before[0] if until is None else until, before[1] if most is None else most)

    def _pause(self, event: Recorded, *, paused: bool) -> None:
        if paused is self.paused:
            raise Deviates("paused", event, "the run was paused already" if paused else "the run was not paused")
        self.paused = paused

    def _ends_paused(self, reached: BudgetReached) -> bool:
        """Whether the run ends as it is paused: its wall time is over, and nobody resumed it before its end."""
        following = (event.data for event in self.events[self.next :])
        after = next((data for data in following if not isinstance(data, ChoicesCredited)), None)
        return self.paused and reached.quantity == "seconds" and isinstance(after, RunEnded)

    def _late(self, event: Recorded, data: VerdictLate) -> None:
        asked = self.late.pop(data.path, None)
        if asked is None or asked.request.attempt != data.attempt or asked.request.draft != data.draft:
            raise Deviates("late", event, f"no panel went on without attempt {data.attempt} of {data.path}")
        self.spend(data.usage)

    def _edited(self, event: Recorded, ref: DraftRef) -> None:
        if self.breaking is not None:
            raise Unclear
        top = self.top
        if not self.asking and (top.loop is None or top.closing or top.review is not None):
            raise Deviates("edit", event, "a person's draft was taken up where none could be")
        self.edits += 1
        self.drafts = ref.version
        self.open = {}
        raise Edited(ref)

    def _again(self, event: Recorded, path: str, attempt: int) -> bool:
        """Whether a fork asks once more for what its parent had no answer to."""
        asked = self.open.get(path)
        if asked is None or asked.again or asked.request.attempt != attempt:
            return False
        if asked_at(self.events, asked.request) > self.inherited:
            return False
        assert isinstance(event.data, StepRequested)  # noqa: S101 - the caller's match
        self.open[path] = Asked(asked.step, event.data)
        self.next += 1
        return True

    def spend(self, usage: Usage) -> None:
        """Counts what a step used."""
        if not usage.is_nothing:
            self.usage += usage


def asked_at(events: Sequence[Recorded], request: StepRequested) -> int:
    """The version at which this request was recorded first."""
    return next(event.version for event in events if event.data is request)


def places(nodes: Sequence[Node], parent: str = "") -> dict[str, Repeat]:
    """Every loop of a plan by its path in it."""
    found: dict[str, Repeat] = {}
    for node in nodes:
        if isinstance(node, Repeat):
            path = f"{parent}{node.name}"
            found |= {path: node, **places(node.body, f"{path}/")}
    return found
