"""Typing slips: the words one slip away from a word, which slips are likely, and new words made of known ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from string import ascii_lowercase
from typing import Final

LONG: Final = 8
"""From this many letters on a word has hardly any neighbours."""
KNOWN_PART: Final = 1_000_000
"""Both parts of an unknown compound have this: `codebase` is no slip of a finger."""
SHORTEST_PART: Final = 4
"""Letters of the shortest part of a compound."""
COMMON_REST: Final = 20_000_000
"""The minimum frequency in books of a word recognised after two or three unknown letters: `files` in `pofiles`."""

_PREFIXES_TEXT = """
anti auto bi co cross cyber de dis en extra hyper in inter intra macro mega meta micro mid mini mis mono multi nano
non out over para poly post pre pro pseudo re semi sub super tele trans tri ultra un under uni up
"""
_PREFIXES: Final = tuple(_PREFIXES_TEXT.split())
_SUFFIXES_TEXT = """
ability able al ally ation d ed ee ees en er ers ery es eth ful fully ible ic ied ier ies ification ified ifier
ifies ify ing ings isation ise ised ises ish ising ism ist ity ization ize ized izer izes izing less like ly ment
ness or ors ous r s ship ward wise y
"""
_SUFFIXES: Final = tuple(_SUFFIXES_TEXT.split())
_TECHNICAL_TEXT = """
bit cfg conf ctl db fd fn fs id io js k lib ng os rc sh sql ui var vm x
"""
_TECHNICAL: Final = tuple(_TECHNICAL_TEXT.split())
"""Parts of the names of programs and functions, such as `printk` and `exportfs`."""
_SHORT_PARTS_TEXT = """
add ang api app arg args bit bits buf bus by cmd col cpu crypt del des dev dir dst err fmt get gid has idx img in
int is key len lib log map max mem min mod msg net new num off old on op opt out pad pid pkg pos pre ptr put ref reg
row run set sql src std str sub sum sys tab tag tcp tmp to top txt udp uid up url usb use val var vec vel via wd web
win xml
"""
_SHORT_PARTS: Final = frozenset(_SHORT_PARTS_TEXT.split())
"""Parts of compounds that are shorter than other parts may be: `refcount`, `regset`."""
_ROWS: Final = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_VOWELS: Final = frozenset("aeiou")
_VARIANTS: Final = ({"s", "z"}, {"s", "c"}, {"a", "i"}, {"e", "i"})
"""Letters by which the spellings of countries differ, or `-able` and `-ible`."""
_LONGER_VARIANTS: Final = frozenset({"ou", "ll", "gu", "ae", "oe", "ea"})
_SWAPPED_ENDINGS: Final = frozenset({"er", "re", "es", "se", "ed", "de"})


def is_plain_slip(word: str, meant: str) -> bool:
    """Whether two letters changed places, or one stands twice or is missing."""
    if len(word) > len(meant):
        return any(one == other for one, other in pairwise(word))
    return len(word) < len(meant) or sorted(word) == sorted(meant)


def may_be_derived(word: str, frequencies: Mapping[str, int]) -> bool:
    """Whether a word is made of known ones, as new words are: `unmergeable`, `tokenizer`, `codebase`."""
    for prefix in _PREFIXES:
        rest = word.removeprefix(prefix)
        if rest != word and len(rest) > 3 and (rest in frequencies or any(_stems(rest, frequencies))):
            return True
    if any(_stems(word, frequencies)) or _is_part(word[1:], frequencies):  # `pevent`, `kmemory`
        return True
    if any(
        len(word) - at > SHORTEST_PART and frequencies.get(word[at:], 0) >= COMMON_REST for at in (2, 3)
    ):  # `pofiles`
        return True
    return any(_is_part(word[:at], frequencies) and _is_part(word[at:], frequencies) for at in range(2, len(word) - 1))


def _is_part(part: str, frequencies: Mapping[str, int]) -> bool:
    return part in _SHORT_PARTS or (len(part) >= SHORTEST_PART and frequencies.get(part, 0) >= KNOWN_PART)


def _stems(word: str, frequencies: Mapping[str, int]) -> Iterator[str]:
    for suffix in (*_SUFFIXES, *_TECHNICAL):
        stem = word.removesuffix(suffix)
        if stem == word or len(stem) < 3:
            continue
        for each in (stem, f"{stem}e", f"{stem}y"):
            if each in frequencies:
                yield each
        if stem[-1] == stem[-2] and stem[:-1] in frequencies:
            yield stem[:-1]


def find_neighbours(word: str) -> Iterator[str]:
    """Everything that is one letter more, less, or other, or two letters changed, away from a word."""
    for at in range(len(word) + 1):
        head, tail = word[:at], word[at:]
        yield from (f"{head}{letter}{tail}" for letter in ascii_lowercase)
        if tail:
            yield head + tail[1:]
            yield from (f"{head}{letter}{tail[1:]}" for letter in ascii_lowercase if letter != tail[0])
        if len(tail) > 1 and tail[0] != tail[1]:
            yield head + tail[1] + tail[0] + tail[2:]


def is_slip(word: str, meant: str) -> bool:
    """Whether fingers or ears make such a mistake: not at the first letter, nor at the end, by which forms differ."""
    at = next((at for at, (one, other) in enumerate(zip(word, meant, strict=False)) if one != other), None)
    if at is None:  # a last letter too much, or missing
        if len(word) < len(meant):
            return False
        return word[-1] == word[-2]
    if len(word) < len(meant):
        return not _is_variant(meant[at - 1 : at + 1])
    if at == 1 and len(word) > len(meant):  # `fflush`
        return False
    if len(word) > len(meant):
        near = {*word[max(0, at - 2) : at], *word[at + 1 : at + 3]}
        return any(_are_near(each, word[at]) for each in near) and not _is_variant(word[at - 1 : at + 1])
    if word[at + 1 :] != meant[at + 1 :]:  # two letters changed places
        return at < len(word) - 2 or word[-2:] not in _SWAPPED_ENDINGS
    return _are_near(word[at], meant[at]) and {word[at], meant[at]} not in _VARIANTS


def _is_variant(pair: str) -> bool:
    """Whether a letter more or less makes a spelling of another country: `favour`, `cancelled`."""
    return pair in _LONGER_VARIANTS


def _are_near(one: str, other: str) -> bool:
    """Whether two letters are the same, lie side by side on a keyboard, or are both vowels."""
    if one == other or (one in _VOWELS and other in _VOWELS):
        return True
    places = {letter: (row, column) for row, keys in enumerate(_ROWS) for column, letter in enumerate(keys)}
    if one not in places or other not in places:
        return False
    (row, column), (other_row, other_column) = places[one], places[other]
    return abs(row - other_row) <= 1 and abs(column - other_column) <= 1
