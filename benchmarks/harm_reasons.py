"""The reasons for which `prose` left a planted mistake alone, for the table of `harm.py plant`."""

from __future__ import annotations

from harm_planted import Planted

from redraft.app.builtin.prose.actors import read
from redraft.app.builtin.prose.running import running_words
from redraft.app.builtin.prose.spelling.intended import SHORTEST
from redraft.app.builtin.prose.spelling.lexicon import Lexicon, read_lexicon
from redraft.app.builtin.prose.spelling.slips import find_neighbours, is_slip, may_be_derived
from redraft.app.builtin.prose.style import DOUBLED_WRONGLY


def find_reason(planted: Planted) -> str:
    """The first rule that leaves a mistake alone."""
    lexicon = read_lexicon() or Lexicon()
    has_headings = planted.document.media_type == "text/markdown"
    reading = read(planted.text, headings=has_headings)
    if planted.at not in running_words(reading.prose, reading.judged, headings=has_headings):
        return "not in running text"
    if planted.kind == "doubled":
        return "doubled: held back" if planted.right in DOUBLED_WRONGLY else "doubled: not in the closed list"
    return _find_reason(planted.wrong, planted.right, lexicon)


def _find_reason(wrong: str, right: str, lexicon: Lexicon) -> str:
    if wrong in lexicon.doubtful or wrong in lexicon.frequencies:
        return "is a word, or may be several"
    if wrong in lexicon.sure:
        return "another word may be meant"
    if len(wrong) < SHORTEST:
        return f"shorter than {SHORTEST} letters"
    if may_be_derived(wrong, lexicon.frequencies):
        return "made of known words"
    if right not in find_neighbours(wrong) or right not in lexicon.frequencies:
        return "what was meant is not known"
    return "another word may be meant" if is_slip(wrong, right) else "no likely slip"
