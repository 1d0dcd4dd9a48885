"""Decides a recorded run again under another policy, with its recorded answers.

The decider of real runs decides, and the recorded answers stand in for the workers, so it costs nothing and calls no
actor. It ends when the run ends, or at the first request that was never made in the record. An answer takes as long as
it took.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final, TypeAlias, TypeGuard, assert_never

import msgspec

from redraft.actors.conditions.reading import scale_named
from redraft.actors.deciding.decider import Decision as Decided
from redraft.actors.deciding.decider import continue_from, handle
from redraft.actors.deciding.evolve import fold
from redraft.actors.deciding.judgement import Judgement, join_measures
from redraft.actors.deciding.policy import Policy, with_policy
from redraft.actors.deciding.reusing import Memory, recall_as_recorded
from redraft.actors.deciding.state import OpenStep, RunState
from redraft.actors.plans.arms import choose_as_recorded as choices_in
from redraft.actors.plans.paths import find_loop, required_answers, step_key
from redraft.actors.replay.recorded_answers import Answer, Inputs, RecordedAnswers, as_message, inputs
from redraft.events.errors import InputError
from redraft.events.messages.commands import ApproveDraft, EditDraft, ExpireStep, Message, RejectDraft, RetryStep
from redraft.events.messages.content import Critique, DraftRef, Mark, Number
from redraft.events.messages.domain_events import (
    ApprovalRequested,
    DomainEvent,
    DraftApproved,
    DraftCritiqued,
    DraftEdited,
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
    StateChanged,
    StepRequested,
    VerdictLate,
)
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import Plan, eaches_of, steps_of
from redraft.events.messages.redaction import ERASED
from redraft.events.messages.run_state import Values
from redraft.events.messages.scales import Scale

ANY_SIZE: Final = 2**62
"""Bytes of a draft: one that was accepted once is accepted again."""

StepResult: TypeAlias = DraftGenerated | DraftCritiqued | DraftRefined | DraftPublished | StateChanged
Decision: TypeAlias = IterationStarted | StepRequested | ApprovalRequested | LoopClosing | LoopEnded | RunEnded


class RunSummary(msgspec.Struct, frozen=True):
    """The course of a run: `outcome` is None if it did not end.

    `steps` counts the answers of workers, `iterations` those of the outermost loops. `draft` is the version that it
    ended with and `score` (0..1) its score; if it did not end, those of the best judged draft. `criteria` are the
    scores of that draft by criterion (0..1, and their scales), as its panel joins them; `measures` what was counted.
    """

    outcome: Outcome | None
    reason: str
    iterations: int
    steps: int
    draft: int | None
    score: float | None
    tokens: int
    cost: float
    scale: Scale | None = None
    criteria: tuple[Mark, ...] = ()
    measures: dict[str, Number] = {}


class Divergence(msgspec.Struct, frozen=True):
    """The first decision that differs. `version` is that of the recorded event; None if there is none.

    `instead` is None if nothing more is decided, since the record ends.
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
    recorded: RunSummary
    imagined: RunSummary
    parting: Divergence | None
    ends_at: str | None

    @property
    def saved(self) -> int:
        """How many steps fewer the imagined run took; below 0, how many more."""
        return self.recorded.steps - self.imagined.steps


def plan_of(events: Sequence[Recorded]) -> Plan:
    """Returns the plan that a recorded run had in the end, with people's changes.

    Raises InputError if it was erased.
    """
    begun = events[0].data if events else None
    if not isinstance(begun, RunStarted):
        raise InputError("this is not a recorded run: it does not begin with its start")
    if begun.brief.text == ERASED:
        raise InputError(f"run {events[0].run} was erased: its texts cannot be read any more")
    return fold(event.data for event in events).plan


def what_if(events: Sequence[Recorded], policy: Policy, loop: str = "") -> WhatIf:
    """Returns the run of these events, which are complete, decided again with another policy for one of its loops.

    `loop` is its name or path; it may be empty if the plan has a single loop. Raises InputError (PlanError) when there
    is no such loop, the plan were wrong then, or the run was erased.
    """
    return what_if_each(events, (policy,), loop)[0]


def what_if_each(events: Sequence[Recorded], policies: Sequence[Policy], loop: str = "") -> list[WhatIf]:
    """Returns the run of these events decided again with each of these policies. Raises as `what_if`."""
    plan = plan_of(events)
    path = find_loop(plan, loop)
    if inside := next((each for each, _ in eaches_of(plan.steps) if path.startswith(f"{each}/")), None):
        raise InputError(f"the loop {path} is in the runs of the items of {inside}; ask for one of these")
    recorded = _summarize_recorded(events)
    return [decide_again(events, with_policy(plan, policy, loop), recorded) for policy in policies]


def _summarize_recorded(events: Sequence[Recorded]) -> RunSummary:
    happened = [event.data for event in events]
    return _summarize(happened, fold(happened))


