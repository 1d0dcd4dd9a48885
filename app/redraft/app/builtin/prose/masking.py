"""Masks what is not prose in a text, without changing its length, so that offsets are the same in both."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from redraft.app.builtin.prose.markdown import Block, Hidden, Kind, read_blocks

Fault: TypeAlias = Literal["spelling", "doubled", "wordy", "doubtful", "plainer", "style", "long"]
"""`spelling`, `doubled` and `wordy` are sure and are put right; the others are for a person, or a model, to weigh."""


class Finding(msgspec.Struct, frozen=True):
    """A finding at an offset of the text: the words found, and their replacement or a sentence about them."""

    fault: Fault
    at: int
    found: str
    instead: str = ""
    note: str = ""


MASK = "\x00"
"""Stands for each character of code, targets, addresses and the like: no word touches it."""
MARKUP = "\x1e"
"""Stands for each character of markup that a word may touch: `>` of a quotation, `[` of a link, an HTML tag."""

_NEWLINE = re.compile(r"\r\n?|\n")
_HIDE = re.compile(r"[^ \t\r\n]")
_CHUNK = re.compile(r"[^\s\x00\x1e]+")
_DIGIT = re.compile(r"\d")
_TEMPLATE = re.compile(r"\{\{[^{}\n]*\}\}|\{%[^%{}\n]*%\}")
_FIELD = re.compile(r"[\w.\"'-]+\s*[:=]|#|\[")


class Passage(msgspec.Struct, frozen=True):
    """A block of prose: from where to where it goes in the text, and what it is."""

    start: int
    end: int
    kind: Kind


class Prose(msgspec.Struct, frozen=True):
    """A text, its masked twin (same length, same line breaks), its passages in order, and where its lines start."""

    text: str
    masked: str
    passages: tuple[Passage, ...]
    line_starts: tuple[int, ...]

    def line(self, at: int) -> int:
        """The number of the line (from 1) that holds the character at this offset."""
        return bisect_right(self.line_starts, at)


def read_prose(text: str) -> Prose:
    """Reads a Markdown or plain text; never raises, whatever the text."""
    lines = _lines(text)
    skipped = _front_matter(text, lines)
    masked: list[str] = []
    passages: list[Passage] = []
    cursor = floor = 0
    for block in read_blocks(text[lines[skipped][0] :] if skipped < len(lines) else ""):
        first = skipped + block.line
        while not text[slice(*lines[first])].strip() and first < len(lines) - 1:
            first += 1  # the parser strips form feeds and the like, and with them a line that holds nothing else
        own = lines[first : first + block.content.count("\n") + 1]
        segments = _segments(text, own, block, max(cursor, floor))
        for number, (start, shown) in enumerate(segments):
            masked += (_HIDE.sub(MARKUP if number else MASK, text[cursor:start]), shown)
            cursor = start + len(shown)
        if segments:
            passages.append(Passage(segments[0][0], cursor, block.kind))
        else:  # a table's cell with an escaped pipe: what follows in its row cannot be told apart
            floor = own[0][1]
    masked.append(_HIDE.sub(MASK, text[cursor:]))
    return Prose(text, "".join(masked), tuple(passages), tuple(start for start, _ in lines))


def _lines(text: str) -> list[tuple[int, int]]:
    """From where to where each line goes, without its line break, as CommonMark counts lines."""
    breaks = [found.span() for found in _NEWLINE.finditer(text)]
    starts = [0, *(end for _, end in breaks)]
    ends = [*(start for start, _ in breaks), len(text)]
    return list(zip(starts, ends, strict=True))


def _front_matter(text: str, lines: list[tuple[int, int]]) -> int:
    """Returns the number of lines of YAML (`---`) or TOML (`+++`) front matter; 0 when there is none."""
    fence = text[slice(*lines[0])].rstrip()
    if fence not in {"---", "+++"} or len(lines) < 2 or not _FIELD.match(text, *lines[1]):
        return 0
    closers = {fence, "..."} if fence == "---" else {fence}
    for number, (start, end) in enumerate(lines[1:], 1):
        if end - start < 80 and text[start:end].rstrip() in closers:
            return number + 1
    return 0


def _segments(text: str, lines: list[tuple[int, int]], block: Block, floor: int) -> list[tuple[int, str]]:
    """The block's lines: where each starts in the text, and its masked characters; lines not found are left out."""
    shown = _mask_block(block)
    contents = block.content.split("\n")
    offsets = accumulate((len(line) + 1 for line in contents), initial=0)
    segments: list[tuple[int, str]] = []
    for offset, content, (start, end) in zip(offsets, contents, lines, strict=False):
        body = content.strip()
        start = max(start, floor)
        at = _find_column(text[start:end].replace(MASK, "\ufffd"), body, block.kind)
        if body and at >= 0:
            lead = offset + len(content) - len(content.lstrip())
            segments.append((start + at, shown[lead : lead + len(body)]))
            floor = start + at + len(body)
    return segments


