"""Compares two texts: by lines, and by words within the lines that changed.

The time grows with the length of the texts and not with its square: `find_gaps` cuts both at common anchors, and
changed stretches above a size are shown as whole lines.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby, pairwise
from math import sqrt
from typing import Final, Literal, TypeAlias, assert_never

import msgspec

MAX_PAIRS: Final = 2_000_000
"""The maximum number of pairs that `difflib` compares in one diff."""

Range: TypeAlias = tuple[int, int, int, int]
"""A stretch in which two sequences differ: `before[a:b]`, `after[c:d]`."""


def find_gaps(old: Sequence[str], new: Sequence[str], max_pairs: int) -> Iterator[Range]:
    """Yields the stretches in which two sequences differ, in order; everything between them is equal.

    A gap of more than `max_pairs` pairs (items before times items after) is not examined further.
    """
    left = MAX_PAIRS
    for a, b, c, d in _gaps_between_anchors(old, new):
        pairs = (b - a) * (d - c)
        if not pairs or pairs > min(max_pairs, left):
            yield a, b, c, d
            continue
        left -= pairs
        inner = SequenceMatcher(None, old[a:b], new[c:d], autojunk=False)
        for kind, i, j, k, n in inner.get_opcodes():
            if kind != "equal":
                yield a + i, a + j, c + k, c + n


def _gaps_between_anchors(old: Sequence[str], new: Sequence[str]) -> Iterator[Range]:
    """Yields what lies between the common start, the common end, and items that occur exactly once in both."""
    start = _count_common(old, new, (0, len(old), 0, len(new)), 1)
    end = _count_common(old, new, (start, len(old), start, len(new)), -1)
    stops = (len(old) - end, len(new) - end)
    anchors = _find_anchors(old[start : stops[0]], new[start : stops[1]])
    places = [(start - 1, start - 1), *((start + i, start + j) for i, j in anchors), stops]
    for (a, c), (b, d) in pairwise(places):
        gap = (a + 1, b, c + 1, d)
        head = _count_common(old, new, gap, 1)
        tail = _count_common(old, new, (a + 1 + head, b, c + 1 + head, d), -1)
        if a + 1 + head < b - tail or c + 1 + head < d - tail:
            yield a + 1 + head, b - tail, c + 1 + head, d - tail


def _count_common(old: Sequence[str], new: Sequence[str], gap: Range, step: Literal[1, -1]) -> int:
    """Returns how many items at the start (step 1) or the end (step -1) of a gap are equal."""
    a, b, c, d = gap
    same, limit = 0, min(b - a, d - c)
    i, j = (a, c) if step == 1 else (b - 1, d - 1)
    while same < limit and old[i + same * step] == new[j + same * step]:
        same += 1
    return same


def _find_anchors(old: Sequence[str], new: Sequence[str]) -> Sequence[tuple[int, int]]:
    """Returns the longest increasing sequence of index pairs whose text occurs once in both (patience sorting)."""
    once = {text for text, count in Counter(old).items() if count == 1}
    once &= {text for text, count in Counter(new).items() if count == 1}
    places = {text: place for place, text in enumerate(new) if text in once}
    pairs = [(place, places[text]) for place, text in enumerate(old) if text in once]
    return [pairs[number] for number in _longest_rise([place for _, place in pairs])]


def _longest_rise(values: Sequence[int]) -> Sequence[int]:
    """Returns the indexes of the longest increasing subsequence of distinct values, by patience sorting."""
    tops: list[int] = []
    owners: list[int] = []
    before: list[int] = []
    for number, value in enumerate(values):
        pile = bisect_left(tops, value)
        before.append(owners[pile - 1] if pile else -1)
        tops[pile : pile + 1] = [value]
        owners[pile : pile + 1] = [number]
    row: list[int] = []
    number = owners[-1] if owners else -1
    while number >= 0:
        row.append(number)
        number = before[number]
    return row[::-1]


CONTEXT: Final = 3
"""How many unchanged lines are shown around a change."""
MAX_WORDS: Final = 40_000
"""How many words, spaces and marks one diff compares; changed lines beyond that are shown as a whole."""
MIN_SIMILARITY: Final = 0.3
"""Stretches less similar than this, words kept / sqrt(words before * words after), are shown as a whole."""

_LINE_GAP, _WORD_GAP = 250_000, 10_000
"""Pairs of lines, or of words, that are compared between two anchors."""

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
_MARKS = r"!-&(-/:-@\[-`{-~\u2010-\u2018\u201a-\u2027\u3001-\u3020"
_TOKEN = re.compile(rf"\n|[^\S\n]+|[{_CJK}]|[{_MARKS}]|[^\s{_CJK}{_MARKS}]+")


class Word(msgspec.Struct, frozen=True):
    """A part of a changed line; `changed` is False for words that both texts have."""

    text: str
    changed: bool


class Kept(msgspec.Struct, frozen=True, tag="kept"):
    """A line of both texts, with its number (from 1) in each."""

    before: int
    after: int
    text: str


class Removed(msgspec.Struct, frozen=True, tag="removed"):
    """A line, by its number (from 1), that only the text before has."""

    before: int
    words: tuple[Word, ...]


class Added(msgspec.Struct, frozen=True, tag="added"):
    """A line, by its number (from 1), that only the text after has."""

    after: int
    words: tuple[Word, ...]


class Skipped(msgspec.Struct, frozen=True, tag="skipped"):
    """A number of unchanged lines that `fold_unchanged` leaves out."""

    lines: int


class WordTally(msgspec.Struct, frozen=True):
    """The number of words added and removed."""

    added: int
    removed: int


Line: TypeAlias = Kept | Removed | Added


def diff(before: str, after: str) -> Iterator[Line]:
    r"""Yields the lines of both texts in order; of a changed stretch the removed lines come first.

    Lines end at `\\n` alone, so joining with `\\n` restores each text: Kept and Removed lines are `before`, Kept and
    Added lines are `after`.
    """
    old, new = before.split("\n"), after.split("\n")
    words, line, other = MAX_WORDS, 0, 0
    for a, b, c, d in find_gaps(old, new, _LINE_GAP):
        yield from (Kept(number + 1, number - line + other + 1, old[number]) for number in range(line, a))
        removed, added, words = _mark_hunk(old[a:b], new[c:d], words)
        yield from (Removed(a + number, line) for number, line in enumerate(removed, start=1))
        yield from (Added(c + number, line) for number, line in enumerate(added, start=1))
        line, other = b, d
    yield from (Kept(number + 1, number - line + other + 1, old[number]) for number in range(line, len(old)))


def fold_unchanged(lines: Iterable[Line], context: int = CONTEXT, *, files: bool = False) -> Iterator[Line | Skipped]:
    """Yields the changes with `context` unchanged lines around each, and a Skipped for the lines between.

    Of drafts of several `files`, the line that names the file of a change is not left out.
    """
    held: deque[Kept] = deque()
    after = left_out = 0
    head: tuple[Kept, int] | None = None
    for line in lines:
        match line:
            case Kept():
                if after:
                    after -= 1
                    yield line
                    continue
                held.append(line)
                if len(held) > context:
                    left_out += 1
                    head = (held[0], left_out) if files and held[0].text.startswith("=== ") else head
                    held.popleft()
            case Removed() | Added():
                is_named = head is None or any(each.text.startswith("=== ") for each in held)
                yield from _skipped(left_out, None if is_named else head)
                yield from held
                yield line
                held.clear()
                after, left_out, head = context, 0, None
            case _:
                assert_never(line)
    if left_out or held:
        yield Skipped(left_out + len(held))


def _skipped(count: int, head: tuple[Kept, int] | None) -> Iterator[Kept | Skipped]:
    """Yields a Skipped for so many lines; for those before and after the `head`, the line of this number among them."""
    if head is None:
        yield from [Skipped(count)] if count else []
        return
    line, number = head
    yield from [Skipped(number - 1)] if number > 1 else []
    yield line
    yield from [Skipped(count - number)] if count > number else []


def count_words(lines: Iterable[Line]) -> WordTally:
    """Counts the words that a diff adds and removes; marks and spaces do not count."""
    added = removed = 0
    for line in lines:
        match line:
            case Added(words=words):
                added += _words_changed(words)
            case Removed(words=words):
                removed += _words_changed(words)
            case Kept():
                pass
            case _:
                assert_never(line)
    return WordTally(added, removed)


def count_changes(before: str, after: str) -> WordTally:
    """Counts the words added and removed between two texts."""
    return count_words(diff(before, after))


def _words_changed(words: Iterable[Word]) -> int:
    return sum(map(_is_word, (token for word in words if word.changed for token in _TOKEN.findall(word.text))))


def _is_word(token: str) -> bool:
    return any(map(str.isalnum, token[:64]))


def _mark_hunk(
    old: Sequence[str], new: Sequence[str], budget: int
) -> tuple[Sequence[tuple[Word, ...]], Sequence[tuple[Word, ...]], int]:
    """Returns the changed lines before and after with their words marked, and how many words may still be compared."""
    whole = [(Word(line, changed=True),) for line in old], [(Word(line, changed=True),) for line in new]
    if not old or not new or sum(map(len, old)) + sum(map(len, new)) > budget * 8:
        return *whole, budget
    was, now = _TOKEN.findall("\n".join(old)), _TOKEN.findall("\n".join(new))
    if len(was) + len(now) > budget:
        return *whole, budget
    parted = list(find_gaps(was, now, _WORD_GAP))
    if _similarity(was, now, parted) < MIN_SIMILARITY:
        return *whole, budget - len(was) - len(now)
    gone = _mark_words(was, [(a, b) for a, b, _, _ in parted])
    come = _mark_words(now, [(c, d) for _, _, c, d in parted])
    return gone, come, budget - len(was) - len(now)


def _similarity(was: Sequence[str], now: Sequence[str], parted: Iterable[Range]) -> float:
    """Returns how similar two changed stretches are, 0..1, by Ochiai's measure."""
    changed = [(sum(map(_is_word, was[a:b])), sum(map(_is_word, now[c:d]))) for a, b, c, d in parted]
    old, new = sum(map(_is_word, was)), sum(map(_is_word, now))
    kept = old - sum(gone for gone, _ in changed)
    return kept / sqrt(max(old * new, 1))


def _mark_words(tokens: Sequence[str], changed: Iterable[tuple[int, int]]) -> list[tuple[Word, ...]]:
    """Splits tokens into lines of words; a space between two changed words counts as changed."""
    marks = bytearray(len(tokens))
    for start, end in changed:
        marks[start:end] = b"\1" * (end - start)
    for place in range(1, len(tokens) - 1):
        if tokens[place].isspace() and tokens[place] != "\n" and marks[place - 1] and marks[place + 1]:
            marks[place] = 1
    lines: list[list[Word]] = [[]]
    for (new_line, mark), stretch in groupby(
        zip(tokens, marks, strict=True), key=lambda each: (each[0] == "\n", each[1])
    ):
        texts = [text for text, _ in stretch]
        if new_line:
            lines.extend([] for _ in texts)
        else:
            lines[-1].append(Word("".join(texts), changed=bool(mark)))
    return [tuple(line) for line in lines]
