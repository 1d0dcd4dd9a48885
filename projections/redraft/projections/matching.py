"""Where two sequences of texts differ, in a time that grows with their length and not with its square.

What they begin and end with is set aside; then texts that occur once in both hold the rest in place (patience diff,
Bram Cohen's method), and `difflib` looks into what lies between two such anchors, as long as that is small.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Final, Literal, TypeAlias

TOTAL: Final = 2_000_000
"""Pairs that `difflib` is given in all, for one comparison."""

Range: TypeAlias = tuple[int, int, int, int]
"""The places from and up to which two sequences do not match: `before[a:b]`, `after[c:d]`."""


def gaps(old: Sequence[str], new: Sequence[str], most: int) -> Iterator[Range]:
    """Where two sequences differ, in order; what lies between these places is the same in both.

    A gap of more than `most` pairs (places before times places after) is not looked into.
    """
    left = TOTAL
    for a, b, c, d in _between_anchors(old, new):
        pairs = (b - a) * (d - c)
        if not pairs or pairs > min(most, left):
            yield a, b, c, d
            continue
        left -= pairs
        inner = SequenceMatcher(None, old[a:b], new[c:d], autojunk=False)
        for kind, i, j, k, n in inner.get_opcodes():
            if kind != "equal":
                yield a + i, a + j, c + k, c + n


def _between_anchors(old: Sequence[str], new: Sequence[str]) -> Iterator[Range]:
    """What is left between the common start, the common end, and what occurs once in both sequences."""
    start = _common(old, new, (0, len(old), 0, len(new)), 1)
    end = _common(old, new, (start, len(old), start, len(new)), -1)
    stops = (len(old) - end, len(new) - end)
    anchors = _anchors(old[start : stops[0]], new[start : stops[1]])
    places = [(start - 1, start - 1), *((start + i, start + j) for i, j in anchors), stops]
    for (a, c), (b, d) in pairwise(places):
        gap = (a + 1, b, c + 1, d)
        head = _common(old, new, gap, 1)
        tail = _common(old, new, (a + 1 + head, b, c + 1 + head, d), -1)
        if a + 1 + head < b - tail or c + 1 + head < d - tail:
            yield a + 1 + head, b - tail, c + 1 + head, d - tail


def _common(old: Sequence[str], new: Sequence[str], gap: Range, step: Literal[1, -1]) -> int:
    """How many places at the start (step 1) or the end (step -1) of a gap are the same in both."""
    a, b, c, d = gap
    same, most = 0, min(b - a, d - c)
    i, j = (a, c) if step == 1 else (b - 1, d - 1)
    while same < most and old[i + same * step] == new[j + same * step]:
        same += 1
    return same


def _anchors(old: Sequence[str], new: Sequence[str]) -> Sequence[tuple[int, int]]:
    """The longest rising row of pairs of places whose text occurs once in both (patience sorting)."""
    once = {text for text, count in Counter(old).items() if count == 1}
    once &= {text for text, count in Counter(new).items() if count == 1}
    places = {text: place for place, text in enumerate(new) if text in once}
    pairs = [(place, places[text]) for place, text in enumerate(old) if text in once]
    return [pairs[number] for number in _longest_rise([place for _, place in pairs])]


def _longest_rise(values: Sequence[int]) -> Sequence[int]:
    """The indexes of the longest rising row of different values, by patience sorting."""
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
