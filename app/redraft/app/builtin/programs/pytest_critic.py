"""pytest as the critic `pytest`: a Python draft is put in its place among the tests, in a temporary copy, and tested.

A draft of several files is put there as the folder that it came from.

The tests run the draft's code on this machine, in a process of its own with a clean environment.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import site
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePath
from typing import Annotated, Final

import msgspec

from redraft.actors.workflow.context import Context
from redraft.actors.workflow.counting import pytest_measures
from redraft.actors.workflow.roles import critic
from redraft.app.builtin.programs.parsers import count_tests
from redraft.app.builtin.programs.pytest_folder import ACTOR, Code, FilesOf, Layout, lay_out
from redraft.app.builtin.support.options import RELEASE, listed, read_options
from redraft.app.builtin.support.process import Finished, run_process
from redraft.app.builtin.support.workspace import (
    clean_line,
    environment,
    how_it_ended,
    passed_values,
    read_last_lines,
    recordable,
    working_time,
    workspace,
)
from redraft.events.errors import PermanentError
from redraft.events.messages.content import Brief, Critique, Draft, Issue, Number, Span
from redraft.events.messages.folders import FOLDER, file_spans

CHEATED: Final = "a test that must fail did not: the draft changes how it is tested"

_FAILED: Final = 1
"""pytest's exit code where tests failed, as some always do."""

