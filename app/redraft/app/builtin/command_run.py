"""One program run for the actor `command`: its folder, its files, and what it answered."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath
from typing import Final

from redraft.actors.roles import Context
from redraft.app.builtin.command_options import ACTOR, CommandOptions, WriterOptions, arguments
from redraft.app.builtin.parsers import clean_line, without_colours, without_folder
from redraft.app.builtin.process import GRACE, Finished, run_process
from redraft.app.builtin.workspace import environment, workspace
from redraft.events.errors import PermanentError, StepError

_TAIL: Final = 5
_MASKED_LENGTH: Final = 4


@dataclass(frozen=True, slots=True)
class Answer:
    """What a program answered: its raw output, both streams as text fit to be recorded, and what it left in its file.

    `failure` says in a line how it ended, and its last words.
    """

    name: str
    code: int
    stdout: bytes
    printed: tuple[str, str]
    failure: str
    file: bytes


async def run_command(
    options: CommandOptions, text: str, source: str, context: Context, critique: bytes | None = None
) -> Answer:
    """Runs the program on the text. Raises StepError past the deadline, PermanentError above the output limit."""
    async with workspace() as folder:
        places = {"here": Path.cwd()}
        if options.input == "file":
            places["file"] = folder / f"draft{options.suffix or suffix_of(source)}"
            await asyncio.to_thread(places["file"].write_bytes, text.encode())
        if critique is not None:
            places["critique"] = folder / "critique.json"
            await asyncio.to_thread(places["critique"].write_bytes, critique)
        finished = await run_process(
            arguments(options.run, places),
            stdin=text.encode() if options.input == "stdin" else b"",
            timeout=working_time(context.timeout),
            output_limit=options.output_limit,
            cwd=folder,
            env=environment(folder, options.env_pass, os.environ, ACTOR),
        )
        name = f"{ACTOR} {PurePath(options.run[0]).name}"
        refuse_unfinished(finished, name, context.timeout, options.output_limit)
        wanted = isinstance(options, WriterOptions) and options.output == "file"
        left = await asyncio.to_thread(_left, places["file"], name, options.output_limit) if wanted else b""
    return _answer(name, finished, folder, left, options)


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
    said = [clean for line in text[-20_000:].splitlines()[-40:] if (clean := clean_line(line))]
    return clean_line(" | ".join(said[-_TAIL:]))


def how_it_ended(code: int) -> str:
    """`exit code 2`, or `ended by SIGSEGV`."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"ended by signal {-code}"


def suffix_of(source: str) -> str:
    """The suffix of the brief's source, or `.txt` when it has none that is plain."""
    suffix = PurePath(source).suffix
    return suffix if suffix[1:].isalnum() and suffix.isascii() and len(suffix) <= 16 else ".txt"


def passed_values(names: Iterable[str], outer: Mapping[str, str]) -> tuple[str, ...]:
    """The values of variables that were passed to a program, which must not be recorded; the very short left out."""
    return tuple(value for name in names if len(value := outer.get(name, "")) >= _MASKED_LENGTH)


def recordable(text: str, folder: Path, masked: Iterable[str] = ()) -> str:
    """A program's words without colours, the temporary folder's path, or the values of passed variables."""
    text = without_folder(without_colours(text), folder)
    for value in masked:
        text = text.replace(value, "***")
    return text


def said_last(finished: Finished, hide: Callable[[str], str]) -> str:
    """The last lines on standard error, or on standard output when there are none."""
    streams = (finished.stderr, finished.stdout)
    return next(filter(None, (last_words(hide(raw.decode(errors="replace"))) for raw in streams)), "")


def _answer(name: str, finished: Finished, folder: Path, left: bytes, options: CommandOptions) -> Answer:
    hide = partial(recordable, folder=folder, masked=passed_values(options.env_pass, os.environ))
    printed = (hide(finished.stdout.decode(errors="replace")), hide(finished.stderr.decode(errors="replace")))
    failure = ": ".join(filter(None, (how_it_ended(finished.code), said_last(finished, hide))))
    return Answer(name, finished.code, finished.stdout, printed, failure, left)


def _left(path: Path, name: str, limit: int) -> bytes:
    """What the program left in its file, if that still is a plain file of at most `limit` bytes."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise StepError(f"{name}: the file that it was given cannot be read: {error.strerror}") from None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise StepError(f"{name}: it left something that is not a plain file; have it change the file in place")
        with os.fdopen(handle, "rb", closefd=False) as file:
            raw = file.read(limit + 1)
    finally:
        os.close(handle)
    if len(raw) > limit:
        raise PermanentError(f"{name}: it left a file of more than {limit:,} bytes; raise output_limit")
    return raw
