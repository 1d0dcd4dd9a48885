"""Finds running text, the words that may be corrected. All other text stays as it is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from redraft.app.builtin.prose.masking import MARKUP, MASK, Judged, Prose, Word
from redraft.app.builtin.prose.style import FUNCTION_WORDS

_LEGAL: Final = re.compile(
    r"licen[cs]|copyright|warrant|redistribut|liabilit|liable|hereby|herein|thereof|hereunder|patent|trademark"
    r"|all rights reserved|\(c\) ?\d{4}|©|merchantab|infring",
    re.IGNORECASE,
)
"""Matches phrases that are common in licences and rare elsewhere."""
LEGAL_SHARE: Final = 0.12
"""If a larger share of the passages has such phrases, the whole text counts as a licence."""
LEGAL_FEWEST: Final = 3
"""With fewer such passages than this, a text does not count as a licence as a whole."""
LEGAL_GAP: Final = 6
"""Passages between two with such phrases count as legal too if these are at most this many passages apart."""

_NOTE: Final = re.compile(
    r"->|=>|→|\btypo|spell|\bspelt|renam|misprint|et al\.|\bisbn\b|\bthe words?\b|\boperators?\b|\bkeywords?\b",
    re.IGNORECASE,
)
"""Matches sentences about words, such as `the typo "teh"`, and entries of bibliographies."""
_CODE: Final = re.compile(r"[{}=<>|\\$~^]|[^\w\s];\s*$|^\s*[%@.:]|\S {3,}\S|\S\t+\S|\w\([^()]*[,'\"]")
"""Marks that running text does not have; a line with one of them is left alone."""
_MARKER: Final = re.compile(r"\s*(?:[-*+o>]|\d+[.)])\s+")
_QUOTED: Final = re.compile(
    r'"[^"]*"|“[^“”]*”|„[^„“”]*[“”]|«[^«»]*»|\u2018[^\u2018\u2019]*\u2019|``[^`\']*\'\'|`[^`\']*\'|(?<![\w\'])\'[^\']*\'(?!\w)'
)
FEWEST: Final = 4
"""Fewer words than this are no sentence."""
SHARE: Final = 0.2
"""The least share of function words in a passage of running English that has MANY words."""
MANY: Final = 16
WHOLE_SHARE: Final = 0.12
"""The least share of function words in a whole text that is English: lists of changes have few."""


def running_words(prose: Prose, judged: Sequence[Judged], *, headings: bool) -> frozenset[int]:
    """The offsets of the words that stand in running text; with `headings` also those in headings.

    Running text are sentences in the text's own voice: not in tables, quotations, references, terms of licences, notes
    about words (`a -> b`), or lines that look like code.
    """
    if _count_known([word for each in judged for word in each.words]) < WHOLE_SHARE * sum(
        len(each.words) for each in judged
    ):
        return frozenset()
    legal = _find_legal(prose, judged)
    kinds = {"paragraph", "heading"} if headings else {"paragraph"}
    return frozenset(
        word.at
        for number, each in enumerate(judged)
        if each.passage.kind in kinds and number not in legal
        for word in _in_sentences(prose, each)
    )


def _find_legal(prose: Prose, judged: Sequence[Judged]) -> frozenset[int]:
    """The numbers of the passages that are terms of a licence."""
    found = [
        number for number, each in enumerate(judged) if _LEGAL.search(prose.text, each.passage.start, each.passage.end)
    ]
    if len(found) >= LEGAL_FEWEST and len(found) > LEGAL_SHARE * len(judged):
        return frozenset(range(len(judged)))
    between = (number for one, other in pairwise(found) if other - one <= LEGAL_GAP for number in range(one, other))
    return frozenset((*found, *between))


def _in_sentences(prose: Prose, judged: Judged) -> Iterator[Word]:
    passage, words = judged
    text = prose.text[passage.start : passage.end]
    if not _is_sentence(words, heading=passage.kind == "heading") or _NOTE.search(text) or text.count('"') % 2:
        return
    quoted = [(passage.start + found.start(), passage.start + found.end()) for found in _QUOTED.finditer(text)]
    spans = sorted([*quoted, *_code_lines(prose, judged)])
    following = 0
    until = passage.start
    for word in words:
        while following < len(spans) and spans[following][0] <= word.at:
            until = max(until, spans[following][1])
            following += 1
        if word.at >= until:
            yield word


def _is_sentence(words: Sequence[Word], *, heading: bool) -> bool:
    if heading:
        return bool(words)
    known = _count_known(words)
    return len(words) >= FEWEST and known >= (SHARE * len(words) if len(words) >= MANY else 1)


def _count_known(words: Sequence[Word]) -> int:
    return sum(word.text.lower() in FUNCTION_WORDS for word in words)


def _code_lines(prose: Prose, judged: Judged) -> Iterator[tuple[int, int]]:
    """From where to where each line of a passage goes that looks like code."""
    first, last = prose.line(judged.passage.start), prose.line(judged.passage.end)
    for number in range(first, last + 1):
        start = prose.line_starts[number - 1]
        end = prose.line_starts[number] if number < len(prose.line_starts) else len(prose.text)
        line = prose.masked[start:end].replace(MASK, "x").replace(MARKUP, "x")
        marker = _MARKER.match(line)
        if _CODE.search(line[marker.end() if marker else 0 :].strip()):
            yield start, end
