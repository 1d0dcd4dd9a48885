"""Reads the terms of a parsed condition: a comparison, a name, `plateau(…)`, `oscillating(…)`."""

from __future__ import annotations

import ast
import math
import re
from difflib import get_close_matches
from functools import lru_cache
from typing import Final, NoReturn, cast, get_args

import msgspec

from redraft.events.errors import ConditionError, suggest
from redraft.events.messages.conditions import (
    LOWEST,
    NAMED,
    Approved,
    Compare,
    Exit,
    Operator,
    Oscillating,
    Plateau,
    Quantity,
    State,
)

MAX_NESTING: Final = 50
"""The depth to which parentheses may nest, and the number of `not`, `~` and `-` that may stand in a row."""

CRITIC: Final = r"(?!\d+\.[eE]\d)\w[\w-]*"
"""The name of a critic before a dot, as a pattern: `2nd`, `12` and `not` too, but not the start of `1.e5`."""

TEXT: Final = r"""(?:"[^"\\\n\r]*"|'[^'\\\n\r]*')"""
"""A text in quotes, as a pattern: no backslash stands in one."""

_WORD: Final = re.compile(
    rf"""
      (?P<text>   {TEXT} )
    | (?P<slip>   && | \|\| | != | <> | => | =< | [!≥≤≠¬%^*/+{{}}\[\]'"`;:@?] )
    | (?P<critic> {CRITIC}\.[A-Za-z_]\w* )
    | (?P<number> (?: \d[\d_]*\.?[\d_]* | \.\d[\d_]* ) (?: [eE][+-]?\d+ )? )
    | (?P<name>   [A-Za-z_]\w* )
    | (?P<sign>   >= | <= | == | [<>|&~(),=-] )
    | (?P<space>  \s+ )
    """,
    re.VERBOSE | re.ASCII,
)
_REMEDIES: Final = {
    "&&": "write `and`",
    "||": "write `or`",
    "!": "write `not`",
    "¬": "write `not`",
    "!=": "write `not (… == …)`",
    "<>": "write `not (… == …)`",
    "≠": "write `not (… == …)`",
    "=>": "write `>=`",
    "≥": "write `>=`",
    "=<": "write `<=`",
    "≤": "write `<=`",
    "%": "write a share of 1, such as 0.9",
}
_PREFIXES: Final = frozenset({"not", "~", "-"})
_JOINING: Final = frozenset({"and", "or", "not"})


def check_words(text: str) -> None:
    """Raises ConditionError at the first token that no condition has, or if the text nests too deep to be parsed."""
    depth = row = position = 0
    while position < len(text):
        word = _word(text, position)
        depth += {"(": 1, ")": -1}.get(word, 0)
        row = row + 1 if word in _PREFIXES else row if word.isspace() else 0
        if max(depth, row) > MAX_NESTING:
            raise _fault_in_text(position, f"more than {MAX_NESTING} levels deep; write a simpler condition")
        position += len(word)


def _word(text: str, position: int) -> str:
    found = _WORD.match(text, position)
    if found is None or found.lastgroup == "slip":
        word = found.group() if found else text[position]
        raise _fault_in_text(position, f"{word!r} means nothing here; {_REMEDIES.get(word, 'remove it')}")
    word = found.group()
    after = text[found.end() : found.end() + 1]
    if found.lastgroup == "number" and (after.isalnum() or after == "_"):
        raise _fault_in_text(
            found.end(), f"{after!r} follows {word}; numbers have no unit (elapsed is seconds), words need a space"
        )
    if found.lastgroup == "name" and word not in _JOINING and word.lower() in _JOINING:
        raise _fault_in_text(position, f"{word!r} is written in small letters here: {word.lower()!r}")
    return word


def _fault_in_text(position: int, fault: str) -> ConditionError:
    return ConditionError(f"condition, column {position + 1}: {fault}")


_QUANTITIES: Final[tuple[str, ...]] = tuple(each for each in get_args(Quantity) if each not in NAMED)
_CALLS: Final[dict[str, tuple[str, ...]]] = {
    "plateau": ("gain", "over", "of"),
    "oscillating": ("window", "of"),
    "exit": (),
}
_EXAMPLES: Final = {
    "plateau": "plateau(gain=0.01, over=2)",
    "oscillating": "oscillating(window=4)",
    "exit": "exit()",
    "change": "change(words) < 0.1",
}
_CHANGE: Final = "change"
_STATE: Final = "state"
_KNOWN: Final = (*_QUANTITIES, "approved", *_CALLS, _CHANGE)
_NEAR: Final = 0.85
"""From how alike a word is taken for a slip of the pen, and not for the name of a criterion."""
_OPERATORS: Final[dict[type[ast.cmpop], Operator]] = {
    ast.GtE: ">=",
    ast.Gt: ">",
    ast.LtE: "<=",
    ast.Lt: "<",
    ast.Eq: "==",
}
_TURNED: Final[dict[Operator, Operator]] = {">=": "<=", ">": "<", "<=": ">=", "<": ">", "==": "=="}


