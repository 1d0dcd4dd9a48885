"""Checks of a plan's settings, one by one. Each raises PlanError, whose fault begins with the setting's name."""

from __future__ import annotations

import math
from difflib import get_close_matches
from typing import Final

from redraft.actors.values import is_number, is_one_of, is_whole, shown
from redraft.actors.versions import VERSION_FORM, is_version
from redraft.events.errors import PlanError
from redraft.events.plan import Retry

MAX_SECONDS: Final = 24 * 60 * 60.0
"""The longest timeout of a step and the longest wait before it is tried again: 24 hours, in seconds."""

MAX_ATTEMPTS: Final = 100
"""The highest number of attempts."""

MAX_FACTOR: Final = 1_000
"""The highest factor between two waits; with `MAX_ATTEMPTS` it keeps the longest wait a finite float."""

_MIN_INT: Final = -(2**63)
_MAX_INT: Final = 2**63 - 1


def check_choice(path: str, setting: str, value: object, choices: tuple[str, ...]) -> None:
    """Raises PlanError unless the value of this setting is one of the choices."""
    if not is_one_of(value, choices):
        near = get_close_matches(str(value), choices, n=1, cutoff=0.7)
        remedy = f"did you mean {near[0]}?" if near else f"write {' or '.join(choices)}"
        raise PlanError(path, f"{setting} is {shown(value)}; {remedy}")


def check_whole(path: str, setting: str, value: object, highest: int) -> None:
    """Raises PlanError unless the value is an int, 1 to `highest`."""
    if not is_whole(value, 1, highest):
        raise PlanError(path, f"{setting} is {shown(value)}; write a whole number, 1 to {highest:,}")


def check_seconds(path: str, setting: str, value: object, *, zero: bool) -> None:
    """Raises PlanError unless the value is a number of seconds above 0 (or from 0), 24 hours at most."""
    if not (is_number(value) and isinstance(value, int | float) and 0 <= value <= MAX_SECONDS and (zero or value > 0)):
        start = "from" if zero else "above"
        raise PlanError(path, f"{setting} is {shown(value)}; write seconds, {start} 0 and at most 24 hours (86400)")


def check_retry(path: str, retry: object) -> None:
    """Raises PlanError unless this is a Retry whose every number is in range."""
    if not isinstance(retry, Retry):
        raise PlanError(path, f"retry is {shown(retry)}; write Retry(attempts=3)")
    check_whole(path, "retry.attempts", retry.attempts, MAX_ATTEMPTS)
    check_seconds(path, "retry.initial", retry.initial, zero=True)
    check_seconds(path, "retry.maximum", retry.maximum, zero=True)
    if not (is_number(retry.factor) and 1 <= retry.factor <= MAX_FACTOR):
        raise PlanError(path, f"retry.factor is {shown(retry.factor)}; write a number, 1 to {MAX_FACTOR:,}")


def check_options(path: str, options: object) -> None:
    """Raises PlanError unless these are options that can be stored and sent to an actor."""
    if not isinstance(options, dict):
        raise PlanError(path, f"with is {shown(options)}; give names with values")
    for key, value in options.items():
        if not (_is_text(key) and key):
            raise PlanError(path, f"with has the name {shown(key)}; an option's name is text")
        if not _is_option(value):
            remedy = "give text, a finite number, true, false, a list of texts and whole numbers, or a mapping of texts"
            raise PlanError(path, f"with.{shown(key)[1:-1]} is {shown(value)}; {remedy}")


def check_version(path: str, version: object) -> None:
    """Raises PlanError unless this is the version of an actor's code, or empty."""
    if not (isinstance(version, str) and not version) and not is_version(version):
        raise PlanError(path, f"version is {shown(version)}; write {VERSION_FORM}")


def _is_option(value: object) -> bool:
    match value:
        case bool():
            return True
        case int():
            return is_whole(value, _MIN_INT, _MAX_INT)
        case float():
            return math.isfinite(value)
        case list():
            return all(_is_text(each) or is_whole(each, _MIN_INT, _MAX_INT) for each in value)
        case dict():
            return all(_is_text(key) and _is_text(each) for key, each in value.items())
        case _:
            return _is_text(value)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)
