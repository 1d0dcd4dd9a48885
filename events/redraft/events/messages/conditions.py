"""The conditions on which loops end, as data, combined with `|`, `&` and `~`.

    score >= 0.9
    (score >= 0.8) & (errors == 0) | plateau(gain=0.01, over=2)
    (criterion.accuracy >= 8) & (criterion.judge.tone >= 6) & (lowest >= 5) & (confidence >= 0.7)
    score >= points(1, of=10)
    (measure.words >= 300) & (change(measure.words) < 0.1)
    state.revenue_ok & (score >= 8)

They hold no code: `redraft.actors.deciding.judgement` says whether one holds, and their text form (the same in YAML
and on the command line) is read and written by `redraft.actors.conditions.text`.
"""

from __future__ import annotations

from typing import Final, Literal, NoReturn, Protocol, TypeAlias, cast, runtime_checkable

import msgspec

from redraft.events.errors import ConditionError

Quantity: TypeAlias = Literal["score", "errors", "outputs", "elapsed", "tokens", "cost", "criterion", "change"]
Operator: TypeAlias = Literal[">=", ">", "<=", "<", "=="]

LIMITS: frozenset[Quantity] = frozenset({"elapsed", "tokens", "cost"})
"""Quantities that end a loop without a statement about the draft's quality."""

NAMED: frozenset[Quantity] = frozenset({"criterion", "change"})
"""Quantities of what a critic declares, by name."""

LOWEST: Final = "min(criteria)"
"""The name of the lowest of all criteria."""

CONFIDENCE: Final = "confidence"
"""The name of how sure the least sure critic was, 0..1."""