def decide_again(events: Sequence[Recorded], plan: Plan, recorded: RunSummary | None = None) -> WhatIf:
    """Returns the run of these events, which are complete, decided again by this plan.

    `recorded` is the summary of the run as it was, if it is known.
    """
    again = _Again(events, plan)
    state = again.run()
    waits = next((path for path, step in state.open.items() if step.retry_at is None), None)
    ends_at = None if state.status == "ended" else waits or (state.approval.request.path if state.approval else "")
    return WhatIf(
        events[0].run,
        plan.name,
        recorded or _summarize_recorded(events),
        _summarize(again.events, state),
        _first_divergence(events, again.events),
        ends_at,
    )


class _Again:
    """A run that continues by recorded answers."""

    def __init__(self, events: Sequence[Recorded], plan: Plan) -> None:
        self.events: list[DomainEvent] = []
        self._outcomes = RecordedAnswers(events)
        self._decisions_of_people = [
            event.data for event in events if isinstance(event.data, DraftApproved | DraftRejected | DraftEdited)
        ]
        self._choose = choices_in(event.data for event in events)
        self._recall = recall_as_recorded(event.data for event in events)
        self._run = events[0].run
        self._state = RunState()
        self._critiques: dict[int, Critique] = {}
        self._since: dict[tuple[str, int], datetime] = {}
        self._values: dict[tuple[str, int], Values] = {}
        self._changes_of_fork = [
            event.data for event in events if isinstance(event.data, StateChanged) and not event.data.path
        ]
        self._again: dict[str, datetime] = {}
        self._now = events[0].time
        begun = events[0].data
        if isinstance(begun, RunStarted):
            first = RunStarted(plan, begun.brief, begun.at, rules=begun.rules, lessons=begun.lessons)
            memory = Memory(self._run, self._recall)
            self._keep(continue_from(self._state, first, self._now, choose=self._choose, memory=memory))

    def run(self) -> RunState:
        """Returns the state when the run has ended, or when no request has a recorded answer."""
        while self._state.status == "running" and self._go_on():
            pass
        return self._state

    def _go_on(self) -> bool:
        """Takes the message that comes next; returns False when none does."""
        closing = self._deadline_message()
        return (closing is not None and self._take(closing)) or self._take_coming() or self._change_as_fork()

    def _change_as_fork(self) -> bool:
        """Changes the state as the fork was begun, once its parent's answers are used up; what is open has it then."""
        if not self._changes_of_fork:
            return False
        changes = self._changes_of_fork.pop(0)
        memory = Memory(self._run, self._recall)
        self._keep(continue_from(self._state, changes, self._now, choose=self._choose, memory=memory))
        for path, step in self._state.open.items():
            self._values[path, step.attempt] = self._state.values
        return True

    def _inputs(self, step: OpenStep) -> Inputs:
        return inputs(step.request, self._critiques, self._values[step.request.path, step.attempt])

    def _take_coming(self) -> bool:
        """Takes the earliest answer or retry; without one, a person's decision."""
        coming = sorted(self._upcoming(), key=lambda each: each[0])
        if not coming:
            decided = self._decision_of_person()
            return decided is not None and self._take(decided)
        (at, _), step, answer = coming[0]
        self._now = max(self._now, at)
        if answer is None:
            return self._take(RetryStep(self._run, step.request.path, step.attempt))
        return self._take_answer(step, answer)

    def _take_answer(self, step: OpenStep, answer: Answer) -> bool:
        if (wait := self._outcomes.wait(answer)) is not None:
            self._again[step.request.path] = self._now + wait
        message = as_message(self._run, step, answer)
        self._outcomes.use(answer, self._inputs(step))
        return message is not None and self._take(message)

    def _deadline_message(self) -> Message | None:
        """Returns the deadline message if a panel times out before its next critic answers; else None."""
        panel = self._state.frames[-1].parallel
        waits = next((step for step in self._state.open.values() if step.retry_at is None), None)
        if panel is None or panel.until is None or waits is None or len(panel.verdicts) < required_answers(panel.node):
            return None
        if any(at <= panel.until for (at, _), _, _ in self._upcoming()):
            return None
        self._now = max(self._now, panel.until)
        return ExpireStep(self._run, waits.request.path, waits.attempt)

    def _upcoming(self) -> Iterator[tuple[tuple[datetime, int], OpenStep, Answer | None]]:
        """Yields open steps with their answers, or None for a retry, and the order in which these come.

        Among them are verdicts that come after their panel went on, which cost what they cost.
        """
        for step in self._state.open.values():
            if step.retry_at is not None:
                yield (max(step.retry_at, self._again.get(step.request.path, step.retry_at)), 0), step, None
            elif (answer := self._outcomes.find(step, self._inputs(step))) is not None:
                yield self._when(step, answer), step, answer
        for step in self._state.late.values():
            late = self._outcomes.find(step, self._inputs(step))
            if late is not None and isinstance(late.outcome, DraftCritiqued | VerdictLate):
                yield self._when(step, late), step, late

    def _when(self, step: OpenStep, answer: Answer) -> tuple[datetime, int]:
        """Returns when an answer comes, and the place among those that come at that time."""
        return self._since[step.request.path, step.attempt] + answer.took, answer.number

    def _decision_of_person(self) -> Message | None:
        """Returns a recorded decision of a person about the draft that people are asked about; None without one."""
        waiting = self._state.approval
        if waiting is None:
            return None
        of_it = (each for each in self._decisions_of_people if _decided_on(each) == waiting.request.draft.sha256)
        said = next(of_it, None)
        if said is None:
            return None
        self._decisions_of_people.remove(said)
        if isinstance(said, DraftEdited):
            return EditDraft(self._run, waiting.request.draft, said.draft.text, said.reason, said.by)
        kind = ApproveDraft if isinstance(said, DraftApproved) else RejectDraft
        return kind(self._run, waiting.request.draft, said.reason, said.by, step=waiting.request.path)

    def _take(self, message: Message) -> bool:
        decision = handle(self._state, message, self._now, ANY_SIZE, choose=self._choose, recall=self._recall)
        return self._keep(decision)

    def _keep(self, decision: Decided) -> bool:
        for event in decision.events:
            self.events.append(event)
            if isinstance(event, StepRequested):
                self._since[event.path, event.attempt] = self._now
                self._values[event.path, event.attempt] = decision.state.values
            elif isinstance(event, DraftCritiqued):
                self._critiques[len(self.events)] = event.critique
        self._state = decision.state
        return bool(decision.events)


