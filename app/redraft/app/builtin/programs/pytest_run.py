"""Run as a program, by whatever Python has the pytest that is meant: tests a draft, and tells what came of each test.

The arguments are the draft's file, what `pytest` is given, and last the number of the pipe that is told. Each line
there is JSON that begins with the key that was read from standard input before any code of the draft ran. Tests that
must fail are put between the others: who changes how tests are judged lets them pass.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import sys
import threading
from dis import findlinestarts
from hashlib import sha256
from pathlib import Path
from random import SystemRandom
from types import CodeType
from typing import TYPE_CHECKING, Any
from unittest import SkipTest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import FrameType, TracebackType

DRAFT, ARGUMENTS, PIPE = sys.argv[1], sys.argv[2:-1], int(sys.argv[-1])
COVERED = ARGUMENTS[:1] == ["--coverage"]
ARGUMENTS = ARGUMENTS[COVERED:]
DRAFT_PATH = Path(DRAFT).resolve()
TESTS = tuple(Path(each).resolve() for each in ARGUMENTS if not each.startswith("-") and Path(each).exists())
TEST_NAME = re.compile(r"conftest\.py|test_.*\.py|.*_test\.py")
ANY = SystemRandom()
LONGEST = 20_000
"""Characters of what is told of a failure at most."""

sys.path[0] = str(Path.cwd())
sys.argv[:] = ["pytest", *ARGUMENTS]
os.set_inheritable(PIPE, False)
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # it ends with who started it
try:
    import pytest
except ModuleNotFoundError as error:
    sys.exit(f"{sys.executable}: No module named {error.name}")


def teller(
    key: str, dump: Callable[..., str] = json.dumps, write: Callable[[int, bytes], int] = os.write
) -> Callable[..., None]:
    """Returns what tells; it keeps what it needs, since a draft may put other functions in their places."""

    def tell(*said: object) -> None:
        line = dump([key, *said]).encode() + b"\n"
        while line:
            line = line[write(PIPE, line) :]

    return tell


class Coverage:
    """Notes which lines of the draft run, from when it starts."""

    def __init__(self) -> None:
        self._ran: set[tuple[str, int]] = set()
        self._lines = {(file, line) for file in _modules() for line in _lines_of(file)}
        self._files: dict[str, str] = {}

    def start(self) -> None:
        threading.settrace(self._trace)
        sys.settrace(self._trace)

    @property
    def share(self) -> float:
        """The share of the lines that can run which did."""
        sys.settrace(None)
        return len(self._ran & self._lines) / len(self._lines) if self._lines else 1.0

    def _trace(self, frame: FrameType, event: str, arg: object) -> Callable[..., Any] | None:
        file = frame.f_code.co_filename
        if file not in self._files:
            real = os.path.realpath(file)
            self._files[file] = real if _is_draft(Path(real)) else ""
        if not self._files[file]:
            return None
        self._ran.add((self._files[file], frame.f_lineno))
        return self._trace


def _modules() -> list[str]:
    """Returns the draft's modules: itself, or those in its folder that are no tests."""
    draft = Path(DRAFT).resolve()
    if draft.is_file():
        return [str(draft)]
    return sorted(str(path) for path in draft.rglob("*.py") if path.is_file() and _is_draft(path.resolve()))


def _lines_of(file: str) -> set[int]:
    return _lines(compile(Path(file).read_bytes(), file, "exec", dont_inherit=True))


def _lines(code: CodeType) -> set[int]:
    """Returns the lines of a piece of code that can run, and of those inside it."""
    inner = (each for each in code.co_consts if isinstance(each, CodeType))
    return {line for _, line in findlinestarts(code) if line}.union(*map(_lines, inner))


def fails() -> None:
    raise AssertionError


