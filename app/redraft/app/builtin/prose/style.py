"""Clichés, redundancies and other matters of style, found by proselint.

proselint documents `proselint.checks.__register__`, the list of its checks, and a registry of the whole process to
put them in; the list is used directly, so that nothing is shared. Only checks that run on RE2 are used: their time is
linear in the text, where one of the few on Python's `re` alone took five times as long as all these together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from proselint.checks import __register__  # type: ignore[import-untyped]
from proselint.registry.checks.engine import Fast  # type: ignore[import-untyped]

from redraft.app.builtin.prose.masking import MARKUP, MASK, QUOTES, Finding, Prose

LEAVE_OUT: Final = ""
"""Instead of a phrase that says nothing."""

PLAIN: Final[Mapping[str, str]] = {
    "a large number of": "many",
    "as to whether": "whether",
    "at the present time": "now",
    "at this point in time": "now",
    "despite the fact that": "although",
    "due to the fact that": "because",
    "during the course of": "during",
    "each and every": "every",
    "first and foremost": "first",
    "for the purpose of": "for",
    "for the reason that": "because",
    "has the ability to": "can",
    "in close proximity to": "near",
    "in excess of": "more than",
    "in light of the fact that": "because",
    "in order that": "so that",
    "in order to": "to",
    "in spite of the fact that": "although",
    "in the absence of": "without",
    "in the course of": "during",
    "in the event that": "if",
    "in the near future": "soon",
    "in the vicinity of": "near",
    "in view of the fact that": "because",
    "made use of": "used",
    "make use of": "use",
    "makes use of": "uses",
    "making use of": "using",
    "on a daily basis": "daily",
    "on a regular basis": "regularly",
    "owing to the fact that": "because",
    "prior to": "before",
    "subsequent to": "after",
    "take into consideration": "consider",
    "taken into consideration": "considered",
    "takes into consideration": "considers",
    "taking into consideration": "considering",
    "until such time as": "until",
    "utilise": "use",
    "utilised": "used",
    "utilises": "uses",
    "utilising": "using",
    "utilize": "use",
    "utilized": "used",
    "utilizes": "uses",
    "utilizing": "using",
    "with regard to": "about",
    "with regards to": "about",
    "with the exception of": "except",
}

PLAINER: Final[Mapping[str, str]] = {
    "a majority of": "most",
    "absolutely essential": "essential",
    "absolutely necessary": "necessary",
    "ascertain": "find out",
    "by means of": "by",
    "commence": "begin",
    "commenced": "began",
    "completely eliminate": "eliminate",
    "end result": "result",
    "endeavor": "try",
    "endeavour": "try",
    "facilitate": "help",
    "facilitates": "helps",
    "future plans": "plans",
    "have the ability to": "can",
    "in a timely manner": "promptly",
    "in conjunction with": "with",
    "in terms of": "in, by, or for",
    "in the amount of": "for",
    "in the process of": LEAVE_OUT,
    "is able to": "can",
    "are able to": "can",
    "it is important to note that": LEAVE_OUT,
    "it should be noted that": LEAVE_OUT,
    "leveraging": "using",
    "needless to say": LEAVE_OUT,
    "past history": "history",
    "the majority of": "most of",
    "the reason why is that": "because",
    "whether or not": "whether",
}

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
