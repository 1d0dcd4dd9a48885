"""Finds the issues that the changes between two drafts of a run answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import assert_never

import msgspec

from redraft.events.messages import domain_events as events
from redraft.events.messages.content import Draft, Issue, Span
from redraft.events.messages.envelope import Recorded
from redraft.projections.run_views.diff import Added, Kept, Line, Removed, Skipped


class Answers(msgspec.Struct, frozen=True, tag="answers"):
    """The issues that the changed lines before it answer."""

    issues: tuple[Issue, ...]


class Named(msgspec.Struct, frozen=True):
    """An issue, and the place in a draft whose change answers it."""

    issue: Issue
    span: Span


def with_answers(
    lines: Iterable[Line | Skipped], before: str, named: Sequence[Named]
) -> Iterator[Line | Skipped | Answers]:
    """Yields the lines of a diff from this text, and after each changed stretch the issues that it answers, if any."""
    starts = [0, *accumulate(len(line) + 1 for line in before.split("\n"))]
    place = 0
    spans: list[Span] = []
    for line in lines:
        match line:
            case Kept(before=number):
                yield from _answers(spans, named)
                spans, place = [], starts[number]
            case Skipped():
                yield from _answers(spans, named)
                spans = []
            case Removed(before=number, words=words):
                ends = list(accumulate((len(word.text) for word in words), initial=starts[number - 1]))
                spans += [pair for pair, word in zip(pairwise(ends), words, strict=True) if word.changed]
                place = starts[number]
            case Added():
                spans += [] if spans else [(max(0, place - 1), place)]
            case _:
                assert_never(line)
        yield line
    yield from _answers(spans, named)


def _answers(spans: Sequence[Span], named: Sequence[Named]) -> Iterator[Answers]:
    if not spans:
        return
    met = {each.issue.id: each.issue for each in named if any(_touch(each.span, span) for span in spans)}
    if met:
        yield Answers(tuple(met.values()))


def _touch(one: Span, other: Span) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


def named_between(stream: Sequence[Recorded], before: int, after: int) -> list[Named]:
    """Returns the issues that revisions from one draft of a run to another may answer, placed in the first.

    They are those of critiques of each draft on the way; an issue of a later draft is placed where its quote stands
    once. An edit places the issues that it names too.
    """
    made = {data.draft.version: data for data in _drafts(stream)}
    found: list[Named] = []
    version = after
    while version != before and version in made:
        data = made[version]
        if isinstance(data, events.DraftGenerated):
            break
        version = data.before.version
        if version not in made:
            break
        issues = _issues_of(stream, made[version].draft)
        found += named_by(issues, data, made[before].draft.text, same=version == before)
    if version != before and before in made:
        issues = _issues_of(stream, made[before].draft)
        found += [Named(issue, issue.span) for issue in issues if issue.span is not None]
    return found


def _drafts(stream: Iterable[Recorded]) -> Iterator[events.DraftMade]:
    for event in stream:
        if isinstance(event.data, events.DraftMade):
            yield event.data


def _issues_of(stream: Iterable[Recorded], draft: Draft) -> list[Issue]:
    said = (event.data for event in stream)
    return [
        issue
        for data in said
        if isinstance(data, events.DraftCritiqued) and data.draft.version == draft.version
        for issue in data.critique.issues
    ]


def named_by(issues: Sequence[Issue], data: events.DraftMade, text: str, *, same: bool) -> Iterator[Named]:
    """Yields the issues of the draft that a revision was made from, placed in this text, but for declined ones."""
    known = {issue.id: issue for issue in issues}
    edits = data.edits if isinstance(data, events.DraftRefined) else ()
    declined = data.declined if isinstance(data, events.DraftRefined) else ()
    named = [(known[name], edit.quote, None) for edit in edits for name in edit.issues if name in known]
    others = [issue for issue in issues if not any(line.startswith(f"{issue.line} — ") for line in declined)]
    for issue, quote, span in [*((issue, issue.quote, issue.span) for issue in others), *named]:
        if span is not None and same:
            yield Named(issue, span)
        elif quote and text.count(quote) == 1:
            start = text.index(quote)
            yield Named(issue, (start, start + len(quote)))
