"""Whether a loop's condition holds: the terms of `redraft.events.conditions`, evaluated on what was measured."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Final

import msgspec

from redraft.events.conditions import AllOf, AnyOf, Approved, Compare, Condition, Not, Oscillating, Plateau
from redraft.events.domain_events import Outcome
from redraft.projections.record_check.ratings import Rating

_OPERATORS: Final[dict[str, Callable[[float, float], bool]]] = {
    ">=": operator.ge,
    ">": operator.gt,
    "<=": operator.le,
    "<": operator.lt,
    "==": operator.eq,
}
_LIMITS: Final[dict[str, Outcome]] = {"tokens": "over_budget", "cost": "over_budget", "elapsed": "timed_out"}
_STRONGEST: Final[tuple[Outcome, ...]] = ("over_budget", "timed_out", "oscillating", "plateaued")
"""How a loop ends when several limits of its condition are reached."""

Atom = Compare | Approved | Plateau | Oscillating


class Measured(msgspec.Struct, frozen=True):
    """What a condition may ask about: `peaks` are the running best scores, `seen` the hashes judged before."""

    rating: Rating
    sha256: str
    outputs: int
    elapsed: float
    tokens: int
    cost: float
    peaks: tuple[float, ...]
    seen: tuple[str, ...]


def ending(condition: Condition, measured: Measured, *, own_word: bool) -> Outcome | None:
    """How the loop ends here; None when it goes on. `own_word`: a critic's approval is enough."""
    approved = measured.rating.approved
    if own_word and approved is True:
        return "accepted"
    if not _holds(condition, measured, limits=True):
        return None
    if approved is not False and _holds(condition, measured, limits=False):
        return "accepted"
    reached = {_means(each) for each in atoms(condition) if _is_true(each, measured)}
    return next((each for each in _STRONGEST if each in reached), None)


def atoms(condition: Condition) -> list[Atom]:
    """The terms of a condition that hold no others."""
    match condition:
        case AnyOf(conditions) | AllOf(conditions):
            return [atom for each in conditions for atom in atoms(each)]
        case Not(inner):
            return atoms(inner)
        case _:
            return [condition]


def looks_back(condition: Condition) -> tuple[int, int]:
    """How many running best scores and how many hashes of drafts a loop needs to remember."""
    over = max((each.over for each in atoms(condition) if isinstance(each, Plateau)), default=0)
    window = max((each.window for each in atoms(condition) if isinstance(each, Oscillating)), default=0)
    return over + 1, window + 1


def _holds(condition: Condition, measured: Measured, *, limits: bool) -> bool:
    match condition:
        case AnyOf(conditions):
            return any(_holds(each, measured, limits=limits) for each in conditions)
        case AllOf(conditions):
            return all(_holds(each, measured, limits=limits) for each in conditions)
        case Not(inner):
            return not _holds(inner, measured, limits=limits)
        case _:
            return (limits or _means(condition) == "accepted") and _is_true(condition, measured)


def _is_true(atom: Atom, measured: Measured) -> bool:
    match atom:
        case Compare(quantity, sign, value):
            there = {"score": measured.rating.score, "errors": measured.rating.errors}
            number = there[quantity] if quantity in there else float(getattr(measured, quantity))
            return _OPERATORS[sign](number, value)
        case Approved():
            return measured.rating.approved is True
        case Plateau(gain, over):
            peaks = measured.peaks
            return len(peaks) > over and peaks[-1] - peaks[-1 - over] < gain
        case Oscillating(window):
            return measured.sha256 in measured.seen[-window:]


def _means(atom: Atom) -> Outcome:
    match atom:
        case Compare(quantity):
            return _LIMITS.get(quantity, "accepted")
        case Approved():
            return "accepted"
        case Plateau():
            return "plateaued"
        case Oscillating():
            return "oscillating"
