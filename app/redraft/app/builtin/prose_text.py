"""A text as the prose checks see it: of the same length, with all that is not prose masked, so that offsets hold."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate

import msgspec

from redraft.app.builtin.prose_markdown import Block, Hidden, Kind, read_blocks

MASK = "\x00"
"""Stands for each character of code, targets, addresses and the like: no word touches it."""
MARKUP = "\x1e"
"""Stands for each character of markup that a word may touch: `>` of a quotation, `[` of a link, an HTML tag."""

_NEWLINE = re.compile(r"\r\n?|\n")
_HIDE = re.compile(r"[^ \t\r\n]")
_CHUNK = re.compile(r"[^\s\x00\x1e]+")
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
    """How many lines YAML (`---`) or TOML (`+++`) front matter takes up; 0 when there is none."""
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
    shown = _shown(block)
    contents = block.content.split("\n")
    offsets = accumulate((len(line) + 1 for line in contents), initial=0)
    segments: list[tuple[int, str]] = []
    for offset, content, (start, end) in zip(offsets, contents, lines, strict=False):
        body = content.strip()
        start = max(start, floor)
        at = _found(text[start:end].replace(MASK, "\ufffd"), body, block.kind)
        if body and at >= 0:
            lead = offset + len(content) - len(content.lstrip())
            segments.append((start + at, shown[lead : lead + len(body)]))
            floor = start + at + len(body)
    return segments


def _found(line: str, body: str, kind: Kind) -> int:
    """Where a line of content stands in its line of source, -1 when it is not there letter by letter."""
    bare = line.rstrip()
    if kind != "cell" and bare.endswith(body):
        return len(bare) - len(body)
    return -1 if kind == "paragraph" else line.find(body)


def _shown(block: Block) -> str:
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
    """Web and mail addresses that stand bare in the text."""
    if not ("://" in content or "@" in content or "www." in content):
        return
    for chunk in _CHUNK.finditer(content):
        if any(mark in chunk.group() for mark in ("://", "@", "www.")):
            yield Hidden(*chunk.span())


def _templates(content: str) -> Iterator[Hidden]:
    """Jinja and Hugo expressions: `{{ name }}`, `{% tag %}`."""
    for found in _TEMPLATE.finditer(content) if "{" in content else ():
        yield Hidden(*found.span())
