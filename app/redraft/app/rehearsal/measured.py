"""Guesses the numbers that critics count, by what the conditions of a plan ask of them, or as people say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Annotated, Final, TypeAlias

import msgspec

from redraft.actors.conditions.text import terms
from redraft.events.messages.conditions import NAMED, Compare, Condition
from redraft.events.messages.content import MOST_MEASURED, Number
from redraft.events.messages.plan import Plan, Step, loops_of, measure_name, steps_of

Countable: TypeAlias = Annotated[float, msgspec.Meta(ge=-MOST_MEASURED, le=MOST_MEASURED)]


class Counts(msgspec.Struct, frozen=True):
    """A measure that is `worst` in a draft of quality 0 and `best` in one of quality 1, and in proportion between.

    `sd` is the standard deviation of what is added. It is a whole number if both ends are, and negative if one is.
    """

    worst: Countable
    best: Countable
    sd: Annotated[float, msgspec.Meta(ge=0, le=MOST_MEASURED)] = 0.0


USUAL: Final = Counts(0, 1000)
"""The guess for a measure whose size no condition names: it changes less and less as drafts get better."""


def conditions_in(plan: Plan) -> list[Condition]:
    """Returns the conditions of a plan: of its loops, its gates, its late critics, and its choices."""
    conditions = [loop.until for _, loop in loops_of(plan.steps)]
    for _, step in steps_of(plan.steps):
        conditions += [each for each in (step.passes, step.when, step.success) if each is not None]
    return conditions


def comparisons(plan: Plan) -> tuple[Compare, ...]:
    """Returns what the conditions of a plan compare, of that which critics declare by name."""
    found = (term for condition in conditions_in(plan) for term in terms(condition))
    return tuple(term for term in found if isinstance(term, Compare) and term.quantity in NAMED)


class GuessedMeasures:
    """Makes up numbers, by guesses under the names of measures, alone or after that of a step: `judge.words`."""

    def __init__(self, asked: Sequence[Compare], guesses: Mapping[str, Counts], random: Random) -> None:
        self._asked = asked
        self._guesses = guesses
        self._random = random

    def of(self, step: Step, share: float, quality: float) -> dict[str, Number]:
        """Returns the measures of a step; without a guess they meet a condition with the probability `share`."""
        return {name: self._measure(step, name, share, quality) for name in map(measure_name, step.measures)}

    def _measure(self, step: Step, name: str, share: float, quality: float) -> Number:
        own = f"{step.name}.{name}"
        guess = self._guesses.get(own) or self._guesses.get(name)
        asked = [each for each in self._asked if each.of in (name, own)]
        sizes = [each for each in asked if each.quantity == "criterion"]
        if guess is not None or not sizes:
            return self._counted(guess or USUAL, quality)
        less, enough = _around(sizes[0])
        number = enough if self._random.random() < share else less
        if number > 0 and len(sizes) < len(asked) and sizes[0].operator != "==":  # its change is asked about too
            number *= 2 - quality if (number == enough) == (enough > less) else quality
        return round(number) if float(sizes[0].value).is_integer() else number

    def _counted(self, guess: Counts, quality: float) -> Number:
        number = guess.worst + quality * (guess.best - guess.worst)
        if guess.sd:
            number = self._random.gauss(number, guess.sd)
        if guess.worst >= 0 and guess.best >= 0:
            number = max(0.0, number)
        return round(number) if float(guess.worst).is_integer() and float(guess.best).is_integer() else number


def _around(term: Compare) -> tuple[float, float]:
    """Returns a number that does not quite meet a comparison, and one that does."""
    value, operator = term.value, term.operator
    away = 1 if float(value).is_integer() else abs(value)
    less = value - away if operator in (">=", ">") else value + away
    return less, value + (value - less) if operator in (">", "<") else value