def fault_at(node: ast.expr | ast.keyword, fault: str) -> ConditionError:
    """Returns the error for this part of the text, with its column from 1."""
    return ConditionError(f"condition, column {node.col_offset + 1}: {fault}")


def read_comparison(node: ast.Compare) -> Compare | State:
    """Returns the comparison of a quantity with a number; a number on the left is turned around."""
    _refuse_precedence(node)
    if len(node.ops) > 1:
        raise fault_at(node.comparators[0], "one comparison follows another; write two and join them with `and`")
    operator = _OPERATORS.get(type(node.ops[0]))
    if operator is None:
        raise fault_at(node, "this does not compare; write one of " + " ".join(get_args(Operator)))
    left, right = node.left, node.comparators[0]
    if not _is_number(right) and _is_number(left):
        left, right, operator = right, left, _TURNED[operator]
    if _is_state(left):
        return _read_state(left, operator, right)
    value, top = _number_of(right)
    if isinstance(left, ast.Call) and isinstance(left.func, ast.Name) and left.func.id == _CHANGE:
        return _read_change(left, operator, right)
    name = _quantity(left)
    if name in _QUANTITIES:
        if top is not None and name != "score":
            raise fault_at(right, f"{name} has no scale; write one number, such as {_example_of(name)}")
        return Compare(cast("Quantity", name), operator, value, top=top)
    return Compare("criterion", operator, value, name, top)


