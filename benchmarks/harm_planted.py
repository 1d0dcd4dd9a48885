"""Mistakes planted in clean texts for `harm.py`: slips of fingers and doubled words, made by a seeded generator.

They come from no list of misspellings, so no dictionary of them can have been made from the same one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Final

from harm_documents import Document

DOUBLED_EVERY: Final = 4
"""Every fourth mistake is a doubled word."""
WORDS: Final = Path("/usr/share/dict/words")
"""A list of English words (the package wamerican): a slip that makes another word is no misspelling."""
_COMMONEST = "the of to and a in is it you that he was for on are with as i his they be at one have this"
_RIGHT_TWICE = "a are as at have he in is it on one that this was you"
COMMONEST: Final = frozenset(_COMMONEST.split()) - frozenset(_RIGHT_TWICE.split())
"""Those of the 25 commonest words of English that a writer doubles by mistake only.

Those left out stand twice in right sentences (`log in in the morning`, `what it is is unknown`, `the parts we have have
been tried`, `the place to look at at noon`), or another word may be meant, as `as a` by `a a` and `as as`.
"""

_KEYS: Final = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_LINE: Final = re.compile(r"^ {0,3}(?:[-*+] +)?[A-Za-z]+(?:[ -][A-Za-z]+[,.]?){7,}$", re.MULTILINE)
_WORD: Final = re.compile(r"(?<= )[a-z]+(?= )")
_PARAGRAPH: Final = re.compile(r"(?:[^\n]+\n?)+")
_TERMS: Final = re.compile(r"licen[cs]|copyright|warrant|permission|patent|liab", re.IGNORECASE)
"""Matches paragraphs that may be terms of a licence, which are nobody's to change."""
SHORTEST: Final = 5
"""Slips are planted in words of at least this many letters."""


@dataclass(frozen=True, slots=True)
class Planted:
    """A text with one mistake: the document, the text with it, where it is, the mistake, and what it was."""

    document: Document
    text: str
    at: int
    wrong: str
    right: str
    kind: str

    def as_document(self) -> Document:
        """The document with the mistake in it."""
        return replace(self.document, text=self.text)


def plant(documents: Sequence[Document], count: int, seed: int) -> list[Planted]:
    """One mistake in each of `count` documents that have a line of prose to put it in."""
    random = Random(seed)
    words = frozenset(WORDS.read_text(encoding="utf-8").split())
    planted: list[Planted] = []
    for document in random.sample(documents, len(documents)):
        if len(planted) == count:
            return planted
        made = _plant_in(document, random, words, doubles=len(planted) % DOUBLED_EVERY == 0)
        if made:
            planted.append(made)
    raise SystemExit(f"only {len(planted)} documents have a line to plant in; name more folders")


def _plant_in(document: Document, random: Random, words: AbstractSet[str], *, doubles: bool) -> Planted | None:
    places = [
        (line.start() + word.start(), word.group())
        for paragraph in _PARAGRAPH.finditer(document.text)
        if not _TERMS.search(paragraph.group())
        for line in _LINE.finditer(document.text, paragraph.start(), paragraph.end())
        for word in _WORD.finditer(line.group())
        if (word.group() in COMMONEST if doubles else len(word.group()) >= SHORTEST and word.group() in words)
    ]
    if document.is_legal or not places:
        return None
    at, right = random.choice(places)
    wrong, kind = (f"{right} {right}", "doubled") if doubles else slip(right, random, words)
    return Planted(document, document.text[:at] + wrong + document.text[at + len(right) :], at, wrong, right, kind)


def slip(word: str, random: Random, words: AbstractSet[str]) -> tuple[str, str]:
    """The word as fingers may miss it, in any place after the first letter, and the kind of the slip."""
    while True:
        kind = random.choice(("swapped", "left out", "repeated", "beside", "besides"))
        at = random.randrange(1, len(word))
        wrong = _miss(word, at, kind, random)
        if wrong != word and wrong not in words:
            return wrong, kind


def _miss(word: str, at: int, kind: str, random: Random) -> str:
    head, letter, tail = word[:at], word[at], word[at + 1 :]
    match kind:
        case "swapped":
            return head + tail[:1] + letter + tail[1:]
        case "left out":
            return head + tail
        case "repeated":
            return head + letter * 2 + tail
        case "beside":
            return head + random.choice(_neighbours(letter)) + tail
        case _:
            return head + letter + random.choice(_neighbours(letter)) + tail


def _neighbours(letter: str) -> str:
    """The letters on the keys beside that of a letter, in its row and those above and below."""
    row = next(number for number, keys in enumerate(_KEYS) if letter in keys)
    at = _KEYS[row].index(letter)
    rows = _KEYS[max(0, row - 1) : row + 2]
    return "".join(each for keys in rows for each in keys[max(0, at - 1) : at + 2] if each != letter)
