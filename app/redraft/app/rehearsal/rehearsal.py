"""Runs a plan with guessed answers: the decider of real runs decides, and no actor is called.

Time is virtual, and randomness an argument: the same random source gives the same run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from heapq import heappop, heappush
from itertools import count
from math import ceil
from random import Random
from typing import Final

import msgspec
from msgspec.structs import replace

from redraft.actors.deciding.budget import reserve_in_options
from redraft.actors.deciding.decider import handle
from redraft.actors.deciding.item_result import result_of
from redraft.actors.deciding.state import RunState
from redraft.actors.plans.arms import requested_step
from redraft.actors.plans.items import item_brief, items_in
from redraft.actors.plans.paths import step_key, steps_in
from redraft.actors.runtime.coordinating.decisions import thompson
from redraft.actors.runtime.relaying.item_runs import plan_with_budget
from redraft.actors.workflow.actor import ActorKey
from redraft.app.models.configuration import Models, asks_model
from redraft.app.models.estimates import expected_usage
from redraft.app.rehearsal.guesses import GuessedAnswers, Guesses, about
from redraft.app.workflows.actor_registry import SHIPPED
from redraft.events.messages.commands import (
    ApproveDraft,
    ExpireStep,
    Failed,
    Generated,
    Message,
    RejectDraft,
    RetryStep,
    StartRun,
)
from redraft.events.messages.content import Brief
from redraft.events.messages.domain_events import (
    ApprovalRequested,
    DomainEvent,
    ItemOf,
    Outcome,
    RunEnded,
    StepFailed,
    StepRequested,
)
from redraft.events.messages.item_ids import number_of_item
from redraft.events.messages.plan import Plan, Step, eaches_of
from redraft.events.messages.scales import Scale
from redraft.events.messages.usage import Usage

NOON: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)
_RUN: Final = "rehearsal"


class Rehearsed(msgspec.Struct, frozen=True):
    """The result of one run. `iterations` counts those of its outermost loops, `steps` the requested attempts.

    `score` is that of the final draft, if it was judged, and `quality` its quality by the guesses; both from 0 to 1.
    `seconds` is how long the run took, waiting for people included; `reason` is why it ended.
    """

    outcome: Outcome
    iterations: int
    steps: int
    score: float | None
    quality: float | None
    usage: Usage
    seconds: float
    reason: str
    scale: Scale | None = None


class Rehearsal:
    """A plan as it is stored with a run, with guesses about its actors.

    `own` are the keys of actors that the user defined, whose use of models is unknown.
    """

    def __init__(
        self, plan: Plan, brief: Brief, guesses: Guesses, models: Models, own: frozenset[ActorKey] = frozenset()
    ) -> None:
        self.plan = plan
        self.brief = brief
        self.guesses = guesses
        self._models = models
        self._own = own
        self._known: dict[tuple[str, str], tuple[Step, Usage]] = {}

    def run(self, random: Random) -> Rehearsed:
        """Rehearses the plan once; returns the result."""
        return _Run(self, random).run()

    def step(self, request: StepRequested) -> tuple[Step, Usage]:
        """Returns the step that a request is for, and the usage of an attempt."""
        key = step_key(request.path), request.choice.arm if request.choice else ""
        if key not in self._known:
            step = requested_step(self.plan, request)
            self._known[key] = step, self._estimate_usage(step)
        return self._known[key]

    def of_item(self, state: RunState, request: StepRequested) -> Rehearsal:
        """Returns the rehearsal of the run of an item that a run in this state asks for."""
        each, number = dict(eaches_of(state.plan.steps))[step_key(request.path)], number_of_item(request.path)
        items, _ = items_in(state.values, each.over)
        brief = item_brief(self.brief, state.values, items[number - 1], number)
        plan = plan_with_budget(state.plan, each, request.reserved)
        return Rehearsal(plan, brief, self.guesses, self._models, self._own)

    def free(self) -> list[str]:
        """Returns the user's own actors, without publishers, that count as free, because their usage is unknown."""
        steps = (step for _, step in steps_in(self.plan.steps) if step.role != "publisher")
        own = (each for each in steps if (each.role, each.actor) in self._own or (each.role, each.actor) not in SHIPPED)
        return list(dict.fromkeys(step.actor for step in own if self._estimate_usage(step).is_nothing))

    def _estimate_usage(self, step: Step) -> Usage:
        """Returns the usage of an attempt: what its options reserve, else the expected usage if it asks a model."""
        reserved, options = reserve_in_options(step), step.options
        if not asks_model(step, self._own):
            return reserved
        used = expected_usage(step, self.brief, self._models)
        return replace(
            used,
            tokens=reserved.tokens if "reserve_tokens" in options else used.tokens,
            cost=reserved.cost if "reserve_cost" in options else used.cost,
            calls=reserved.calls if "reserve_calls" in options else used.calls,
            unpriced=0 if "reserve_cost" in options else used.unpriced,
        )


