"""pytest's report in JUnit's XML, read into counts and errors.

The format is pytest's `xunit2`: https://docs.pytest.org/en/stable/how-to/output.html
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from xml.etree import ElementTree

from redraft.app.builtin.parsers import clean_line

_PLACE: Final = re.compile(r"^(?!/|\.\./)(?P<place>[^\s:]+\.py:[0-9]+): ", re.MULTILINE)
_ERROR: Final = re.compile(r"^E +(?P<error>\S.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Tally:
    """How many tests ran (skipped ones did not), how many of them passed, and a line for each that did not."""

    ran: int
    passed: int
    skipped: int
    errors: tuple[str, ...]


def read_report(report: bytes) -> Tally | None:
    """The tests of a report; None when it is not one. A failed collection counts as one test that did not pass."""
    try:
        root = ElementTree.fromstring(report)  # noqa: S314 - expat bounds entities, and the caller bounds the size
    except (ElementTree.ParseError, ValueError, LookupError):
        return None
    cases = list(root.iter("testcase"))
    errors = tuple(line for case in cases if (line := _failure(case)) is not None)
    skipped = sum(1 for case in cases if _failure(case) is None and case.find("skipped") is not None)
    return Tally(len(cases) - skipped, len(cases) - skipped - len(errors), skipped, errors)


def _failure(case: ElementTree.Element) -> str | None:
    for kind in ("failure", "error"):
        if (fault := case.find(kind)) is not None:
            return clean_line(f"{_name(case, fault)}: {_message(fault)}")
    return None


def _name(case: ElementTree.Element, fault: ElementTree.Element) -> str:
    places = _PLACE.findall(fault.text or "")
    name = case.get("name", "a test")
    return f"{name} ({places[-1]})" if places else name


def _message(fault: ElementTree.Element) -> str:
    """A failure's own message; of an error, whose message only says when it came, the last line that pytest marks."""
    marked = _ERROR.findall(fault.text or "")
    return marked[-1] if fault.tag == "error" and marked else fault.get("message", "failed")