class Report:
    """Tells of what was collected, and of every phase of every test."""

    def __init__(self, tell: Callable[..., None]) -> None:
        self._tell = tell
        self._sources = _sources()

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> None:
        if hasattr(config.option, "numprocesses"):  # processes of pytest-xdist would not tell
            config.option.numprocesses, config.option.dist, config.option.tx = None, "no", []

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        modules = {id(module): module for item in items if (module := item.getparent(pytest.Module))}
        must_fail = []
        for module in modules.values():
            places = [place for place, item in enumerate(items) if item.getparent(pytest.Module) is module]
            name = f"test_{os.urandom(6).hex()}"
            made = pytest.Function.from_parent(module, name=name, callobj=fails)
            items.insert(ANY.choice(places) + ANY.choice((0, 1)), made)
            must_fail.append(made.nodeid)
        for changed in sorted({name for name, _ in _sources().items() ^ self._sources.items()}):
            self._tell("uncollected", changed, "the draft changed this file", "")
        self._tell("collected", [item.nodeid for item in items], must_fail)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        name = report.nodeid.replace("/", ".").removesuffix(".py")
        if report.failed:
            self._tell("uncollected", name, *_words(report))
        elif report.skipped and _is_drafts_own(report.longrepr):
            self._tell("uncollected", name, "the draft skips its tests", "")

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
        skips = SkipTest, pytest.skip.Exception, pytest.xfail.Exception
        info = call.excinfo
        is_drafts_own = info is not None and isinstance(info.value, skips) and _is_from_draft(info.tb)
        outcome = yield
        if is_drafts_own:
            report = outcome.get_result()
            report.outcome, report.longrepr = "failed", "the draft skips the test"
            vars(report).pop("wasxfail", None)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        words = _words(report) if report.failed else ("", "")
        self._tell("test", report.nodeid, report.when, report.outcome, report.location[2], *words)


def _sources() -> dict[str, bytes]:
    """The Python files in the working folder, without the draft, and what is in them."""
    there = (path for path in Path.cwd().rglob("*.py") if path.is_file() and not _is_no_tests(str(path)))
    return {str(path.relative_to(Path.cwd())): sha256(path.read_bytes()).digest() for path in there}


def _is_drafts_own(longrepr: object) -> bool:
    """Returns whether the draft, or code that is in no file, skipped it."""
    return isinstance(longrepr, tuple) and _is_no_tests(str(longrepr[0]))


def _is_from_draft(tb: TracebackType | None) -> bool:
    while tb is not None:
        if _is_no_tests(tb.tb_frame.f_code.co_filename):
            return True
        tb = tb.tb_next
    return False


def _is_no_tests(file: str) -> bool:
    """Returns whether this is the draft, or code that is in no file."""
    return not Path(file).exists() or _is_draft(Path(file).resolve())


def _is_draft(file: Path) -> bool:
    """Returns whether a file is the draft, or in its folder and not among the tests."""
    if file == DRAFT_PATH or not file.is_relative_to(DRAFT_PATH):
        return file == DRAFT_PATH
    around = [test for test in TESTS if DRAFT_PATH.is_relative_to(test)]
    is_test = any(file.is_relative_to(test) for test in TESTS if test not in around)
    return not (is_test or (around and TEST_NAME.fullmatch(file.name)))


def _words(report: pytest.CollectReport | pytest.TestReport) -> tuple[str, str]:
    """A failure's message, and all that is known of it."""
    crash = getattr(report.longrepr, "reprcrash", None)
    message = str(crash.message if crash is not None else report.longrepr)
    return message[:LONGEST], str(report.longreprtext)[-LONGEST:]


def _key() -> str:
    """Reads standard input to its end, so that nobody can read it afterwards, and returns it."""
    key = os.read(0, 100).decode().strip()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return key


def _coverage() -> Coverage | None:
    """Returns what notes the draft's lines, once it has begun; None where the draft is no Python."""
    try:
        coverage = Coverage()
    except (SyntaxError, ValueError):
        return None
    coverage.start()
    return coverage


def main() -> int:
    tell = teller(_key())
    coverage = _coverage() if COVERED else None
    code = int(pytest.main([*ARGUMENTS, "--maxfail=0"], plugins=[Report(tell)]))
    if coverage is not None:
        tell("coverage", coverage.share)
    tell("end", code)
    return code


if __name__ == "__main__":
    sys.exit(main())