def _is_state(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == _STATE


def _read_state(node: ast.expr, operator: Operator, right: ast.expr) -> State:
    """Returns the comparison of a value of the run's state: with a number, or with a text by `==`."""
    assert isinstance(node, ast.Attribute)  # noqa: S101 - `_is_state` saw to it
    match right:
        case ast.Constant(value=str(text)):
            if operator != "==":
                raise fault_at(right, f"a text is compared with ==; write state.{node.attr} == {text!r}")
            return State(node.attr, operator, text)
        case ast.Constant(value=bool(wanted)):
            remedy = f"state.{node.attr}" if wanted else f"not state.{node.attr}"
            raise fault_at(right, f"what is true or false stands by itself; write {remedy}")
        case _:
            value, top = _number_of(right)
            if top is not None:
                raise fault_at(right, "a value of the state has no scale; write one number")
            return State(node.attr, operator, value)


def _read_change(node: ast.Call, operator: Operator, right: ast.expr) -> Compare:
    """Returns the comparison of how much a measure changed: `change(words) < 0.1`."""
    if len(node.args) != 1 or node.keywords:
        raise fault_at(node, "change is of one measure; write change(words) < 0.1")
    if isinstance(node.args[0], ast.Name) and node.args[0].id == "score":
        raise fault_at(node, "change is of a measure, and score is none; write plateau(gain=0.01, over=2)")
    value, top = _number_of(right)
    if top is not None:
        raise fault_at(right, "change has no scale; write a share, such as change(words) < 0.1")
    return Compare("change", operator, value, _reference(node.args[0]))


def read_call(node: ast.Call) -> Plateau | Oscillating | Exit:
    """Returns `plateau(gain=, over=)`, `oscillating(window=)` or `exit()`, with arguments by name or in that order."""
    if not isinstance(node.func, ast.Name):
        raise fault_at(node, f"only {', '.join(_CALLS)} take parentheses")
    known = node.func.id
    if known not in _CALLS:
        _refuse_call(node.func)
    given = _arguments(node, known)
    of = _criterion(given["of"]) if "of" in given else msgspec.UNSET
    if known == "plateau":
        gain, top = _number_of(given["gain"]) if "gain" in given else (Plateau().gain, None)
        over = _over(given, "over", Plateau().over)
        return Plateau(gain, over, of, msgspec.UNSET if top is None else top)
    if known == "oscillating":
        return Oscillating(_over(given, "window", Oscillating().window), of)
    return Exit()


def read_name(node: ast.Name | ast.Attribute) -> Approved | Compare | State:
    """Returns `approved`; any other name that stands alone is a measure that is at least 1: `all_tests_passing`."""
    if _is_state(node):
        return State(cast("ast.Attribute", node).attr)
    if isinstance(node, ast.Attribute):
        return Compare("criterion", ">=", 1.0, _reference(node))
    if node.id == "approved":
        return Approved()
    if node.id in _QUANTITIES:
        raise fault_at(
            node, f"{node.id} is not a condition by itself; compare it with a number, such as {_example_of(node.id)}"
        )
    if node.id in _EXAMPLES:
        raise fault_at(node, f"{node.id} needs parentheses; write {_EXAMPLES[node.id]}")
    return Compare("criterion", ">=", 1.0, _reference(node))


def _refuse_precedence(node: ast.Compare) -> None:
    for side in (node.left, *node.comparators):
        if isinstance(side, ast.BinOp) and isinstance(side.op, ast.BitOr | ast.BitAnd):
            sign, word = ("|", "or") if isinstance(side.op, ast.BitOr) else ("&", "and")
            raise fault_at(side, f"{sign!r} binds closer than a comparison; write {word!r}, or parentheses around each")
        if isinstance(side, ast.UnaryOp) and isinstance(side.op, ast.Invert):
            raise fault_at(
                side, "'~' binds closer than a comparison; write 'not', or parentheses around the comparison"
            )


def _refuse_call(function: ast.Name) -> NoReturn:
    if function.id == _CHANGE:
        raise fault_at(function, f"change is compared with a number; write {_EXAMPLES[_CHANGE]}")
    if function.id in _KNOWN:
        raise fault_at(function, f"{function.id} takes no parentheses; write {_example_of(function.id)}")
    raise _unknown(function, function.id, tuple(_CALLS))


def _example_of(known: str) -> str:
    return {"approved": "approved", "score": "score >= 0.9", "errors": "errors == 0"}.get(known, f"{known} >= 100")


def _arguments(node: ast.Call, known: str) -> dict[str, ast.expr]:
    names = _CALLS[known]
    if len(node.args) > len(names):
        takes = f"{len(names)} arguments" if names else "no arguments"
        raise fault_at(node.args[len(names)], f"{known} takes {takes}; write {_EXAMPLES[known]}")
    given = dict(zip(names, node.args, strict=False))
    for keyword in node.keywords:
        if keyword.arg not in names:
            raise _unknown(keyword, str(keyword.arg), names)
        if keyword.arg in given:
            raise fault_at(keyword, f"{keyword.arg} is given twice; keep one")
        given[keyword.arg] = keyword.value
    return given


def _over(given: dict[str, ast.expr], argument: str, default: int) -> int:
    if argument not in given:
        return default
    node = given[argument]
    value = _literal(node)
    if not isinstance(value, int):
        raise fault_at(node, f"{argument} counts judged drafts; write a whole number such as {default}")
    return value


def _quantity(node: ast.expr) -> str:
    match node:
        case ast.Name(id=known) if known in _QUANTITIES:
            return known
        case ast.Name(id="approved"):
            raise fault_at(node, "approved is not compared; write it alone, or `not approved`")
        case ast.Name() | ast.Attribute() | ast.Call(func=ast.Name(id="min")):
            return _reference(node)
        case _:
            raise fault_at(node, f"only {', '.join(_QUANTITIES)}, criteria and measures are compared with a number")


def _criterion(node: ast.expr) -> str:
    """Returns the name of what has a scale."""
    return _reference(node, "no criterion", "accuracy")


def _reference(node: ast.expr, what: str = "no criterion or measure", such_as: str = "accuracy or words") -> str:
    """Returns the name of a criterion or measure: `accuracy`, `judge.accuracy`, `min(criteria)`, `confidence`."""
    match node:
        case ast.Name(id=known):
            if near := reserved(known):
                other = f"is {what}; write one, such as {such_as}"
                raise fault_at(node, f"{known!r} {other if near == known else f'is not known; did you mean {near}?'}")
            return known
        case ast.Attribute(value=ast.Name(id=critic), attr=known):
            return f"{critic}.{known}"
        case ast.Call(func=ast.Name(id="min"), args=[ast.Name(id="criteria")], keywords=[]):
            return LOWEST
        case ast.Call(func=ast.Name(id="min")):
            raise fault_at(node, f"min is of all criteria; write {LOWEST}")
        case _:
            raise fault_at(node, "write a criterion here, such as accuracy, or judge.accuracy")


@lru_cache(maxsize=256)  # a plan is checked often, and its names are compared with each word
def reserved(name: str) -> str:
    """Returns the word of conditions that a criterion cannot be named as, or nearly as; empty when there is none."""
    return next(iter(get_close_matches(name, _KNOWN, n=1, cutoff=_NEAR)), "")


def _number_of(node: ast.expr) -> tuple[float, float | None]:
    """Returns a number, and the top of the scale that it is said to be on: `1 of 10`."""
    match node:
        case ast.BinOp(op=ast.MatMult(), left=ast.BinOp(op=ast.MatMult())):
            raise fault_at(node, "a number is on one scale; write `of` once, as in 9 of 10")
        case ast.BinOp(op=ast.MatMult(), left=left, right=right):
            return _number(left), _number(right)
        case _:
            return _number(node), None


def _number(node: ast.expr) -> float:
    value = _literal(node)
    if value is None:
        raise fault_at(node, "write a finite number here, such as 0.9")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise fault_at(node, "the number is too large; write a finite one")
    return number


def _is_number(node: ast.expr) -> bool:
    match node:
        case ast.BinOp(op=ast.MatMult(), left=left, right=right):
            return _literal(left) is not None and _literal(right) is not None
        case _:
            return _literal(node) is not None


def _literal(node: ast.expr) -> int | float | None:
    match node:
        case ast.Constant(value=bool()):
            return None
        case ast.Constant(value=int() | float() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)) if not isinstance(
            value, bool
        ):
            return -value
        case _:
            return None


def _unknown(node: ast.expr | ast.keyword, word: str, known: tuple[str, ...]) -> ConditionError:
    return fault_at(node, f"{word!r} is not known; {suggest(word, known)}")
