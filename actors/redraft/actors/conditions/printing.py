"""Conditions as text: what is printed here, `redraft.actors.conditions.text` reads as an equal condition."""

from __future__ import annotations

from typing import assert_never

import msgspec

from redraft.events.messages.conditions import (
    AllOf,
    AnyOf,
    Approved,
    Compare,
    Condition,
    Exit,
    Not,
    Oscillating,
    Plateau,
    State,
)


def print_condition(condition: Condition) -> str:
    """Returns the text of a condition that passes `check_printable`; `parse_condition` reads it as an equal one."""
    match condition:
        case Compare():
            return f"{name_of(condition)} {condition.operator} {print_points(condition.value, condition.top)}"
        case Approved():
            return "approved"
        case Plateau():
            gain = print_points(condition.gain, condition.top)
            return f"plateau(gain={gain}, over={condition.over}{_with_name(condition.of)})"
        case Oscillating():
            return f"oscillating(window={condition.window}{_with_name(condition.of)})"
        case Exit():
            return "exit()"
        case State(operator="is"):
            return name_of(condition)
        case State(operator=sign, value=value):
            return (
                f"{name_of(condition)} {sign} {_print_text(value) if isinstance(value, str) else print_number(value)}"
            )
        case Not():
            return f"not {_part(condition.condition)}"
        case AnyOf():
            return " or ".join(map(_part, condition.conditions))
        case AllOf():
            return " and ".join(map(_part, condition.conditions))
        case _:
            assert_never(condition)


def name_of(term: Compare | State) -> str:
    """Returns what a comparison is about, as people write it."""
    if isinstance(term, State):
        return f"state.{term.of}"
    if term.quantity == "change":
        return f"change({term.of})"
    return term.of if term.quantity == "criterion" else term.quantity


def print_points(value: float, top: float | msgspec.UnsetType | None) -> str:
    """Returns the text of a number, with the scale that is meant, if it says one: `1 of 10`."""
    of = "" if top is None or top is msgspec.UNSET else f" of {print_number(top)}"
    return f"{print_number(value)}{of}"


def _print_text(text: str) -> str:
    return f"'{text}'" if '"' in text else f'"{text}"'


def _with_name(of: str | msgspec.UnsetType) -> str:
    return "" if of is msgspec.UNSET else f", of={of}"


def print_number(value: float) -> str:
    """Returns a number as the shortest text that is read as the same float."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))


def _part(condition: Condition) -> str:
    text = print_condition(condition)
    return f"({text})" if isinstance(condition, AnyOf | AllOf) else text
