"""Measures readability: sentences, syllables, and Flesch's two formulas.

Reading ease: R. Flesch, "A new readability yardstick", Journal of Applied Psychology 32 (1948), 221-233. Grade:
J. P. Kincaid, R. P. Fishburne, R. L. Rogers, B. S. Chissom, Research Branch Report 8-75, Naval Technical Training
Command (1975).

Syllables are the greater of two counts: pyphen's hyphenation points, and groups of vowels without the silent ones.
Hyphenation alone leaves syllables out (`any` is never broken): on 295 common words counted by hand it found 12 % too
few, vowel groups 2 % too few, the greater of both 0.3 % too many.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise

import msgspec
from pyphen import Pyphen  # type: ignore[import-untyped]

from redraft.app.builtin.prose.masking import CURLY, Finding, Judged, Passage, Prose

LONG_SENTENCE = 40
"""More words than this make a sentence long."""
SAMPLE = 100
"""Fewer words than this are not measured; Flesch took samples of 100."""

_END = re.compile(r"(?<![.!?…])[.!?…]++[\"'\u201d\u2019)\]*_\x1e]*+(?=\s)")
_NEXT = re.compile(r"\s*+[\"'\u201c\u2018(\[*_\x1e]*+(.?)", re.DOTALL)
_ABBREVIATED = re.compile(
    r"(?:\b[A-Z]|\b(?:e\.g|i\.e|vs|cf|mr|mrs|ms|dr|prof|st|fig|no|approx|al|viz))\.\Z", re.IGNORECASE
)
_VOWELS = re.compile(r"[aeiouyàâäéèêëïîôöùûü]+")
_SILENT = re.compile(
    r"(?:(?<=[aeiouy][lr])|(?<=[^aeiouylr])|(?<=[^aeiou]r))e\Z|(?<=[^aeiouytd])ed\Z|(?<=[^aeiouyszxgchl])es\Z"
)
_HIATUS = re.compile(r"i(?:a|o(?!us|n)|um|en[ct])|[^qg]ua[lt]|[^g]eo|[aeiouy]ing\Z")
_LONGEST = 40
_REMEMBERED = 50_000


class Readability(msgspec.Struct, frozen=True):
    """Words, sentences and syllables; reading ease (100 very easy, 30 and less very hard); US school grade."""

    words: int
    sentences: int
    syllables: int

    @property
    def ease(self) -> float:
        return 206.835 - 1.015 * self.words / self.sentences - 84.6 * self.syllables / self.words

    @property
    def grade(self) -> float:
        return 0.39 * self.words / self.sentences + 11.8 * self.syllables / self.words - 15.59


def readability(prose: Prose, judged: Iterable[Judged]) -> Readability | None:
    """Measures the paragraphs, not headings and tables; None when they have fewer than SAMPLE words."""
    counted: Counter[str] = Counter()
    sentences = 0
    for passage, words in judged:
        if passage.kind == "paragraph" and words:
            counted.update(word.text.lower() for word in words)
            sentences += len(_sentences(prose, passage, [word.at for word in words]))
    total = counted.total()
    if total < SAMPLE:
        return None
    return Readability(total, sentences, sum(syllables(word) * times for word, times in counted.items()))


def long_sentences(prose: Prose, judged: Iterable[Judged]) -> Iterator[Finding]:
    """The sentences of more than LONG_SENTENCE words."""
    for passage, words in judged:
        if passage.kind != "paragraph" or len(words) <= LONG_SENTENCE:
            continue
        for first, last in _sentences(prose, passage, [word.at for word in words]):
            if last - first > LONG_SENTENCE:
                found = " ".join(word.text for word in words[first : first + 4])
                yield Finding("long", words[first].at, found, note=f"a sentence of {last - first} words; split it")


def syllables(word: str) -> int:
    """Estimates the number of syllables of an English word, at least 1."""
    return sum(_syllables(part) for part in word.lower().replace(CURLY, "'").split("-")) or 1


def _syllables(part: str) -> int:
    word = part.removesuffix("'s")[:_LONGEST]
    hyphens = _hyphens()
    if len(hyphens.hd.cache) > _REMEMBERED:  # pyphen remembers every word, for ever
        hyphens.hd.cache.clear()
    voiced = len(_VOWELS.findall(_SILENT.sub("", word))) + len(_HIATUS.findall(word))
    return max(1, voiced, len(hyphens.positions(word)) + 1)


@cache
def _hyphens() -> Pyphen:
    return Pyphen(lang="en_US")


def _sentences(prose: Prose, passage: Passage, offsets: list[int]) -> list[tuple[int, int]]:
    """The first word and the one after the last, by number, of each sentence of a passage that has a word."""
    bounds = [0, *(bisect_left(offsets, end) for end in _ends(prose.masked, passage)), len(offsets)]
    return [(first, last) for first, last in pairwise(bounds) if last > first]


def _ends(masked: str, passage: Passage) -> Iterator[int]:
    for found in _END.finditer(masked, passage.start, passage.end):
        following = _NEXT.match(masked, found.end(), passage.end)
        if following is not None and following.group(1).islower():
            continue
        if not _ABBREVIATED.search(masked, max(passage.start, found.end() - 8), found.end()):
            yield found.end()
