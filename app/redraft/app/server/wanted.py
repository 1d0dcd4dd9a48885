"""Describes in words which values a parameter takes, for error messages."""

from __future__ import annotations

from msgspec import inspect


def wanted_text(kind: inspect.Type) -> str:
    """Returns what a field may hold, in words; nothing where the library's own words have to do."""
    match kind:
        case inspect.UnionType(types=types):
            return " or ".join(each for each in map(wanted_text, types) if each)
        case inspect.LiteralType(values=values):
            return f"one of {', '.join(map(str, values))}"
        case inspect.IntType(ge=least, le=most):
            return f"a whole number{_bounds(least, most)}"
        case inspect.FloatType(ge=least, le=most):
            return f"a number{_bounds(least, most)}"
        case inspect.BoolType():
            return "true or false"
        case _:
            return ""


def _bounds(least: float | None, most: float | None) -> str:
    lower = "" if least is None else f" from {least:g}"
    return lower if most is None else f"{lower} up to {most:g}"
