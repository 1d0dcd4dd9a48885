"""Gates that a program of ours decides: `json-schema`, and `python`, which a draft must compile as.

What a draft or a schema does to the checker (endless patterns, nesting without end) happens to a process of its own,
with limits of time and memory.
"""

from __future__ import annotations

import math
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

import msgspec

from redraft.actors.workflow.context import Context
from redraft.actors.workflow.roles import critic
from redraft.app.builtin.gates.text import verdict
from redraft.app.builtin.support.files import own_file, read_own_file
from redraft.app.builtin.support.options import read_options
from redraft.app.builtin.support.per_file import is_folder, texts_of
from redraft.app.builtin.support.process import Finished, run_process
from redraft.app.builtin.support.workspace import environment, how_it_ended, workspace
from redraft.events.errors import PermanentError
from redraft.events.messages.content import Brief, Critique, Draft

CHECK: Final = Path(__file__).with_name("check.py")
LIMITED: Final = CHECK.parents[1] / "support" / "limited.py"
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


@critic(name="json-schema", hermetic=False)
async def schema_critic(draft: Draft, context: Context) -> Critique:
    """Checks that the draft is JSON that fits a schema; options: SchemaOptions. Nothing is fetched that it refers to.

    Raises PermanentError when the schema cannot be read, or is none.
    """
    options = read_options(SchemaOptions, context.options, "json-schema")
    if not options.schema:
        raise PermanentError("json-schema: option schema is missing; name a file, such as schema: order.schema.json")
    schema = read_own_file(options.schema, "json-schema: option schema", LARGEST)
    stdin = msgspec.json.encode({"schema": schema, "draft": draft.text})
    return await run_check("json-schema", stdin, options.seconds, context)


@critic(name="python")
async def python_critic(draft: Draft, context: Context) -> Critique:
    """Checks that the draft, or each Python file of it, compiles as Python, of the version that Redraft runs on; it is
    not run. Options: PythonOptions."""
    options = read_options(PythonOptions, context.options, "python")
    if is_folder(draft):
        return await _check_modules("python", {}, texts_of(draft, ".py"), options, context)
    return await run_check("python", draft.text.encode(), options.seconds, context)


@critic(name="public-names")
async def names_critic(draft: Draft, brief: Brief, context: Context) -> Critique:
    """Checks that the draft compiles as Python and binds all public names of the brief, each file those of the file of
    its path; neither is run. Options: PythonOptions."""
    options = read_options(PythonOptions, context.options, "public-names")
    if is_folder(draft):
        before = texts_of(brief, ".py")
        after = texts_of(draft, ".py")
        return await _check_modules("public-names", before, after, options, context)
    stdin = msgspec.json.encode({"brief": brief.text, "draft": draft.text})
    return await run_check("public-names", stdin, options.seconds, context)


async def _check_modules(
    actor: str, before: Mapping[str, str], after: Mapping[str, str], options: PythonOptions, context: Context
) -> Critique:
    """The verdict on the Python files of a draft of several, by path, beside those of the brief."""
    stdin = msgspec.json.encode({"before": before, "after": after})
    return await run_check(actor, stdin, options.seconds, context, kind="modules")


async def run_check(
    actor: str, stdin: bytes, seconds: float, context: Context, refusal: str = "{}", more: float = 0.0, kind: str = ""
) -> Critique:
    """The verdict of `check`, which has `stdin` on its standard input, this many seconds, and limits of memory.

    It makes the check of this `kind`, by default that of the actor's name.

    One that measures the seconds itself has `more` of them. Raises PermanentError when the program says that not the
    draft is at fault; `refusal` has its words in it.
    """
    timeout = min(seconds + more, context.timeout * 0.9)
    async with workspace() as folder:
        limits = map(str, (os.getpid(), MEMORY, math.ceil(timeout) + 1))
        argv = (sys.executable, "-I", str(LIMITED), *limits, str(CHECK), kind or actor)
        clean = environment(folder, (), {}, actor)
        done = await run_process(argv, timeout=timeout, cwd=folder, env=clean, stdin=stdin)
    if done.code == _FAULTY and not done.timed_out:
        raise PermanentError(f"{actor}: {refusal.format(done.stdout.decode(errors='replace').strip())}")
    return verdict(_faults(done, seconds))


def _faults(done: Finished, seconds: float) -> list[str]:
    """Returns the faults that the checker printed, one a line; a checker that did not end is the draft's fault too."""
    lines = done.stdout.decode(errors="replace").splitlines()
    if done.timed_out or done.code in (-signal.SIGALRM, -signal.SIGXCPU):
        return [*lines, f"it could not be checked in {seconds:g} s"]
    if done.code == 0 and not done.truncated:
        return []
    if done.code == 1 and lines and not done.truncated:
        return lines
    return [*lines, f"it ended its checker, {how_it_ended(done.code)}"]


LONGEST: Final = 50_000
"""Characters of the longest draft that is run."""


class SqlOptions(msgspec.Struct, frozen=True):
    """`database`: a SQLite file below the folder in which the worker was started. `seconds`: for all statements
    together (60 at most). `rows`: how many rows of each statement are read (1,000,000 at most)."""

    database: str = ""
    seconds: Annotated[float, msgspec.Meta(gt=0, le=60)] = 5.0
    rows: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 10_000


@critic(name="sql", hermetic=False)
async def sql_critic(draft: Draft, context: Context) -> Critique:
    """Checks that every statement of the draft runs on a database, which is opened read-only; options: SqlOptions.

    Statements that change anything, name other files or settings, or take too long or too much memory are faults of
    the draft. They run in a process of their own. Raises PermanentError when the database cannot be opened.
    """
    options = read_options(SqlOptions, context.options, "sql")
    if not options.database:
        raise PermanentError("sql: option database is missing; name a SQLite file, such as database: data/shop.db")
    path = own_file(options.database, "sql: option database")
    if len(draft.text) > LONGEST:
        return verdict([f"{len(draft.text):,} characters, and at most {LONGEST:,} are run"])
    seconds = min(options.seconds, context.timeout * 0.9)
    query = {"database": str(path), "text": draft.text, "seconds": seconds, "rows": options.rows}
    refusal = f"option database: {options.database!r} cannot be read: {{}}; name a SQLite file"
    return await run_check("sql", msgspec.json.encode(query), seconds, context, refusal, STARTING)
