"""Whether a word is a known misspelling, what it should be in its own capitals, and whether that is sure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from redraft.app.builtin.prose_dictionary import Spellings
from redraft.app.builtin.prose_phrases import FUNCTION_WORDS
from redraft.app.builtin.prose_text import Prose
from redraft.app.builtin.prose_words import CURLY, Judged, Word, quoted, words_of

SHORT = 5
"""Up to this many letters a capitalised word inside a sentence may well be a name, and one in capitals an acronym."""
NAME = 7
"""Up to this many letters a capitalised word beside another capitalised word may well be a name: `Mark Skelton`."""
FEW = 16
"""Fewer words than this say nothing about their language."""
ENGLISH_SHARE = 0.1
"""The least share of function words (or of English misspellings) in English prose; most texts have 0.3 and more."""
_SHOUTED = "from have that the they this what when where which with you your"
SHOUTED = frozenset(_SHOUTED.split())
"""Words whose misspellings are put right in capitals too, where other short words are taken for acronyms: `TEH`."""


class Correction(msgspec.Struct, frozen=True):
    """The right word, or the candidates when it is not `sure`."""

    right: str
    sure: bool


def correction(word: Word, before: Word | None, spellings: Spellings, in_heading: bool) -> Correction | None:
    """What the word should be; None when it is not known to be wrong, is spoken of, or is no plain word (`iOS`).

    `before` is the word that it is joined to.
    """
    lower = word.text.replace(CURLY, "'").lower()
    right = spellings.sure.get(lower) or ("-" in lower and _by_parts(lower, spellings))
    candidates = right or spellings.doubtful.get(lower)
    if not candidates or not _plainly_cased(word.text) or quoted(word, word):
        return None
    named = not in_heading and _may_be_name(word, before, candidates)
    if named and (word.text.isupper() or not right):
        return None
    if not right:
        return Correction(candidates, sure=False)
    right = right.replace("'", CURLY) if CURLY in word.text else right
    return Correction(keep_case(word.text, right), sure=not named)


def keep_case(found: str, right: str) -> str:
    """The right words in the capitals of those found: `Teh` gives `The`, `TEH` gives `THE`."""
    if len(found) > 1 and found.isupper():
        return right.upper()
    return right[:1].upper() + right[1:] if found[:1].isupper() else right


def in_english(prose: Prose, spellings: Spellings) -> Iterator[Judged]:
    """The passages in English with their words; a short passage is taken for the language of the whole text."""
    passages = [Judged(passage, tuple(words_of(prose, passage))) for passage in prose.passages]
    known = [_known(each.words, spellings) for each in passages]
    whole = _is_english(sum(known), sum(len(each.words) for each in passages))
    for each, count in zip(passages, known, strict=True):
        if _is_english(count, len(each.words)) if len(each.words) >= FEW else whole:
            yield each


def _known(words: Sequence[Word], spellings: Spellings) -> int:
    """How many of these words are surely English, be they misspelled."""
    lower = [word.text.lower() for word in words]
    return sum(word in FUNCTION_WORDS or word in spellings.sure for word in lower)


def _is_english(known: int, words: int) -> bool:
    """Whether a text looks like English sentences, and not like another language or a list of names."""
    return words < FEW or known >= ENGLISH_SHARE * words


def _plainly_cased(text: str) -> bool:
    return all(part.islower() or part.isupper() or part[1:].islower() or len(part) == 1 for part in text.split("-"))


def _by_parts(lower: str, spellings: Spellings) -> str:
    """A compound of two or three with its misspelled parts put right, when these are long enough to be words."""
    parts = lower.split("-")
    if len(parts) > 3:  # an identifier, such as a test's name
        return ""
    right = [spellings.sure.get(part, part) if len(part) > SHORT else part for part in parts]
    return "-".join(right) if right != parts else ""


def _may_be_name(word: Word, before: Word | None, right: str) -> bool:
    if word.text.isupper():
        return len(word.text) <= SHORT and right.lower() not in SHOUTED
    if not word.text[:1].isupper() or right[:1].isupper() or right in SHOUTED:
        return False
    beside = (before is not None and _like_name(before.text)) or (word.after[:1] == " " and word.after[1:].isupper())
    return len(word.text) <= (NAME if beside else SHORT) and (before is not None or beside)


def _like_name(text: str) -> bool:
    return len(text) > 1 and text[0].isupper() and text[1:].islower()