def _decided_on(said: DraftApproved | DraftRejected | DraftEdited) -> str:
    """Returns the hash of the draft that a person decided on, or edited."""
    return said.before.sha256 if isinstance(said, DraftEdited) else said.draft.sha256


def _summarize(events: Sequence[DomainEvent], state: RunState) -> RunSummary:
    steps = sum(isinstance(event, StepResult) and bool(event.path) for event in events)
    used = state.usage
    ended = next((event for event in reversed(events) if isinstance(event, RunEnded)), None)
    if ended is not None:
        draft = ended.draft.version if ended.draft else None
        of_end = (each for each in (state.current, state.best) if each and each.ref == ended.draft)
        return RunSummary(
            *(ended.outcome, ended.reason, ended.iterations, steps, draft, ended.score, used.tokens, used.cost),
            *(ended.scale, *_details_of(events, state, next((each.judgement for each in of_end), None))),
        )
    best = state.best
    score = best.judgement.known_score if best and best.judgement else None
    draft = best.ref.version if best else None
    scale = best.judgement.scale if best and best.judgement else None
    more = _details_of(events, state, best.judgement if best else None)
    return RunSummary(None, "", state.iterations, steps, draft, score, used.tokens, used.cost, scale, *more)


def _details_of(
    events: Sequence[DomainEvent], state: RunState, judged: Judgement | None
) -> tuple[tuple[Mark, ...], dict[str, Number]]:
    """Returns the scores of a draft by criterion, on the scales of its critics, and what was counted of it."""
    if judged is None or not (judged.marks or judged.measures):
        return (), {}
    said = (events[version - 1] for version in judged.critiques)
    asked = {step_key(each.path) for each in said if isinstance(each, DraftCritiqued)}
    critics = [step for path, step in steps_of(state.plan.steps) if path in asked]
    marks = tuple(Mark(name, share, scale=scale_named(name, critics)) for name, share in judged.marks.items())
    counted = (
        (critic, {name: value}) for of, value in judged.measures.items() for critic, _, name in [of.partition(".")]
    )
    return marks, join_measures(counted)


def _first_divergence(recorded: Sequence[Recorded], imagined: Sequence[DomainEvent]) -> Divergence | None:
    """Returns the first decision that differs, apart from its reason and from retries; None if none does."""
    was = list(_decisions(recorded))
    now = [event for event in imagined if _counts(event)]
    for (version, before), after in zip(was, now, strict=False):
        if _key(before) != _key(after):
            return Divergence(version, before, after)
    if len(now) > len(was):
        return Divergence(None, None, now[len(was)])
    if len(was) > len(now):
        return Divergence(*was[len(now)], None)
    return None


def _decisions(events: Sequence[Recorded]) -> Iterator[tuple[int, Decision]]:
    """Yields the decisions of a recorded run. A request that a fork repeats is not a new decision."""
    requested: set[tuple[str, DraftRef | None]] = set()
    for event in events:
        data = event.data
        if not _counts(data):
            continue
        if isinstance(data, StepRequested | ApprovalRequested):
            if (data.path, data.draft) in requested:
                continue
            requested.add((data.path, data.draft))
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
