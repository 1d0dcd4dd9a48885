"""The lists that spelling is checked with: codespell's list of misspellings, symspellpy's list of words.

Both come with the extra `redraft[spelling]`. Only their lists are used, read from the files of the installed packages.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

import msgspec

_MISSPELLINGS: Final = ("codespell", "codespell_lib/data/dictionary.txt")
_TERMS: Final = Path(__file__).with_name("terms.txt")
"""Words of the trade that several Debian packages use and that no slip made; `benchmarks/harm.py terms` writes it."""
_WORDS: Final = ("symspellpy", "symspellpy/frequency_dictionary_en_82_765.txt")

NOT_WRONG: Final = frozenset(Path(__file__).with_name("not_wrong.txt").read_text(encoding="utf-8").split())
"""Entries that are right in real texts: names, units, terms, variants that dictionaries allow (SCOWL up to 70)."""


_ABLE: Final = ("able", "ible")
_PREFIXES: Final = ("de", "inter", "multi", "non", "out", "over", "pre", "re", "sub", "super", "un", "under")
PREFIXED: Final = 6
"""Letters of the shortest word that may be a letter before a common word."""
COMMON: Final = 1_000_000
"""A word that books have this often, of a trillion words, is common."""


class Lexicon(msgspec.Struct, frozen=True):
    """`sure`: a misspelling and the only word it can be. `doubtful`: one that may be several words, or may be right.

    `frequencies`: how often each word of English occurs in books.
    """

    sure: Mapping[str, str] = {}
    doubtful: Mapping[str, str] = {}
    frequencies: Mapping[str, int] = {}


@cache
def read_lexicon() -> Lexicon | None:
    """The lists, read once; None where the extra `spelling` is not installed."""
    try:
        misspellings, words = (read_lines(*each) for each in (_MISSPELLINGS, _WORDS))
    except (PackageNotFoundError, OSError):
        return None
    frequencies = dict.fromkeys((*NOT_WRONG, *_TERMS.read_text(encoding="utf-8").split()), 1)
    frequencies |= {word: int(count) for word, _, count in (line.partition(" ") for line in words)}
    sure: dict[str, str] = {}
    doubtful: dict[str, str] = {}
    for line in misspellings:
        wrong, arrow, right = line.partition("->")
        if not arrow or wrong.lower() in NOT_WRONG or "-" in wrong:
            continue
        candidates, comma, _reason = right.strip().rpartition(",")
        is_doubtful = comma or wrong.lower() in frequencies or _may_be_right(wrong, right.strip(), frequencies)
        (doubtful if is_doubtful else sure)[wrong.lower()] = candidates or right.strip()
    chained = {wrong for wrong, right in sure.items() if any(word.lower() in sure for word in right.split())}
    doubtful |= {wrong: sure.pop(wrong) for wrong in chained}
    return Lexicon(sure, doubtful, frequencies)


def _may_be_right(wrong: str, right: str, frequencies: Mapping[str, int]) -> bool:
    """Whether a word may be a variant (`invokable`), or a common word after a prefix or a letter (`pevent`)."""
    if wrong.endswith(_ABLE) and right.endswith(_ABLE) and _find_stem(wrong) == _find_stem(right):
        return True
    rests = [wrong.removeprefix(prefix) for prefix in _PREFIXES if wrong.startswith(prefix)]
    if len(wrong) >= PREFIXED and wrong[0] not in f"aeiou{wrong[1]}":
        rests.append(wrong[1:])
    return any(len(rest) >= PREFIXED - 1 and frequencies.get(rest, 0) >= COMMON for rest in rests)


def _find_stem(word: str) -> str:
    """Returns the stem of a word in `-able`, the same for `invokable` and `invocable`."""
    stem = word[:-4].rstrip("e")
    return f"{stem[:-1]}c" if stem.endswith("k") else stem


def without(lexicon: Lexicon, ignored: Collection[str]) -> Lexicon:
    """The lexicon in which these words are right, whatever their capitals."""
    words = {word.lower() for word in ignored}
    if not words:
        return lexicon
    sure, doubtful = (
        {wrong: right for wrong, right in each.items() if wrong not in words}
        for each in (lexicon.sure, lexicon.doubtful)
    )
    return Lexicon(sure, doubtful, {**dict.fromkeys(words, 1), **lexicon.frequencies})


def read_lines(package: str, file: str) -> list[str]:
    return Path(str(distribution(package).locate_file(file))).read_text(encoding="utf-8-sig").splitlines()