class Term(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    """The base of every condition: combines it with others."""

    def __or__(self, other: Condition | StateValue | HasCondition) -> AnyOf:
        return AnyOf((*_parts(self, AnyOf), *_parts(_require_condition(other, "|"), AnyOf)))

    def __and__(self, other: Condition | StateValue | HasCondition) -> AllOf:
        return AllOf((*_parts(self, AllOf), *_parts(_require_condition(other, "&"), AllOf)))

    def __ror__(self, other: object) -> NoReturn:
        raise _refusal(other, "|")

    def __rand__(self, other: object) -> NoReturn:
        raise _refusal(other, "&")

    def __invert__(self) -> Not:
        return Not(_condition(self))

    def __bool__(self) -> bool:
        raise TypeError(
            "a condition is data: combine with | & ~ and parentheses, not with `or`, `and`, `not` or a chain of "
            "comparisons; write (score >= 0.5) & (score <= 0.9)"
        )


class Compare(Term, frozen=True, omit_defaults=True, tag="compare"):
    """Compares a measured quantity with a number. `elapsed` is seconds since the run started.

    The quantity `criterion` is what `of` names: `accuracy`, `judge.accuracy` of one critic, `judge.score`,
    `confidence`, `min(criteria)`, or a measure, `words` or `judge.words`. Scores are read on the scale that the critics
    declare, else 0..1; `top` is the highest number of the scale that is meant, where a number could be meant on two:
    `score >= 1 of 10`. `change` is by which share of its earlier value a measure differs from that of the draft judged
    before, up or down. Where a measure is not known, neither a comparison with it holds nor its negation.
    """

    quantity: Quantity
    operator: Operator
    value: float
    of: str = ""
    top: float | None = None


class Approved(Term, frozen=True, tag="approved"):
    """The critics of the draft returned `approved=True`."""


class Plateau(Term, frozen=True, tag="plateau"):
    """The best score of the loop rose by less than `gain` over the last `over` judged drafts (at least 1).

    `gain` is read on the critics' scale, see Compare; the default is 1 % of any. `of` is a criterion to look at.
    """

    gain: float = 0.01
    over: int = 2
    of: str | msgspec.UnsetType = msgspec.UNSET
    top: float | msgspec.UnsetType = msgspec.UNSET


class Oscillating(Term, frozen=True, tag="oscillating"):
    """The draft's text was already seen among the last `window` judged drafts of the loop (at least 1).

    With `of`, a criterion has the score again that it had among them, after another in between.
    """

    window: int = 4
    of: str | msgspec.UnsetType = msgspec.UNSET


class Exit(Term, frozen=True, tag="exit"):
    """A refiner left the loop: it returned `exit=True`, and neither critics nor gates object to its draft."""


StateOperator: TypeAlias = Literal["is", ">=", ">", "<=", "<", "=="]


class State(Term, frozen=True, tag="state"):
    """Looks at a value of the run's state, by its name `of`.

    The operator `is`, with True as the value, holds for a value that is true: not false, null, 0 or empty. The others
    compare with a number, `==` also with a text. Where the state has no such value, or it is of another type than what
    it is compared with, neither this holds nor its negation.
    """

    of: str
    operator: StateOperator = "is"
    value: bool | float | str = True


class AnyOf(Term, frozen=True, tag="any"):
    conditions: tuple[Condition, ...]


class AllOf(Term, frozen=True, tag="all"):
    conditions: tuple[Condition, ...]


class Not(Term, frozen=True, tag="not"):
    condition: Condition


Condition: TypeAlias = Compare | Approved | Plateau | Oscillating | Exit | State | AnyOf | AllOf | Not


@runtime_checkable
class HasCondition(Protocol):
    """Something that stands for a condition, such as a function of the user's own."""

    def as_condition(self) -> Condition:
        """Returns the condition; raises RedraftError where it stands for none."""
        ...


def _require_condition(other: object, sign: str) -> Condition:
    """Returns the condition beside `|` or `&`; raises ConditionError for a value that is none."""
    if isinstance(other, StateValue):
        return other.condition
    if isinstance(other, HasCondition):
        return other.as_condition()
    if not isinstance(other, Term):
        raise _refusal(other, sign)
    return _condition(other)


def _refusal(other: object, sign: str) -> ConditionError:
    """Returns the error for a value beside `|` or `&`, such as the 0.9 in `score >= 0.9 | plateau()`."""
    if isinstance(other, type) and issubclass(other, Term):
        known = "exit_" if other is Exit else other.__name__.lower()
        return ConditionError(f"{known} is no condition without parentheses; write {known}()")
    reason = f"in Python {sign} binds closer than a comparison, so each comparison needs parentheses"
    second = "plateau()"
    if isinstance(other, Measure) and other.quantity != "score":
        second = f"({other!r} {'== 0' if other.quantity == 'errors' else '<= 0.9'})"
    return ConditionError(f"{sign} stands beside {other!r}: {reason}; write (score >= 0.9) {sign} {second}")


def _condition(term: Term) -> Condition:
    return cast("Condition", term)


def _parts(term: Term, group: type[AnyOf] | type[AllOf]) -> tuple[Condition, ...]:
    return term.conditions if isinstance(term, group) else (_condition(term),)


class Points(msgspec.Struct, frozen=True):
    """A number on the scale that ends with `of`."""

    value: float
    of: float


def points(value: float, *, of: float) -> Points:
    """Returns a number that says on which scale it is meant: `points(1, of=10)` is `1 of 10`."""
    return Points(value, of)


class Measure:
    """A quantity that a plan may compare with a number: `score >= 0.9` makes a Compare."""

    __slots__ = ("name", "quantity")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, quantity: Quantity, name: str = "") -> None:
        self.quantity: Quantity = quantity
        self.name = name

    def __repr__(self) -> str:
        match self.quantity:
            case "change":
                return f"change({self.name!r})"
            case "criterion" if self.name != CONFIDENCE:
                return f"criterion[{self.name!r}]"
            case _:
                return self.name or self.quantity

    def __or__(self, other: object) -> NoReturn:
        raise _refusal(self, "|")

    def __and__(self, other: object) -> NoReturn:
        raise _refusal(self, "&")

    __ror__, __rand__ = __or__, __and__

    def _compared(self, operator: Operator, value: float | Points) -> Compare:
        if isinstance(value, Points):
            return Compare(self.quantity, operator, value.value, self.name, value.of)
        return Compare(self.quantity, operator, value, self.name)

    def __ge__(self, value: float | Points) -> Compare:
        return self._compared(">=", value)

    def __gt__(self, value: float | Points) -> Compare:
        return self._compared(">", value)

    def __le__(self, value: float | Points) -> Compare:
        return self._compared("<=", value)

    def __lt__(self, value: float | Points) -> Compare:
        return self._compared("<", value)

    def __eq__(self, value: float | Points) -> Compare:  # type: ignore[override]
        return self._compared("==", value)


