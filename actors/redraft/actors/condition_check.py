"""What makes a condition no condition: numbers out of range, terms that can never hold, too many terms.

The text form, the Python form and YAML share these rules. Each fault is one line that names its remedy.
"""

from __future__ import annotations

import math
from typing import Final, assert_never, get_args

from redraft.actors.values import is_number, is_one_of, is_whole, shown
from redraft.events.conditions import (
    AllOf,
    AnyOf,
    Approved,
    Compare,
    Condition,
    Not,
    Operator,
    Oscillating,
    Plateau,
    Quantity,
)
from redraft.events.errors import ConditionError

MAX_TERMS: Final = 200
"""How many terms a condition may have, groups and negations included."""

MAX_DEPTH: Final = 20
"""How deep the groups and negations of a condition may nest."""

MAX_WINDOW: Final = 1_000_000
"""The most judged drafts that `plateau` and `oscillating` may look back over."""

_COUNTS: Final[frozenset[Quantity]] = frozenset({"errors", "outputs", "tokens"})
_KINDS: Final = (Compare, Approved, Plateau, Oscillating, AnyOf, AllOf, Not)


def check_condition(condition: Condition) -> Condition:
    """The condition itself; raises ConditionError when a term is wrong, it is too large, or it can never hold."""
    for term in terms(condition):
        if fault := term_fault(term):
            raise ConditionError(fault)
    if truth(condition) is False:
        raise ConditionError("the condition can never hold, whatever is measured; the parts under `not` always hold")
    return condition


def terms(condition: object) -> list[Condition]:
    """Every term of a condition, outermost first; raises ConditionError on what is no term, or above the limits."""
    found: list[Condition] = []
    waiting: list[tuple[object, int]] = [(condition, 1)]
    while waiting:
        term, depth = waiting.pop(0)
        if not isinstance(term, _KINDS):
            raise ConditionError(f"{shown(term)} is no condition; write one such as score >= 0.9")
        if depth > MAX_DEPTH or len(found) == MAX_TERMS:
            raise ConditionError(
                f"the condition has more than {MAX_TERMS} terms, or is more than {MAX_DEPTH} deep; simplify it"
            )
        found.append(term)
        waiting += [(part, depth + 1) for part in _parts(term)]
    return found


def _parts(term: Condition) -> tuple[Condition, ...]:
    match term:
        case AnyOf() | AllOf():
            return _members(type(term).__name__, term.conditions)
        case Not():
            return (term.condition,)
        case Compare() | Approved() | Plateau() | Oscillating():
            return ()
        case _:
            assert_never(term)


def _members(group: str, conditions: object) -> tuple[Condition, ...]:
    if not isinstance(conditions, tuple):
        raise ConditionError(f"{group} takes one tuple of conditions; write a | b, a & b, or {group}((a, b))")
    return conditions


def term_fault(term: Condition) -> str | None:
    """What is wrong with this one term, its parts aside, and how to mend it; None when nothing is."""
    match term:
        case Compare():
            return _compare_fault(term)
        case Plateau():
            return _plateau_fault(term)
        case Oscillating():
            return _window_fault("oscillating: window", term.window)
        case AnyOf() | AllOf() if len(term.conditions) < 2:
            return (
                f"{type(term).__name__} joins {len(term.conditions)} conditions; give at least two, or the one itself"
            )
        case Approved() | AnyOf() | AllOf() | Not():
            return None
        case _:
            assert_never(term)


def truth(condition: Condition) -> bool | None:
    """True when the condition holds whatever is measured, False when it never can, None when it depends."""
    match condition:
        case Compare():
            return _compare_truth(condition)
        case Not():
            held = truth(condition.condition)
            return None if held is None else not held
        case AnyOf():
            return _joined([truth(part) for part in condition.conditions], decisive=True)
        case AllOf():
            return _joined([truth(part) for part in condition.conditions], decisive=False)
        case Approved() | Plateau() | Oscillating():
            return None
        case _:
            assert_never(condition)


def _joined(parts: list[bool | None], *, decisive: bool) -> bool | None:
    if decisive in parts:
        return decisive
    return None if None in parts else not decisive


def _compare_fault(term: Compare) -> str | None:
    if not is_one_of(term.quantity, get_args(Quantity)):
        return f"{shown(term.quantity)} is not measured; compare one of {', '.join(get_args(Quantity))}"
    if not is_one_of(term.operator, get_args(Operator)):
        return f"{shown(term.operator)} does not compare; write one of {' '.join(get_args(Operator))}"
    if not is_number(term.value):
        return f"{term.quantity} is compared with {shown(term.value)}; write a finite number"
    written = f"{term.quantity} {term.operator} {term.value:g}"
    if term.quantity == "score" and not 0 <= term.value <= 1:
        return f"scores are 0..1, so {written} is out of range; write a number such as 0.9"
    if _compare_truth(term) is False:
        return f"{written} can never hold, as {_range_of(term.quantity)}; change the number"
    return None


def _range_of(quantity: Quantity) -> str:
    if quantity == "score":
        return "scores are 0..1"
    return f"{quantity} is {'a whole number' if quantity in _COUNTS else 'a number'} from 0"


def _compare_truth(term: Compare) -> bool | None:
    low, high = 0.0, 1.0 if term.quantity == "score" else math.inf
    value = term.value
    match term.operator:
        case ">=":
            return _known(always=low >= value, never=high < value)
        case ">":
            return _known(always=low > value, never=high <= value)
        case "<=":
            return _known(always=high <= value, never=low > value)
        case "<":
            return _known(always=high < value, never=low >= value)
        case "==":
            between = term.quantity in _COUNTS and not float(value).is_integer()
            return _known(always=False, never=between or not low <= value <= high)
        case _:
            assert_never(term.operator)


def _known(*, always: bool, never: bool) -> bool | None:
    return True if always else False if never else None


def _plateau_fault(term: Plateau) -> str | None:
    if not (is_number(term.gain) and 0 < term.gain <= 1):
        return f"plateau: gain is {shown(term.gain)}; write a rise of the score above 0 and up to 1, such as 0.01"
    return _window_fault("plateau: over", term.over)


def _window_fault(what: str, value: object) -> str | None:
    if not is_whole(value, 1, MAX_WINDOW):
        return f"{what} is {shown(value)}; write a whole number of judged drafts, 1 to {MAX_WINDOW:,}"
    return None
