"""Tells what people's functions raise: the error, the line of theirs that it came from, and whether it may pass."""

from __future__ import annotations

import asyncio
import inspect
import sysconfig
import traceback
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

T = TypeVar("T")


class EndedItself(Exception):
    """A function called `sys.exit`, or raised what else would end a whole process: SystemExit, KeyboardInterrupt."""


FAULTS_OF_CODE: Final = (
    AttributeError,
    EndedItself,
    ImportError,
    NameError,
    NotImplementedError,
    SyntaxError,
    TypeError,
)
"""Errors in the code itself: calling the function again would raise them again."""

_OURS: Final = str(Path(__file__).resolve().parents[1])
_INSTALLED: Final = tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})


def said_by(error: BaseException, form: Callable[[BaseException], str] = str) -> str:
    """Returns what an error says; empty if it cannot say it: its `__str__`, or that of what it names, may raise."""
    try:
        return f"{form(error)}".strip()
    except BaseException:  # noqa: BLE001 - it is the user's own code, and must not end the process
        return ""


def describe_error(error: BaseException, function: Callable[..., Any]) -> str:
    """Returns the error and where the function raised it: `raised ValueError: no such word (loop.py:12)`."""
    said = said_by(error)
    place = place_of(error, function)
    if isinstance(error, EndedItself):
        return f"raised {said}{f' ({place})' if place else ''}; to end its step it must return, or raise PermanentError"
    hint = "; an `await` is missing before what made it" if "'coroutine' object" in said else ""
    return f"raised {type(error).__name__}{': ' if said else ''}{said}{hint}{f' ({place})' if place else ''}"


def without_end(error: BaseException) -> Exception:
    """Returns the error, or what stands for one that must not go on: it would end the process, or upset asyncio."""
    if isinstance(error, SystemExit | KeyboardInterrupt):
        return EndedItself(_shown(error)).with_traceback(error.__traceback__)
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    return RuntimeError(_shown(error)).with_traceback(error.__traceback__)


async def awaited(coming: Awaitable[T]) -> T:
    """Returns what comes. Raises what it raises, but nothing that would end the process: see `without_end`."""
    try:
        return await coming
    except (Exception, asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as error:  # also those of test frameworks, and panics of libraries in Rust
        raise without_end(error) from error


def _shown(error: BaseException) -> str:
    return said_by(error, repr) or type(error).__name__


def place_of(error: BaseException, function: Callable[..., Any]) -> str:
    """Returns file and line of the innermost frame that lies in the function's file, or else in code of this project.

    Empty if there is none, as for an error that was raised elsewhere.
    """
    frames = [(each.filename, each.lineno) for each in traceback.extract_tb(error.__traceback__) if each.lineno]
    own = file_of(function)
    inside = [each for each in frames if each[0] == own]
    theirs = [each for each in frames if not each[0].startswith((_OURS, *_INSTALLED, "<frozen"))]
    if not (inside or theirs):
        return ""
    name, line = (inside or theirs)[-1]
    return f"{_shorten(name)}:{line}"


def traceback_of(error: BaseException) -> list[str]:
    """Returns the frames of an error, from outside to inside, and its class: no message, which may hold a text."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [each for each in frames if not each.filename.startswith(_OURS)] or list(frames)
    return [*(f"{each.filename}:{each.lineno} in {each.name}" for each in theirs), type(error).__name__]


def file_of(function: Callable[..., Any]) -> str:
    """Returns the file that the function was written in; empty where that is not known."""
    while isinstance(function, partial):
        function = function.func
    written = function if inspect.isroutine(function) else type(function).__call__
    code = getattr(inspect.unwrap(written), "__code__", None)
    return str(code.co_filename) if code is not None else ""


def _shorten(name: str) -> str:
    """Returns a file's name as seen from the current folder, if it lies below it."""
    try:
        return str(Path(name).relative_to(Path.cwd()))
    except (OSError, ValueError):
        return name
