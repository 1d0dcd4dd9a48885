"""What if a recorded run had been decided on under another policy? Decided again, with what was answered then.

The decider of real runs decides, and the recorded answers stand in for the workers, so it costs nothing and calls
nobody. It ends where the run would have ended, or where the record does: at the first request that was never made.
Time passes as it did: an answer takes as long as it took.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final, TypeAlias, TypeGuard, assert_never

import msgspec

from redraft.actors.arms import recorded as choices_in
from redraft.actors.decider import Decision as Decided
from redraft.actors.decider import brought, handle
from redraft.actors.evolve import fold
from redraft.actors.outcomes import Answer, Outcomes, as_message
from redraft.actors.policy import Policy, under
from redraft.actors.run_state import OpenStep, RunState, wanted
from redraft.events.commands import ApproveDraft, ExpireStep, Message, RejectDraft, RetryStep
from redraft.events.content import Critique
from redraft.events.domain_events import (
    ApprovalRequested,
    DomainEvent,
    DraftApproved,
    DraftCritiqued,
    DraftGenerated,
    DraftPublished,
    DraftRefined,
    DraftRejected,
    IterationStarted,
    LoopClosing,
    LoopEnded,
    Outcome,
    RunEnded,
    RunStarted,
    StepRequested,
)
from redraft.events.envelope import Recorded
from redraft.events.errors import InputError
from redraft.events.plan import Plan
from redraft.events.texts import ERASED

ANY_SIZE: Final = 2**62
"""Bytes of a draft: one that was accepted once is accepted again."""

Step: TypeAlias = DraftGenerated | DraftCritiqued | DraftRefined | DraftPublished
Decision: TypeAlias = IterationStarted | StepRequested | ApprovalRequested | LoopClosing | LoopEnded | RunEnded


class Course(msgspec.Struct, frozen=True):
    """How a run went: `outcome` is None where it did not end.

    `steps` counts the answers of workers, `iterations` the passes of the outermost loops. `draft` is the version that
    it ended with and `score` (0..1) its score; where it did not end, those of the best judged draft.
    """

    outcome: Outcome | None
    reason: str
    iterations: int
    steps: int
    draft: int | None
    score: float | None
    tokens: int
    cost: float


class Parting(msgspec.Struct, frozen=True):
    """The first decision that is another one. `version` is that of the recorded event; None where it has none there.

    `instead` is None where nothing more is decided, since the record ends.
    """

    version: int | None
    recorded: Decision | None
    instead: Decision | None


class WhatIf(msgspec.Struct, frozen=True):
    """A run as recorded and as imagined. `parting` is None when no decision differs.

    `ends_at` is the path of the step for which the record has no answer; None when the imagined run came to its end.
    """

    run: str
    workflow: str
    recorded: Course
    imagined: Course
    parting: Parting | None
    ends_at: str | None

    @property
    def saved(self) -> int:
        """How many steps fewer it would have been; below 0, how many more."""
        return self.recorded.steps - self.imagined.steps


def plan_of(events: Sequence[Recorded]) -> Plan:
    """The plan that a recorded run had in the end, with what people had changed. Raises InputError if it was erased."""
    begun = events[0].data if events else None
    if not isinstance(begun, RunStarted):
        raise InputError("this is no recorded run: it does not begin with its start")
    if begun.brief.text == ERASED:
        raise InputError(f"run {events[0].run} was erased: its texts cannot be read any more")
    return fold(event.data for event in events).plan


def what_if(events: Sequence[Recorded], policy: Policy, loop: str = "") -> WhatIf:
    """The run of these events, all that there are of it, decided on again with another policy for one of its loops.

    `loop` is its name or path; there need not be one where the plan has a single loop. Raises InputError (PlanError)
    when there is no such loop, the plan were wrong then, or the run was erased.
    """
    return decide_again(events, under(plan_of(events), policy, loop))


def decide_again(events: Sequence[Recorded], plan: Plan) -> WhatIf:
    """The run of these events, all that there are of it, decided on again by this plan."""
    happened = [event.data for event in events]
    again = _Again(events, plan)
    state = again.run()
    waits = next((path for path, step in state.open.items() if step.retry_at is None), None)
    ends_at = None if state.status == "ended" else waits or (state.approval.request.path if state.approval else "")
    return WhatIf(
        events[0].run,
        plan.name,
        _course(happened, fold(happened)),
        _course(again.events, state),
        _parting(events, again.events),
        ends_at,
    )


class _Again:
    """A run that goes on by recorded answers."""

    def __init__(self, events: Sequence[Recorded], plan: Plan) -> None:
        self.events: list[DomainEvent] = []
        self._outcomes = Outcomes(events)
        self._words = [event.data for event in events if isinstance(event.data, DraftApproved | DraftRejected)]
        self._choose = choices_in(event.data for event in events)
        self._run = events[0].run
        self._state = RunState()
        self._critiques: dict[int, Critique] = {}
        self._since: dict[tuple[str, int], datetime] = {}
        self._again: dict[str, datetime] = {}
        self._now = events[0].time
        begun = events[0].data
        if isinstance(begun, RunStarted):
            first = RunStarted(plan, begun.brief, begun.at, rules=begun.rules)
            self._keep(brought(self._state, first, self._now, choose=self._choose))

    def run(self) -> RunState:
        """The state when it has ended, or when nobody answered any more."""
        while self._state.status == "running" and self._go_on():
            pass
        return self._state

    def _go_on(self) -> bool:
        """Takes the answer that comes next; False when none does."""
        if (closing := self._closing()) is not None and self._take(closing):
            return True
        coming = sorted(self._coming(), key=lambda each: each[0])
        if not coming:
            word = self._word()
            return word is not None and self._take(word)
        (at, _), step, answer = coming[0]
        self._now = max(self._now, at)
        if answer is None:
            return self._take(RetryStep(self._run, step.request.path, step.attempt))
        if (wait := self._outcomes.wait(answer)) is not None:
            self._again[step.request.path] = self._now + wait
        message = as_message(self._run, step, answer)
        self._outcomes.use(step, answer, self._critiques)
        return message is not None and self._take(message)

    def _closing(self) -> Message | None:
        """The timekeeper's word to a panel whose time is over before another of its critics answers."""
        panel = self._state.frames[-1].fan
        waits = next((step for step in self._state.open.values() if step.retry_at is None), None)
        if panel is None or panel.until is None or waits is None or len(panel.heard) < wanted(panel.node):
            return None
        if any(at <= panel.until for (at, _), _, _ in self._coming()):
            return None
        self._now = max(self._now, panel.until)
        return ExpireStep(self._run, waits.request.path, waits.attempt)

    def _coming(self) -> Iterator[tuple[tuple[datetime, int], OpenStep, Answer | None]]:
        """What is open and will be answered, or tried again (None): when, and what else was asked before."""
        for step in self._state.open.values():
            if step.retry_at is not None:
                yield (max(step.retry_at, self._again.get(step.request.path, step.retry_at)), 0), step, None
            elif (answer := self._outcomes.find(step, self._critiques)) is not None:
                since = self._since[step.request.path, step.attempt]
                yield (since + answer.took, answer.number), step, answer

    def _word(self) -> Message | None:
        """What a person had said of the draft that people are asked about."""
        waiting = self._state.approval
        if waiting is None:
            return None
        of_it = (each for each in self._words if each.draft.sha256 == waiting.request.draft.sha256)
        said = next(of_it, None)
        if said is None:
            return None
        self._words.remove(said)
        kind = ApproveDraft if isinstance(said, DraftApproved) else RejectDraft
        return kind(self._run, waiting.request.draft, said.reason, said.by)

    def _take(self, message: Message) -> bool:
        return self._keep(handle(self._state, message, self._now, ANY_SIZE, choose=self._choose))

    def _keep(self, decision: Decided) -> bool:
        for event in decision.events:
            self.events.append(event)
            if isinstance(event, StepRequested):
                self._since[event.path, event.attempt] = self._now
            elif isinstance(event, DraftCritiqued):
                self._critiques[len(self.events)] = event.critique
        self._state = decision.state
        return bool(decision.events)