def _find_column(line: str, body: str, kind: Kind) -> int:
    """Returns the column of a line of content in its line of source, -1 when it is not there letter by letter."""
    bare = line.rstrip()
    if kind != "cell" and bare.endswith(body):
        return len(bare) - len(body)
    return -1 if kind == "paragraph" else line.find(body)


def _mask_block(block: Block) -> str:
    """The block's content with what is hidden masked; line breaks are kept."""
    content = block.content
    spans = [*block.hidden, *_addresses(content), *_templates(content)]
    if not spans:
        return content
    shown = list(content)
    for span in sorted(spans, key=lambda each: not each.soft):
        filler = MARKUP if span.soft else MASK
        for at in range(span.start, span.end):
            if shown[at] != "\n":
                shown[at] = filler
    return "".join(shown)


def _addresses(content: str) -> Iterator[Hidden]:
    """Web and mail addresses that stand bare in the text, and what has a digit between two spaces."""
    if not ("://" in content or "@" in content or "www." in content or _DIGIT.search(content)):
        return
    for chunk in _CHUNK.finditer(content):
        if any(mark in chunk.group() for mark in ("://", "@", "www.")) or _DIGIT.search(chunk.group()):
            yield Hidden(*chunk.span())


def _templates(content: str) -> Iterator[Hidden]:
    """Jinja and Hugo expressions: `{{ name }}`, `{% tag %}`."""
    for found in _TEMPLATE.finditer(content) if "{" in content else ():
        yield Hidden(*found.span())


CURLY = "\u2019"
"""The curly apostrophe, which is also a closing quotation mark."""
QUOTES = frozenset("\"'\u201c\u201d\u2018\u2019\u00ab\u00bb")

_WORD = re.compile(r"(?:[^\W\d_])++(?:['\u2019-][^\W\d_]++)*+")
_PLAIN_GAP = re.compile(r" {1,2}| {0,3}(?:\r\n?|\n)[ \t]*")
_CONTINUED = re.compile(r"-[ \t]*\r?\n[\s\x1e]*\Z")
_LONGEST_GAP = 99
_FOREIGN_BEFORE = frozenset("\x00./\\@#$%&=+<^-:")
_FOREIGN_AFTER = frozenset("\x00/\\@#$%&=+<>^(")
_BINDING = frozenset(".:'\u2019-_")


class Word(NamedTuple):
    """A word, its offset in the text, and the characters around it: one before, up to two after.

    `joined`: nothing but a space or a line break parts it from the word before. `is_continued`: a hyphen and a line
    break do, so that it may be the rest of a word.
    """

    text: str
    at: int
    joined: bool
    before: str
    after: str
    is_continued: bool = False


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
            gap = masked[last:start] if start - last < _LONGEST_GAP else ""
            yield Word(found.group(), start, joined, before[-1:], after, _CONTINUED.search(gap) is not None)
            last = end


def are_quoted(first: Word, last: Word) -> bool:
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
