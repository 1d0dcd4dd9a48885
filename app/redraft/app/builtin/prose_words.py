"""The words of a passage that can be judged, and how each stands to the one before it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from redraft.app.builtin.prose_text import Passage, Prose

CURLY = "\u2019"
"""The curly apostrophe, which is also a closing quotation mark."""
QUOTES = frozenset("\"'\u201c\u201d\u2018\u2019\u00ab\u00bb")

_WORD = re.compile(r"(?:[^\W\d_])++(?:['\u2019-][^\W\d_]++)*+")
_PLAIN_GAP = re.compile(r" {1,2}| {0,3}(?:\r\n?|\n)[ \t]*")
_FOREIGN_BEFORE = frozenset("\x00./\\@#$%&=+<^-")
_FOREIGN_AFTER = frozenset("\x00/\\@#$%&=+<>^(")
_BINDING = frozenset(".:'\u2019-_")


class Word(NamedTuple):
    """A word, its offset in the text, and the characters around it: one before, up to two after.

    `joined`: nothing but a space or a line break parts it from the word before.
    """

    text: str
    at: int
    joined: bool
    before: str
    after: str


class Judged(NamedTuple):
    """A passage and its words."""

    passage: Passage
    words: tuple[Word, ...]


def words_of(prose: Prose, passage: Passage) -> Iterator[Word]:
    """The passage's words, without identifiers, paths, numbers and what touches them."""
    masked, last = prose.masked, passage.start
    for found in _WORD.finditer(masked, passage.start, passage.end):
        start, end = found.span()
        before = masked[max(start - 2, passage.start) : start]
        after = masked[end : min(end + 2, passage.end)]
        if not _foreign(before, after):
            joined = last > passage.start and _PLAIN_GAP.fullmatch(masked, last, start) is not None
            yield Word(found.group(), start, joined, before[-1:], after)
            last = end


def quoted(first: Word, last: Word) -> bool:
    """These words alone stand in quotation marks: they are spoken of, not used."""
    return first.before in QUOTES and last.after[:1] in QUOTES


def _foreign(before: str, after: str) -> bool:
    return (
        before[-1:] in _FOREIGN_BEFORE
        or before[-1:].isdigit()
        or (before[-1:] == "_" and (before[:-1].isalnum() or before[:-1] == "\\"))
        or after[:1] in _FOREIGN_AFTER
        or after[:1].isdigit()
        or (after[:1] in _BINDING and after[1:].isalnum())
    )
