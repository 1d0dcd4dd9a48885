"""Finds the anchors of headings, as GitHub and most renderers make them, and keeps them when a heading changes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token

_TAG = re.compile(r"<[^<>]*>")
_TARGET = re.compile(r"\]\([^()\n]*\)|\]\[[^\[\]\n]*\]")
_DROPPED = re.compile(r"[^\w\- ]")
_OPENING = re.compile(r"(?P<marks>[^#\n]{0,99}#{1,6}[ \t]+)")
_ANCHOR = re.compile(r"<a id=\"([^\"]*)\"></a>")


def anchors(text: str) -> tuple[str, ...]:
    """The anchor of each heading, in order."""
    counts: Counter[str] = Counter()
    found: list[str] = []
    for content in _headings(text):
        plain = _TARGET.sub("", _TAG.sub("", content[1]))
        anchor = _DROPPED.sub("", plain.strip().lower()).replace(" ", "-")
        found.append(f"{anchor}-{counts[anchor]}" if counts[anchor] else anchor)
        counts[anchor] += 1
    return tuple(found)


def kept_anchors(text: str) -> frozenset[str]:
    """The anchors that the text sets itself."""
    return frozenset(_ANCHOR.findall(text))


def without_anchors(text: str) -> str:
    """The text without the anchors that it sets itself."""
    return _ANCHOR.sub("", text)


def keep_anchors(before: str, after: str) -> str:
    """Returns the text `after`, in which each heading whose anchor would change keeps the old one for links to it."""
    old, new = anchors(before), anchors(after)
    if before == after or old == new or len(old) != len(new):
        return after
    lines = re.split(r"(?<=\n)|(?<=\r)(?!\n)", after)
    for (line, _), was, now in zip(_headings(after), old, new, strict=True):
        if was != now:
            lines[line] = _OPENING.sub(
                lambda found, was=was: f'{found["marks"]}<a id="{was}"></a>', lines[line], count=1
            )
    return "".join(lines)


def _headings(text: str) -> Sequence[tuple[int, str]]:
    """The line (from 0) and the content of each heading."""
    tokens = _parse(text)
    return [
        (content.map[0], content.content)
        for opened, content in pairwise(tokens)
        if opened.type == "heading_open" and content.map is not None
    ]


def _parse(text: str) -> Sequence[Token]:
    parser = MarkdownIt("commonmark").enable("table")
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser.parse(text)