class _Run:
    """One rehearsed run: handles messages in order of time; each decision schedules further ones."""

    def __init__(self, rehearsal: Rehearsal, random: Random) -> None:
        self._rehearsal = rehearsal
        self._random = random
        self._answers = GuessedAnswers(_RUN, rehearsal.guesses, random, rehearsal.plan)
        self._choose = partial(thompson, f"{random.getrandbits(64):016x}", {})
        self._state = RunState()
        self._now = NOON
        self._numbers = count()
        self._due: list[tuple[datetime, int, Message]] = []
        self._steps = 0
        self._ended: RunEnded | None = None
        self.events: list[DomainEvent] = []

    def run(self) -> Rehearsed:
        """Runs until the run has ended, as every run does, because nothing is awaited without a deadline."""
        self._take(StartRun(_RUN, self._rehearsal.plan, self._rehearsal.brief))
        while self._ended is None:
            at, _, message = heappop(self._due)
            self._now = max(self._now, at)
            self._take(message)
        ended = self._ended
        quality = self._answers.quality(ended.draft) if ended.draft else None
        seconds = (self._now - NOON).total_seconds()
        used = self._state.usage
        numbers = ended.iterations, self._steps, ended.score, quality, used, seconds
        return Rehearsed(ended.outcome, *numbers, ended.reason, ended.scale)

    def _take(self, message: Message) -> None:
        decision = handle(self._state, message, self._now, choose=self._choose)
        self._state = decision.state
        self.events += decision.events
        for event in decision.events:
            self._follow(event)

    def _follow(self, event: DomainEvent) -> None:
        match event:
            case StepRequested(role="run"):
                self._ask_item(event)
            case StepRequested(reused=None):
                self._ask(event)
            case StepFailed(path=path, attempt=attempt, retry_at=datetime() as again):
                self._later(again, RetryStep(_RUN, path, attempt))
            case ApprovalRequested():
                self._ask_people(event)
            case RunEnded():
                self._ended = event
            case _:
                pass

    def _later(self, at: datetime, message: Message) -> None:
        heappush(self._due, (at, next(self._numbers), message))

    def _ask(self, request: StepRequested) -> None:
        """Schedules the answer to a request: a failure if it takes longer than the step's timeout."""
        self._steps += 1
        guesses, random = self._rehearsal.guesses, self._random
        step, used = self._rehearsal.step(request)
        takes = 0.0 if request.role == "publisher" else self._draw(guesses.takes)
        came = self._now + timedelta(seconds=min(takes, step.timeout))
        place = _RUN, request.path, request.attempt
        if takes > step.timeout:
            self._later(came, Failed(*place, "timeout", f"took longer than {step.timeout:g} s", usage=used))
        elif random.random() < guesses.fails:
            self._later(came, Failed(*place, "error", "failed, as the guess says", usage=used))
        else:
            self._later(came, self._answers.answer(request, step, used))
        if request.due < came:
            self._later(request.due, ExpireStep(*place))

    def _ask_item(self, request: StepRequested) -> None:
        """Rehearses the run of an item, and schedules its answer for when it ends."""
        inner = _Run(self._rehearsal.of_item(self._state, request), self._random)
        rehearsed = inner.run()
        self._steps += rehearsed.steps
        answer = result_of(inner.events, ItemOf(_RUN, request.path), _RUN)
        if isinstance(answer, Generated) and rehearsed.quality is not None:
            self._answers.keep(answer.text, rehearsed.quality)
        self._later(self._now + timedelta(seconds=rehearsed.seconds), answer)

    def _ask_people(self, request: ApprovalRequested) -> None:
        """Schedules the decisions of as many people as are needed, and the deadline."""
        guess = about(self._rehearsal.guesses.people, step_key(request.path).rpartition("/")[2])
        people = request.approvers or tuple(f"person {number + 1}" for number in range(request.quorum))
        for by in people[: request.quorum]:
            kind = ApproveDraft if self._random.random() < guess.share else RejectDraft
            at = self._now + timedelta(seconds=self._draw(guess.after))
            self._later(at, kind(_RUN, request.draft, "", by, step=request.path))
        self._later(request.due, ExpireStep(_RUN, request.path, 1))

    def _draw(self, mean: float) -> float:
        return self._random.expovariate(1.0 / mean) if mean else 0.0


