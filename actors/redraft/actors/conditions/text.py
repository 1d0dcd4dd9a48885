"""Conditions as text, the same in YAML, in Python and on the command line, and the rules that all conditions follow.

    score >= 0.9 or plateau(gain=0.01, over=2)

The text is a Python expression: it is split into tokens, parsed with `ast`, and turned into the structs of
`redraft.events.messages.conditions`. It is never evaluated.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable
from typing import Final, assert_never, get_args

import msgspec

from redraft.actors.conditions.printing import name_of, print_condition, print_number
from redraft.actors.conditions.terms import (
    CRITIC,
    MAX_NESTING,
    TEXT,
    check_words,
    fault_at,
    read_call,
    read_comparison,
    read_name,
)
from redraft.actors.values import is_number, is_one_of, is_whole, shown
from redraft.events.errors import ConditionError
from redraft.events.messages.conditions import (
    LOWEST,
    NAMED,
    AllOf,
    AnyOf,
    Approved,
    Compare,
    Condition,
    Exit,
    Not,
    Operator,
    Oscillating,
    Plateau,
    Points,
    Quantity,
    State,
    StateOperator,
)
from redraft.events.messages.run_state import is_value_name

MAX_CHARACTERS: Final = 2_000
"""The longest text of a condition."""

_POINTS: Final = re.compile(r"(-?\d{1,18}(?:\.\d*)?(?:[eE][+-]?\d+)?)(?: of (\d{1,18}(?:\.\d+)?))?", re.ASCII)
_OF: Final = re.compile(r"(?<=[\d.])(\s+)of(?=\s+[\d.])", re.ASCII)
_CRITIC: Final = re.compile(rf"(?<![\w.-]){CRITIC}(?=\.[A-Za-z_])", re.ASCII)

_TEXT: Final = re.compile(r"""(?!.*".*')(?!.*'.*")[^\\\n\r]{0,200}""")
"""The texts that a value of the state is compared with: without both kinds of quotes, and without a backslash."""

_QUOTED: Final = re.compile(TEXT)

_EXAMPLE: Final = "score >= 0.9 or plateau(gain=0.01, over=2)"


def parse_condition(text: str) -> Condition:
    """Returns the condition of a text; raises ConditionError with the column (from 1) and the remedy.

    `a | b | c` is one group, as in Python, and so is `a or b or c`; `(a or b) or c` stays a group within a group.
    """
    if len(text) > MAX_CHARACTERS:
        raise ConditionError(f"condition: {len(text):,} characters, more than {MAX_CHARACTERS:,}; write a shorter one")
    if not text.strip():
        raise ConditionError(f"condition: the text is empty; write one such as {_EXAMPLE}")
    check_words(text)
    return check_printable(_condition(_parse(text), 1))


def read_margin(text: str) -> float | Points:
    """Returns a margin as a person writes it, with the scale that is meant, if any: `0.1`, `1 of 10`.

    Raises ConditionError.
    """
    found = _POINTS.fullmatch(text.strip())
    if found is None:
        raise ConditionError(f"{text!r} is no margin; write a number such as 0.1, or 1 of 10")
    return float(found[1]) if found[2] is None else Points(float(found[1]), float(found[2]))


def check_printable(condition: Condition) -> Condition:
    """Returns the condition itself; raises ConditionError when it is wrong or its text would be too long to be read."""
    length = len(print_condition(check_condition(condition)))
    if length > MAX_CHARACTERS:
        raise ConditionError(
            f"the condition has {length:,} characters as text; write fewer terms, {MAX_CHARACTERS:,} at most"
        )
    return condition


def _parse(text: str) -> ast.expr:
    spaces = len(text) - len(text.lstrip())
    line = "".join(" " if character.isspace() else character for character in text)
    plain = text.strip()
    line = _QUOTED.sub(lambda found: f"'{'_' * (len(found.group()) - 2)}'", line)
    line = _OF.sub(lambda found: f"{found[1]}@ ", line)  # an operator of Python that no condition has
    line = _CRITIC.sub(lambda found: "_" * len(found.group()), line)  # such as 2nd, fact-check, not
    try:
        body = ast.parse(line.strip(), mode="eval").body
    except SyntaxError as error:
        column = (error.offset or len(line.strip()) + 1) + spaces  # there is no offset when the text ends too early
        what = "cannot be read from here" if error.offset else "something is missing at the end"
        raise ConditionError(f"condition, column {column}: {what}; write one such as {_EXAMPLE}") from None
    except (MemoryError, RecursionError):
        raise ConditionError("condition: nested too deeply; write a simpler one") from None
    for node in ast.walk(body):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            node.value.id = plain[node.col_offset : node.col_offset + len(node.value.id)]
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = plain[node.col_offset + 1 : node.col_offset + 1 + len(node.value)]
        if isinstance(node, ast.expr | ast.keyword):
            node.col_offset += spaces
    return body


def _condition(node: ast.expr, depth: int) -> Condition:
    if depth > MAX_NESTING:
        raise fault_at(node, "nested too deeply; write a simpler condition")
    match node:
        case ast.BoolOp():
            parts = tuple(_condition(value, depth + 1) for value in node.values)
            return AnyOf(parts) if isinstance(node.op, ast.Or) else AllOf(parts)
        case ast.BinOp(op=ast.BitOr() | ast.BitAnd()):
            return _flatten(node, depth)
        case ast.UnaryOp(op=ast.Not() | ast.Invert()):
            return Not(_condition(node.operand, depth + 1))
        case _:
            return _term(node)


def _flatten(node: ast.BinOp, depth: int) -> Condition:
    """Returns one group for `a | b | c` or `a & b & c`, which Python reads as pairs, as the structs' operators do."""
    group = AnyOf if isinstance(node.op, ast.BitOr) else AllOf
    operands: list[ast.expr] = []
    left: ast.expr = node
    while isinstance(left, ast.BinOp) and type(left.op) is type(node.op):
        operands.append(left.right)
        left = left.left
    parts: list[Condition] = []
    for operand in (left, *reversed(operands)):
        part = _condition(operand, depth + 1)
        parts += part.conditions if isinstance(part, group) else (part,)
    return group(tuple(parts))


