"""Guesses the answers of actors: how good first drafts are, what refining gains, how reliable critics are.

Each draft has a quality from 0 to 1, which only the guesses know. People write a guess as `noisy(0.1)` or, for one step
alone, `judge=noisy(0.1, bias=-0.05)`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from random import Random
from statistics import fmean
from types import MappingProxyType
from typing import Annotated, Final, TypeAlias, TypeVar, assert_never

import msgspec

from redraft.app.builtin.support.options import nearest
from redraft.app.rehearsal.changes import NO_CHANGES, Changes, GuessedChanges
from redraft.app.rehearsal.measured import Counts, GuessedMeasures, comparisons
from redraft.events.errors import InputError
from redraft.events.messages.commands import Completed, Critiqued, Generated, OutcomeMessage, Published, Refined
from redraft.events.messages.conditions import CONFIDENCE
from redraft.events.messages.content import Critique, DraftRef, Mark, Receipt
from redraft.events.messages.domain_events import StepRequested
from redraft.events.messages.plan import Plan, Step
from redraft.events.messages.usage import Usage

Share: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Noisy(msgspec.Struct, frozen=True):
    """A critic whose score is the quality, plus `bias`, plus normally distributed noise, limited to 0 and 1.

    `sd` is the standard deviation of the noise. It approves a draft that it scores at `approves` or more. Where a
    condition asks how sure it is, that is about `confidence`.
    """

    sd: Share
    bias: Annotated[float, msgspec.Meta(ge=-1, le=1)] = 0.0
    approves: Annotated[float, msgspec.Meta(ge=0, le=2)] = 2.0
    confidence: Share = 0.8


class Scores(msgspec.Struct, frozen=True):
    """Critics that give the drafts of a run these scores, as each is first judged, and the last one to all later ones.

    All critics that this guess is for follow one order: a draft has the same score from each of them.
    """

    scores: tuple[Share, ...]


class Starts(msgspec.Struct, frozen=True):
    """First drafts have this quality, with this standard deviation, limited to 0 and 1."""

    quality: Share
    sd: Share = 0.0


class Gains(msgspec.Struct, frozen=True):
    """Refining adds this share of the distance to 1, with this standard deviation; a negative one lowers quality."""

    share: Annotated[float, msgspec.Meta(ge=-1, le=1)]
    sd: Share = 0.0


class Passes(msgspec.Struct, frozen=True):
    """A gate lets this share of drafts pass; the same draft always or never."""

    share: Share


class Approve(msgspec.Struct, frozen=True):
    """People approve this share of the drafts and reject the rest, `after` these seconds on average."""

    share: Share
    after: Annotated[float, msgspec.Meta(ge=0, le=1e9)] = 3600.0


CriticGuess: TypeAlias = Noisy | Scores
Guess: TypeAlias = CriticGuess | Starts | Gains | Passes | Counts | Approve
G = TypeVar("G", bound=Guess)

EXAMPLES: Final[Mapping[type[msgspec.Struct], str]] = {
    Noisy: "noisy(0.1)",
    Scores: "scores(0.5, 0.7, 0.9)",
    Starts: "starts(0.5, 0.1)",
    Gains: "gains(0.3, 0.1)",
    Passes: "passes(0.9)",
    Counts: "counts(10, 0, 1)",
    Approve: "approve(0.8, after=3600)",
}
"""An example of each guess as text: the name of its class in lower case, and its numbers."""

_FORM: Final = re.compile(r"\s*(?:(?P<step>[^\s=()]+)\s*=)?\s*(?P<name>[a-z]+)\s*\((?P<given>[^()]*)\)\s*")
_COMMA: Final = re.compile(r"(?<![\d.])(\d+),(\d+)(?![\d.])")
"""Matches `0,5`: two whole numbers with a comma and no space between them."""


class Guesses(msgspec.Struct, frozen=True):
    """The guesses by the name of a step or of its actor, of measures by their own; "" stands for all others.

    An attempt fails with the probability `fails`; an answer takes `takes` seconds on average, exponentially
    distributed.
    """

    critics: Mapping[str, CriticGuess] = MappingProxyType({"": Noisy(0.1)})
    generators: Mapping[str, Starts] = MappingProxyType({"": Starts(0.5, 0.1)})
    refiners: Mapping[str, Gains] = MappingProxyType({"": Gains(0.3, 0.1)})
    gates: Mapping[str, Passes] = MappingProxyType({"": Passes(0.9)})
    people: Mapping[str, Approve] = MappingProxyType({"": Approve(1.0)})
    measures: Mapping[str, Counts] = MappingProxyType({})
    changes: Changes = NO_CHANGES
    fails: float = 0.0
    takes: float = 10.0


def about(guesses: Mapping[str, G], step: str, actor: str = "") -> G:
    """Returns the guess for this step, else for this actor, else for all."""
    return guesses[_name_about(guesses, step, actor)]


def _name_about(guesses: Mapping[str, G], step: str, actor: str) -> str:
    """Returns the name under which the guess for this step is given."""
    return next((name for name in (step, actor) if name in guesses), "")


def read_guesses(
    option: str, texts: Iterable[str], kinds: Sequence[type[G]], otherwise: Mapping[str, G]
) -> Mapping[str, G]:
    """Parses the texts of an `option` as guesses of these `kinds`; returns them with the defaults of `otherwise`.

    Raises InputError, with the remedy, for a text that is no such guess.
    """
    return {**otherwise, **dict(_read_guess(option, text, kinds) for text in texts)}


def _read_guess(option: str, text: str, kinds: Sequence[type[G]]) -> tuple[str, G]:
    found = _FORM.fullmatch(text)
    examples = [EXAMPLES[kind] for kind in kinds]
    write = f"write {' or '.join(examples)}, for one step NAME={examples[0]}"
    if found is None:
        raise InputError(f"{option} {text!r} is not a guess; {write}")
    kind = next((each for each in kinds if _name_of(each) == found["name"]), None)
    if kind is None:
        raise InputError(f"{option} {text!r}: there is no {found['name']!r}; {write}")
    try:
        return found["step"] or "", msgspec.convert(_arguments(kind, found["given"]), kind)
    except (ValueError, msgspec.ValidationError) as error:
        raise InputError(f"{option} {text!r}: {_error_text(error)}; {write}") from None


def _name_of(kind: type[msgspec.Struct]) -> str:
    return kind.__name__.lower()


def _arguments(kind: type[msgspec.Struct], text: str) -> dict[str, object]:
    """Returns the numbers of a guess by field name. Raises ValueError."""
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    if kind is Scores:
        if not parts:
            raise ValueError("it needs at least one score")
        return {"scores": [_number(part) for part in parts]}
    if kind is not Noisy and kind is not Counts and (found := _COMMA.search(text)):
        raise ValueError(
            f"{found[0]} may be one number or two: a decimal number has a point ({found[1]}.{found[2]}), and of two "
            f"the second comes after a space ({found[1]}, {found[2]})"
        )
    fields, values = kind.__struct_fields__, dict[str, object]()
    for place, part in enumerate(parts):
        name, sign, value = part.rpartition("=")
        if not sign:
            _check_place(kind, place, part)
        name = name.strip() if sign else fields[place]
        if name not in fields:
            raise ValueError(f"there is no {name!r}; {nearest(name, fields)}")
        if name in values:
            raise ValueError(f"{name} is given twice")
        values[name] = _number(value)
    return values


def _check_place(kind: type[msgspec.Struct], place: int, part: str) -> None:
    """Raises ValueError for a number without a name where there is none to give, or one has to be written."""
    fields = kind.__struct_fields__
    if kind is Noisy and place > 0:  # else noisy(0,1), by somebody who writes decimals with a comma, has a bias of 1
        named = f"{fields[min(place, len(fields) - 1)]}={part}"
        raise ValueError(f"what follows {fields[0]} is named, as in {named}, and a decimal number has a point")
    if place >= len(fields):
        raise ValueError(f"it takes {len(fields)} numbers at most: {', '.join(fields)}")


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"{text.strip()!r} is not a number") from None
    if not math.isfinite(number):
        raise ValueError(f"{text.strip()!r} is not a finite number")
    return number


def _error_text(error: Exception) -> str:
    """Returns an error in plain words: "sd is above 1" for "Expected `float` <= 1.0 - at `$.sd`"."""
    message = str(error)
    bound = re.fullmatch(r"Expected `float` (<=|>=) (\S+) - at `\$\.?(.*)`", message)
    if bound is not None:
        which = bound[3] if not bound[3].startswith("scores") else "a score"
        return f"{which} is {'above' if bound[1] == '<=' else 'below'} {float(bound[2]):g}"
    missing = re.fullmatch(r"Object missing required field `(.*)`", message)
    return f"it needs {missing[1]}" if missing is not None else message


def within(number: float) -> float:
    """Returns the number, limited to 0 and 1."""
    return min(1.0, max(0.0, number))


def write_guess(guess: Guess) -> str:
    """Returns a guess as people write it."""
    if isinstance(guess, Scores):
        arguments = [f"{each:g}" for each in guess.scores]
    else:
        values = [(field, getattr(guess, field.name)) for field in msgspec.structs.fields(guess)]
        arguments = [
            f"{value:g}" if field.required else f"{field.name}={value:g}"
            for field, value in values
            if field.required or value != field.default
        ]
    return f"{_name_of(type(guess))}({', '.join(arguments)})"


def check_steps(option: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Raises InputError for a guess about a step that the plan does not have; `known` are its steps and actors."""
    there = list(dict.fromkeys(known))
    for name in names:
        if name and name not in there:
            remedy = nearest(name, there) if there else "it has none of this kind"
            raise InputError(f"{option} {name}=…: the plan has no such step or actor; {remedy}")


