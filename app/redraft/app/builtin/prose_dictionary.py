"""The misspellings that codespell knows, read as data from the dictionary that ships inside its package.

codespell has no Python interface but `main()`: `codespell_lib.__all__` names nothing else. Its dictionary is a plain
file of lines `wrong->right` or `wrong->right, other,` (CC BY-SA 3.0, from Wikipedia). No code of codespell (GPL-2.0)
is imported or run.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

import msgspec

from redraft.events.errors import PermanentError

_FILE: Final = "codespell_lib/data/dictionary.txt"

_NOT_WRONG = """
als ba besed cancelation ende fo gage hass nam nd ot re-use re-used re-using sav seh ser te unparseable useable vas
versioon vor
"""
NOT_WRONG: Final = frozenset(_NOT_WRONG.split())
"""Entries that are right in real texts: names, units, words of other languages, spellings that dictionaries allow."""


class Spellings(msgspec.Struct, frozen=True):
    """`sure`: a misspelling and the only word it can be. `doubtful`: one that may be several words, or may be right."""

    sure: dict[str, str]
    doubtful: dict[str, str]


@cache
def spellings() -> Spellings:
    """The dictionary, read once. Raises PermanentError when codespell is not installed as it should be."""
    try:
        lines = Path(str(distribution("codespell").locate_file(_FILE))).read_text(encoding="utf-8").splitlines()
    except (PackageNotFoundError, OSError):
        raise PermanentError(f"prose: codespell's {_FILE} cannot be read; reinstall the package codespell") from None
    sure: dict[str, str] = {}
    doubtful: dict[str, str] = {}
    for line in lines:
        wrong, arrow, right = line.partition("->")
        if not arrow or wrong.lower() in NOT_WRONG:
            continue
        words, comma, _reason = right.strip().rpartition(",")
        (doubtful if comma else sure)[wrong.lower()] = words if comma else right.strip()
    chained = {wrong for wrong, right in sure.items() if any(word.lower() in sure for word in right.split())}
    doubtful |= {wrong: sure.pop(wrong) for wrong in chained}
    return Spellings(sure, doubtful)


def without(book: Spellings, ignored: Collection[str]) -> Spellings:
    """The dictionary without these words, whatever their capitals."""
    drop = {word.lower() for word in ignored}
    if drop.isdisjoint(book.sure) and drop.isdisjoint(book.doubtful):
        return book
    kept = [{wrong: right for wrong, right in each.items() if wrong not in drop} for each in (book.sure, book.doubtful)]
    return Spellings(*kept)