def _course(events: Sequence[DomainEvent], state: RunState) -> Course:
    steps = sum(isinstance(event, Step) for event in events)
    used = state.usage
    last = events[-1] if events else None
    ended = next((event for event in reversed(events) if isinstance(event, RunEnded)), None) if last else None
    if ended is not None:
        draft = ended.draft.version if ended.draft else None
        return Course(ended.outcome, ended.reason, ended.iterations, steps, draft, ended.score, used.tokens, used.cost)
    best = state.best
    score = best.judgement.score if best and best.judgement else None
    draft = best.ref.version if best else None
    return Course(None, "", state.iterations, steps, draft, score, used.tokens, used.cost)


def _parting(recorded: Sequence[Recorded], imagined: Sequence[DomainEvent]) -> Parting | None:
    """Where the decisions part, whatever is said of why, and however often a step was tried."""
    was = list(_decisions(recorded))
    now = [event for event in imagined if _counts(event)]
    for (version, before), after in zip(was, now, strict=False):
        if _key(before) != _key(after):
            return Parting(version, before, after)
    if len(now) > len(was):
        return Parting(None, None, now[len(was)])
    if len(was) > len(now):
        return Parting(*was[len(now)], None)
    return None


def _decisions(events: Sequence[Recorded]) -> Iterator[tuple[int, Decision]]:
    """The decisions of a recorded run. What a fork asks for again was decided before."""
    asked: set[str] = set()
    for event in events:
        data = event.data
        if not _counts(data) or (isinstance(data, StepRequested | ApprovalRequested) and data.path in asked):
            continue
        if isinstance(data, StepRequested | ApprovalRequested):
            asked.add(data.path)
        yield event.version, data


def _counts(event: DomainEvent) -> TypeGuard[Decision]:
    return isinstance(event, Decision) and not (isinstance(event, StepRequested) and event.attempt > 1)


def _key(event: Decision) -> tuple[object, ...]:
    match event:
        case StepRequested(path=path, draft=draft, choice=choice):
            return type(event), path, draft.sha256 if draft else "", choice.arm if choice else ""
        case ApprovalRequested(path=path, draft=draft):
            return type(event), path, draft.sha256
        case IterationStarted(path, iteration):
            return type(event), path, iteration
        case LoopClosing(path=path, outcome=outcome):
            return type(event), path, outcome
        case LoopEnded(path=path, outcome=outcome, draft=draft):
            return type(event), path, outcome, draft.sha256
        case RunEnded(outcome=outcome, draft=draft):
            return type(event), outcome, draft.sha256 if draft else ""
        case _:
            assert_never(event)
