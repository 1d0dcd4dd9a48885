"""The state of a run: named values of JSON, which steps change and conditions and actors read."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from keyword import iskeyword
from typing import Any, Final, TypeAlias

import msgspec

Value: TypeAlias = bool | int | float | str | list[Any] | dict[str, Any] | None
"""A value of a run's state: JSON of any shape."""

Values: TypeAlias = dict[str, Value]
"""Values of a run's state by name."""

MAX_STATE: Final = 256 * 1024
"""The largest state of a run, in bytes of JSON."""

MAX_NESTING: Final = 20
"""The depth to which lists and mappings of a value may nest."""

_NAME: Final = re.compile(r"[A-Za-z_]\w{0,99}", re.ASCII)
_LARGEST: Final = 2**63


def is_value_name(name: object) -> bool:
    """Returns whether a value can have this name: a word of at most 100 letters, digits and `_`, and none of Python."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None and not iskeyword(name)


def values_fault(values: object) -> str:
    """Returns why these cannot be values of a run's state, and the remedy; empty when they can."""
    if not isinstance(values, Mapping):
        return f"a {type(values).__name__} is given; give values by name"
    for name, value in values.items():
        if not is_value_name(name):
            remedy = "write at most 100 of A to Z, digits and _, no digit first, and no word of Python"
            return f"{str(name)[:100]!r} cannot name a value; {remedy}"
        if fault := _fault(value, 1):
            return f"{name} {fault}"
    return ""


def size_fault(values: Mapping[str, Value]) -> str:
    """Returns that a run's state would be too large; empty when it is not."""
    size = len(msgspec.json.encode(values))
    return (
        "" if size <= MAX_STATE else f"the state has {size:,} bytes, more than {MAX_STATE:,}; put large texts elsewhere"
    )


def _fault(value: object, depth: int) -> str:
    if depth > MAX_NESTING:
        return f"nests more than {MAX_NESTING} deep; make it flatter"
    match value:
        case None | bool():
            return ""
        case int():
            return "" if -_LARGEST <= value < _LARGEST else "is a number of more than 64 bits; write it as text"
        case float():
            return "" if math.isfinite(value) else f"is {value}, which JSON does not have; use null"
        case str():
            return "" if _is_text(value) else "has half a character, which cannot be written as UTF-8; remove it"
        case list():
            return next(filter(None, (_fault(each, depth + 1) for each in value)), "")
        case dict():
            if not all(isinstance(name, str) and _is_text(name) for name in value):
                return "has a name that is no text; write names as text"
            return next(filter(None, (_fault(each, depth + 1) for each in value.values())), "")
        case _:
            return (
                f"is a {type(value).__name__}; use JSON: text, numbers, true, false, null, lists and mappings of those"
            )


def _is_text(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)
