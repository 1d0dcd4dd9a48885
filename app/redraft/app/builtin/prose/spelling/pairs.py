"""Tells which word was meant by the words beside it: how often books have pairs of words.

They come from symspellpy's list of 242,342 pairs, which is part of the extra `redraft[spelling]`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError
from typing import Final, NamedTuple

import msgspec

from redraft.app.builtin.prose.spelling.lexicon import read_lines

_PAIRS: Final = ("symspellpy", "symspellpy/frequency_bigramdictionary_en_243_342.txt")
PREFIX: Final = 3
"""Letters that a misspelling has in common with a word that is more than one slip away: `directy`, `directory`."""
LONG: Final = 9
"""From this many letters on, a word three letters away may have been meant: `precendent`, `preceding`."""
FURTHEST: Final = 3


class Pairs(msgspec.Struct, frozen=True):
    """How often books have each pair, `"local directory"`; the pairs in order, and in order of their second words."""

    counts: Mapping[str, int] = {}
    forward: Sequence[str] = ()
    backward: Sequence[str] = ()


class Place(NamedTuple):
    """The words before and after a place, in small letters; empty where nothing but a space would part them."""

    before: str
    after: str


@cache
def read_pairs() -> Pairs:
    """The list, read once; empty where the extra `spelling` is not installed."""
    try:
        lines = read_lines(*_PAIRS)
    except (PackageNotFoundError, OSError):
        return Pairs()
    counts = {pair: int(count) for pair, _, count in (line.rpartition(" ") for line in lines)}
    return Pairs(counts, sorted(counts), sorted(_turn(pair) for pair in counts))


def count_at(pairs: Pairs, place: Place, word: str) -> int:
    """How often books have this word beside those of the place."""
    return pairs.counts.get(f"{place.before} {word}", 0) + pairs.counts.get(f"{word} {place.after}", 0)


def find_alike(pairs: Pairs, place: Place, wrong: str) -> Iterator[str]:
    """The words that begin as `wrong` does, are a few letters away from it, and stand beside those of the place."""
    beside = [(pairs.forward, place.before), (pairs.backward, place.after)]
    furthest = FURTHEST if len(wrong) >= LONG else FURTHEST - 1
    for listed, neighbour in beside:
        start = f"{neighbour} {wrong[:PREFIX]}"
        at = bisect_left(listed, start) if neighbour else len(listed)
        while at < len(listed) and listed[at].startswith(start):
            word = listed[at].partition(" ")[2]
            if is_within(wrong, word, furthest):
                yield word
            at += 1


def is_within(one: str, other: str, furthest: int) -> bool:
    """Whether one word becomes the other by at most so many letters more, less or other, or changed with the next."""
    if abs(len(one) - len(other)) > furthest or len({*one} ^ {*other}) > 2 * furthest:
        return False
    older, last = [0] * (len(other) + 1), list(range(len(other) + 1))
    for row, letter in enumerate(one, 1):
        now = [row]
        for column, each in enumerate(other, 1):
            least = min(last[column] + 1, now[-1] + 1, last[column - 1] + (letter != each))
            if row > 1 and column > 1 and letter == other[column - 2] and one[row - 2] == each:
                least = min(least, older[column - 2] + 1)
            now.append(least)
        older, last = last, now
    return last[-1] <= furthest


def _turn(pair: str) -> str:
    first, _, second = pair.partition(" ")
    return f"{second} {first}"