FAULTS: Final = 10.0
"""How many errors a critique with score 0 lists, and others in proportion, as ready-made critics count by default."""


class GuessedAnswers:
    """Makes up the answers of the actors of one run; the same random source gives the same answers."""

    def __init__(self, run: str, guesses: Guesses, random: Random, plan: Plan | None = None) -> None:
        self._run = run
        self._guesses = guesses
        self._random = random
        self._quality: dict[str, float] = {}
        self._passing: dict[tuple[str, str], bool] = {}
        asked = comparisons(plan) if plan is not None else ()
        self._asks_confidence = any(each.of.rpartition(".")[2] == CONFIDENCE for each in asked)
        self._measures = GuessedMeasures(asked, guesses.measures, random)
        self._judged: dict[str, dict[str, int]] = {}
        self._changes = GuessedChanges(guesses.changes)

    def quality(self, draft: DraftRef) -> float:
        """Returns the quality of a draft of this run, from 0 to 1."""
        return self._quality[draft.sha256]

    def keep(self, text: str, quality: float) -> None:
        """Notes the quality of a draft that another run made."""
        self._quality[sha256(text.encode()).hexdigest()] = quality

    def answer(self, request: StepRequested, step: Step, used: Usage) -> OutcomeMessage:
        """Returns the answer to a request. Raises ValueError for a request without the draft that it needs."""
        place = self._run, request.path, request.attempt
        changes = self._changes.of(step)
        match request.role, request.draft:
            case "generator", _:
                first = about(self._guesses.generators, step.name, step.actor)
                text = self._write(self._random.gauss(first.quality, first.sd))
                return Generated(*place, text, usage=used, state=changes)
            case "refiner", DraftRef() as draft:
                return Refined(*place, self._refine(step, draft), usage=used, state=changes)
            case "critic", DraftRef() as draft:
                return Critiqued(*place, draft, self._critique(step, draft), used, changes)
            case "publisher", DraftRef() as draft:
                return Published(*place, draft, Receipt("nowhere"), used, changes)
            case "step", _:
                return Completed(*place, changes, used)
            case _:
                raise ValueError(f"{request.path}: the {request.role} was given no draft")

    def _refine(self, step: Step, draft: DraftRef) -> str:
        gains, before = about(self._guesses.refiners, step.name, step.actor), self.quality(draft)
        return self._write(before + (1.0 - before) * self._random.gauss(gains.share, gains.sd))

    def _write(self, quality: float) -> str:
        """Returns a unique text, and stores its quality."""
        text = f"{self._random.getrandbits(64):016x}"
        self._quality[sha256(text.encode()).hexdigest()] = within(quality)
        return text

    def _critique(self, step: Step, draft: DraftRef) -> Critique:
        if step.condition:
            quality = self.quality(draft)
            return Critique(0.0, scored=False, measures=self._measures.of(step, quality, quality))
        if step.gate:
            passes = self._passes(step, draft)
            marks = tuple(Mark(each.name, float(passes)) for each in step.criteria)
            faults = () if passes else ("it does not pass",)
            measures = self._measures.of(step, float(passes), self.quality(draft))
            return Critique(float(passes), errors=faults, criteria=marks, measures=measures)
        guess = about(self._guesses.critics, step.name, step.actor)
        marks = tuple(Mark(each.name, self._score(step, guess, draft)) for each in step.criteria)
        score = self._score(step, guess, draft)
        if marks:
            score = fmean([mark.score for mark in marks], [each.weight for each in step.criteria])
        errors = tuple("guessed" for _ in range(round((1.0 - score) * FAULTS)))
        approved = True if isinstance(guess, Noisy) and score >= guess.approves else None
        return Critique(
            *(score, (), (), (), errors, approved),
            criteria=marks,
            confidence=self._confidence(guess) if self._asks_confidence else None,
            measures=self._measures.of(step, score, self.quality(draft)),
        )

    def _confidence(self, guess: CriticGuess) -> float:
        return within(self._random.gauss(guess.confidence, guess.sd)) if isinstance(guess, Noisy) else 1.0

    def _score(self, step: Step, guess: CriticGuess, draft: DraftRef) -> float:
        match guess:
            case Noisy(sd=sd, bias=bias):
                return within(self._random.gauss(self.quality(draft) + bias, sd))
            case Scores(scores=scores):
                judged = self._judged.setdefault(_name_about(self._guesses.critics, step.name, step.actor), {})
                return scores[min(judged.setdefault(draft.sha256, len(judged)), len(scores) - 1)]
            case _:
                assert_never(guess)

    def _passes(self, step: Step, draft: DraftRef) -> bool:
        share = about(self._guesses.gates, step.name, step.actor).share
        return self._passing.setdefault((step.name, draft.sha256), self._random.random() < share)
