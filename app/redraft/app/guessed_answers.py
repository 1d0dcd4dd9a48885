"""Answers of actors that nobody asks: drafts of a guessed quality, and what critics guess of it."""

from __future__ import annotations

from hashlib import sha256
from random import Random
from typing import Final, assert_never

from redraft.app.guesses import CriticGuess, Guesses, Noisy, Scores, about, within
from redraft.events.commands import Critiqued, Generated, OutcomeMessage, Published, Refined
from redraft.events.content import Critique, DraftRef, Receipt
from redraft.events.domain_events import StepRequested
from redraft.events.plan import Step
from redraft.events.usage import Usage

FAULTS: Final = 10.0
"""Errors that a critique lists for a score of 0; in proportion for others, as ready-made critics count by default."""


class GuessedAnswers:
    """Makes up the answers of the actors of one run. Chance is an argument: the same one gives the same answers."""

    def __init__(self, run: str, guesses: Guesses, random: Random) -> None:
        self._run = run
        self._guesses = guesses
        self._random = random
        self._quality: dict[str, float] = {}
        self._passing: dict[tuple[str, str], bool] = {}
        self._judged: dict[str, dict[str, int]] = {}

    def quality(self, draft: DraftRef) -> float:
        """Returns the quality of a draft of this run, from 0 to 1."""
        return self._quality[draft.sha256]

    def answer(self, asked: StepRequested, step: Step, used: Usage) -> OutcomeMessage:
        """Returns the answer to a request. Raises ValueError for one that lacks its draft."""
        place = self._run, asked.path, asked.attempt
        match asked.role, asked.draft:
            case "generator", _:
                first = about(self._guesses.generators, step.name, step.actor)
                return Generated(*place, self._written(self._random.gauss(first.quality, first.sd)), usage=used)
            case "refiner", DraftRef() as draft:
                return Refined(*place, self._refined(step, draft), usage=used)
            case "critic", DraftRef() as draft:
                return Critiqued(*place, draft, self._critique(asked, step, draft), used)
            case "publisher", DraftRef() as draft:
                return Published(*place, draft, Receipt("nowhere"), used)
            case _:
                raise ValueError(f"{asked.path}: the {asked.role} was given no draft")

    def _refined(self, step: Step, draft: DraftRef) -> str:
        gains, before = about(self._guesses.refiners, step.name, step.actor), self.quality(draft)
        return self._written(before + (1.0 - before) * self._random.gauss(gains.share, gains.sd))

    def _written(self, quality: float) -> str:
        """Makes up a text like no other; keeps its quality."""
        text = f"{self._random.getrandbits(64):016x}"
        self._quality[sha256(text.encode()).hexdigest()] = within(quality)
        return text

    def _critique(self, asked: StepRequested, step: Step, draft: DraftRef) -> Critique:
        if step.gate:
            passes = self._passes(step, draft)
            return Critique(float(passes), errors=() if passes else ("it does not pass",))
        guess = about(self._guesses.critics, step.name, step.actor)
        score = self._score(asked, guess, draft)
        errors = tuple("guessed" for _ in range(round((1.0 - score) * FAULTS)))
        approves = isinstance(guess, Noisy) and score >= guess.approves
        return Critique(score, errors=errors, approved=True if approves else None)

    def _score(self, asked: StepRequested, guess: CriticGuess, draft: DraftRef) -> float:
        match guess:
            case Noisy(sd=sd, bias=bias):
                return within(self._random.gauss(self.quality(draft) + bias, sd))
            case Scores(scores=scores):
                judged = self._judged.setdefault(asked.actor, {})
                return scores[min(judged.setdefault(draft.sha256, len(judged)), len(scores) - 1)]
            case _:
                assert_never(guess)

    def _passes(self, step: Step, draft: DraftRef) -> bool:
        share = about(self._guesses.gates, step.name, step.actor).share
        return self._passing.setdefault((step.name, draft.sha256), self._random.random() < share)