_PLACE: Final = re.compile(r"^(?!/|\.\./)(?P<place>[^\s:]+\.py:[0-9]+): ", re.MULTILINE)
_FROM: Final = re.compile(r" \((?P<file>[^\s:()]+\.py):(?P<line>[0-9]{1,9})\): ")
_ERROR: Final = re.compile(r"^E +(?P<error>\S.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Tally:
    """The number of tests that ran (skipped ones did not), of those that passed, and a line for each that did not.

    `is_sound` is False where a test that must fail did not. `names` are those of the tests that passed, `coverage` the
    share of the draft's lines that ran.
    """

    ran: int
    passed: int
    skipped: int
    errors: tuple[str, ...]
    is_sound: bool = True
    names: frozenset[str] = frozenset()
    coverage: float = 0.0


@dataclass(slots=True)
class _Outcomes:
    """The state of a report that is being read: all its tests, those that must fail, and the outcome of each.

    `uncollected` and `failed` hold a line for each failure.
    """

    tests: tuple[str, ...] = ()
    must_fail: tuple[str, ...] = ()
    uncollected: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    skipped: set[str] = field(default_factory=set)
    passed: set[str] = field(default_factory=set)
    code: int | None = None
    coverage: float = 0.0

    def note(self, kind: object, rest: list[str]) -> None:
        match kind, rest:
            case "uncollected", [name, message, text]:
                self.uncollected.append(_line(name, message, text, is_error=True))
            case "test", [test, when, "failed", name, message, text]:
                self.failed.setdefault(test, _line(name, message, text, is_error=when != "call"))
            case "test", [test, _, "skipped", *_]:
                self.skipped.add(test)
            case "test", [test, "call", "passed", *_]:
                self.passed.add(test)
            case _:
                pass


def read_report(report: bytes, key: str, code: int) -> Tally | None:
    """The tests of a report with this key, of a pytest with this exit code; None when it did not come to its end.

    A failed collection counts as one test that did not pass, and so does a test that did not come to its end.
    """
    found = _Outcomes()
    for kind, rest in _lines(report, key):
        match kind, rest:
            case "collected", [list(tests), list(must_fail)]:
                found.tests, found.must_fail = tuple(map(str, tests)), tuple(map(str, must_fail))
            case "coverage", [float() | int() as covered]:
                found.coverage = float(covered)
            case "end", [int(ended)]:
                found.code = ended
            case _ if all(isinstance(each, str) for each in rest):
                found.note(kind, [str(each) for each in rest])
            case _:
                pass
    if found.code is None or found.code != code:
        return None
    return _tally(found)


def _tally(found: _Outcomes) -> Tally:
    must_fail = set(found.must_fail)
    tests = [each for each in found.tests if each not in must_fail]
    skipped = [each for each in tests if each in found.skipped and each not in found.failed]
    passed = [each for each in tests if each in found.passed and each not in found.failed and each not in found.skipped]
    known = {*skipped, *passed, *found.failed}
    undone = [clean_line(f"{each}: it did not come to its end") for each in tests if each not in known]
    failed = (line for test, line in found.failed.items() if test not in must_fail)
    errors = (*found.uncollected, *failed, *undone)
    is_sound = bool(found.uncollected) or (found.code == _FAILED and must_fail <= set(found.failed))
    return Tally(
        len(passed) + len(errors), len(passed), len(skipped), errors, is_sound, frozenset(passed), found.coverage
    )


def _lines(report: bytes, key: str) -> Iterator[tuple[object, list[object]]]:
    for line in report.splitlines():
        try:
            entry = msgspec.json.decode(line, type=list[object])
        except (msgspec.MsgspecError, RecursionError, ValueError):
            continue
        if len(entry) > 1 and entry[0] == key:
            yield entry[1], entry[2:]


def _line(name: str, message: str, text: str, *, is_error: bool) -> str:
    """A failure's own message; of an error, whose message only says when it came, the last line that pytest marks."""
    places, marked = _PLACE.findall(text), _ERROR.findall(text)
    where = f"{name} ({places[-1]})" if places else name
    return clean_line(f"{where}: {marked[-1] if is_error and marked else message}")


PROGRAM: Final = Path(__file__).with_name("pytest_run.py")
_REPORT_LIMIT: Final = 16 * 1024 * 1024
_USAGE: Final = 4
_NO_TESTS: Final = 5


class PytestOptions(msgspec.Struct, frozen=True):
    """`tests`: files and folders. `module`: the draft's dotted name, by default its source's file name.

    `project`: a folder that is copied whole, with its pytest configuration; without one, only the tests are copied and
    no configuration is read. `python`: the interpreter, by default Redraft's own. `folder`: where all these paths
    begin, by default the folder that the worker was started in. `output_limit`: bytes. `kept`: only judge whether all
    tests that pass with the brief pass with the draft, a gate. `coverage`: measure which share of the draft's lines
    the tests run, which takes longer.
    """

    tests: tuple[str, ...] = ()
    module: str = ""
    project: str = ""
    python: str = ""
    folder: str = ""
    env_pass: tuple[str, ...] = ()
    kept: bool = False
    coverage: bool = False
    output_limit: Annotated[int, msgspec.Meta(ge=1, le=64 * 1024 * 1024)] = 8 * 1024 * 1024


@critic(name=ACTOR, version=RELEASE, measures=pytest_measures, hermetic=False)
async def pytest_critic(draft: Draft, brief: Brief, context: Context) -> Critique:
    """Tests the draft; the score is the share of the tests that ran and passed (0..1); options: PytestOptions.

    It counts the tests that ran, those that failed and passed, and whether all did (`all_tests_passing`, 1 or 0); with
    `coverage` the share of the draft's lines that ran; with `kept` how many tests are `broken`. Tests that were ended
    count as one that failed. A failure that came from a line of the draft is an issue there.

    Tests that cannot be collected, print without end, pass the deadline or end pytest itself score 0 with an error that
    says so, since the draft may be what makes them. Raises PermanentError for wrong options, when no tests are found,
    or when pytest is not installed.
    """
    options = read_options(PytestOptions, context.options, ACTOR)
    if not options.tests:
        raise PermanentError(f'{ACTOR}: option tests is missing; name files or folders, such as tests: ["tests"]')
    if options.kept:
        return await _judge_kept(draft, brief, options, context)
    report, finished, hide = await _test(_code(draft, brief), brief, options, context)
    said = _critique(report, finished, hide, context.timeout)
    ended = finished.timed_out or finished.truncated
    place = _place(options, brief, _here(options))
    places = {each.as_posix(): span for each, span in _spans(draft, place).items()}
    issues = tuple(issue for error in said.errors if (issue := _located(error, draft.text, places)))
    return msgspec.structs.replace(said, measures=_count(None if ended else report, options), issues=issues)


def _code(draft: Draft | Brief, brief: Brief) -> Code:
    """Returns what is to be tested of a draft, or of the brief."""
    return FilesOf(draft.files, brief.files) if draft.media_type == FOLDER else draft.text


def _spans(draft: Draft, place: PurePath) -> dict[PurePath, Span]:
    """Returns where the text of each file of a draft stands in its own, by the file's place in the copy."""
    if draft.media_type != FOLDER:
        return {place: (0, len(draft.text))}
    return {place / path: span for path, span in file_spans(draft.text).items()}


def _located(error: str, text: str, places: Mapping[str, Span]) -> Issue | None:
    """Returns the failure that came from a line of the draft, with that line; None if it came from none."""
    found = _FROM.search(error)
    span = places.get(found["file"]) if found else None
    if found is None or span is None:
        return None
    lines = text[slice(*span)].split("\n")
    number = int(found["line"])
    line = lines[number - 1] if 0 < number <= len(lines) else ""
    if not (quote := line.strip()):
        return None
    start = span[0] + sum(len(each) + 1 for each in lines[: number - 1]) + line.index(quote)
    return Issue(error, quote, (start, start + len(quote)), severity="error")


def _count(report: Tally | None, options: PytestOptions) -> dict[str, Number]:
    if report is None or not report.is_sound:
        report = Tally(1, 0, 0, ())
    covered: dict[str, Number] = {"coverage": round(report.coverage, 6)} if options.coverage else {}
    return {**count_tests(report.ran, report.passed), **covered}


async def _judge_kept(draft: Draft, brief: Brief, options: PytestOptions, context: Context) -> Critique:
    """Names each test that passes with the brief and not with the draft. Both are tested, within the step's time."""
    if draft.text == brief.text:
        return Critique(1.0, measures={"broken": 0})
    half = replace(context, timeout=context.timeout / 2)
    before, finished, hide = await _test(_code(brief, brief), brief, options, half)
    if before is None:
        _critique(before, finished, hide, context.timeout)  # raises where trying again would not help
        return Critique(
            1.0, strengths=("no test passes with the brief, so none can be broken",), measures={"broken": 0}
        )
    after, _, _ = await _test(_code(draft, brief), brief, options, half)
    broken = sorted(before.names - after.names if after is not None and after.is_sound else before.names)
    errors, more = listed([f"{each}: it passed before" for each in broken])
    return Critique(0.0 if errors else 1.0, errors=errors, weaknesses=more, measures={"broken": len(broken)})


async def _test(
    code: Code, brief: Brief, options: PytestOptions, context: Context
) -> tuple[Tally | None, Finished, Callable[[str], str]]:
    """Runs the tests; returns their results, how pytest ended, and a function that cleans its output for the record."""
    async with workspace() as folder:
        layout = await asyncio.to_thread(_prepare, folder / "tree", code, options, brief)
        key = secrets.token_hex(16)
        finished = await _run(options, layout, folder, context, key)
    hide = partial(recordable, folder=folder / "tree", masked=passed_values(options.env_pass, os.environ))
    return read_report(finished.report, key, finished.code), finished, hide


def _prepare(tree: Path, code: Code, options: PytestOptions, brief: Brief) -> Layout:
    here = _here(options)
    return lay_out(tree, code, here, options.tests, _place(options, brief, here), options.project)


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
    covered = ("--coverage",) if options.coverage else ()
    config = () if options.project else (f"--rootdir={tree}", f"--config-file={os.devnull}")
    # what tests print is not captured, so that it meets the output limit and not the disk's
    return (*covered, "--tb=short", "--color=no", "--capture=no", "-p", "no:cacheprovider", *config)


def _critique(tests: Tally | None, finished: Finished, hide: Callable[[str], str], timeout: float) -> Critique:
    if finished.timed_out:
        return Critique(0.0, errors=(f"the tests did not end within the step's {timeout:g} s, and were ended",))
    if finished.truncated:
        return Critique(
            0.0,
            errors=(f"the tests printed more than {len(finished.stdout + finished.stderr):,} bytes, and were ended",),
        )
    output = read_last_lines(finished, hide)
    if (tests is None or not tests.errors) and (refusal := _refusal(finished, output)):
        raise PermanentError(f"{ACTOR}: {refusal}")
    if tests is None:
        return Critique(0.0, errors=(f"pytest did not come to an end, {how_it_ended(finished.code)}: {output}",))
    if not tests.is_sound:
        return Critique(0.0, errors=(CHEATED,))
    if not tests.ran:
        return Critique(0.0, errors=(f"none of the tests ran, {tests.skipped} were skipped",))
    errors, more = listed([hide(each) for each in tests.errors])
    return Critique(round(tests.passed / tests.ran, 6), errors=errors, weaknesses=more)


def _refusal(finished: Finished, output: str) -> str | None:
    """Returns the reason for which another attempt would not help, if it is not the draft's fault."""
    if finished.code == 1 and finished.stderr.endswith(b": No module named pytest\n"):
        return "pytest is not installed for this Python; install it (pip install pytest) or name another with python"
    if finished.code == _USAGE:
        return f"pytest refuses its arguments: {output}; correct the option tests"
    if finished.code == _NO_TESTS:
        return "there are no tests in the files and folders that are named; correct the option tests"
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


def _place(options: PytestOptions, brief: Brief, here: Path) -> PurePath:
    """Returns the place of the draft in the copy: `pkg.mod` is `pkg/mod.py`; otherwise where its source is in the
    project. The folder of a draft of several files is where it is in `here`.
    """
    source = brief.source
    if brief.media_type == FOLDER:
        return _place_of_folder(options, (here / source).resolve(), here)
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


def _place_of_folder(options: PytestOptions, source: Path, here: Path) -> PurePath:
    if options.module:
        raise PermanentError(f"{ACTOR}: option module is for a draft of one file; leave it out")
    root = (here / options.project).resolve()
    return source.relative_to(root) if source.is_relative_to(root) else PurePath(source.name)