def _term(node: ast.expr) -> Condition:
    match node:
        case ast.Compare():
            term: Condition = read_comparison(node)
        case ast.Call():
            term = read_call(node)
        case ast.Name() | ast.Attribute():
            term = read_name(node)
        case _:
            raise fault_at(node, f"this is not a condition; write one such as {_EXAMPLE}")
    if fault := term_fault(term):
        raise fault_at(node, fault)
    return term


MAX_TERMS: Final = 200
"""The number of terms that a condition may have, groups and negations included."""

MAX_DEPTH: Final = 20
"""The depth to which the groups and negations of a condition may nest."""

MAX_WINDOW: Final = 1_000_000
"""The most judged drafts that `plateau` and `oscillating` may look back over."""

WORDS: Final = (*(each for each in get_args(Quantity) if each not in NAMED), "approved")
"""The words of conditions that name neither a criterion nor a measure."""

COMPARE: Final[dict[Operator, Callable[[float, float], bool]]] = {
    ">=": operator.ge,
    ">": operator.gt,
    "<=": operator.le,
    "<": operator.lt,
    "==": operator.eq,
}
"""The function of each operator."""

COUNTS: Final[frozenset[Quantity]] = frozenset({"errors", "outputs", "tokens"})
"""Quantities that are whole numbers."""

_REFERENCE: Final = re.compile(rf"(?:{CRITIC}\.)?[A-Za-z_]\w*", re.ASCII)
_KINDS: Final = (Compare, Approved, Plateau, Oscillating, Exit, State, AnyOf, AllOf, Not)


def check_condition(condition: Condition) -> Condition:
    """Returns the condition itself; raises ConditionError when a term is wrong, it is too large, or can never hold."""
    for term in terms(condition):
        if fault := term_fault(term):
            raise ConditionError(fault)
    if truth(condition) is False:
        raise ConditionError("the condition can never hold, whatever is measured; the parts under `not` always hold")
    return condition


def terms(condition: object) -> list[Condition]:
    """Returns every term of a condition, outermost first.

    Raises ConditionError on a value that is no term, or above the limits.
    """
    found: list[Condition] = []
    waiting: list[tuple[object, int]] = [(condition, 1)]
    while waiting:
        term, depth = waiting.pop(0)
        if not isinstance(term, _KINDS):
            raise ConditionError(f"{shown(term)} is not a condition; write one such as score >= 0.9")
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
            return _group_members(type(term).__name__, term.conditions)
        case Not():
            return (term.condition,)
        case Compare() | Approved() | Plateau() | Oscillating() | Exit() | State():
            return ()
        case _:
            assert_never(term)


def _group_members(group: str, conditions: object) -> tuple[Condition, ...]:
    if not isinstance(conditions, tuple):
        raise ConditionError(f"{group} takes one tuple of conditions; write a | b, a & b, or {group}((a, b))")
    return conditions


def term_fault(term: Condition) -> str | None:
    """Returns the fault of this one term, without its parts, and its remedy; None when there is none."""
    match term:
        case Compare():
            return _compare_fault(term)
        case Plateau():
            return _plateau_fault(term)
        case Oscillating():
            return _of_fault("oscillating", term.of) or _window_fault("oscillating: window", term.window)
        case AnyOf() | AllOf() if len(term.conditions) < 2:
            return (
                f"{type(term).__name__} joins {len(term.conditions)} conditions; give at least two, or the one itself"
            )
        case State():
            return _state_fault(term)
        case Approved() | Exit() | AnyOf() | AllOf() | Not():
            return None
        case _:
            assert_never(term)


