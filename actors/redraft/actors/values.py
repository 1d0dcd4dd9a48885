"""Checks of values in conditions and plans, their display in messages, durations, and a listener that ignores all."""

from __future__ import annotations

import math
import re
import reprlib
from typing import Final

VERSION_FORM: Final = "1 to 100 letters, digits and signs, without blanks"

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s?([smhdw]?)", re.ASCII)
_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def is_number(value: object) -> bool:
    """Returns whether this is an int or a finite float that a float holds exactly; a bool is not."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value) and float(value) == value
    except OverflowError:
        return False


def is_whole(value: object, low: int, high: int) -> bool:
    """Returns whether this is an int, `low` to `high`; a bool is not."""
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def is_one_of(value: object, choices: tuple[str, ...]) -> bool:
    """Returns whether this is one of these texts.

    Nothing else is compared: some values answer `==` with a condition.
    """
    return isinstance(value, str) and value in choices


def is_version(value: object) -> bool:
    """Returns whether this can be the version of an actor's code: 1 to 100 printable characters without blanks."""
    return isinstance(value, str) and 0 < len(value) <= 100 and value.isprintable() and " " not in value


def shown(value: object) -> str:
    """Returns the value as Python writes it, cut to about 30 characters of one line."""
    try:
        return reprlib.repr(value).replace("\n", " ")
    except ValueError:
        return "a number of thousands of digits"


def parse_duration(text: str) -> float | None:
    """Returns the seconds of `90`, `90s`, `2m`, `1.5h`, `2d` or `1w`; None for any other text."""
    found = _DURATION.fullmatch(text)
    return float(found[1]) * _UNITS[found[2]] if found else None


def ignore(*what: object) -> None:
    """Does nothing with a report; the default where a caller need not listen."""
