"""Values that people write in conditions and plans: what they are, and how a fault shows them in one line."""

from __future__ import annotations

import math
import reprlib


def is_number(value: object) -> bool:
    """Whether this is an int or a finite float that a float holds exactly; a bool is not."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value) and float(value) == value
    except OverflowError:
        return False


def is_whole(value: object, low: int, high: int) -> bool:
    """Whether this is an int, `low` to `high`; a bool is not."""
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def is_one_of(value: object, choices: tuple[str, ...]) -> bool:
    """Whether this is one of these texts; nothing else is compared, as some values answer `==` with a condition."""
    return isinstance(value, str) and value in choices


def shown(value: object) -> str:
    """The value as Python writes it, cut to about 30 characters of one line."""
    try:
        return reprlib.repr(value).replace("\n", " ")
    except ValueError:
        return "a number of thousands of digits"
