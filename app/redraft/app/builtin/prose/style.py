"""Clichés, redundancies and other matters of style, found by proselint.

proselint documents `proselint.checks.__register__`, the list of its checks, and a registry of the whole process to
put them in; the list is used directly, so that nothing is shared. Only checks that run on RE2 are used: their time is
linear in the text, where one of the few on Python's `re` alone took five times as long as all these together.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from proselint.checks import __register__  # type: ignore[import-untyped]
from proselint.registry.checks.engine import Fast  # type: ignore[import-untyped]

from redraft.app.builtin.prose.masking import MARKUP, MASK, QUOTES, Finding, Prose

LEAVE_OUT: Final = ""
"""Instead of a phrase that says nothing."""

_WORDY: Final = tomllib.loads(Path(__file__).with_name("wordy.toml").read_text(encoding="utf-8"))
PLAIN: Final[Mapping[str, str]] = _WORDY["plain"]
"""Wordy phrases that can be replaced, each with the plain one that means the same."""
PLAINER: Final[Mapping[str, str]] = _WORDY["plainer"]
"""Phrases that are only spoken of, each with what may be plainer; `LEAVE_OUT` for those that say nothing."""

_DOUBLED_WRONGLY = """
be been by for from his into its of our than the their they to we when which with your
"""
DOUBLED_WRONGLY: Final = frozenset(_DOUBLED_WRONGLY.split())
"""Function words that English hardly ever writes twice in a row.

Left out are verbs, and pronouns that may end one clause and begin the next: `the functions we have have been tried`,
`what it is is unknown`, `to be with you you need it`, `after this this is done`; and those for which something else is
often meant, as `as a` for `a a` and `as as`, `and and` for `and add`, `is is` for `it is`.
"""
_BEFORE_BE = "can cannot could may might must shall should to will would"
BEFORE_BE: Final = frozenset(_BEFORE_BE.split())
"""After these words a second `be` is one too many; after others, `to be` may have been meant."""

_FUNCTION_WORDS = """
a about after all also an and any are as at be because been before between but by can could did do does each every for
from has have he her his how i if in into is it its may more most must my no not now of on one only or other our out
over own same see she should so some such than that the their them then there these they this those to two up was we
were what when where which while who will with without would you your
"""
FUNCTION_WORDS: Final = frozenset(_FUNCTION_WORDS.split())
"""The commonest words of English; prose without them is a list of names, or another language."""

CHECKS: Final = (
    "annotations",
    "cliches",
    "hedging",
    "industrial_language",
    "malapropisms",
    "misc.back_formations",
    "misc.composition",
    "misc.debased",
    "misc.false_plurals",
    "misc.illogic",
    "misc.inferior_superior",
    "misc.many_a",
    "misc.metadiscourse",
    "misc.narcissism",
    "misc.not_guilty",
    "misc.tense_present",
    "misc.waxed",
    "misc.whence",
    "mixed_metaphors.misc",
    "mondegreens",
    "nonwords",
    "oxymorons",
    "redundancy",
    "spelling",
    "typography.punctuation.hyperbole",
    "uncomparables",
)
"""proselint's checks that left sound texts alone; `typography`, say, found 1,900 faults in 200 software documents."""

ALLOWED: Final = frozenset({"b4", "exact same", "for free", "point in time"})
_COMPARED = ("more ", "less ")


def style_findings(prose: Prose) -> Iterator[Finding]:
    """Yields the findings of proselint, each place once."""
    padded = f"\n{prose.masked}\n".encode(errors="replace").decode()  # RE2 takes no lone surrogates
    seen: set[tuple[int, int]] = set()
    for check in _checks():
        for result in check.check_with_flags(padded):
            start, end = result.span
            if (start, end) not in seen and _counts(padded, start, end):
                seen.add((start, end))
                found = " ".join(padded[start:end].split())
                yield Finding("style", start - 1, found, note=" ".join(result.message.split()))


@cache
def _checks() -> tuple[Any, ...]:
    fast = (check for check in __register__ if isinstance(check.engine, Fast))
    return tuple(check for check in fast if any(check.matches_partial(each) for each in CHECKS))


def _counts(text: str, start: int, end: int) -> bool:
    """Leaves out parts of words (proselint 0.16 forgets word boundaries in sets of patterns), quotations, and code."""
    found = text[start:end].lower()
    cut = (text[start - 1].isalnum() and found[:1].isalnum()) or (
        found[-1:].isalnum() and text[end : end + 1].isalnum()
    )
    in_quotes = text[start - 1] in QUOTES and text[end : end + 1] in QUOTES
    masked = MASK in found or MARKUP in found or "\n\n" in found
    return not (cut or in_quotes or masked or found.strip() in ALLOWED or found.startswith(_COMPARED))
