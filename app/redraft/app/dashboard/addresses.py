"""What the query of an address selects, read into the struct that a page wants, or refused in a line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec
from msgspec import inspect

from redraft.app.server.problems import Refused

T = TypeVar("T")

_WHERE: Final = re.compile(r" - at `\$\.(\w+)`$")


def read_query(given: Mapping[str, str], kind: type[T]) -> T:
    """Returns what parameters select; those that are empty are left out. Raises Refused for what does not fit."""
    chosen = {name: value for name, value in given.items() if value}
    try:
        return msgspec.convert(chosen, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Refused(400, "parameters", _told(str(error), chosen, kind)) from None


def _told(fault: str, given: Mapping[str, str], kind: type) -> str:
    """Returns which parameter does not fit, and what would."""
    found = _WHERE.search(fault)
    name = found[1] if found else ""
    described = inspect.type_info(kind)
    assert isinstance(described, inspect.StructType)  # noqa: S101 - pages read structs
    wanted = next((_wanted(each.type) for each in described.fields if each.encode_name == name), "")
    return f"{name}={given.get(name, '')[:100]}: give {wanted}" if wanted else fault


def _wanted(kind: inspect.Type) -> str:
    """Returns what a field may hold, in words; nothing where the library's own words have to do."""
    match kind:
        case inspect.UnionType(types=types):
            return " or ".join(each for each in map(_wanted, types) if each)
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
