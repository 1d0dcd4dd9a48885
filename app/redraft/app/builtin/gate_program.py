"""Gates that a program of ours decides: `json-schema`, and `python`, which a draft must compile as.

What a draft or a schema does to the checker (endless patterns, nesting without end) happens to a process of its own,
with limits of time and memory.
"""

from __future__ import annotations

import math
import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Final

import msgspec

from redraft.actors.roles import Context, critic
from redraft.app.builtin.command_run import how_it_ended
from redraft.app.builtin.gate_text import verdict
from redraft.app.builtin.options import read_options
from redraft.app.builtin.own_file import read_own_file
from redraft.app.builtin.process import Finished, run_process
from redraft.app.builtin.workspace import environment, workspace
from redraft.events.content import Critique, Draft
from redraft.events.errors import PermanentError

FOLDER: Final = Path(__file__).parent
LARGEST: Final = 1024 * 1024
"""Bytes that a schema file may have."""

MEMORY: Final = 1024 * 1024 * 1024
"""Bytes of address space that a checker may take."""

STARTING: Final = 10.0
"""Seconds that a checker which measures its own time has besides, to begin."""

_FAULTY: Final = 3
"""The exit code by which a checker says that not the draft but its own input is wrong."""


class SchemaOptions(msgspec.Struct, frozen=True):
    """`schema`: a JSON Schema, as a file below the folder in which the worker was started. `seconds`: 60 at most."""

    schema: str = ""
    seconds: Annotated[float, msgspec.Meta(gt=0, le=60)] = 10.0


class PythonOptions(msgspec.Struct, frozen=True):
    """`seconds`: how long the compiler may take, 60 at most."""

    seconds: Annotated[float, msgspec.Meta(gt=0, le=60)] = 10.0


@critic(name="json-schema")
async def schema_critic(draft: Draft, context: Context) -> Critique:
    """Whether the draft is JSON that fits a schema; options: SchemaOptions. Nothing is fetched that it refers to.

    Raises PermanentError when the schema cannot be read, or is none.
    """
    options = read_options(SchemaOptions, context.options, "json-schema")
    if not options.schema:
        raise PermanentError("json-schema: option schema is missing; name a file, such as schema: order.schema.json")
    schema = read_own_file(options.schema, "json-schema: option schema", LARGEST)
    given = msgspec.json.encode({"schema": schema, "draft": draft.text})
    return await checked("json-schema", "schema_check.py", given, options.seconds, context)


@critic(name="python")
async def python_critic(draft: Draft, context: Context) -> Critique:
    """Whether the draft compiles as Python, of the version that Redraft runs on; it is not run. Options:
    PythonOptions."""
    options = read_options(PythonOptions, context.options, "python")
    return await checked("python", "python_check.py", draft.text.encode(), options.seconds, context)


async def checked(
    actor: str, program: str, given: bytes, seconds: float, context: Context, refusal: str = "{}", more: float = 0.0
) -> Critique:
    """The verdict of a program, which has `given` on its standard input, this many seconds, and limits of memory.

    One that measures the seconds itself has `more` of them. Raises PermanentError when the program says that not the
    draft is at fault; `refusal` has its words in it.
    """
    timeout = min(seconds + more, context.timeout * 0.9)
    async with workspace() as folder:
        limits = map(str, (os.getpid(), MEMORY, math.ceil(timeout) + 1))
        argv = (sys.executable, "-I", str(FOLDER / "limited.py"), *limits, str(FOLDER / program))
        clean = environment(folder, (), {}, actor)
        done = await run_process(argv, timeout=timeout, cwd=folder, env=clean, stdin=given)
    if done.code == _FAULTY and not done.timed_out:
        raise PermanentError(f"{actor}: {refusal.format(done.stdout.decode(errors='replace').strip())}")
    return verdict(_faults(done, seconds))


def _faults(done: Finished, seconds: float) -> list[str]:
    """What the checker printed, a fault a line; one that did not come to its end is the draft's fault too."""
    lines = done.stdout.decode(errors="replace").splitlines()
    if done.timed_out or done.code in (-signal.SIGALRM, -signal.SIGXCPU):
        return [*lines, f"it could not be checked in {seconds:g} s"]
    if done.code == 0 and not done.truncated:
        return []
    if done.code == 1 and lines and not done.truncated:
        return lines
    return [*lines, f"it ended its checker, {how_it_ended(done.code)}"]
