"""When a loop may end: conditions as data, combined with `|`, `&` and `~`.

    score >= 0.9
    (score >= 0.8) & (errors == 0) | plateau(gain=0.01, over=2)

They hold no code: `redraft.actors.judgement` says whether one holds, and their text form (the same in YAML and on the
command line) is read and written by `redraft.actors.condition_text`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, cast

import msgspec

Quantity: TypeAlias = Literal["score", "errors", "outputs", "elapsed", "tokens", "cost"]
Operator: TypeAlias = Literal[">=", ">", "<=", "<", "=="]

LIMITS: frozenset[Quantity] = frozenset({"elapsed", "tokens", "cost"})
"""Quantities that end a loop without meaning that the draft is good."""


class Term(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    """What every condition can do: be combined with others."""

    def __or__(self, other: Condition) -> AnyOf:
        return AnyOf((*_parts(self, AnyOf), *_parts(other, AnyOf)))

    def __and__(self, other: Condition) -> AllOf:
        return AllOf((*_parts(self, AllOf), *_parts(other, AllOf)))

    def __invert__(self) -> Not:
        return Not(_condition(self))

    def __bool__(self) -> bool:
        raise TypeError("a condition is data: combine with | & ~ and parentheses, not with `or`, `and`, `not`")


class Compare(Term, frozen=True, tag="compare"):
    """A measured quantity against a number. Scores are 0..1, `elapsed` is seconds since the run started."""

    quantity: Quantity
    operator: Operator
    value: float


class Approved(Term, frozen=True, tag="approved"):
    """The critics of the draft said `approved=True`."""


class Plateau(Term, frozen=True, tag="plateau"):
    """The best score of the loop rose by less than `gain` (0..1) over the last `over` judged drafts (at least 1)."""

    gain: float = 0.01
    over: int = 2


class Oscillating(Term, frozen=True, tag="oscillating"):
    """The draft's text was already seen among the last `window` judged drafts of the loop (at least 1)."""

    window: int = 4


class AnyOf(Term, frozen=True, tag="any"):
    conditions: tuple[Condition, ...]


class AllOf(Term, frozen=True, tag="all"):
    conditions: tuple[Condition, ...]


class Not(Term, frozen=True, tag="not"):
    condition: Condition


Condition: TypeAlias = Compare | Approved | Plateau | Oscillating | AnyOf | AllOf | Not


def _condition(term: Term) -> Condition:
    return cast("Condition", term)


def _parts(term: Term, group: type[AnyOf] | type[AllOf]) -> tuple[Condition, ...]:
    return term.conditions if isinstance(term, group) else (_condition(term),)


class Measure:
    """A quantity that a plan may compare with a number: `score >= 0.9` gives a Compare."""

    __slots__ = ("quantity",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, quantity: Quantity) -> None:
        self.quantity: Quantity = quantity

    def __ge__(self, value: float) -> Compare:
        return Compare(self.quantity, ">=", value)

    def __gt__(self, value: float) -> Compare:
        return Compare(self.quantity, ">", value)

    def __le__(self, value: float) -> Compare:
        return Compare(self.quantity, "<=", value)

    def __lt__(self, value: float) -> Compare:
        return Compare(self.quantity, "<", value)

    def __eq__(self, value: float) -> Compare:  # type: ignore[override]
        return Compare(self.quantity, "==", value)


score = Measure("score")
errors = Measure("errors")
outputs = Measure("outputs")
elapsed = Measure("elapsed")
tokens = Measure("tokens")
cost = Measure("cost")
approved = Approved()


def plateau(gain: float = 0.01, over: int = 2) -> Plateau:
    """See Plateau."""
    return Plateau(gain, over)


def oscillating(window: int = 4) -> Oscillating:
    """See Oscillating."""
    return Oscillating(window)
