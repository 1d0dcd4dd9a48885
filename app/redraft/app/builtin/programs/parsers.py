"""Reads the output of checkers into findings. Pure functions that take any text and never raise."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

import msgspec

from redraft.actors.workflow.counting import TESTS
from redraft.app.builtin.support.workspace import clean_line, without_colours
from redraft.events.messages.content import Issue

Parse: TypeAlias = Callable[[str], tuple["Finding", ...]]
ParserName: TypeAlias = Literal["ruff", "pytest", "mypy", "lines"]

_LINE: Final = re.compile(r"(?P<file>.+?):(?P<line>[0-9]{1,9})(?::(?P<column>[0-9]{1,9}))?: *(?P<message>\S.*)")
_RUFF_CONCISE: Final = re.compile(r".+?:(?P<line>[0-9]{1,9}):(?P<column>[0-9]{1,9}): (?P<rest>\S.*)")
_RUFF_RULE: Final = re.compile(r"(?P<code>[A-Z]+[0-9]{3,4}|[a-z]+(?:-[a-z]+)+):? (?:\[\*\] )?(?P<message>\S.*)")
_RUFF_PLACE: Final = re.compile(r" *--> .*?:(?P<line>[0-9]{1,9}):(?P<column>[0-9]{1,9})")
_MYPY: Final = re.compile(
    r".+?:(?:(?P<line>[0-9]{1,9}):)?(?:(?P<column>[0-9]{1,9}):)?(?:[0-9]+:[0-9]+:)? error: "
    r"(?P<message>\S.*?)(?:  \[(?P<code>[a-z0-9-]+)\])?"
)
_PYTEST_NAMED: Final = re.compile(r"(?P<code>FAILED|ERROR) (?P<test>\S.*?)(?: - (?P<message>.*))?")
_PYTEST_COUNT: Final = re.compile(r"(?P<count>[0-9]{1,9}) (?P<what>failed|errors?|passed)\b")
_LINE_END: Final = re.compile(r"\r\n?|\n")
_PYTEST_HEADER: Final = "short test summary info"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a checker says. `line` and `column` count from 1; 0 means that it named none."""

    line: int
    column: int
    code: str
    message: str

    def __str__(self) -> str:
        place = f"{self.line}:{self.column}" if self.column else f"line {self.line}" if self.line else ""
        return clean_line(" ".join(filter(None, (place, self.code, self.message))))


class _Place(msgspec.Struct, frozen=True):
    row: int
    column: int


class _Edit(msgspec.Struct, frozen=True):
    content: str
    location: _Place
    end_location: _Place


class _Fix(msgspec.Struct, frozen=True):
    message: str | None = None
    edits: tuple[_Edit, ...] = ()


class _RuffRow(msgspec.Struct, frozen=True):
    """Ruff's JSON for one finding; https://docs.astral.sh/ruff/settings/#output-format."""

    message: str
    location: _Place | None = None
    end_location: _Place | None = None
    code: str | None = None
    fix: _Fix | None = None

    def finding(self, message: str) -> Finding:
        """Returns what the message says of the row's place."""
        place = self.location or _Place(0, 0)
        return Finding(place.row, place.column, self.code or "", message)


def ruff_findings(text: str) -> tuple[Finding, ...]:
    """Findings in ruff's JSON, concise or full text."""
    rows = _ruff_rows(text)
    if rows:
        return tuple(row.finding(row.message) for row in rows)
    lines = without_colours(text).splitlines()
    return tuple(_ruff_concise(lines)) or tuple(_ruff_full(lines))


def ruff_suggestions(text: str) -> tuple[str, ...]:
    """Returns the fixes that ruff proposes, from its JSON: `3:1 Remove unused import: os`."""
    return tuple(str(row.finding(row.fix.message)) for row in _ruff_rows(text) if row.fix and row.fix.message)


def ruff_issues(text: str, source: str) -> tuple[Issue, ...]:
    """Returns the findings in ruff's JSON as issues with their places in the source, in the order of `ruff_findings`.

    Where ruff knows one change that mends it, the issue quotes what that replaces; of several, all that they touch.
    """
    starts = (0, *(each.end() for each in _LINE_END.finditer(source)))
    return tuple(_ruff_issue(row, source, starts) for row in _ruff_rows(text))