def truth(
    condition: Condition,
    of_score: Callable[[Compare], bool | None] = lambda _: None,
    of_group: Callable[[AnyOf | AllOf], bool | None] = lambda _: None,
) -> bool | None:
    """Returns True when the condition always holds, False when it never can, None when that depends.

    `of_score` says so of a comparison of a score or a criterion, by its scale, and `of_group` of several together.
    """
    match condition:
        case Compare(quantity="score" | "criterion"):
            return of_score(condition)
        case Compare():
            return _compare_truth(condition)
        case Not():
            held = truth(condition.condition, of_score, of_group)
            return None if held is None else not held
        case AnyOf() | AllOf():
            parts = [truth(part, of_score, of_group) for part in condition.conditions]
            joined = _join_truths(parts, decisive=isinstance(condition, AnyOf))
            return of_group(condition) if joined is None else joined
        case Approved() | Plateau() | Oscillating() | Exit() | State():
            return None
        case _:
            assert_never(condition)


def _join_truths(parts: list[bool | None], *, decisive: bool) -> bool | None:
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
    named = is_reference(term.of) if term.quantity in NAMED else not term.of
    if not named:
        return f"{shown(term.of)} is not the name of a criterion; write one such as accuracy or judge.accuracy"
    if term.top is not None and not (is_number(term.top) and term.top > 0):
        return f"of {shown(term.top)} names no scale; write its highest number, such as 1 of 10"
    if term.top is not None and term.quantity not in ("score", "criterion"):
        return f"{term.quantity} has no scale; write one number"
    if term.quantity == "change" and term.of in WORDS:
        return f"change is of a measure, and {term.of} is none; write change(words) < 0.1"
    if term.quantity == "criterion" and term.of in WORDS:
        return f"{term.of} is no criterion or measure; compare it by itself: {term.of} {term.operator} …"
    if term.quantity not in ("score", "criterion") and _compare_truth(term) is False:
        written = f"{name_of(term)} {term.operator} {print_number(term.value)}"
        return f"{written} can never hold, as {_range_of(term.quantity)}; change the number"
    return None


def is_reference(name: object) -> bool:
    """Returns whether this can name a criterion in a condition."""
    return isinstance(name, str) and (name == LOWEST or _REFERENCE.fullmatch(name) is not None)


def _range_of(quantity: Quantity) -> str:
    return f"{quantity} is {'a whole number' if quantity in COUNTS else 'a number'} from 0"


def _compare_truth(term: Compare) -> bool | None:
    low, high = 0.0, math.inf
    if term.operator == "==":
        between = term.quantity in COUNTS and not float(term.value).is_integer()
        return False if between or not low <= term.value <= high else None
    compares = COMPARE[term.operator]
    at_low, at_high = compares(low, term.value), compares(high, term.value)
    return at_low if at_low == at_high else None


def _plateau_fault(term: Plateau) -> str | None:
    if not (is_number(term.gain) and term.gain > 0):
        return (
            f"plateau: gain is {shown(term.gain)}; write a rise of the score above 0, such as 0.01, or points(1, of=10)"
        )
    if term.top is not msgspec.UNSET and not (is_number(term.top) and term.top > 0):
        return f"plateau: gain of {shown(term.top)} names no scale; write its highest number, such as 1 of 10"
    return _of_fault("plateau", term.of) or _window_fault("plateau: over", term.over)


def _state_fault(term: State) -> str | None:
    if not is_value_name(term.of):
        return f"state.{shown(term.of)} names no value; write letters, digits and _, no word of Python"
    if not is_one_of(term.operator, get_args(StateOperator)):
        return f"{shown(term.operator)} does not compare; write one of {' '.join(get_args(StateOperator))}"
    if term.operator == "is":
        return None if term.value is True else f"state.{term.of} is true by itself; write not state.{term.of}"
    if isinstance(term.value, str) and term.operator == "==" and _TEXT.fullmatch(term.value):
        return None
    if not is_number(term.value):
        return f"state.{term.of} is compared with {shown(term.value)}; write a number, or == with a short text"
    return None


def _of_fault(what: str, of: object) -> str | None:
    if of is msgspec.UNSET or (is_reference(of) and of not in WORDS):
        return None
    return f"{what}: {shown(of)} is not the name of a criterion; write one such as accuracy or judge.accuracy"


def _window_fault(what: str, value: object) -> str | None:
    if not is_whole(value, 1, MAX_WINDOW):
        return f"{what} is {shown(value)}; write a whole number of judged drafts, 1 to {MAX_WINDOW:,}"
    return None
