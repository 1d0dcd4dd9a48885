"""Lists what the shipped critics count with given options, without importing the critics."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from redraft.actors.values import ignore
from redraft.actors.workflow.actor import Actor, Measures

PROSE: Final = ("words", "findings", "readability?")
"""The measures of `prose`: words and findings, and the reading ease of a text that is long enough."""

TESTS: Final = ("tests", "failing", "passing", "all_tests_passing")
"""The measures of tests: those that ran, those of them that failed or could not be run, and 1 if all passed."""

_DEFAULT: Final = ("E", "F")
"""The kinds of findings that are counted when no rules are selected."""
_PYLINT: Final = "PL"
"""The only kind whose rules have further letters: `PLR0913`."""
_LETTERS: Final = re.compile("[A-Z]+")


def families_of(options: Mapping[str, object]) -> dict[str, str]:
    """Returns the kinds of rules that are asked for, by the rules that begin with them: `E` of `E501`."""
    given = options.get("select")
    selected = [str(each) for each in given] if isinstance(given, list | tuple) and given else list(_DEFAULT)
    found = {each: _LETTERS.match(each) for each in selected if each != "ALL"}
    return {each: letters.group() for each, letters in found.items() if letters}


def is_of(code: str, kind: str) -> bool:
    """Returns whether the code of a rule is of this kind."""
    letters = _LETTERS.match(code)
    return kind == _PYLINT or (letters is not None and letters.group() == kind)


def ruff_measures(options: Mapping[str, object]) -> tuple[str, ...]:
    """Returns what `ruff` counts: findings, and those of each kind that is asked for."""
    kinds = () if options.get("config") else families_of(options).values()
    return ("findings", "syntax_errors", *sorted(set(kinds)))


def pytest_measures(options: Mapping[str, object]) -> tuple[str, ...]:
    """Returns what `pytest` counts: tests, and with the option `coverage` the share of lines that ran."""
    if options.get("kept"):
        return ("broken",)
    return (*TESTS, "coverage") if options.get("coverage") else TESTS


def command_measures(options: Mapping[str, object]) -> tuple[str, ...]:
    """Returns what a program is known to count, by the parser that reads it; of `json`, what the plan says."""
    match options.get("parser", "exit"):
        case "json":
            return ()
        case "exit":
            return ("exit_code",)
        case "pytest":
            return ("exit_code", "findings", *TESTS)
        case _:
            return ("exit_code", "findings")


COUNTING: Final[Mapping[str, Measures]] = MappingProxyType(
    {"prose": PROSE, "ruff": ruff_measures, "pytest": pytest_measures, "command": command_measures}
)
"""The measures of each shipped critic that counts."""


def shipped_critics(own: Iterable[Actor]) -> Iterator[Actor]:
    """Yields the shipped critics as far as plans look at them: what they declare. Critics of one's own go before."""
    keys = {(actor.role, actor.name) for actor in own}
    for name, measures in COUNTING.items():
        if ("critic", name) not in keys:
            yield Actor(name, "critic", ignore, (), is_async=False, measures=measures)
