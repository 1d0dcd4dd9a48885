"""The terms of a parsed condition: a comparison, `approved`, `plateau(…)`, `oscillating(…)`."""

from __future__ import annotations

import ast
import math
from difflib import get_close_matches
from typing import Final, NoReturn, cast, get_args

from redraft.events.conditions import Approved, Compare, Operator, Oscillating, Plateau, Quantity
from redraft.events.errors import ConditionError

_QUANTITIES: Final[tuple[str, ...]] = get_args(Quantity)
_CALLS: Final = {"plateau": ("gain", "over"), "oscillating": ("window",)}
_RIGHT: Final = {"plateau": "plateau(gain=0.01, over=2)", "oscillating": "oscillating(window=4)"}
_KNOWN: Final = (*_QUANTITIES, "approved", *_CALLS)
_OPERATORS: Final[dict[type[ast.cmpop], Operator]] = {
    ast.GtE: ">=",
    ast.Gt: ">",
    ast.LtE: "<=",
    ast.Lt: "<",
    ast.Eq: "==",
}
_TURNED: Final[dict[Operator, Operator]] = {">=": "<=", ">": "<", "<=": ">=", "<": ">", "==": "=="}


def refused(node: ast.expr | ast.keyword, fault: str) -> ConditionError:
    """The fault of this part of the text, with its column from 1."""
    return ConditionError(f"condition, column {node.col_offset + 1}: {fault}")


def compare(node: ast.Compare) -> Compare:
    """A quantity against a number; a number on the left is turned around."""
    _refuse_precedence(node)
    if len(node.ops) > 1:
        raise refused(node.comparators[0], "one comparison follows another; write two and join them with `and`")
    operator = _OPERATORS.get(type(node.ops[0]))
    if operator is None:
        raise refused(node, "this does not compare; write one of " + " ".join(get_args(Operator)))
    left, right = node.left, node.comparators[0]
    if not _is_number(right) and _is_number(left):
        left, right, operator = right, left, _TURNED[operator]
    return Compare(_quantity(left), operator, _number(right))


def call(node: ast.Call) -> Plateau | Oscillating:
    """`plateau(gain=, over=)` or `oscillating(window=)`, with arguments by name or in that order."""
    if not isinstance(node.func, ast.Name):
        raise refused(node, f"only {' and '.join(_CALLS)} take parentheses")
    known = node.func.id
    if known not in _CALLS:
        _refuse_call(node.func)
    given = _arguments(node, known)
    if known == "plateau":
        return Plateau(
            _number(given["gain"]) if "gain" in given else Plateau().gain, _over(given, "over", Plateau().over)
        )
    return Oscillating(_over(given, "window", Oscillating().window))


def name(node: ast.Name) -> Approved:
    """`approved`, the only name that stands alone."""
    if node.id == "approved":
        return Approved()
    if node.id in _QUANTITIES:
        raise refused(node, f"{node.id} alone says nothing; compare it with a number, such as {_right(node.id)}")
    if node.id in _CALLS:
        raise refused(node, f"{node.id} needs parentheses; write {_RIGHT[node.id]}")
    raise _unknown(node, node.id, _KNOWN)


def _refuse_precedence(node: ast.Compare) -> None:
    for side in (node.left, *node.comparators):
        if isinstance(side, ast.BinOp) and isinstance(side.op, ast.BitOr | ast.BitAnd):
            sign, word = ("|", "or") if isinstance(side.op, ast.BitOr) else ("&", "and")
            raise refused(side, f"{sign!r} binds closer than a comparison; write {word!r}, or parentheses around each")
        if isinstance(side, ast.UnaryOp) and isinstance(side.op, ast.Invert):
            raise refused(side, "'~' binds closer than a comparison; write 'not', or parentheses around the comparison")


def _refuse_call(function: ast.Name) -> NoReturn:
    if function.id in _KNOWN:
        raise refused(function, f"{function.id} takes no parentheses; write {_right(function.id)}")
    raise _unknown(function, function.id, tuple(_CALLS))


def _right(known: str) -> str:
    return {"approved": "approved", "score": "score >= 0.9", "errors": "errors == 0"}.get(known, f"{known} >= 100")


def _arguments(node: ast.Call, known: str) -> dict[str, ast.expr]:
    names = _CALLS[known]
    if len(node.args) > len(names):
        raise refused(node.args[len(names)], f"{known} takes {len(names)} arguments; write {_RIGHT[known]}")
    given = dict(zip(names, node.args, strict=False))
    for keyword in node.keywords:
        if keyword.arg not in names:
            raise _unknown(keyword, str(keyword.arg), names)
        if keyword.arg in given:
            raise refused(keyword, f"{keyword.arg} is given twice; keep one")
        given[keyword.arg] = keyword.value
    return given


def _over(given: dict[str, ast.expr], argument: str, default: int) -> int:
    if argument not in given:
        return default
    node = given[argument]
    value = _literal(node)
    if not isinstance(value, int):
        raise refused(node, f"{argument} counts judged drafts; write a whole number such as {default}")
    return value


def _quantity(node: ast.expr) -> Quantity:
    match node:
        case ast.Name(id=known) if known in _QUANTITIES:
            return cast("Quantity", known)
        case ast.Name(id="approved"):
            raise refused(node, "approved is not compared; write it alone, or `not approved`")
        case ast.Name(id=known):
            raise _unknown(node, known, _QUANTITIES)
        case _:
            raise refused(node, f"only {', '.join(_QUANTITIES)} are compared with a number")


def _number(node: ast.expr) -> float:
    value = _literal(node)
    if value is None:
        raise refused(node, "a finite number is due here, such as 0.9")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise refused(node, "the number is too large; write a finite one")
    return number


def _is_number(node: ast.expr) -> bool:
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
    near = get_close_matches(word, known, n=1)
    remedy = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
    return refused(node, f"{word!r} is not known; {remedy}")
