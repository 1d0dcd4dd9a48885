"""What is surely wrong, found and put right in one pass: misspellings, doubled words, wordy phrases.

Words go on a stack one by one. What a new word completes on top of the stack (a doubled word, a phrase) is replaced
there and looked at again, so that a second reading finds nothing more, and the time is linear in the length of the
text. What stands between words is copied, so what is masked cannot change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import msgspec

from redraft.app.builtin.prose_dictionary import Spellings
from redraft.app.builtin.prose_finding import Finding
from redraft.app.builtin.prose_phrases import DOUBLED_RIGHTLY, FUNCTION_WORDS, NAMES_TOO, PLAIN, PLAINER
from redraft.app.builtin.prose_spelling import correction, keep_case
from redraft.app.builtin.prose_text import Passage
from redraft.app.builtin.prose_words import Judged, Word, quoted


class Rewriting(msgspec.Struct, frozen=True):
    """The text with all that is surely wrong put right, and what was found on the way, in order."""

    text: str
    findings: tuple[Finding, ...]


class _Piece(NamedTuple):
    """A word of the new text and what goes before it."""

    gap: str
    word: Word


class _Phrase(NamedTuple):
    words: tuple[str, ...]
    instead: str
    safe: bool


def rewrite(text: str, judged: Iterable[Judged], book: Spellings) -> Rewriting:
    """Judges the words of a text's passages and rewrites them; everything else stays as it is."""
    stack: list[_Piece] = []
    findings: list[Finding] = []
    cursor = 0
    for passage, words in judged:
        for before, word in zip([None, *words], words, strict=False):
            right = _spelled(word, before if word.joined else None, book, passage, findings)
            _settle(stack, _pieces(text[cursor : word.at], (word,), right), findings)
            cursor = word.at + len(word.text)
    rewritten = "".join(part for piece in stack for part in (piece.gap, piece.word.text)) + text[cursor:]
    return Rewriting(rewritten, tuple(sorted(findings, key=lambda finding: finding.at)))


def _spelled(word: Word, before: Word | None, book: Spellings, passage: Passage, findings: list[Finding]) -> str:
    """The word as it should be; notes what was wrong with it."""
    found = correction(word, before, book, passage.kind == "heading")
    if found is None:
        return word.text
    findings.append(Finding("spelling" if found.sure else "doubtful", word.at, word.text, found.right))
    return found.right if found.sure else word.text


def _settle(stack: list[_Piece], pieces: list[_Piece], findings: list[Finding]) -> None:
    """Puts the pieces on the stack, reducing what they complete until nothing is left to reduce."""
    pending = pieces[::-1]
    while pending:
        piece = pending.pop()
        if stack and _doubled(stack[-1], piece):
            findings.append(_doubling(stack[-1].word, piece.word))
            stack[-1] = _merged(stack[-1], piece)
        else:
            stack.append(piece)
            pending += _plainly(stack, findings)[::-1]


def _doubled(one: _Piece, other: _Piece) -> bool:
    first, second, lower = one.word.text, other.word.text, other.word.text.lower()
    if first.lower() != lower or not other.word.joined or lower in DOUBLED_RIGHTLY or lower in _LETTERS:
        return False
    if quoted(one.word, other.word) or (lower not in FUNCTION_WORDS and _breaks(other.gap) and _begins_line(one)):
        return False
    if first == second:
        return second.islower() or lower in FUNCTION_WORDS
    return first[1:] == second[1:] and lower in FUNCTION_WORDS - NAMES_TOO


def _begins_line(piece: _Piece) -> bool:
    return _breaks(piece.gap) or not piece.word.joined


def _breaks(gap: str) -> bool:
    return "\n" in gap or "\r" in gap


def _doubling(first: Word, second: Word) -> Finding:
    return Finding("doubled", first.at, f"{first.text} {second.text}", first.text)


def _merged(first: _Piece, second: _Piece) -> _Piece:
    return _Piece(_gap((first, second)), first.word._replace(after=second.word.after))


def _plainly(stack: list[_Piece], findings: list[Finding]) -> list[_Piece]:
    """Takes a wordy phrase off the top of the stack and returns the plain words for it; nothing when there is none."""
    for phrase in _phrases().get(stack[-1].word.text.lower(), ()):
        top = stack[-len(phrase.words) :]
        if not _stands(phrase, top):
            continue
        found = " ".join(piece.word.text for piece in top)
        instead = keep_case(found, phrase.instead) if phrase.safe else phrase.instead
        findings.append(Finding("wordy" if phrase.safe else "plainer", top[0].word.at, found, instead))
        if phrase.safe:
            del stack[-len(top) :]
            return _pieces(_gap(top), [piece.word for piece in top], instead)
    return []


def _stands(phrase: _Phrase, top: Sequence[_Piece]) -> bool:
    return (
        tuple(piece.word.text.lower() for piece in top) == phrase.words
        and all(piece.word.joined for piece in top[1:])
        and not quoted(top[0].word, top[-1].word)
    )


@cache
def _phrases() -> Mapping[str, tuple[_Phrase, ...]]:
    """The phrases by their last word, the longest first."""
    every = [_Phrase(tuple(key.split()), instead, True) for key, instead in PLAIN.items()]
    every += [_Phrase(tuple(key.split()), instead, False) for key, instead in PLAINER.items()]
    every.sort(key=lambda phrase: -len(phrase.words))
    return {
        last: tuple(each for each in every if each.words[-1] == last) for last in {each.words[-1] for each in every}
    }


def _pieces(gap: str, words: Sequence[Word], text: str) -> list[_Piece]:
    """The words of `text` in the place of these words."""
    first, last = words[0], words[-1]
    if text == first.text and first is last:
        return [_Piece(gap, first)]
    parts = text.split(" ")
    afters = [" "] * (len(parts) - 1) + [last.after]
    others = [Word(part, first.at, True, " ", after) for part, after in zip(parts[1:], afters[1:], strict=True)]
    return [_Piece(gap, first._replace(text=parts[0], after=afters[0])), *(_Piece(" ", word) for word in others)]


def _gap(pieces: Sequence[_Piece]) -> str:
    """What goes before the one piece that these become: their line break, if there is one that can stand there."""
    first = pieces[0]
    broken = (piece.gap for piece in pieces if _breaks(piece.gap))
    return next(broken, first.gap) if first.word.joined else first.gap


_LETTERS = frozenset("bcdefghijklmnopqrstuvwxyz")
