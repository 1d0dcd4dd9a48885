"""Finds the issues of a critique in the draft that it judges, gives each its identity, and lists each as a line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from hashlib import sha256
from typing import Final

from msgspec.structs import replace

from redraft.actors.editing.places import brief, first_place
from redraft.events.errors import ContentError, suggest
from redraft.events.messages.content import Critique, Issue, Span

MAX_ISSUES: Final = 1_000
"""The largest number of issues of one critique."""

MAX_ID: Final = 64
"""The longest id of an issue that a critic gives, in characters."""


_LINE_NUMBERS: Final = re.compile(r"\b(?:lines?|columns?)\s+\d+(?:[:-]\d+)*|^\d+:\d+\b|(?<=\.py):\d+", re.IGNORECASE)


def locate_issues(critique: Critique, text: str, criteria: Collection[str]) -> Critique:
    """Returns the critique of this text with each issue's place and id, and its line among the errors or suggestions.

    One for which the critic lists its words itself gets no line of its own.
    Raises ContentError for a quote that is not in the text, also that of a criterion, for a criterion that is not
    declared, and an id given twice.
    What it has returned once it returns again unchanged.
    """
    for mark in critique.criteria:
        _require_quote(mark.quote, text)
    if not critique.issues:
        return critique
    if len(critique.issues) > MAX_ISSUES:
        raise ContentError(f"gave {len(critique.issues):,} issues; give the {MAX_ISSUES:,} gravest")
    issues = _with_ids([_located(issue, text, criteria) for issue in critique.issues])
    return _with_lines(replace(critique, issues=issues))


def _with_lines(critique: Critique) -> Critique:
    """Returns the critique with a line for each issue that has none: equal lines are as many as their issues."""
    errors, suggestions, weaknesses = map(Counter, (critique.errors, critique.suggestions, critique.weaknesses))
    added: dict[bool, list[str]] = {True: [], False: []}
    for issue in critique.issues:
        is_error = issue.severity == "error"
        own, others = (errors, suggestions) if is_error else (suggestions, errors)
        words = ((own, issue.line), (own, issue.text), (weaknesses, issue.text), (others, issue.text))
        for listed, line in words:
            if listed[line]:
                listed[line] -= 1
                break
        else:
            added[is_error].append(issue.line)
    lines = {"errors": (*critique.errors, *added[True]), "suggestions": (*critique.suggestions, *added[False])}
    return replace(critique, **lines)


def _located(issue: Issue, text: str, criteria: Collection[str]) -> Issue:
    if not issue.text.strip():
        raise ContentError("gave an issue without a text; say what is wrong")
    if issue.criterion and issue.criterion not in criteria:
        remedy = suggest(issue.criterion, tuple(criteria)) if criteria else "declare it, or leave criterion out"
        raise ContentError(f"gave an issue of {issue.criterion!r}, a criterion that it does not declare; {remedy}")
    if len(issue.id) > MAX_ID:
        raise ContentError(f"gave an issue an id of {len(issue.id)} characters; give at most {MAX_ID}, or none")
    span = _place_of(issue, text)
    if span is None:
        if issue.replacement is not None:
            raise ContentError(f"gave a replacement and no quote for {brief(issue.text)}; quote what it replaces")
        return replace(issue, quote="") if issue.quote else issue
    return replace(issue, span=span, quote=text[span[0] : span[1]])


def _place_of(issue: Issue, text: str) -> Span | None:
    """Returns the place of an issue; None for one that has none."""
    if issue.span is None:
        return _require_quote(issue.quote, text)
    start, end = issue.span
    if not 0 <= start < end <= len(text):
        raise ContentError(f"gave the place {start} to {end} in a draft of {len(text)} characters; leave span out")
    if issue.quote and text[start:end] != issue.quote:
        there = brief(text[start:end])
        raise ContentError(f"quoted {brief(issue.quote)}, and at {start} to {end} stands {there}; leave span out")
    return issue.span


def _require_quote(quote: str, text: str) -> Span | None:
    """Returns the place of a quote, None for an empty one. Raises ContentError for one that is not in the text."""
    if not quote.strip():
        return None
    if (found := first_place(quote, text)) is None:
        raise ContentError(f"quoted {brief(quote)}, which is not in the draft; quote it word by word")
    return found


def _with_ids(issues: Sequence[Issue]) -> tuple[Issue, ...]:
    """Returns the issues, each with an id; what is said twice of the same place only once."""
    found: dict[str, Issue] = {}
    times: Counter[str] = Counter()
    own = {issue.id for issue in issues if issue.id}
    for issue in dict.fromkeys(issues):
        if issue.id in found:
            raise ContentError(f"gave the id {brief(issue.id)} to two issues; give each its own, or none")
        words = identity(issue)
        made = issue.id or words
        while not issue.id and (made in own or made in found):
            times[words] += 1
            made = identity(issue, times[words])
        found[made] = replace(issue, id=made)
    return tuple(found.values())


def identity(issue: Issue, number: int = 0) -> str:
    """Returns the id of an issue: a hash of its words, and of how many such are before it.

    Case, spaces and the numbers of lines do not count: `line 3: dull` is the same where it stands in line 4.
    """
    return _hash(_said(issue), number)


def identities(issue: Issue, most: int) -> Iterator[str]:
    """Yields the ids that so many issues of the same words have, by their number."""
    said = _said(issue)
    yield from (_hash(said, number) for number in range(most))


def _said(issue: Issue) -> str:
    said = (_LINE_NUMBERS.sub(" ", issue.text), issue.criterion, issue.quote)
    return "\0".join(" ".join(each.casefold().split()) for each in said)


def _hash(said: str, number: int) -> str:
    return sha256(f"{said}\0{number}".encode()).hexdigest()[:12]
