"""What changed between two texts: by lines, and by words within the lines that changed.

The time grows with the length of the texts and not with its square, whatever is in them: `redraft.projections.matching`
says how, and changed stretches above a size are shown by whole lines.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from math import sqrt
from typing import Final, TypeAlias, assert_never

import msgspec

from redraft.projections.matching import Range, gaps

CONTEXT: Final = 3
"""Unchanged lines that are shown around a change."""
WORDS: Final = 40_000
"""Words, spaces and marks that one diff compares one by one; lines beyond that are shown as changed as a whole."""
ALIKE: Final = 0.3
"""Lines less alike than this, words kept / sqrt(words before * words after), are shown as changed as a whole."""

_LINE_GAP, _WORD_GAP = 250_000, 10_000
"""Pairs of lines, or of words, that are compared between two anchors."""

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
_MARKS = r"!-&(-/:-@\[-`{-~\u2010-\u2018\u201a-\u2027\u3001-\u3020"
_TOKEN = re.compile(rf"\n|[^\S\n]+|[{_CJK}]|[{_MARKS}]|[^\s{_CJK}{_MARKS}]+")


class Word(msgspec.Struct, frozen=True):
    """A stretch of a changed line; `changed` says whether it is new (or gone), or stands in both texts."""

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
    """A stretch of unchanged lines that `folded` leaves out."""

    lines: int


class Tally(msgspec.Struct, frozen=True):
    """How many words came and went."""

    added: int
    removed: int


Line: TypeAlias = Kept | Removed | Added


def diff(before: str, after: str) -> Iterator[Line]:
    """The lines of both texts in order; of a changed stretch first those that went, then those that came.

    Lines end at `\\n` alone, so each text can be put together again by joining with `\\n`: Kept and Removed lines are
    `before`, Kept and Added lines are `after`.
    """
    old, new = before.split("\n"), after.split("\n")
    words, line, other = WORDS, 0, 0
    for a, b, c, d in gaps(old, new, _LINE_GAP):
        yield from (Kept(number + 1, number - line + other + 1, old[number]) for number in range(line, a))
        removed, added, words = _hunk(old[a:b], new[c:d], words)
        yield from (Removed(a + number, line) for number, line in enumerate(removed, start=1))
        yield from (Added(c + number, line) for number, line in enumerate(added, start=1))
        line, other = b, d
    yield from (Kept(number + 1, number - line + other + 1, old[number]) for number in range(line, len(old)))


def folded(lines: Iterable[Line], context: int = CONTEXT) -> Iterator[Line | Skipped]:
    """The changes with `context` unchanged lines around each, and a Skipped for what lies between."""
    held: deque[Kept] = deque()
    after = left_out = 0
    for line in lines:
        match line:
            case Kept():
                if after:
                    after -= 1
                    yield line
                    continue
                held.append(line)
                if len(held) > context:
                    held.popleft()
                    left_out += 1
            case Removed() | Added():
                if left_out:
                    yield Skipped(left_out)
                yield from held
                yield line
                held.clear()
                after, left_out = context, 0
            case _:
                assert_never(line)
    if left_out or held:
        yield Skipped(left_out + len(held))


def tally(lines: Iterable[Line]) -> Tally:
    """The words of a diff that came and went; marks and spaces are not counted."""
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
    return Tally(added, removed)


def summary(before: str, after: str) -> Tally:
    """How many words came and went between two texts."""
    return tally(diff(before, after))


def _words_changed(words: Iterable[Word]) -> int:
    return sum(map(_is_word, (token for word in words if word.changed for token in _TOKEN.findall(word.text))))


def _is_word(token: str) -> bool:
    return any(map(str.isalnum, token[:64]))


def _hunk(
    old: Sequence[str], new: Sequence[str], most: int
) -> tuple[Sequence[tuple[Word, ...]], Sequence[tuple[Word, ...]], int]:
    """The changed lines before and after with their words marked, and how many words may still be compared."""
    whole = [(Word(line, changed=True),) for line in old], [(Word(line, changed=True),) for line in new]
    if not old or not new or sum(map(len, old)) + sum(map(len, new)) > most * 8:
        return *whole, most
    was, now = _TOKEN.findall("\n".join(old)), _TOKEN.findall("\n".join(new))
    if len(was) + len(now) > most:
        return *whole, most
    parted = list(gaps(was, now, _WORD_GAP))
    if _alike(was, now, parted) < ALIKE:
        return *whole, most - len(was) - len(now)
    gone = _marked(was, [(a, b) for a, b, _, _ in parted])
    come = _marked(now, [(c, d) for _, _, c, d in parted])
    return gone, come, most - len(was) - len(now)


def _alike(was: Sequence[str], now: Sequence[str], parted: Iterable[Range]) -> float:
    """How alike two changed stretches are, 0..1, by Ochiai's measure."""
    changed = [(sum(map(_is_word, was[a:b])), sum(map(_is_word, now[c:d]))) for a, b, c, d in parted]
    old, new = sum(map(_is_word, was)), sum(map(_is_word, now))
    kept = old - sum(gone for gone, _ in changed)
    return kept / sqrt(max(old * new, 1))


def _marked(tokens: Sequence[str], changed: Iterable[tuple[int, int]]) -> list[tuple[Word, ...]]:
    """The tokens as lines of words; a space between two changed words is taken as changed with them."""
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
