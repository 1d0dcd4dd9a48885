"""Finds misspellings, and tells those that are nearly certain from those that are only likely."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from redraft.app.builtin.prose.masking import CURLY, Finding, Judged, Prose, Word, are_quoted, words_of
from redraft.app.builtin.prose.spelling.intended import find_intended, may_be_other
from redraft.app.builtin.prose.spelling.lexicon import Lexicon
from redraft.app.builtin.prose.spelling.pairs import Place
from redraft.app.builtin.prose.style import FUNCTION_WORDS

SHORT: Final = 5
"""Up to this many letters a capitalised word inside a sentence may well be a name, and one in capitals an acronym."""
NAME: Final = 7
"""Up to this many letters a capitalised word beside another capitalised word may well be a name: `Mark Skelton`."""
FEW: Final = 16
"""Fewer words than this say nothing about their language."""
ENGLISH_SHARE: Final = 0.1
"""The least share of function words (or of English misspellings) in English prose; most texts have 0.3 and more."""
OFTEN: Final = 3
"""A misspelling that a text has this often is taken as intended, unless the correct form occurs there too."""
SHORTEST: Final = 5
"""Fewer letters than this are an abbreviation or a name, unless they are one of CLEAR."""
CLEAR: Final = frozenset(
    {"adn", "hte", "hvae", "nto", "taht", "teh", "thsi", "thw", "tje", "whic", "wich", "wiht", "wtih", "yuo"}
)
SPLIT: Final = frozenset({"a lot", "as well", "at least", "each other", "in fact", "of course", "such as"})
"""Corrections of more than one word that are certain; others are a matter of style, such as `command line`."""

_COMBINING = "co cross full half high ill low long mid multi non over post pre re self semi short sub well"
COMBINING: Final = frozenset(_COMBINING.split())
"""First parts of compounds of running text; others may be names of functions or options: `find-extreams`."""

_RUNS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_LETTERS: Final = re.compile(r"[a-z]+")
_ANCHORED: Final = re.compile(r"\(#[^()\s]*\)|<a id=\"[^\"]*\"></a>")
_PLAIN: Final = re.compile(r"[a-z]+(?:'[a-z]+)?")
MARKS: Final = frozenset("*_`'\"")
"""A word after one of these may be spoken of: a parameter's name."""
_SHOUTED = "from have that the they this what when where which with you your"
SHOUTED: Final = frozenset(_SHOUTED.split())
"""Words whose misspellings are told in capitals too, where other short words are taken for acronyms: `TEH`."""


class Corrections(msgspec.Struct, frozen=True):
    """`certain`: by their offsets, the words to be mended, each with the right one. `doubtful`: what else was found."""

    certain: Mapping[int, str]
    doubtful: tuple[Finding, ...]


def find_corrections(prose: Prose, judged: Sequence[Judged], running: Collection[int], lexicon: Lexicon) -> Corrections:
    """Judges each word of a text; only lower-case words of running text can be certain."""
    words = [word for each in judged for word in each.words]
    likely: dict[int, tuple[str, str]] = {}
    doubtful: list[Finding] = []
    present = Counter(word.text.lower() for word in words)
    for each in judged:
        for before, word, after in zip([None, *each.words], each.words, [*each.words[1:], None], strict=False):
            place = _find_place(before, word, after)
            is_ours = word.at in running and not are_quoted(word, word)
            right = _correct(word, lexicon, present, place) if is_ours else ""
            if right:
                likely[word.at] = (word.text, right)
            elif told := _suspect(word, before if word.joined else None, lexicon, each.passage.kind == "heading"):
                doubtful.append(Finding("doubtful", word.at, word.text, told))
    certain = _weigh(prose, words, likely, present)
    doubtful += [Finding("doubtful", at, wrong, right) for at, (wrong, right) in likely.items() if at not in certain]
    return Corrections(certain, tuple(doubtful))


def _find_place(before: Word | None, word: Word, after: Word | None) -> Place:
    """The words beside a word, without those that stand beside all words."""
    near = (before if word.joined else None, after if after and after.joined else None)
    texts = [each.text.lower() if each else "" for each in near]
    return Place(*("" if text in FUNCTION_WORDS else text for text in texts))


def _correct(word: Word, lexicon: Lexicon, present: Mapping[str, int], place: Place) -> str:
    """The one right word for a lower-case word of running text; empty when there is none."""
    text = word.text.replace(CURLY, "'")
    if not text.islower() or word.after[:1] == "-" or word.is_continued or word.before in MARKS:
        return ""
    if "-" in text:
        return _by_parts(text, lexicon)
    if right := lexicon.sure.get(text):
        is_plain = right in SPLIT or bool(_PLAIN.fullmatch(right))
        is_certain = is_plain and (len(text) >= SHORTEST or text in CLEAR) and text != f"{right}s"  # `two datas`
        if not is_certain or may_be_other(text, right, lexicon.frequencies, present, place):
            return ""
        return right.replace("'", CURLY) if CURLY in word.text else right
    if not _LETTERS.fullmatch(text) or text in lexicon.doubtful:
        return ""
    return find_intended(text, lexicon.frequencies, present, place)