PERCENTS: Final = (5, 25, 50, 75, 95)


class Spread(msgspec.Struct, frozen=True):
    """The distribution of a quantity over the runs in which it is known; `p05` is its 5th percentile, and so on."""

    runs: int
    mean: float
    min: float
    p05: float
    p25: float
    p50: float
    p75: float
    p95: float
    max: float


class Summary(msgspec.Struct, frozen=True):
    """The totals of several runs. `outcomes` and `iterations` count runs; `spreads` are by the name of the quantity.

    `unpriced` is the number of calls, in all runs, without a known price, which the cost leaves out. `reason` is the
    commonest of the runs that failed; empty where none did.
    """

    runs: int
    outcomes: dict[Outcome, int]
    iterations: dict[int, int]
    spreads: dict[str, Spread]
    unpriced: int
    scale: Scale | None = None
    reason: str = ""


def summarize(rehearsed: Iterable[Rehearsed]) -> Summary:
    """Returns the summary of at least one run."""
    runs = list(rehearsed)
    measured: dict[str, Sequence[float | None]] = {
        "iterations": [each.iterations for each in runs],
        "score": [each.score for each in runs],
        "quality": [each.quality for each in runs],
        "cost": [each.usage.cost for each in runs],
        "tokens": [each.usage.tokens for each in runs],
        "calls": [each.usage.calls for each in runs],
        "steps": [each.steps for each in runs],
        "seconds": [each.seconds for each in runs],
    }
    failures = Counter(each.reason for each in runs if each.outcome == "failed").most_common(1)
    return Summary(
        len(runs),
        dict(Counter(each.outcome for each in runs).most_common()),
        dict(sorted(Counter(each.iterations for each in runs).items())),
        {name: found for name, values in measured.items() if (found := _spread(values)) is not None},
        sum(each.usage.unpriced for each in runs),
        runs[0].scale if len({each.scale for each in runs if each.score is not None}) == 1 else None,
        failures[0][0] if failures else "",
    )


def _spread(values: Sequence[float | None]) -> Spread | None:
    known = sorted(value for value in values if value is not None)
    if not known:
        return None
    p05, p25, p50, p75, p95 = (known[ceil(len(known) * percent / 100) - 1] for percent in PERCENTS)
    return Spread(len(known), sum(known) / len(known), known[0], p05, p25, p50, p75, p95, known[-1])
