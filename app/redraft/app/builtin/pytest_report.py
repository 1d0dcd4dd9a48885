"""Reads the results that `pytest_run` reports for a draft into counts and errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import msgspec

from redraft.app.builtin.parsers import clean_line

CHEATED: Final = "a test that must fail did not: the draft changes how it is tested"

_FAILED: Final = 1
"""pytest's exit code where tests failed, as some always do."""

_PLACE: Final = re.compile(r"^(?!/|\.\./)(?P<place>[^\s:]+\.py:[0-9]+): ", re.MULTILINE)
_ERROR: Final = re.compile(r"^E +(?P<error>\S.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Tally:
    """How many tests ran (skipped ones did not), how many of them passed, and a line for each that did not.

    `is_sound` is False where a test that must fail did not.
    """

    ran: int
    passed: int
    skipped: int
    errors: tuple[str, ...]
    is_sound: bool = True


@dataclass(slots=True)
class _Told:
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

    def hear(self, kind: object, rest: list[str]) -> None:
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
    told = _Told()
    for kind, rest in _lines(report, key):
        match kind, rest:
            case "collected", [list(tests), list(must_fail)]:
                told.tests, told.must_fail = tuple(map(str, tests)), tuple(map(str, must_fail))
            case "end", [int(ended)]:
                told.code = ended
            case _ if all(isinstance(each, str) for each in rest):
                told.hear(kind, [str(each) for each in rest])
            case _:
                pass
    if told.code is None or told.code != code:
        return None
    return _tally(told)


def _tally(told: _Told) -> Tally:
    must_fail = set(told.must_fail)
    tests = [each for each in told.tests if each not in must_fail]
    skipped = [each for each in tests if each in told.skipped and each not in told.failed]
    passed = [each for each in tests if each in told.passed and each not in told.failed and each not in told.skipped]
    known = {*skipped, *passed, *told.failed}
    undone = [clean_line(f"{each}: it did not come to its end") for each in tests if each not in known]
    errors = (*told.uncollected, *(line for test, line in told.failed.items() if test not in must_fail), *undone)
    is_sound = bool(told.uncollected) or (told.code == _FAILED and must_fail <= set(told.failed))
    return Tally(len(passed) + len(errors), len(passed), len(skipped), errors, is_sound)


def _lines(report: bytes, key: str) -> Iterator[tuple[object, list[object]]]:
    for line in report.splitlines():
        try:
            said = msgspec.json.decode(line, type=list[object])
        except (msgspec.MsgspecError, RecursionError, ValueError):
            continue
        if len(said) > 1 and said[0] == key:
            yield said[1], said[2:]


def _line(name: str, message: str, text: str, *, is_error: bool) -> str:
    """A failure's own message; of an error, whose message only says when it came, the last line that pytest marks."""
    places, marked = _PLACE.findall(text), _ERROR.findall(text)
    where = f"{name} ({places[-1]})" if places else name
    return clean_line(f"{where}: {marked[-1] if is_error and marked else message}")
