"""Findings as sentences for people and models, and a critique made of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, assert_never

from redraft.app.builtin.prose_finding import Fault, Finding
from redraft.app.builtin.prose_phrases import LEAVE_OUT
from redraft.app.builtin.prose_readability import Readability
from redraft.app.builtin.prose_reading import Judgement
from redraft.app.builtin.prose_score import HARD
from redraft.app.builtin.prose_text import Prose
from redraft.events.content import Critique

LISTED: Final = 50
"""How many lines of a kind a critique or a revision lists; the rest is counted."""
ERRORS: Final[tuple[Fault, ...]] = ("spelling", "doubled")
WEAKNESSES: Final[tuple[Fault, ...]] = ("wordy",)
SUGGESTIONS: Final[tuple[Fault, ...]] = ("doubtful", "plainer", "style", "long")

_LONGEST: Final = 240


def critique(prose: Prose, judged: Judgement) -> Critique:
    """What there is to say of a text; a text without prose has score 1 and a strength that says so."""
    if not judged.words:
        return Critique(
            1.0, strengths=("no prose to judge: the text holds no English sentence outside code and markup",)
        )
    return Critique(
        judged.score,
        strengths=tuple(_strengths(judged)),
        weaknesses=(*_hardness(judged.readability), *said(prose, judged.findings, WEAKNESSES)),
        suggestions=said(prose, judged.findings, SUGGESTIONS),
        errors=said(prose, judged.findings, ERRORS),
    )


def said(prose: Prose, findings: Sequence[Finding], faults: Sequence[Fault]) -> tuple[str, ...]:
    """A line for each finding of these faults, LISTED at most, and how many more there are."""
    chosen = [finding for finding in findings if finding.fault in faults]
    lines = [f"line {prose.line(finding.at)}: {_sentence(finding)}"[:_LONGEST] for finding in chosen[:LISTED]]
    more = len(chosen) - LISTED
    return (*lines, f"... and {more:,} more") if more > 0 else tuple(lines)


def _sentence(finding: Finding) -> str:
    match finding.fault:
        case "spelling" | "doubled" | "wordy":
            return f'"{finding.found}" -> "{finding.instead}"'
        case "doubtful":
            return f'"{finding.found}" may be misspelled: {finding.instead}?'
        case "plainer" if finding.instead == LEAVE_OUT:
            return f'"{finding.found}" can often be left out'
        case "plainer":
            return f'"{finding.found}" may be plainer as "{finding.instead}"'
        case "style":
            return finding.note if finding.found in finding.note else f'"{finding.found}": {finding.note}'
        case "long":
            return f'"{finding.found} ...": {finding.note}'
        case _:
            assert_never(finding.fault)


def _strengths(judged: Judgement) -> Iterator[str]:
    faults = {finding.fault for finding in judged.findings}
    for fault, praise in _PRAISE.items():
        if fault not in faults:
            yield f"{praise} in {judged.words:,} words"
    if judged.readability is not None and judged.readability.ease >= 60:
        yield f"easy to read: {_measured(judged.readability)}"


def _hardness(measured: Readability | None) -> Iterator[str]:
    if measured is not None and measured.ease < HARD:
        yield f"hard to read: {_measured(measured)}; write shorter sentences and shorter words"


def _measured(measured: Readability) -> str:
    per_sentence = measured.words / measured.sentences
    return f"reading ease {measured.ease:.0f}, grade {measured.grade:.0f}, {per_sentence:.0f} words a sentence"


_PRAISE: Final[dict[Fault, str]] = {
    "spelling": "no known misspelling",
    "doubled": "no doubled word",
    "wordy": "no wordy phrase",
}
