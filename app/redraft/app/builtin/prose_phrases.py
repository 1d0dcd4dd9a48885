"""Plain words for wordy phrases. `PLAIN` is safe in any sentence and is put right; `PLAINER` needs an eye.

Chosen from what style guides agree on: Strunk, The Elements of Style (1918), rule 13; Orwell, Politics and the English
Language (1946); the US government's Federal Plain Language Guidelines (2011), "Use simple words and phrases". A phrase
is safe when the plain word fits wherever the phrase does, needs no other article, and keeps the meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

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

_DOUBLED_RIGHTLY = """
had that her long very many much so far no really ever again now there bye ha blah yada knock tut foo bar log root
"""
DOUBLED_RIGHTLY: Final = frozenset(_DOUBLED_RIGHTLY.split())
"""Words that English, or the trade, may write twice in a row: "he had had enough", "that that is so", "very very"."""

NAMES_TOO: Final = frozenset({"may", "will", "can"})
"""Function words that, with a capital, may be another word: "Will will come in May"."""

_FUNCTION_WORDS = """
a about after all also an and any are as at be because been before between but by can could did do does each every for
from has have he her his how i if in into is it its may more most must my no not now of on one only or other our out
over own same see she should so some such than that the their them then there these they this those to two up was we
were what when where which while who will with without would you your
"""
FUNCTION_WORDS: Final = frozenset(_FUNCTION_WORDS.split())
"""The commonest words of English; prose without them is a list of names, or another language."""
