"""pytest as the critic `pytest`: a Python draft is put in its place among the tests, in a temporary copy, and tested.

The tests run the draft's code on this machine, in a process of its own with a clean environment.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import site
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path, PurePath
from typing import Annotated, Final

import msgspec

from redraft.actors.roles import Context, critic
from redraft.app.builtin.command_run import how_it_ended, passed_values, recordable, said_last, working_time
from redraft.app.builtin.options import read_options
from redraft.app.builtin.process import Finished, run_process
from redraft.app.builtin.pytest_folder import ACTOR, Layout, lay_out
from redraft.app.builtin.pytest_report import CHEATED, Tally, read_report
from redraft.app.builtin.release import RELEASE
from redraft.app.builtin.summary import listed
from redraft.app.builtin.workspace import environment, workspace
from redraft.events.content import Brief, Critique, Draft
from redraft.events.errors import PermanentError

PROGRAM: Final = Path(__file__).with_name("pytest_run.py")
_REPORT_LIMIT: Final = 16 * 1024 * 1024
_USAGE: Final = 4
_NO_TESTS: Final = 5


class PytestOptions(msgspec.Struct, frozen=True):
    """`tests`: files and folders. `module`: the draft's dotted name, by default its source's file name.

    `project`: a folder that is copied whole, with its pytest configuration; without one, only the tests are copied and
    no configuration is read. `python`: the interpreter, by default Redraft's own. `folder`: where all these paths
    begin, by default the folder that the worker was started in. `output_limit`: bytes.
    """

    tests: tuple[str, ...] = ()
    module: str = ""
    project: str = ""
    python: str = ""
    folder: str = ""
    env_pass: tuple[str, ...] = ()
    output_limit: Annotated[int, msgspec.Meta(ge=1, le=64 * 1024 * 1024)] = 8 * 1024 * 1024


@critic(name=ACTOR, version=RELEASE)
async def pytest_critic(draft: Draft, brief: Brief, context: Context) -> Critique:
    """Tests the draft; the score is the share of the tests that ran and passed (0..1); options: PytestOptions.

    Tests that cannot be collected, print without end, pass the deadline or end pytest itself score 0 with an error that
    says so, since the draft may be what makes them. Raises PermanentError for wrong options, when no tests are found,
    or when pytest is not installed.
    """
    options = read_options(PytestOptions, context.options, ACTOR)
    if not options.tests:
        raise PermanentError(f'{ACTOR}: option tests is missing; name files or folders, such as tests: ["tests"]')
    async with workspace() as folder:
        layout = await asyncio.to_thread(_prepare, folder / "tree", draft.text, options, brief.source)
        key = secrets.token_hex(16)
        finished = await _run(options, layout, folder, context, key)
    report = read_report(finished.report, key, finished.code)
    hide = partial(recordable, folder=folder / "tree", masked=passed_values(options.env_pass, os.environ))
    return _critique(report, finished, hide, context.timeout)


def _prepare(tree: Path, text: str, options: PytestOptions, source: str) -> Layout:
    here = _here(options)
    place = _place(options, source, here)
    return lay_out(tree, text, here, options.tests, place, options.project)


async def _run(options: PytestOptions, layout: Layout, folder: Path, context: Context, key: str) -> Finished:
    tree = layout.import_from[-1]
    own = environment(folder, options.env_pass, os.environ, ACTOR) | {
        "PYTHONPATH": os.pathsep.join(map(str, layout.import_from)),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    if not options.python and (base := site.USER_BASE):
        own["PYTHONUSERBASE"] = base
    python = str(_here(options) / options.python) if "/" in options.python else options.python
    return await run_process(
        (python or sys.executable, str(PROGRAM), str(layout.draft), *_flags(options, tree), *map(str, layout.tests)),
        stdin=f"{key}\n".encode(),
        timeout=working_time(context.timeout),
        report_limit=_REPORT_LIMIT,
        output_limit=options.output_limit,
        cwd=tree,
        env=own,
    )


def _flags(options: PytestOptions, tree: Path) -> tuple[str, ...]:
    config = () if options.project else (f"--rootdir={tree}", f"--config-file={os.devnull}")
    # what tests print is not captured, so that it meets the output limit and not the disk's
    return ("--tb=short", "--color=no", "--capture=no", "-p", "no:cacheprovider", *config)


def _critique(tests: Tally | None, finished: Finished, hide: Callable[[str], str], timeout: float) -> Critique:
    if finished.timed_out:
        return Critique(0.0, errors=(f"the tests did not end within the step's {timeout:g} s, and were ended",))
    if finished.truncated:
        return Critique(
            0.0,
            errors=(f"the tests printed more than {len(finished.stdout + finished.stderr):,} bytes, and were ended",),
        )
    said = said_last(finished, hide)
    if (tests is None or not tests.errors) and (refusal := _refusal(finished, said)):
        raise PermanentError(f"{ACTOR}: {refusal}")
    if tests is None:
        return Critique(0.0, errors=(f"pytest did not come to an end, {how_it_ended(finished.code)}: {said}",))
    if not tests.is_sound:
        return Critique(0.0, errors=(CHEATED,))
    if not tests.ran:
        return Critique(0.0, errors=(f"none of the tests ran, {tests.skipped} were skipped",))
    errors, more = listed([hide(each) for each in tests.errors])
    return Critique(round(tests.passed / tests.ran, 6), errors=errors, weaknesses=more)


def _refusal(finished: Finished, said: str) -> str | None:
    """Why trying again would not help, when it is not the draft's fault."""
    if finished.code == 1 and finished.stderr.endswith(b": No module named pytest\n"):
        return "pytest is not installed for this Python; install it (pip install pytest) or name another with python"
    if finished.code == _USAGE:
        return f"pytest refuses its arguments: {said}; mend the option tests"
    if finished.code == _NO_TESTS:
        return "there are no tests in the files and folders that are named; mend the option tests"
    return None


def _here(options: PytestOptions) -> Path:
    """The folder in which the paths of the options begin."""
    here = Path(options.folder).resolve()
    if not here.is_dir():
        raise PermanentError(
            f"{ACTOR}: there is no folder {options.folder}, where the tests should be; start the worker on the machine "
            "that has them, or leave out the option folder"
        )
    return here


def _place(options: PytestOptions, source: str, here: Path) -> PurePath:
    """Where the draft belongs in the copy: `pkg.mod` is `pkg/mod.py`; otherwise where its source is in the project."""
    if options.module:
        parts = options.module.split(".")
        if not all(part.isidentifier() for part in parts):
            raise PermanentError(f"{ACTOR}: option module cannot be {options.module!r}; write it as in import, pkg.mod")
        return PurePath(*parts).with_suffix(".py")
    path = (here / source).resolve()
    if path.suffix != ".py":
        raise PermanentError(f"{ACTOR}: the draft has no module's name; say how the tests import it, module: name")
    project = (here / options.project).resolve()
    return path.relative_to(project) if options.project and path.is_relative_to(project) else PurePath(path.name)
