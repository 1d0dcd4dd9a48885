"""Reads the query string of a page's address into the page's struct; refuses invalid values with a one-line error."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec
from msgspec import inspect

from redraft.app.server.problems import Refused
from redraft.app.server.wanted import wanted_text

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
    wanted = next((wanted_text(each.type) for each in described.fields if each.encode_name == name), "")
    return f"{name}={given.get(name, '')[:100]}: give {wanted}" if wanted else fault