def _weigh(
    prose: Prose, words: Iterable[Word], likely: Mapping[int, tuple[str, str]], present: Mapping[str, int]
) -> Mapping[int, str]:
    """Returns the corrections without those of words that the text uses on purpose.

    A word that stands elsewhere too, in code or in a name, is meant; so is one that stands here often, unless its
    correct form does as well.
    """
    everywhere = Counter(found.group().lower() for found in _RUNS.finditer(_ANCHORED.sub("", prose.text)))
    opening = Counter(
        word.text.lower() for word in words if not word.joined and word.text[:1].isupper() and word.text[1:].islower()
    )
    counts = Counter(wrong for wrong, _ in likely.values())
    rare = {right for wrong, right in likely.values() if counts[wrong] < OFTEN}
    return {
        at: right
        for at, (wrong, right) in likely.items()
        if (counts[wrong] < OFTEN or right in rare or present.get(right, 0))
        and not (wrong.isalpha() and everywhere[wrong] > counts[wrong] + opening[wrong])
        and not (wrong.endswith("s") and right.endswith("s") and everywhere[wrong[:-1]] > counts[wrong[:-1]])
    }


def _suspect(word: Word, before: Word | None, lexicon: Lexicon, in_heading: bool) -> str:
    """Returns codespell's suggestions for a misspelt word; nothing for one it does not list, or for a possible name."""
    lower = word.text.replace(CURLY, "'").lower()
    candidates = lexicon.sure.get(lower) or lexicon.doubtful.get(lower) or ""
    if not candidates or not _is_plainly_cased(word.text) or are_quoted(word, word):
        return ""
    if not in_heading and _may_be_name(word, before, candidates):
        return ""
    return keep_case(word.text, candidates)


def keep_case(found: str, right: str) -> str:
    """The right words in the capitals of those found: `Teh` gives `The`, `TEH` gives `THE`."""
    if len(found) > 1 and found.isupper():
        return right.upper()
    return right[:1].upper() + right[1:] if found[:1].isupper() else right


def in_english(prose: Prose, lexicon: Lexicon) -> Iterator[Judged]:
    """The passages in English with their words; a short passage is taken for the language of the whole text."""
    passages = [Judged(passage, tuple(words_of(prose, passage))) for passage in prose.passages]
    known = [_count_known(each.words, lexicon) for each in passages]
    whole = _is_english(sum(known), sum(len(each.words) for each in passages))
    for each, count in zip(passages, known, strict=True):
        if _is_english(count, len(each.words)) if len(each.words) >= FEW else whole:
            yield each


def _count_known(words: Sequence[Word], lexicon: Lexicon) -> int:
    """Returns the number of these words that are surely English, also if misspelled."""
    lower = [word.text.lower() for word in words]
    return sum(word in FUNCTION_WORDS or word in lexicon.sure for word in lower)


def _is_english(known: int, words: int) -> bool:
    """Returns whether a text looks like English sentences, and not like another language or a list of names."""
    return words < FEW or known >= ENGLISH_SHARE * words


def _is_plainly_cased(text: str) -> bool:
    return all(part.islower() or part.isupper() or part[1:].islower() or len(part) == 1 for part in text.split("-"))


def _by_parts(lower: str, lexicon: Lexicon) -> str:
    """A compound of a common first part and a misspelled word that is long enough, with this put right."""
    parts = lower.split("-")
    if len(parts) > 2 or parts[0] not in COMBINING:
        return ""
    right = [lexicon.sure.get(part, part) if len(part) > SHORT else part for part in parts]
    return "-".join(right) if right != parts and all(map(_PLAIN.fullmatch, right)) else ""


def _may_be_name(word: Word, before: Word | None, right: str) -> bool:
    if word.text.isupper():
        return len(word.text) <= SHORT and right.lower() not in SHOUTED
    if not word.text[:1].isupper() or right[:1].isupper() or right in SHOUTED:
        return False
    beside = (before is not None and _like_name(before.text)) or (word.after[:1] == " " and word.after[1:].isupper())
    return len(word.text) <= (NAME if beside else SHORT) and (before is not None or beside)


def _like_name(text: str) -> bool:
    return len(text) > 1 and text[0].isupper() and text[1:].islower()
