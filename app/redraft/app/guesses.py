"""Guesses about actors that are not asked: how good first drafts are, what refining gains, how sure critics are.

Each draft has a quality from 0 to 1, which only the guesses know. People write a guess as `noisy(0.1)` or, for one step
alone, `judge=noisy(0.1, bias=-0.05)`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Final, TypeAlias, TypeVar

import msgspec

from redraft.app.builtin.options import nearest
from redraft.events.errors import InputError

Share: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Noisy(msgspec.Struct, frozen=True):
    """A critic whose score is the quality, plus `bias`, plus a draw from a normal distribution, kept within 0 and 1.

    `sd` is the standard deviation of that. It approves a draft that it scores at `approves` or more.
    """

    sd: Share
    bias: Annotated[float, msgspec.Meta(ge=-1, le=1)] = 0.0
    approves: Annotated[float, msgspec.Meta(ge=0, le=2)] = 2.0


class Scores(msgspec.Struct, frozen=True):
    """A critic that gives the drafts of a run these scores, one after the other, and the last one to all others."""

    scores: tuple[Share, ...]


class Starts(msgspec.Struct, frozen=True):
    """First drafts have this quality, with this standard deviation, kept within 0 and 1."""

    quality: Share
    sd: Share = 0.0


class Gains(msgspec.Struct, frozen=True):
    """Refining adds this share of what is missing to the best, with this standard deviation; it may also take away."""

    share: Annotated[float, msgspec.Meta(ge=-1, le=1)]
    sd: Share = 0.0


class Passes(msgspec.Struct, frozen=True):
    """A gate lets this share of drafts pass; the same draft always or never."""

    share: Share


class Approve(msgspec.Struct, frozen=True):
    """People approve this share of what they are asked about and reject the rest, `after` these seconds on average."""

    share: Share
    after: Annotated[float, msgspec.Meta(ge=0, le=1e9)] = 3600.0


CriticGuess: TypeAlias = Noisy | Scores
Guess: TypeAlias = CriticGuess | Starts | Gains | Passes | Approve
G = TypeVar("G", bound=Guess)

EXAMPLES: Final[Mapping[type[msgspec.Struct], str]] = {
    Noisy: "noisy(0.1)",
    Scores: "scores(0.5, 0.7, 0.9)",
    Starts: "starts(0.5, 0.1)",
    Gains: "gains(0.3, 0.1)",
    Passes: "passes(0.9)",
    Approve: "approve(0.8, after=3600)",
}
"""How each guess may be written: the name of its class in small letters, and its numbers."""

_FORM: Final = re.compile(r"\s*(?:(?P<step>[^\s=()]+)\s*=)?\s*(?P<name>[a-z]+)\s*\((?P<given>[^()]*)\)\s*")


class Guesses(msgspec.Struct, frozen=True):
    """The guesses by the name of a step, or of its actor; that of all others is under "".

    An attempt fails with the chance `fails`; an answer takes `takes` seconds on average, exponentially distributed.
    """

    critics: Mapping[str, CriticGuess] = MappingProxyType({"": Noisy(0.1)})
    generators: Mapping[str, Starts] = MappingProxyType({"": Starts(0.5, 0.1)})
    refiners: Mapping[str, Gains] = MappingProxyType({"": Gains(0.3, 0.1)})
    gates: Mapping[str, Passes] = MappingProxyType({"": Passes(0.9)})
    people: Mapping[str, Approve] = MappingProxyType({"": Approve(1.0)})
    fails: float = 0.0
    takes: float = 10.0


def about(guesses: Mapping[str, G], step: str, actor: str = "") -> G:
    """Returns the guess about this step, else about its actor, else about all."""
    return guesses.get(step) or guesses.get(actor) or guesses[""]


def read_guesses(
    option: str, texts: Iterable[str], kinds: Sequence[type[G]], otherwise: Mapping[str, G]
) -> Mapping[str, G]:
    """Returns the guesses of these `kinds` that the texts of an `option` say, beside those that hold `otherwise`.

    Raises InputError, with the remedy, when one says nothing that can be understood.
    """
    return {**otherwise, **dict(_read(option, text, kinds) for text in texts)}


def _read(option: str, text: str, kinds: Sequence[type[G]]) -> tuple[str, G]:
    found = _FORM.fullmatch(text)
    examples = [EXAMPLES[kind] for kind in kinds]
    write = f"write {' or '.join(examples)}, for one step NAME={examples[0]}"
    if found is None:
        raise InputError(f"{option} {text!r} is no guess; {write}")
    kind = next((each for each in kinds if _name_of(each) == found["name"]), None)
    if kind is None:
        raise InputError(f"{option} {text!r}: there is no {found['name']!r}; {write}")
    try:
        return found["step"] or "", msgspec.convert(_arguments(kind, found["given"]), kind)
    except (ValueError, msgspec.ValidationError) as error:
        raise InputError(f"{option} {text!r}: {_told(error)}; {write}") from None


def _name_of(kind: type[msgspec.Struct]) -> str:
    return kind.__name__.lower()


def _arguments(kind: type[msgspec.Struct], text: str) -> dict[str, object]:
    """Returns the numbers of a guess by the names of its fields. Raises ValueError."""
    given = [part.strip() for part in text.split(",")] if text.strip() else []
    if kind is Scores:
        if not given:
            raise ValueError("it needs at least one score")
        return {"scores": [_number(part) for part in given]}
    fields, values = kind.__struct_fields__, dict[str, object]()
    for place, part in enumerate(given):
        name, sign, value = part.rpartition("=")
        if not sign and place >= len(fields):
            raise ValueError(f"it takes {len(fields)} numbers at most: {', '.join(fields)}")
        name = name.strip() if sign else fields[place]
        if name not in fields:
            raise ValueError(f"there is no {name!r}; {nearest(name, fields)}")
        if name in values:
            raise ValueError(f"{name} is given twice")
        values[name] = _number(value)
    return values


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"{text.strip()!r} is no number") from None
    if not math.isfinite(number):
        raise ValueError(f"{text.strip()!r} is no finite number")
    return number


def _told(error: Exception) -> str:
    """Returns an error in plain words: "sd is above 1" for "Expected `float` <= 1.0 - at `$.sd`"."""
    said = str(error)
    wanted = re.fullmatch(r"Expected `float` (<=|>=) (\S+) - at `\$\.?(.*)`", said)
    if wanted is not None:
        which = wanted[3] if not wanted[3].startswith("scores") else "a score"
        return f"{which} is {'above' if wanted[1] == '<=' else 'below'} {float(wanted[2]):g}"
    missing = re.fullmatch(r"Object missing required field `(.*)`", said)
    return f"it needs {missing[1]}" if missing is not None else said


def within(number: float) -> float:
    """Returns the number, or the nearest from 0 to 1."""
    return min(1.0, max(0.0, number))


def written(guess: Guess) -> str:
    """Returns a guess as people write it."""
    if isinstance(guess, Scores):
        given = [f"{each:g}" for each in guess.scores]
    else:
        values = [(field, getattr(guess, field.name)) for field in msgspec.structs.fields(guess)]
        given = [
            f"{value:g}" if field.required else f"{field.name}={value:g}"
            for field, value in values
            if field.required or value != field.default
        ]
    return f"{_name_of(type(guess))}({', '.join(given)})"


def check_steps(option: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Raises InputError for a guess about a step that the plan does not have; `known` are its steps and actors."""
    there = list(dict.fromkeys(known))
    for name in names:
        if name and name not in there:
            remedy = nearest(name, there) if there else "it has none of this kind"
            raise InputError(f"{option} {name}=…: the plan has no such step or actor; {remedy}")
