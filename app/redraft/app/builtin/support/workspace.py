"""Gives a program a temporary folder and a clean environment, and describes how it ended and what it printed."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, TypeAlias

from redraft.app.builtin.support.process import GRACE, Finished
from redraft.events.errors import PermanentError, StepError
from redraft.projections.display import plain

_Folder: TypeAlias = "tempfile.TemporaryDirectory[str]"


@asynccontextmanager
async def workspace() -> AsyncIterator[Path]:
    """A new empty folder for one program; removed with all that is in it, whatever happened.

    Raises StepError when it cannot be made.
    """
    making = asyncio.ensure_future(asyncio.to_thread(_make))
    try:
        folder = await asyncio.shield(making)
    except asyncio.CancelledError:
        making.add_done_callback(_remove_unused)
        raise
    try:
        yield Path(folder.name)
    finally:
        await asyncio.to_thread(folder.cleanup)


def environment(home: Path, passed: Sequence[str], outer: Mapping[str, str], actor: str) -> dict[str, str]:
    """PATH, HOME, TMPDIR and LANG, and the variables of `outer` that are `passed` by name.

    Programs that are installed beside Redraft's Python are found after all others. Raises PermanentError when a name
    that is to be passed is not set; the message never holds a value.
    """
    missing = [name for name in passed if name not in outer]
    if missing:
        raise PermanentError(
            f"{actor}: option env_pass names {', '.join(missing)}, not set here; set it where the worker runs"
        )
    path = os.pathsep.join((outer.get("PATH", os.defpath), str(Path(sys.executable).parent)))
    clean = {"PATH": path, "HOME": str(home), "TMPDIR": str(home), "LANG": "C.UTF-8"}
    return clean | {name: outer[name] for name in passed}


def _make() -> _Folder:
    try:
        return tempfile.TemporaryDirectory(
            prefix="redraft-", dir=Path(tempfile.gettempdir()).resolve(), ignore_cleanup_errors=True
        )
    except OSError as error:
        raise StepError(f"no temporary folder can be made: {error.strerror}; free some space or set TMPDIR") from None


def _remove_unused(making: asyncio.Future[_Folder]) -> None:
    if not making.cancelled() and making.exception() is None:
        making.result().cleanup()


MESSAGE_LENGTH: Final = 500
"""Characters of a message that are kept."""

_TAIL: Final = 5
_MASKED_LENGTH: Final = 4
_ANSI: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|.?)")


def clean_line(text: str) -> str:
    """One line that is safe to show: no colours, no control characters, at most MESSAGE_LENGTH characters."""
    return plain(without_colours(text[: 8 * MESSAGE_LENGTH]), MESSAGE_LENGTH)


def without_colours(text: str) -> str:
    """The text without the terminal's escape sequences."""
    return _ANSI.sub("", text)


def without_folder(text: str, folder: Path) -> str:
    """The text with the paths of a temporary folder made relative to it."""
    return text.replace(f"{folder}/", "").replace(str(folder), ".")


def working_time(timeout: float) -> float:
    """The seconds a program has of a step's `timeout`; the rest, a tenth or twice GRACE at most, is for ending it."""
    return max(0.9 * timeout, timeout - 2 * GRACE)


def refuse_unfinished(finished: Finished, name: str, timeout: float, limit: int) -> None:
    """Raises PermanentError when the program was ended for its output, StepError when for its deadline."""
    if finished.truncated:
        raise PermanentError(
            f"{name}: it printed more than {limit:,} bytes and was ended; make it print less or raise output_limit"
        )
    if finished.timed_out:
        raise StepError(f"{name}: it did not end within the step's {timeout:g} s and was ended; raise timeout")


def last_words(text: str) -> str:
    """The last lines of an output that say anything, in one line."""
    lines = [clean for line in text[-20_000:].splitlines()[-40:] if (clean := clean_line(line))]
    return clean_line(" | ".join(lines[-_TAIL:]))


def how_it_ended(code: int) -> str:
    """`exit code 2`, or `ended by SIGSEGV`."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"ended by signal {-code}"


def passed_values(names: Iterable[str], outer: Mapping[str, str]) -> tuple[str, ...]:
    """The values of variables that were passed to a program, which must not be recorded; the very short left out."""
    return tuple(value for name in names if len(value := outer.get(name, "")) >= _MASKED_LENGTH)


def recordable(text: str, folder: Path, masked: Iterable[str] = ()) -> str:
    """A program's words without colours, the temporary folder's path, or the values of passed variables."""
    text = without_folder(without_colours(text), folder)
    for value in masked:
        text = text.replace(value, "***")
    return text


def read_last_lines(finished: Finished, hide: Callable[[str], str]) -> str:
    """The last lines on standard error, or on standard output when there are none."""
    streams = (finished.stderr, finished.stdout)
    return next(filter(None, (last_words(hide(raw.decode(errors="replace"))) for raw in streams)), "")
