"""Which state of an actor's code is meant: a plan names it when its run begins, and a worker compares its own."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from textwrap import dedent
from typing import Any, Final

LONGEST: Final = 100
VERSION_FORM: Final = f"1 to {LONGEST} letters, digits and signs, without blanks"
_DIGITS: Final = 12


def is_version(value: object) -> bool:
    """Whether this can be a version: 1 to 100 printable characters without blanks."""
    return isinstance(value, str) and 0 < len(value) <= LONGEST and value.isprintable() and " " not in value


def source_version(function: Callable[..., Any]) -> str:
    """The first 12 hex digits of the SHA-256 of the function's own source, decorators included; of an object's class.

    What the function calls is not part of it. Empty where the source is not to be had, as for what was typed into a
    prompt.
    """
    while isinstance(function, partial):
        function = function.func
    written = function if inspect.isroutine(function) else type(function)
    try:
        source = inspect.getsource(written)
    except (OSError, TypeError, SyntaxError, IndentationError):
        return ""
    return sha256(dedent(source).encode(errors="replace")).hexdigest()[:_DIGITS]