def _ruff_issue(row: _RuffRow, source: str, starts: Sequence[int]) -> Issue:
    edits = row.fix.edits if row.fix else ()
    places = [(each.location, each.end_location) for each in edits]
    if len(edits) != 1 and row.location and row.end_location:
        places.append((row.location, row.end_location))
    ends = [(_offset(start, starts), _offset(end, starts)) for start, end in places]
    low, high = min((each for each, _ in ends), default=0), min(max((each for _, each in ends), default=0), len(source))
    words = str(row.finding(row.message))
    if not source[low:high].strip():
        return Issue(words, severity="error")
    instead = edits[0].content if len(edits) == 1 else None
    return Issue(words, source[low:high], (low, high), severity="error", replacement=instead)


def _offset(place: _Place, starts: Sequence[int]) -> int:
    return starts[min(max(place.row, 1), len(starts)) - 1] + max(place.column, 1) - 1


def mypy_findings(text: str) -> tuple[Finding, ...]:
    """Errors in mypy's text, with or without columns; notes are not findings."""
    return tuple(_match_lines(_MYPY, text))


def line_findings(text: str) -> tuple[Finding, ...]:
    """Lines of the form `file:line: message` or `file:line:column: message`; all others are passed over."""
    return tuple(_match_lines(_LINE, text))


def _match_lines(pattern: re.Pattern[str], text: str) -> Iterator[Finding]:
    """Yields a finding for each line that is of this form as a whole."""
    for line in without_colours(text).splitlines():
        if found := pattern.fullmatch(line):
            fields = found.groupdict()
            yield Finding(
                int(fields["line"] or 0), int(fields["column"] or 0), fields.get("code") or "", fields["message"]
            )


def pytest_findings(text: str) -> tuple[Finding, ...]:
    """Failed tests and errors in pytest's short summary; those it counts but does not name are one more finding."""
    lines = without_colours(text).splitlines()
    starts = [number for number, line in enumerate(lines) if _PYTEST_HEADER in line]
    named = (_PYTEST_NAMED.fullmatch(line) for line in lines[starts[-1] if starts else 0 :])
    findings = tuple(
        Finding(0, 0, each["code"], f"{each['test']}: {each['message']}" if each["message"] else each["test"])
        for each in named
        if each is not None
    )
    unnamed = _pytest_failures(lines) - len(findings)
    if unnamed > 0:
        return (*findings, Finding(0, 0, "FAILED", f"{unnamed} more that pytest did not name; run it with -rfE"))
    return findings


def count_tests(ran: int, passing: int) -> dict[str, int]:
    """Returns the numbers of `TESTS`; of none that ran, not all pass."""
    return dict(zip(TESTS, (ran, ran - passing, passing, int(ran > 0 and passing == ran)), strict=True))


def pytest_counts(text: str, *, succeeded: bool) -> dict[str, int]:
    """Returns the numbers of `TESTS` in pytest's last line; where it failed and counts no failure, one did."""
    counts = next(_pytest_counts(without_colours(text).splitlines()), [])
    passing = sum(count for count, what in counts if what == "passed")
    failing = sum(count for count, what in counts if what != "passed")
    return count_tests(passing + (failing or int(not succeeded)), passing)


PARSERS: Final[Mapping[str, Parse]] = MappingProxyType(
    {"ruff": ruff_findings, "pytest": pytest_findings, "mypy": mypy_findings, "lines": line_findings}
)


def _ruff_rows(text: str) -> tuple[_RuffRow, ...]:
    if not text.lstrip().startswith("["):
        return ()
    try:
        return msgspec.json.decode(text, type=tuple[_RuffRow, ...])
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return ()


def _ruff_concise(lines: Iterable[str]) -> Iterable[Finding]:
    for line in lines:
        place = _RUFF_CONCISE.fullmatch(line)
        rule = _RUFF_RULE.fullmatch(place["rest"]) if place else None
        if place and rule:
            yield Finding(int(place["line"]), int(place["column"]), rule["code"], rule["message"])


def _ruff_full(lines: list[str]) -> Iterable[Finding]:
    for line, following in pairwise(lines):
        rule, place = _RUFF_RULE.fullmatch(line), _RUFF_PLACE.fullmatch(following)
        if rule and place:
            yield Finding(int(place["line"]), int(place["column"]), rule["code"], rule["message"])


def _pytest_failures(lines: list[str]) -> int:
    return sum(count for count, what in next(_pytest_counts(lines), []) if what != "passed")


def _pytest_counts(lines: list[str]) -> Iterator[list[tuple[int, str]]]:
    """Yields what each line counts that sums up tests, the last first."""
    for line in reversed(lines):
        counts = [(int(each["count"]), each["what"]) for each in _PYTEST_COUNT.finditer(line)]
        if counts and " in " in line:
            yield counts
