"""Records written by hand, event by event, as docs/state.md says that they have to be: no decider made them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec.structs import replace
from tests.projections.random_runs import as_recorded

from redraft.events.messages.content import Brief, Critique, DraftRef, Receipt, new_draft
from redraft.events.messages.domain_events import (
    DomainEvent,
    DraftCritiqued,
    DraftGenerated,
    DraftPublished,
    DraftRefined,
    IterationStarted,
    LoopClosing,
    LoopEnded,
    Outcome,
    Parent,
    RunEnded,
    RunStarted,
    StateChanged,
    StepFailed,
    StepRequested,
)
from redraft.events.messages.plan import RULES, Plan, Step
from redraft.events.messages.run_state import Value, Values
from redraft.projections.record_check import check_events

NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
LATER: Final = NOW + timedelta(days=1)
NONE: Final = DraftRef(0, "")


class Told:
    """A record so far; each method adds one or two events. `draft` is the current draft, `said` its critiques."""

    def __init__(self, plan: Plan, *, parent: int = 0, **brief: Value) -> None:
        begun = RunStarted(plan, Brief("a brief", state=brief), NOW, rules=RULES)
        self.events: list[DomainEvent] = [begun]
        self.inherited = parent
        self.draft: DraftRef | None = None
        self.said: tuple[int, ...] = ()
        self.score: float | None = None
        self._drafts = 0
        self._outputs: tuple[DraftRef, ...] = ()

    def forked(self, at: int, plan: Plan | None = None) -> Told:
        """The beginning of a fork of this run, at this version."""
        begun = self.events[0]
        assert isinstance(begun, RunStarted)
        self.events = [replace(begun, plan=plan or begun.plan, parent=Parent("p", at)), *self.events[1:at]]
        self.inherited = at
        return self

    def ask(self, step: Step, path: str, **other: object) -> StepRequested:
        told = step.role in ("refiner", "step")
        asked = StepRequested(
            path,
            step.role,
            step.actor,
            1,
            LATER,
            None if step.role == "generator" else self.draft,
            self.said if told else (),
            self.score if told else None,
            self._outputs,
        )
        asked = replace(asked, **other)
        self.events.append(asked)
        return asked

    def free(self, step: Step, path: str, **state: Value) -> Told:
        self.ask(step, path)
        return self.add(StateChanged(path, 1, state))

    def write(self, step: Step, path: str, text: str, **state: Value) -> Told:
        """A generator's draft, or a refiner's."""
        self.ask(step, path)
        self._drafts += 1
        draft = new_draft(self._drafts, text)
        if step.role == "generator":
            self.add(DraftGenerated(path, 1, draft, state=state))
        else:
            assert self.draft is not None
            self.add(DraftRefined(path, 1, self.draft, draft, state=state))
        self.draft, self.said, self.score = draft.ref, (), None
        return self

    def judge(self, step: Step, path: str, score: float, state: Values | None = None, **asked: object) -> Told:
        self.ask(step, path, **asked)
        assert self.draft is not None
        self.add(DraftCritiqued(path, 1, self.draft, Critique(score, critic=step.actor), state=state or {}))
        self.said, self.score = (len(self.events),), score
        return self

    def iteration(self, path: str, number: int = 1) -> Told:
        return self.add(IterationStarted(path, number))

    def closing(self, path: str, outcome: Outcome = "exhausted") -> Told:
        return self.add(LoopClosing(path, outcome, "it was the last"))

    def loop_ends(self, path: str, outcome: Outcome, iterations: int) -> Told:
        self._outputs += (self.draft,) if self.draft else ()
        return self.add(LoopEnded(path, outcome, "so it is", iterations, self.draft or NONE, self.score))

    def ends(self, publisher: Step, outcome: Outcome = "accepted", iterations: int = 1) -> Told:
        """The publication, and the end of the run."""
        self.ask(publisher, publisher.name)
        assert self.draft is not None
        self.add(DraftPublished(publisher.name, 1, self.draft, Receipt("shelf")))
        return self.add(RunEnded(outcome, "so it is", iterations, self.draft, self.score))

    def fails(self, path: str) -> Told:
        return self.add(StepFailed(path, 1, "invalid", "it may not"))

    def add(self, event: DomainEvent) -> Told:
        self.events.append(event)
        return self

    def findings(self) -> list[tuple[str, int]]:
        """The codes and versions of all that the checker finds."""
        times = [NOW + timedelta(seconds=number) for number in range(len(self.events))]
        recorded = as_recorded(self.events, times, inherited=self.inherited)
        return [(each.code, each.version) for each in check_events(recorded)]
