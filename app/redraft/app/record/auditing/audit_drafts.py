"""Prepares the drafts of a run for its audit page: origin, changes, critiques, and limits on the page's size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, assert_never

import msgspec

from redraft.events.messages.content import Draft
from redraft.events.messages.domain_events import DraftCritiqued, DraftEdited, DraftGenerated, DraftMade, DraftRefined
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.folders import FOLDER
from redraft.events.messages.redaction import ERASED
from redraft.projections.display import NAME_LENGTH, counted, plain
from redraft.projections.run_views.answers import Answers, Named, named_by, with_answers
from redraft.projections.run_views.diff import (
    Added,
    Kept,
    Line,
    Removed,
    Skipped,
    Word,
    WordTally,
    count_words,
    diff,
    fold_unchanged,
)

DRAFT_SHOWN: Final = 200_000
"""The maximum number of characters shown of one draft, or of one diff."""
ALL_SHOWN: Final = 6_000_000
"""The maximum for all drafts, diffs and critiques together; each has an equal share."""
DRAFTS_SHOWN: Final = 1_000
"""The maximum number of drafts with a section of their own: half of them the first, half the last."""
OPENED: Final = 8
"""Up to this number of drafts, diffs are open initially."""
_LINE_COST: Final = 60
_PROSE: Final = frozenset({"", "text/plain", "text/markdown"})


class Version(msgspec.Struct, frozen=True):
    """A draft of the run: how it was made, from which draft if there was one, its changes and its critiques.

    `answers` are the issues of the draft before that its changes may answer, each with its place there.
    """

    draft: Draft
    origin: str
    before: Draft | None
    changes: tuple[str, ...]
    critiques: tuple[DraftCritiqued, ...]
    answers: tuple[Named, ...] = ()


class DiffRow(msgspec.Struct, frozen=True):
    """A line of a diff: `kind` is `kept`, `removed`, `added`, `skipped`, or `answers` for an issue that is answered."""

    kind: str
    number: str
    sign: str
    words: tuple[Word, ...]


class Change(msgspec.Struct, frozen=True):
    """The diff of a refinement: the rows that fit, the words added and removed, and whether the rest is `cut`."""

    rows: tuple[DiffRow, ...]
    words: WordTally
    cut: bool


def versions(events: Iterable[Recorded]) -> tuple[Version, ...]:
    """Returns the drafts of a run in the order in which they were made."""
    made: dict[int, DraftMade] = {}
    critiques: dict[int, list[DraftCritiqued]] = {}
    for event in events:
        match event.data:
            case DraftGenerated() | DraftRefined() | DraftEdited():
                made[event.data.draft.version] = event.data
            case DraftCritiqued():
                critiques.setdefault(event.data.draft.version, []).append(event.data)
            case _:
                pass
    return tuple(_make_version(number, made, critiques) for number in made)


def _make_version(number: int, made: dict[int, DraftMade], judged: dict[int, list[DraftCritiqued]]) -> Version:
    each, critiques = made[number], tuple(judged.get(number, ()))
    match each:
        case DraftGenerated(draft=draft, path=path):
            return Version(draft, f"written by {plain(path, NAME_LENGTH * 2)}", None, (), critiques)
        case DraftRefined(draft=draft, before=ref, path=path, changes=changes):
            by = plain(path, NAME_LENGTH * 2)
        case DraftEdited(draft=draft, before=ref, by=name):
            by, changes = f"{plain(name, NAME_LENGTH)}, by hand", ()
        case _:
            assert_never(each)
    before = made[ref.version].draft if ref.version in made else None
    issues = [issue for event in judged.get(ref.version, ()) for issue in event.critique.issues]
    answers = tuple(named_by(issues, each, before.text, same=True)) if before and before.text != ERASED else ()
    return Version(draft, f"made from draft {ref.version} by {by}", before, changes, critiques, answers)


def share_of_each(count: int) -> int:
    """Returns how many characters each of `count` drafts may take."""
    return min(DRAFT_SHOWN, ALL_SHOWN // max(count, 1))


def size_of(draft: Draft) -> str:
    """Returns how many words a draft has, or that they are erased."""
    return "its text is erased" if draft.text == ERASED else counted(len(draft.text.split()), "word")


def css_classes(draft: Draft, kind: str = "draft") -> str:
    """Returns the CSS classes of a draft's text (or its diff): anything but prose is set in a monospaced font."""
    return kind if draft.media_type.partition(";")[0] in _PROSE else f"{kind} code"


def change_of(before: Draft, after: Draft, answers: Sequence[Named], share: int) -> Change:
    """Returns the diff of a refinement with the issues that it answers; it ends once `share` characters are used."""
    left, came, went = share, 0, 0
    rows: list[DiffRow] = []
    end = Kept(before.text.count("\n") + 1, after.text.count("\n") + 1, "")
    folded = fold_unchanged(diff(before.text, after.text), files=after.media_type == FOLDER)
    for line in with_answers(folded, before.text, answers):
        if isinstance(line, Answers):
            told = fit_lines([f"answers {issue.severity} {issue.line}" for issue in line.issues], left)
            rows += [DiffRow("answers", "", "\u21b3", (Word(each, changed=False),)) for each in told]
            left -= sum(len(each) + _LINE_COST for each in told)
            continue
        words = WordTally(0, 0) if isinstance(line, Skipped) else count_words((line,))
        came, went = came + words.added, went + words.removed
        if line != end:
            rows.append(_make_row(line, left))
        left -= _length(line) + _LINE_COST
        if left < 0:
            break
    return Change(tuple(rows), WordTally(came, went), left < 0)


def _make_row(line: Line | Skipped, limit: int) -> DiffRow:
    match line:
        case Kept(after=number, text=kept):
            return DiffRow("kept", str(number), " ", (Word(kept[:limit], changed=False),))
        case Removed(before=number, words=words):
            return DiffRow("removed", str(number), "\u2212", tuple(_cut_words(words, limit)))
        case Added(after=number, words=words):
            return DiffRow("added", str(number), "+", tuple(_cut_words(words, limit)))
        case Skipped(lines=count):
            return DiffRow("skipped", "\u22ef", " ", (Word(counted(count, "unchanged line"), changed=False),))
        case _:
            assert_never(line)


def _cut_words(words: Iterable[Word], limit: int) -> Iterator[Word]:
    for word in words:
        shown = word.text[:limit]
        limit -= len(shown)
        if shown:
            yield Word(shown, word.changed)


def _length(line: Line | Skipped) -> int:
    match line:
        case Kept(text=kept):
            return len(kept)
        case Removed(words=words) | Added(words=words):
            return sum(len(word.text) for word in words) + 15 * len(words)
        case Skipped():
            return 0
        case _:
            assert_never(line)


def fit_lines(lines: Sequence[str], share: int) -> Sequence[str]:
    """Returns the first lines that fit into `share` characters, each on one line of limited length."""
    shown: list[str] = []
    for line in map(plain, lines):
        share -= len(line) + _LINE_COST
        if share < 0:
            break
        shown.append(line)
    return shown
