"""Makes the text that edits of a draft stand for, and holds a refiner to the places that issues name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from typing import Final

from msgspec.structs import replace

from redraft.actors.editing.places import brief, changes_only, first_place, times_found
from redraft.events.errors import ContentError
from redraft.events.messages.content import Edit, Issue, Revision
from redraft.events.messages.folders import begins_file, file_spans, sections

MAX_EDITS: Final = 1_000
"""The largest number of edits of one revision."""


def apply_edits(edits: Sequence[Edit], text: str) -> str:
    """Returns the text with these edits made, and equal outside of them. Raises ContentError where one does not apply.

    Each quote has to stand in the text exactly once, or in the file that its edit names, and no two may overlap.
    """
    if len(edits) > MAX_EDITS:
        raise ContentError(f"gave {len(edits):,} edits; give at most {MAX_EDITS:,}, or the whole text")
    placed = sorted((_placed(edit, text) for edit in edits), key=lambda each: each[:2])
    for (_, end, first), (start, _, second) in pairwise(placed):
        if start < end:
            both = f"{brief(first.quote)} and of {brief(second.quote)}"
            raise ContentError(f"gave edits that overlap: of {both}; make one of them, or quote less")
    parts: list[str] = []
    place = 0
    for start, end, edit in placed:
        parts += (text[place:start], edit.replacement)
        place = end
    after = "".join((*parts, text[place:]))
    if all(edit.file for edit in edits) and _count_files(after) != _count_files(text):
        raise ContentError("gave edits that together begin another file; write a backslash before `=== `")
    return after


def _count_files(text: str) -> int:
    return sum(1 for _ in sections(text))


def _placed(edit: Edit, text: str) -> tuple[int, int, Edit]:
    if not edit.quote:
        raise ContentError("gave an edit without a quote; quote the words that are to change")
    first, last = _span_of_file(edit, text) if edit.file else (0, len(text))
    where, within = (edit.file, text[first:last]) if edit.file else ("the draft", text)
    times = times_found(edit.quote, within)
    if times != 1:
        there = f"in {where} more than once" if times else f"not in {where}"
        if not times and first_place(edit.quote, within) is not None:
            there = f"in {where} with other spaces or line ends"
        raise ContentError(
            f"gave an edit of {brief(edit.quote)}, which is {there}; quote what stands there exactly once"
        )
    start = first + within.index(edit.quote)
    end = start + len(edit.quote)
    if edit.file:
        _check_file(edit, f"{text[first:start]}{edit.replacement}{text[end:last]}")
    return start, end, edit


def _check_file(edit: Edit, lines: str) -> None:
    """Raises ContentError for an edit of one file after which its lines would be more, or less, than that file."""
    if begins_file(lines):
        raise ContentError(
            f"gave an edit of {brief(edit.file)} that begins a line with `=== `, as another file does; "
            "write a backslash before it"
        )
    if lines and not lines.endswith("\n"):
        raise ContentError(
            f"gave an edit of {brief(edit.file)} that takes its last line end; keep that in the replacement"
        )


def _span_of_file(edit: Edit, text: str) -> tuple[int, int]:
    span = file_spans(text).get(edit.file)
    if span is None:
        raise ContentError(f"gave an edit of {brief(edit.file)}, which is no file of the draft; name one that it has")
    return span


def with_text(revision: Revision, before: str, issues: Sequence[Issue]) -> Revision:
    """Returns the revision of this draft with its whole text, and a line for each issue that it declines.

    An issue that no edit names and that is not refused is named by the first edit whose quote overlaps its place.
    Raises ContentError when its edits do not apply, or say something else than its text, and when it names an issue
    that is none of the draft's.
    """
    check_named(revision, {issue.id for issue in issues})
    text, edits = revision.text, revision.edits
    if edits:
        text = apply_edits(edits, before)
        edits = _with_answered(revision, before, issues)
        if revision.text not in ("", text):
            raise ContentError("gave a text and edits that do not make this text; give one of them")
    elif not text and (revision.exit or revision.declined or revision.refusals):
        text = before
    lines = {issue.id: issue.line for issue in issues}
    said = (f"{lines[each.issue]} — {each.reason}" for each in revision.refusals)
    declined = tuple(dict.fromkeys((*revision.declined, *said)))
    return replace(revision, text=text, declined=declined, edits=edits)


def _with_answered(revision: Revision, before: str, issues: Sequence[Issue]) -> tuple[Edit, ...]:
    refused = {each.issue for each in revision.refusals}
    said = {name for edit in revision.edits for name in edit.issues} | refused
    places = {issue.id: issue.span for issue in issues if issue.span is not None}
    open_ = {name: span for name, span in places.items() if name not in said}
    found = []
    for edit in revision.edits:
        start, end, _ = _placed(edit, before)
        met = [name for name, span in open_.items() if _meet(span, start, end)]
        open_ = {name: span for name, span in open_.items() if name not in met}
        found.append(replace(edit, issues=(*edit.issues, *met)) if met else edit)
        _check_declined(found[-1], [name for name in refused & places.keys() if _meet(places[name], start, end)])
    return tuple(found)


def _meet(span: tuple[int, int], start: int, end: int) -> bool:
    """Returns whether a place and the characters from `start` to before `end` have one in common."""
    return span[0] < end and start < span[1]


def _check_declined(edit: Edit, declined: Sequence[str]) -> None:
    """Raises ContentError for an edit that changes what a declined issue quotes, and answers no other."""
    if declined and not edit.issues:
        raise ContentError(
            f"declined the issue {brief(min(declined))} and changed what it quotes; do one of them, or name the issue "
            "that the edit answers"
        )


def check_named(revision: Revision, known: Collection[str]) -> None:
    """Raises ContentError when an edit or a refusal names an issue that is not known, or both name one.

    It also does when a refusal says no reason.
    """
    answered = [name for edit in revision.edits for name in edit.issues]
    for each in revision.refusals:
        if not each.reason.strip():
            raise ContentError(f"declined the issue {brief(each.issue)} without a reason; say why")
        if each.issue in answered:
            raise ContentError(f"declined the issue {brief(each.issue)} and answered it with an edit; do one of them")
    for name in [*answered, *(each.issue for each in revision.refusals)]:
        if name not in known:
            raise ContentError(
                f"named the issue {brief(name)}, which the critique does not have; take an id from there"
            )


def check_only_issues(before: str, after: str, issues: Iterable[Issue]) -> None:
    """Raises ContentError when a text differs from the one before outside of the places of these issues."""
    spans = [issue.span for issue in issues if issue.span is not None]
    if not changes_only(spans, before, after):
        raise ContentError("changed what no issue names; with only_issues, change nothing but what an issue quotes")
