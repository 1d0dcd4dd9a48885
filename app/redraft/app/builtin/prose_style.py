"""Clichés, redundancies and other matters of style, found by proselint.

proselint documents `proselint.checks.__register__`, the list of its checks, and a registry of the whole process to
put them in; the list is used directly, so that nothing is shared. Only checks that run on RE2 are used: their time is
linear in the text, where one of the few on Python's `re` alone took five times as long as all these together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final, Protocol

from proselint.checks import __register__  # type: ignore[import-untyped]
from proselint.registry.checks.engine import Fast  # type: ignore[import-untyped]

from redraft.app.builtin.prose_finding import Finding
from redraft.app.builtin.prose_text import MARKUP, MASK, Prose
from redraft.app.builtin.prose_words import QUOTES

CHECKS: Final = (
    "annotations",
    "cliches",
    "hedging",
    "industrial_language",
    "malapropisms",
    "misc.back_formations",
    "misc.composition",
    "misc.debased",
    "misc.false_plurals",
    "misc.illogic",
    "misc.inferior_superior",
    "misc.many_a",
    "misc.metadiscourse",
    "misc.narcissism",
    "misc.not_guilty",
    "misc.tense_present",
    "misc.waxed",
    "misc.whence",
    "mixed_metaphors.misc",
    "mondegreens",
    "nonwords",
    "oxymorons",
    "redundancy",
    "spelling",
    "typography.punctuation.hyperbole",
    "uncomparables",
)
"""proselint's checks that left sound texts alone; `typography`, say, found 1,900 faults in 200 software documents."""

ALLOWED: Final = frozenset({"b4", "exact same", "for free", "point in time"})
_COMPARED = ("more ", "less ")


class Result(Protocol):
    """What proselint says of a span of the text."""

    @property
    def span(self) -> tuple[int, int]: ...
    @property
    def message(self) -> str: ...


class Check(Protocol):
    """What is used of a check of proselint."""

    @property
    def engine(self) -> object: ...
    def matches_partial(self, partial: str) -> bool: ...
    def check_with_flags(self, text: str) -> Iterable[Result]: ...


def style_findings(prose: Prose) -> Iterator[Finding]:
    """What proselint has to say of the text, each place once."""
    padded = f"\n{prose.masked}\n".encode(errors="replace").decode()  # RE2 takes no lone surrogates
    seen: set[tuple[int, int]] = set()
    for check in _checks():
        for result in check.check_with_flags(padded):
            if result.span not in seen and _counts(padded, result):
                seen.add(result.span)
                yield _finding(padded, result)


@cache
def _checks() -> tuple[Check, ...]:
    every: tuple[Check, ...] = __register__
    fast = (check for check in every if isinstance(check.engine, Fast))
    return tuple(check for check in fast if any(check.matches_partial(each) for each in CHECKS))


def _counts(text: str, result: Result) -> bool:
    """Leaves out parts of words (proselint 0.16 forgets word boundaries in sets of patterns), quotations, and code."""
    start, end = result.span
    found = text[start:end].lower()
    cut = (text[start - 1].isalnum() and found[:1].isalnum()) or (
        found[-1:].isalnum() and text[end : end + 1].isalnum()
    )
    said = text[start - 1] in QUOTES and text[end : end + 1] in QUOTES
    masked = MASK in found or MARKUP in found or "\n\n" in found
    return not (cut or said or masked or found.strip() in ALLOWED or found.startswith(_COMPARED))


def _finding(text: str, result: Result) -> Finding:
    start, end = result.span
    found = " ".join(text[start:end].split())
    return Finding("style", start - 1, found, note=" ".join(result.message.split()))
