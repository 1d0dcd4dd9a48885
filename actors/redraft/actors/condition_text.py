"""Conditions as text, the same in YAML, in Python and on the command line.

    score >= 0.9 or plateau(gain=0.01, over=2)

The text is a Python expression: it is split into words, parsed with `ast`, and turned into the structs of
`redraft.events.conditions`. It is never evaluated.
"""

from __future__ import annotations

import ast
from typing import Final, assert_never

from redraft.actors.condition_check import check_condition, term_fault
from redraft.actors.condition_terms import call, compare, name, refused
from redraft.actors.condition_words import MAX_NESTING, check_words
from redraft.events.conditions import AllOf, AnyOf, Approved, Compare, Condition, Not, Oscillating, Plateau
from redraft.events.errors import ConditionError

MAX_CHARACTERS: Final = 2_000
"""The longest text of a condition."""

_EXAMPLE: Final = "score >= 0.9 or plateau(gain=0.01, over=2)"


def parse_condition(text: str) -> Condition:
    """The condition that a text says; raises ConditionError with the column (from 1) and the remedy.

    `a | b | c` is one group, as in Python, and so is `a or b or c`; `(a or b) or c` stays a group within a group.
    """
    if len(text) > MAX_CHARACTERS:
        raise ConditionError(f"condition: {len(text):,} characters, more than {MAX_CHARACTERS:,}; write a shorter one")
    if not text.strip():
        raise ConditionError(f"condition: the text is empty; write one such as {_EXAMPLE}")
    check_words(text)
    return check_printable(_condition(_parsed(text), 1))


def print_condition(condition: Condition) -> str:
    """The text of a condition that passes `check_printable`; `parse_condition` reads it as an equal condition."""
    match condition:
        case Compare():
            return f"{condition.quantity} {condition.operator} {print_number(condition.value)}"
        case Approved():
            return "approved"
        case Plateau():
            return f"plateau(gain={print_number(condition.gain)}, over={condition.over})"
        case Oscillating():
            return f"oscillating(window={condition.window})"
        case Not():
            return f"not {_part(condition.condition)}"
        case AnyOf():
            return " or ".join(map(_part, condition.conditions))
        case AllOf():
            return " and ".join(map(_part, condition.conditions))
        case _:
            assert_never(condition)


def check_printable(condition: Condition) -> Condition:
    """The condition itself; raises ConditionError when it is wrong or its text would be too long to be read again."""
    length = len(print_condition(check_condition(condition)))
    if length > MAX_CHARACTERS:
        raise ConditionError(
            f"the condition has {length:,} characters as text; write fewer terms, {MAX_CHARACTERS:,} at most"
        )
    return condition


def print_number(value: float) -> str:
    """A number as short as it can be and still be read as the same float."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))


def _part(condition: Condition) -> str:
    text = print_condition(condition)
    return f"({text})" if isinstance(condition, AnyOf | AllOf) else text


def _parsed(text: str) -> ast.expr:
    spaces = len(text) - len(text.lstrip())
    line = "".join(" " if character.isspace() else character for character in text)
    try:
        body = ast.parse(line.strip(), mode="eval").body
    except SyntaxError as error:
        column = max(error.offset or 1, 1) + spaces
        raise ConditionError(
            f"condition, column {column}: cannot be read from here; write one such as {_EXAMPLE}"
        ) from None
    except (MemoryError, RecursionError):
        raise ConditionError("condition: nested too deeply; write a simpler one") from None
    for node in ast.walk(body):
        if isinstance(node, ast.expr | ast.keyword):
            node.col_offset += spaces
    return body


def _condition(node: ast.expr, depth: int) -> Condition:
    if depth > MAX_NESTING:
        raise refused(node, "nested too deeply; write a simpler condition")
    match node:
        case ast.BoolOp():
            parts = tuple(_condition(value, depth + 1) for value in node.values)
            return AnyOf(parts) if isinstance(node.op, ast.Or) else AllOf(parts)
        case ast.BinOp(op=ast.BitOr() | ast.BitAnd()):
            return _joined(node, depth)
        case ast.UnaryOp(op=ast.Not() | ast.Invert()):
            return Not(_condition(node.operand, depth + 1))
        case _:
            return _term(node)


def _joined(node: ast.BinOp, depth: int) -> Condition:
    """`a | b | c` and `a & b & c`, which Python reads as pairs: one group, as the operators of the structs make it."""
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
            term: Condition = compare(node)
        case ast.Call():
            term = call(node)
        case ast.Name():
            term = name(node)
        case _:
            raise refused(node, f"this is no condition; write one such as {_EXAMPLE}")
    if fault := term_fault(term):
        raise refused(node, fault)
    return term
