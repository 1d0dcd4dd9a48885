"""A run of a plan in which nobody is asked: the decider of real runs decides, and guesses stand for all answers.

Time is a number, and chance an argument: the same one gives the same run.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Final, TypeAlias

import msgspec

from redraft.actors.decider import handle
from redraft.actors.plan_paths import step_key, steps_in
from redraft.actors.run_state import RunState
from redraft.actors.spending import reserve_said
from redraft.actors.thompson import thompson
from redraft.app.estimates import expected_usage
from redraft.app.guessed_answers import GuessedAnswers
from redraft.app.guesses import Guesses, about
from redraft.app.models import Models, Seat, asking_in
from redraft.app.staff import SHIPPED
from redraft.events.commands import ApproveDraft, ExpireStep, Failed, Message, RejectDraft, RetryStep, StartRun
from redraft.events.content import Brief
from redraft.events.domain_events import ApprovalRequested, DomainEvent, Outcome, RunEnded, StepFailed, StepRequested
from redraft.events.plan import Plan, Step
from redraft.events.usage import Usage

NOON: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)
_RUN: Final = "rehearsal"

Seats: TypeAlias = Mapping[tuple[str, str], tuple[Step, Usage]]
"""The steps of a plan, by their path in it and their actor, and what an attempt of each uses."""


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
        asking = asking_in(plan, own)
        self._own = own
        self.plan = plan
        self.brief = brief
        self.guesses = guesses
        self.seats: Seats = {
            (path, step.actor): (step, _used(step, brief, models) if step in asking else reserve_said(step))
            for path, step in steps_in(plan.steps)
        }

    def run(self, random: Random) -> Rehearsed:
        """One run."""
        return _Run(self, random).run()

    def free(self) -> list[str]:
        """The actors, publishers and shipped ones apart, of which nobody knows what they use: they count as free."""
        steps = (step for step, used in self.seats.values() if step.role != "publisher" and used.is_nothing)
        seats = {(step.role, step.actor): None for step in steps}
        return list(
            dict.fromkeys(actor for role, actor in seats if (role, actor) in self._own | (seats.keys() - SHIPPED))
        )


def _used(step: Step, brief: Brief, models: Models) -> Usage:
    """What a step says itself comes before the estimate."""
    thought = expected_usage(step, brief, models)
    if "reserve_tokens" not in step.options and "reserve_cost" not in step.options:
        return thought
    said = reserve_said(step)
    unpriced = 0 if said.cost else thought.unpriced
    return Usage(said.tokens, said.cost, said.calls or thought.calls, unpriced, currency=thought.currency)


class _Run:
    """Messages wait for their time; each is decided on, and brings about others."""

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
        """Until it has ended, as every run does: whatever it waits for, there is a time by which it no longer does."""
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
        """What comes of an event, and when."""
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
        """The answer comes after a while; where that is beyond the step's timeout, it has failed by then."""
        self._steps += 1
        guesses, random = self._rehearsal.guesses, self._random
        step, used = self._rehearsal.seats[step_key(asked.path), asked.actor]
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
        """As many as are needed decide, each in their own time, or the time for it is over."""
        guess = about(self._rehearsal.guesses.people, step_key(asked.path).rpartition("/")[2])
        people = asked.approvers or tuple(f"person {number + 1}" for number in range(asked.quorum))
        for by in people[: asked.quorum]:
            kind = ApproveDraft if self._random.random() < guess.share else RejectDraft
            at = self._now + timedelta(seconds=self._drawn(guess.after))
            self._later(at, kind(_RUN, asked.draft, "", by))
        self._later(asked.due, ExpireStep(_RUN, asked.path, 1))

    def _drawn(self, mean: float) -> float:
        """Seconds, of this mean."""
        return self._random.expovariate(1.0 / mean) if mean else 0.0
