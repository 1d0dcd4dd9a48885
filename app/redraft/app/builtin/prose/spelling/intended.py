"""Finds the word that was meant by a misspelling: the only likely word that is one typing slip away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from redraft.app.builtin.prose.spelling.pairs import Place, count_at, find_alike, read_pairs
from redraft.app.builtin.prose.spelling.slips import LONG, find_neighbours, is_plain_slip, is_slip, may_be_derived

SHORTEST: Final = 6
"""Shorter words have too many neighbours; of words with just so many letters, only some slips are believed."""
COMMON: Final = 4_000_000
"""A word that books have this often, of a trillion words, is common (`plugin` has 12 million)."""
COMMON_IF_LONG: Final = 500_000
"""The number that COMMON is for other words, for long words and those that fit between their neighbours."""
CLEARLY: Final = 50
"""One candidate is meant when it is this many times as common as the next."""
PLAUSIBLY: Final = 20
"""Another word may be meant when it is at most this many times rarer than the one that is thought of."""
RARE: Final = 100_000
"""A word that books have less often is hardly ever meant."""


def find_intended(word: str, frequencies: Mapping[str, int], present: Mapping[str, int], place: Place) -> str:
    """The word that was meant; empty when it is known, may be a word of the trade, or there is no one candidate.

    `present`: the words of the text; one of them is more likely to be meant.
    """
    is_repeated = word[-1:] == word[-2:-1] and word[:-1] in frequencies  # `driverr`, which no ending explains
    if len(word) < SHORTEST or word in frequencies or (may_be_derived(word, frequencies) and not is_repeated):
        return ""
    found = {each: frequencies[each] for each in find_neighbours(word) if each in frequencies and each[0] == word[0]}
    best = _choose(word, found, present, place)
    fits = count_at(read_pairs(), place, best) if best else 0
    if not best or (len(word) == SHORTEST and not fits and not is_plain_slip(word, best)):
        return ""
    is_likely = present.get(best, 0) or found[best] >= (COMMON_IF_LONG if len(word) >= LONG or fits else COMMON)
    is_meant = is_likely and is_slip(word, best) and not may_be_other(word, best, frequencies, present, place)
    return best if is_meant else ""


def _choose(word: str, found: Mapping[str, int], present: Mapping[str, int], place: Place) -> str:
    """The one candidate that fits, that two letters changed, that the text has, or that is clearly more common."""
    fitting = _rank({each: count_at(read_pairs(), place, each) for each in found})
    swapped = [each for each in found if len(each) == len(word) and sorted(each) == sorted(word)]
    here = [each for each in found if present.get(each, 0)]
    for chosen in (fitting, swapped, here):
        if len(chosen) == 1:
            return chosen[0]
    clear = _rank(found)
    return clear[0] if len(clear) == 1 else ""


def _rank(counts: Mapping[str, int]) -> list[str]:
    """The words that are counted, without those that are much rarer than the first."""
    most = max(counts.values(), default=0)
    return [each for each, count in counts.items() if count and count * CLEARLY > most]


def may_be_other(
    wrong: str, right: str, frequencies: Mapping[str, int], present: Mapping[str, int], place: Place
) -> bool:
    """Whether another word than `right` may be meant at this place.

    It is if `right` stood twice then: `thanks to florine forine`. A word one slip away may be, if it is not much rarer
    than `right`, unless the text has `right` elsewhere (`present`), only `right` fits between the words beside, or two
    letters changed places. So may any word that is alike and fits better than `right` does.
    """
    if right in place:
        return True
    pairs = read_pairs()
    fits = count_at(pairs, place, right)
    known = (each for each in find_neighbours(wrong) if frequencies.get(each, 0) >= RARE)
    near = {each for each in known if each[0] == right[0] and each != right}
    if any(count_at(pairs, place, each) > fits for each in near):
        return True
    if not fits and any(each != right and each in frequencies for each in find_alike(pairs, place, wrong)):
        return True
    if fits or present.get(right, 0) or sorted(wrong) == sorted(right):
        return False
    return any(frequencies[each] * PLAUSIBLY >= frequencies.get(right, 0) for each in near)
