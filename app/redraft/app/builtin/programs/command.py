"""Any program as an actor named `command`: a critic, a generator or a refiner. A plan has to name it and its program.

- critique: {actor: command, with: {run: [mypy, "{file}"], input: file, suffix: .py, parser: mypy}}
- refine: {actor: command, with: {run: [black, -q, "-"]}}
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

import msgspec

from redraft.actors.checkout import check_out, folder_text
from redraft.actors.workflow.context import Context
from redraft.actors.workflow.counting import command_measures
from redraft.actors.workflow.roles import critic, generator, refiner
from redraft.app.builtin.programs.parsers import PARSERS, pytest_counts
from redraft.app.builtin.support.options import RELEASE, changed_lines, listed, read_options
from redraft.app.builtin.support.process import OUTPUT_LIMIT, Finished, run_process
from redraft.app.builtin.support.workspace import (
    environment,
    how_it_ended,
    passed_values,
    read_last_lines,
    recordable,
    refuse_unfinished,
    without_folder,
    working_time,
    workspace,
)
from redraft.events.errors import ContentError, PermanentError, StepError
from redraft.events.messages.codec import UNREADABLE
from redraft.events.messages.content import MAX_DRAFT_BYTES, Brief, Critique, Draft, History, Number, Revision
from redraft.events.messages.folders import File
from redraft.events.messages.plan import Option
from redraft.events.messages.scales import on_scale

ACTOR: Final = "command"

_Limit: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=64 * 1024 * 1024)]
_Share: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1)]

_PLACEHOLDER: Final = re.compile(r"\{(file|folder|here|critique|history)\}")
_SUFFIX: Final = re.compile(r"\.[A-Za-z0-9_][A-Za-z0-9_.-]{0,15}")

_SECRET_LENGTH: Final = 8
"""The least length at which the value of a passed variable that appears in a text is treated as a leaked secret."""


class CommandOptions(msgspec.Struct, frozen=True):
    """The options of every role: the program, how it gets the text, what counts as success, what it may know and print.

    `run` is the program and its arguments; no shell reads them. With `input: folder` it has the files of the draft in a
    folder of its own, `{folder}`. `suffix` is that of the temporary file (by default the
    source's own, or `.txt`). `ok_codes` are exit codes, as numbers or in quotes. `output_limit` is bytes in all.
    """

    run: tuple[str, ...] = ()
    input: Literal["stdin", "file", "folder"] = "stdin"
    suffix: str = ""
    ok_codes: tuple[int | str, ...] = (0,)
    env_pass: tuple[str, ...] = ()
    output_limit: _Limit = OUTPUT_LIMIT

    def is_ok(self, code: int) -> bool:
        """Returns whether the program succeeded."""
        return str(code) in map(str, self.ok_codes)


class CriticOptions(CommandOptions, frozen=True):
    """A critic's: how its output is read, and what one finding costs (0..1)."""

    parser: Literal["exit", "json", "ruff", "pytest", "mypy", "lines"] = "exit"
    cost_per_finding: _Share = 0.1


class WriterOptions(CommandOptions, frozen=True):
    """A generator's or refiner's: where the new text is, or the new files. It may be as large as a draft may be."""

    output: Literal["stdout", "file", "folder"] = "stdout"
    output_limit: _Limit = MAX_DRAFT_BYTES + OUTPUT_LIMIT


class RefinerOptions(WriterOptions, frozen=True):
    """A refiner's: how its output is read. With `json` it is a revision, as text or as edits."""

    parser: Literal["text", "json"] = "text"


O = TypeVar("O", bound=CommandOptions)  # noqa: E741 - the options of one role


@critic(name="command", version=RELEASE, measures=command_measures, hermetic=False)
async def command_critic(
    draft: Draft, brief: Brief, context: Context, history: History | None = None
) -> Critique | dict[str, Any]:
    """Runs a program on the draft and reads its exit code and output; options: CriticOptions. `{history}` is a JSON
    file.

    With parser `exit` the score is 1 when the exit code is in `ok_codes`, else 0 with the last lines of output as the
    error. With any other it is `max(0, 1 - cost_per_finding * findings)`, and a program that fails without a finding
    scores 0. With `json` the program prints a critique, on the scale and with the criteria and measures that the plan
    declares; with any other parser it counts the `exit_code` and `findings`, with `pytest` the tests too. The
    verdict is left to the condition. Raises StepError past the deadline, PermanentError for wrong
    options, a program that cannot be started, or output above the limit.
    """
    options = command_options(CriticOptions, context.options)
    answer = await run_command(options, draft.text, brief.source, context, _known(history=history), draft.files)
    if options.parser == "json":
        return _printed_critique(answer, options)
    said = msgspec.structs.replace(_counted_critique(answer, options), measures=_count(answer, options))
    return said if context.scale is None else msgspec.structs.replace(said, score=on_scale(said.score, context.scale))


def _printed_critique(answer: Answer, options: CriticOptions) -> dict[str, Any]:
    """Returns the fields of the critique that a program printed."""
    if not options.is_ok(answer.code):
        raise StepError(f"{answer.name}: {answer.failure}")
    return _printed_fields(answer, answer.stdout, "critique", '{"score": 0.8, "errors": []}')


def _printed_fields(answer: Answer, raw: bytes, what: str, example: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(raw, type=dict[str, Any])
    except UNREADABLE as error:
        raise PermanentError(f"{answer.name}: it printed no {what} as JSON, such as {example}: {error}") from None


def _count(answer: Answer, options: CriticOptions) -> dict[str, Number]:
    """Returns the numbers that the parser declares."""
    parse = PARSERS.get(options.parser)
    counted: dict[str, Number] = {"exit_code": answer.code}
    if parse is not None:
        counted["findings"] = sum(len(parse(stream)) for stream in answer.printed)
    if options.parser == "pytest":
        counted |= pytest_counts("\n".join(answer.printed), succeeded=options.is_ok(answer.code))
    return counted


def _counted_critique(answer: Answer, options: CriticOptions) -> Critique:
    parse = PARSERS.get(options.parser)
    findings = [finding for stream in answer.printed for finding in parse(stream)] if parse else []
    if findings:
        score = max(0.0, round(1 - options.cost_per_finding * len(findings), 6))
        errors, more = listed([str(each) for each in findings])
        return Critique(score, errors=errors, weaknesses=more)
    if options.is_ok(answer.code):
        return Critique(1.0)
    return Critique(0.0, errors=(answer.failure,))


@generator(name="command", version=RELEASE)
async def command_generator(
    brief: Brief, context: Context, critique: Critique | None = None, history: History | None = None
) -> str:
    """Runs a program on the brief's text and gives what it wrote; options and errors are the refiner's.

    `{critique}` is a JSON file with what was said of the last draft, or with `null`, `{history}` one with the history.
    """
    options = command_options(WriterOptions, context.options)
    known = {**_known(history=history), "critique": msgspec.json.encode(critique)}
    return _decode_text(await run_command(options, brief.text, brief.source, context, known, brief.files), options)


@refiner(name="command", version=RELEASE)
async def command_refiner(
    draft: Draft, critique: Critique | None, brief: Brief, context: Context, history: History | None = None
) -> Revision | dict[str, Any]:
    """Runs a program on the draft and gives what it wrote; options: RefinerOptions. `{critique}` and `{history}` are
    JSON files.

    With parser `json` it writes a revision: `{"edits": [{"quote": "teh", "replacement": "the"}]}`, or with `text`.
    Raises StepError when the program passes the deadline, ends with a code that is not in `ok_codes`, or writes
    nothing; PermanentError for wrong options, a program that cannot be started, or an output that is too large, not
    UTF-8, or holds the value of a variable in `env_pass`.
    """
    options = command_options(RefinerOptions, context.options)
    known = _known(critique=critique or Critique(0.0), history=history)
    answer = await run_command(options, draft.text, brief.source, context, known, draft.files)
    text = _decode_text(answer, options)
    if options.parser == "json":
        return _printed_fields(answer, text.encode(), "revision", '{"edits": [{"quote": "teh", "replacement": "the"}]}')
    return Revision(text, changed_lines(draft.text, text, Path(options.run[0]).name))


def _known(*, history: History | None, **given: msgspec.Struct) -> dict[str, bytes]:
    """Returns the contents of the files that a program is given beside the text, by placeholder."""
    earlier = {} if history is None else {"history": msgspec.structs.replace(history, own=None)}
    return {name: msgspec.json.encode(each) for name, each in (given | earlier).items()}


def _decode_text(answer: Answer, options: WriterOptions) -> str:
    if not options.is_ok(answer.code):
        raise StepError(f"{answer.name}: {answer.failure}; the text is as it was")
    raw = answer.stdout if options.output == "stdout" else answer.file
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise PermanentError(
            f"{answer.name}: byte {error.start + 1} of what it wrote is not UTF-8; make it write UTF-8"
        ) from None
    if not text.strip():
        raise StepError(f"{answer.name}: it wrote nothing; the text is as it was")
    for name in options.env_pass:
        if len(os.environ.get(name, "")) >= _SECRET_LENGTH and os.environ[name] in text:
            raise PermanentError(
                f"{answer.name}: it wrote the value of {name} into the text; change the program so that it does not"
            )
    return text


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
    """The argument list with each placeholder (`{file}`, `{here}` and others) replaced, anywhere and once.

    A program that is named by a relative path is looked for in `{here}`. Raises PermanentError when the role has no
    such place.
    """

    def place(found: re.Match[str]) -> str:
        if found[1] not in places:
            raise PermanentError(f"{ACTOR}: {found[0]} has no meaning in this role; remove it from run")
        return str(places[found[1]])

    program, *rest = (_PLACEHOLDER.sub(place, each) for each in run)
    if "/" in program:
        program = str(places["here"] / program)
    return (program, *rest)


def _run_fault(run: tuple[str, ...]) -> str | None:
    if not run or not run[0].strip():
        return 'option run names no program; write the program and its arguments, such as run: ["ruff", "check", "-"]'
    if any(each in run[0] for each in ("{file}", "{folder}", "{critique}", "{history}")):
        return f"a text cannot be the program itself; name what reads it, such as run: [python, {run[0]!r}]"
    return None


def _file_fault(options: CommandOptions) -> str | None:
    named = {each for each in ("file", "folder") if any(f"{{{each}}}" in word for word in options.run)}
    for other in named - {options.input}:
        there = "the text goes to standard input" if options.input == "stdin" else f"option input is {options.input}"
        return f"an argument says {{{other}}}, but {there}; add the option input: {other}"
    if options.input != "stdin" and not named:
        what = options.input
        return (
            f"option input is {what}, but no argument says {{{what}}}; add it where the program expects a {what}'s name"
        )
    if isinstance(options, WriterOptions) and options.output not in ("stdout", options.input):
        kind = options.output
        return f"option output is {kind}, but no {kind} is given to the program; add the option input: {kind}"
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


@dataclass(frozen=True, slots=True)
class Answer:
    """The output of a program: as it was, both streams as text fit to be recorded, and what it left in its file.

    `failure` says in a line how it ended, and its last words.
    """

    name: str
    code: int
    stdout: bytes
    printed: tuple[str, str]
    failure: str
    file: bytes


async def run_command(
    options: CommandOptions,
    text: str,
    source: str,
    context: Context,
    known: Mapping[str, bytes] = MappingProxyType({}),
    files: Mapping[str, File] = MappingProxyType({}),
) -> Answer:
    """Runs the program on the text, or the files, with a JSON file for each placeholder that is `known`.

    Raises StepError past the deadline, PermanentError above the output limit.
    """
    async with workspace() as folder:
        places = {"here": Path.cwd()}
        if options.input == "file":
            places["file"] = folder / f"draft{options.suffix or suffix_of(source)}"
            await asyncio.to_thread(places["file"].write_bytes, text.encode())
        if options.input == "folder":
            places["folder"] = folder / "draft"
            await _check_out(files, places["folder"])
        for name, content in known.items():
            places[name] = folder / f"{name}.json"
            await asyncio.to_thread(places[name].write_bytes, content)
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
        left = await asyncio.to_thread(_read_left, options, places, name)
    return _answer(name, finished, folder, left, options)


def suffix_of(source: str) -> str:
    """The suffix of the brief's source, or `.txt` when it has none that is plain."""
    suffix = PurePath(source).suffix
    return suffix if suffix[1:].isalnum() and suffix.isascii() and len(suffix) <= 16 else ".txt"


def _answer(name: str, finished: Finished, folder: Path, left: bytes, options: CommandOptions) -> Answer:
    hide = partial(recordable, folder=folder, masked=passed_values(options.env_pass, os.environ))
    printed = (hide(finished.stdout.decode(errors="replace")), hide(finished.stderr.decode(errors="replace")))
    failure = ": ".join(filter(None, (how_it_ended(finished.code), read_last_lines(finished, hide))))
    return Answer(name, finished.code, finished.stdout, printed, failure, left)


async def _check_out(files: Mapping[str, File], folder: Path) -> None:
    if not files:
        raise PermanentError(f"{ACTOR}: option input is folder, and the text is not one of several files; use file")
    try:
        await asyncio.to_thread(check_out, files, folder)
    except OSError as error:
        raise StepError(f"{ACTOR}: the files cannot be checked out: {error.strerror}; free some space") from None


def _read_left(options: CommandOptions, places: Mapping[str, Path], name: str) -> bytes:
    """Returns what the program left where it was to leave the new text."""
    match options:
        case WriterOptions(output="file"):
            return _read_left_file(places["file"], name, options.output_limit)
        case WriterOptions(output="folder"):
            try:
                return folder_text(places["folder"], options.output_limit).encode()
            except ContentError as error:
                fault = without_folder(str(error), places["folder"])
                raise StepError(f"{name}: it left what cannot be a draft: {fault}") from None
        case _:
            return b""


def _read_left_file(path: Path, name: str, limit: int) -> bytes:
    """Returns the content of the program's file, if that is still a plain file of at most `limit` bytes."""
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
