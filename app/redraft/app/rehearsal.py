"""A run of a plan in which nobody is asked: the decider of real runs decides, and guesses stand for all answers.

Time is a number, and chance an argument: the same one gives the same run.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Final

import msgspec
from msgspec.structs import replace

from redraft.actors.arms import asked_step
from redraft.actors.decider import handle
from redraft.actors.plan_paths import step_key, steps_in
from redraft.actors.roles import Seat
from redraft.actors.run_state import RunState
from redraft.actors.spending import reserve_said
from redraft.actors.thompson import thompson
from redraft.app.estimates import expected_usage
from redraft.app.guessed_answers import GuessedAnswers
from redraft.app.guesses import Guesses, about
from redraft.app.models import Models, asks_model
from redraft.app.staff import SHIPPED
from redraft.events.commands import ApproveDraft, ExpireStep, Failed, Message, RejectDraft, RetryStep, StartRun
from redraft.events.content import Brief
from redraft.events.domain_events import ApprovalRequested, DomainEvent, Outcome, RunEnded, StepFailed, StepRequested
from redraft.events.plan import Plan, Step
from redraft.events.usage import Usage

NOON: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)
_RUN: Final = "rehearsal"


class Rehearsed(msgspec.Struct, frozen=True):
    """How a run went. `iterations` are passes of its outermost loops, `steps` the attempts that were asked for.

    `score` is that of the draft it ended with, where one was judged, and `quality` what that draft is worth by the
    guesses; both from 0 to 1. `seconds` is how long it took, waits for people included.
    """

    outcome: Outcome
    iterations: int
    steps: int
    score: float | None
    quality: float | None
    usage: Usage
    seconds: float


class Rehearsal:
    """A plan as it is kept with a run, and what is guessed of its actors.

    `own` are the seats of actors that the user brought along, of which nobody knows what they ask.
    """

    def __init__(
        self, plan: Plan, brief: Brief, guesses: Guesses, models: Models, own: frozenset[Seat] = frozenset()
    ) -> None:
        self.plan = plan
        self.brief = brief
        self.guesses = guesses
        self._models = models
        self._own = own
        self._known: dict[tuple[str, str], tuple[Step, Usage]] = {}

    def run(self, random: Random) -> Rehearsed:
        """Rehearses the plan once; returns how the run went."""
        return _Run(self, random).run()

    def step(self, asked: StepRequested) -> tuple[Step, Usage]:
        """Returns the step that a request is for, and what an attempt of it uses."""
        key = step_key(asked.path), asked.choice.arm if asked.choice else ""
        if key not in self._known:
            step = asked_step(self.plan, asked)
            self._known[key] = step, self._used(step)
        return self._known[key]

    def free(self) -> list[str]:
        """Returns the actors, publishers and shipped ones apart, that count as free: nobody knows what they use."""
        steps = (step for _, step in steps_in(self.plan.steps) if step.role != "publisher")
        unknown = (step.actor for step in steps if self._is_own(step) and self._used(step).is_nothing)
        return list(dict.fromkeys(unknown))

    def _is_own(self, step: Step) -> bool:
        seat = step.role, step.actor
        return seat in self._own or seat not in SHIPPED

    def _used(self, step: Step) -> Usage:
        """Returns the usage of an attempt: what its options reserve, else what is expected where it asks a model."""
        said, options = reserve_said(step), step.options
        if not asks_model(step, self._own):
            return said
        used = expected_usage(step, self.brief, self._models)
        return replace(
            used,
            tokens=said.tokens if "reserve_tokens" in options else used.tokens,
            cost=said.cost if "reserve_cost" in options else used.cost,
            calls=said.calls if "reserve_calls" in options else used.calls,
            unpriced=0 if "reserve_cost" in options else used.unpriced,
        )


class _Run:
    """One run: messages wait for their time, each is decided on, and brings about others."""

    def __init__(self, rehearsal: Rehearsal, random: Random) -> None:
        self._rehearsal = rehearsal
        self._random = random
        self._answers = GuessedAnswers(_RUN, rehearsal.guesses, random)
        self._choose = partial(thompson, f"{random.getrandbits(64):016x}", {})
        self._state = RunState()
        self._now = NOON
        self._numbers = count()
        self._due: list[tuple[datetime, int, Message]] = []
        self._steps = 0
        self._ended: RunEnded | None = None

    def run(self) -> Rehearsed:
        """Goes on until the run has ended, as every one does: nothing is waited for without a deadline."""
        self._take(StartRun(_RUN, self._rehearsal.plan, self._rehearsal.brief))
        while self._ended is None:
            at, _, message = heappop(self._due)
            self._now = max(self._now, at)
            self._take(message)
        ended = self._ended
        quality = self._answers.quality(ended.draft) if ended.draft else None
        seconds = (self._now - NOON).total_seconds()
        used = self._state.usage
        return Rehearsed(ended.outcome, ended.iterations, self._steps, ended.score, quality, used, seconds)

    def _take(self, message: Message) -> None:
        decision = handle(self._state, message, self._now, choose=self._choose)
        self._state = decision.state
        for event in decision.events:
            self._follow(event)

    def _follow(self, event: DomainEvent) -> None:
        """Schedules what comes of an event."""
        match event:
            case StepRequested():
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

    def _ask(self, asked: StepRequested) -> None:
        """Schedules the answer to a request: a failure where it takes longer than the step's timeout."""
        self._steps += 1
        guesses, random = self._rehearsal.guesses, self._random
        step, used = self._rehearsal.step(asked)
        takes = 0.0 if asked.role == "publisher" else self._drawn(guesses.takes)
        came = self._now + timedelta(seconds=min(takes, step.timeout))
        place = _RUN, asked.path, asked.attempt
        if takes > step.timeout:
            self._later(came, Failed(*place, "timeout", f"took longer than {step.timeout:g} s", usage=used))
        elif random.random() < guesses.fails:
            self._later(came, Failed(*place, "error", "failed, as was guessed", usage=used))
        else:
            self._later(came, self._answers.answer(asked, step, used))
        if asked.due < came:
            self._later(asked.due, ExpireStep(*place))

    def _ask_people(self, asked: ApprovalRequested) -> None:
        """Schedules the decisions of as many people as are needed, and the deadline."""
        guess = about(self._rehearsal.guesses.people, step_key(asked.path).rpartition("/")[2])
        people = asked.approvers or tuple(f"person {number + 1}" for number in range(asked.quorum))
        for by in people[: asked.quorum]:
            kind = ApproveDraft if self._random.random() < guess.share else RejectDraft
            at = self._now + timedelta(seconds=self._drawn(guess.after))
            self._later(at, kind(_RUN, asked.draft, "", by))
        self._later(asked.due, ExpireStep(_RUN, asked.path, 1))

    def _drawn(self, mean: float) -> float:
        """Draws seconds from an exponential distribution with this mean."""
        return self._random.expovariate(1.0 / mean) if mean else 0.0