class Criteria:
    """The criteria and measures that critics declare, by name: `criterion.accuracy`, `measure.judge.words` of a critic.

    A critic whose name is no Python word is given in brackets: `criterion["fact-check.accuracy"]`.
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> NamedCriterion:
        if name.startswith("__"):
            raise AttributeError(name)
        return NamedCriterion("criterion", name)

    def __getitem__(self, name: str) -> NamedCriterion:
        return NamedCriterion("criterion", name)

    def _refuse(self, value: object) -> NoReturn:
        raise ConditionError(
            f"what is compared with {value!r} has no name; write criterion.accuracy >= 8, or measure.words >= 300"
        )

    __ge__ = __gt__ = __le__ = __lt__ = _refuse


class NamedCriterion(Measure):
    """A criterion or a measure, or the critic whose it is and comes after a dot."""

    __slots__ = ()
    __hash__ = None

    def __getattr__(self, name: str) -> Measure:
        if name.startswith("__") or "." in self.name:
            raise AttributeError(name)
        return Measure("criterion", f"{self.name}.{name}")


class StateValue:
    """A value of the run's state, as a plan may compare it, or take it as a condition by itself: `state.done`."""

    __slots__ = ("_name",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"state.{self._name}"

    def __bool__(self) -> bool:
        raise TypeError("a condition is data: combine with | & ~ and parentheses, not with `or`, `and` or `not`")

    @property
    def condition(self) -> State:
        """The condition that the value is true."""
        return State(self._name)

    def __or__(self, other: Condition | StateValue | HasCondition) -> AnyOf:
        return self.condition | other

    def __and__(self, other: Condition | StateValue | HasCondition) -> AllOf:
        return self.condition & other

    def __invert__(self) -> Not:
        return ~self.condition

    def __ge__(self, value: float) -> State:
        return State(self._name, ">=", value)

    def __gt__(self, value: float) -> State:
        return State(self._name, ">", value)

    def __le__(self, value: float) -> State:
        return State(self._name, "<=", value)

    def __lt__(self, value: float) -> State:
        return State(self._name, "<", value)

    def __eq__(self, value: float | str) -> State:  # type: ignore[override]
        return State(self._name, "==", value)


class StateValues:
    """The values of the run's state, by name: `state.audience`, `state["audience"]`."""

    __slots__ = ()

    def __getattr__(self, name: str) -> StateValue:
        if name.startswith("__"):
            raise AttributeError(name)
        return StateValue(name)

    def __getitem__(self, name: str) -> StateValue:
        return StateValue(name)


def change(of: Measure | str) -> Measure:
    """Returns by which share a measure differs from the draft judged before: `change(measure.words) < 0.1`."""
    return Measure("change", of if isinstance(of, str) else of.name)


Of: TypeAlias = Measure | str | msgspec.UnsetType
"""A criterion or its name, or nothing for the score."""


def plateau(gain: float | Points = 0.01, over: int = 2, of: Of = msgspec.UNSET) -> Plateau:
    """Returns the condition that the best score, or that `of` a criterion, rose by less than `gain`: see Plateau.

    `gain` is a number, or one with its scale: `plateau(gain=points(1, of=10), of=criterion.accuracy)`.
    """
    value, top = (gain, msgspec.UNSET) if not isinstance(gain, Points) else (gain.value, gain.of)
    name = _name_of(of)
    return Plateau(value, over, msgspec.UNSET if name == "score" else name, top)


def oscillating(window: int = 4, of: Of = msgspec.UNSET) -> Oscillating:
    """Returns the condition that a draft, or its score `of` a criterion, is there again: see Oscillating."""
    return Oscillating(window, _name_of(of))


def _name_of(of: Of) -> str | msgspec.UnsetType:
    return of.name or of.quantity if isinstance(of, Measure) else of


score = Measure("score")
errors = Measure("errors")
outputs = Measure("outputs")
elapsed = Measure("elapsed")
tokens = Measure("tokens")
cost = Measure("cost")
criterion = Criteria()
measure = Criteria()
state = StateValues()
confidence = Measure("criterion", CONFIDENCE)
lowest = Measure("criterion", LOWEST)
approved = Approved()
exit_ = Exit
