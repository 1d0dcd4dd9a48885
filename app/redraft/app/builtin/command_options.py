"""What a plan may say about a program that serves as an actor, and the argument list that comes of it."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias, TypeVar

import msgspec

from redraft.app.builtin.options import read_options
from redraft.app.builtin.process import OUTPUT_LIMIT
from redraft.events.content import MAX_DRAFT_BYTES
from redraft.events.errors import PermanentError
from redraft.events.plan import Option

ACTOR: Final = "command"

_Limit: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=64 * 1024 * 1024)]
_Share: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1)]

_PLACEHOLDER: Final = re.compile(r"\{(file|here|critique)\}")
_SUFFIX: Final = re.compile(r"\.[A-Za-z0-9_][A-Za-z0-9_.-]{0,15}")


class CommandOptions(msgspec.Struct, frozen=True):
    """What every role can say: the program, how it gets the text, what counts as success, what it may know and print.

    `run` is the program and its arguments; no shell reads them. `suffix` is that of the temporary file (by default the
    source's own, or `.txt`). `ok_codes` are exit codes, as numbers or in quotes. `output_limit` is bytes in all.
    """

    run: tuple[str, ...] = ()
    input: Literal["stdin", "file"] = "stdin"
    suffix: str = ""
    ok_codes: tuple[int | str, ...] = (0,)
    env_pass: tuple[str, ...] = ()
    output_limit: _Limit = OUTPUT_LIMIT

    def is_ok(self, code: int) -> bool:
        """Whether the program succeeded."""
        return str(code) in map(str, self.ok_codes)


class CriticOptions(CommandOptions, frozen=True):
    """A critic's: how its output is read, and what one finding costs (0..1)."""

    parser: Literal["exit", "ruff", "pytest", "mypy", "lines"] = "exit"
    cost_per_finding: _Share = 0.1


class WriterOptions(CommandOptions, frozen=True):
    """A generator's or refiner's: where the new text is. Its output may be as large as a draft may be."""

    output: Literal["stdout", "file"] = "stdout"
    output_limit: _Limit = MAX_DRAFT_BYTES + OUTPUT_LIMIT


O = TypeVar("O", bound=CommandOptions)  # noqa: E741 - the options of one role


def command_options(kind: type[O], options: Mapping[str, Option]) -> O:
    """A step's options, checked strictly and against each other; raises PermanentError with the remedy."""
    if isinstance(text := options.get("run"), str):
        raise PermanentError(f"{ACTOR}: option run is one text, and no shell reads it; write run: {_as_list(text)}")
    chosen = read_options(kind, options, ACTOR)
    for fault in (_run_fault(chosen.run), _file_fault(chosen), _suffix_fault(chosen.suffix), _code_fault(chosen)):
        if fault:
            raise PermanentError(f"{ACTOR}: {fault}")
    return chosen


def arguments(run: tuple[str, ...], places: Mapping[str, Path]) -> tuple[str, ...]:
    """The argument list with `{file}`, `{here}` and `{critique}` replaced, once and anywhere in an argument.

    A program that is named by a relative path is looked for in `{here}`. Raises PermanentError when the role has no
    such place.
    """

    def place(found: re.Match[str]) -> str:
        if found[1] not in places:
            raise PermanentError(f"{ACTOR}: there is no {found[0]} in this role; take it out of run")
        return str(places[found[1]])

    program, *rest = (_PLACEHOLDER.sub(place, each) for each in run)
    if "/" in program:
        program = str(places["here"] / program)
    return (program, *rest)


def _run_fault(run: tuple[str, ...]) -> str | None:
    if not run or not run[0].strip():
        return 'option run names no program; write the program and its arguments, such as run: ["ruff", "check", "-"]'
    if "{file}" in run[0] or "{critique}" in run[0]:
        return f"a text cannot be the program itself; name what reads it, such as run: [python, {run[0]!r}]"
    return None


def _file_fault(options: CommandOptions) -> str | None:
    named = any("{file}" in each for each in options.run)
    if options.input == "file" and not named:
        return "option input is file, but no argument says {file}; add it where the program expects a file's name"
    if options.input == "stdin" and named:
        return "an argument says {file}, but the text goes to standard input; add the option input: file"
    if isinstance(options, WriterOptions) and options.output == "file" and options.input == "stdin":
        return "option output is file, but no file is given to the program; add the option input: file"
    return None


def _suffix_fault(suffix: str) -> str | None:
    if suffix and not _SUFFIX.fullmatch(suffix):
        return f"option suffix cannot be {suffix!r}; write a dot and up to 16 letters or digits, such as .py"
    return None


def _code_fault(options: CommandOptions) -> str | None:
    for code in options.ok_codes:
        if not re.fullmatch("[0-9]{1,3}", str(code)):
            return f"option ok_codes holds {code!r}; write exit codes, 0 to 255"
    return None


def _as_list(text: str) -> str:
    try:
        return json.dumps(shlex.split(text) or ["program", "argument"])
    except ValueError:
        return json.dumps([text])
