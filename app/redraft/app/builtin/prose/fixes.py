"""Corrects certain mistakes, all at once: misspellings, doubled words and, on demand, wordy phrases.

Words go on a stack one by one. What a new word completes on top of the stack (a doubled word, a phrase) is replaced
there and looked at again, so that a second reading finds nothing more, and the time is linear in the length of the
text. What stands between words is copied, so what is masked cannot change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import msgspec

from redraft.app.builtin.prose.masking import Finding, Judged, Word, are_quoted
from redraft.app.builtin.prose.spelling.corrections import keep_case
from redraft.app.builtin.prose.style import (
    BEFORE_BE,
    DOUBLED_WRONGLY,
    PLAIN,
    PLAINER,
)


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


def mend(
    text: str, judged: Iterable[Judged], running: frozenset[int], certain: Mapping[int, str], *, rewrite: bool
) -> Rewriting:
    """Puts in what is `certain`, makes doubled words of `running` text one and, to `rewrite`, wordy phrases plain.

    The keys of `certain` and what is in `running` are offsets of words. Everything else stays as it is.
    """
    stack: list[_Piece] = []
    findings: list[Finding] = []
    cursor = 0
    for _, words in judged:
        for word in words:
            right = certain.get(word.at, word.text)
            if right != word.text:
                findings.append(Finding("spelling", word.at, word.text, right))
            pieces = _pieces(text[cursor : word.at], (word,), right)
            _settle(stack, pieces, findings, running, rewrite=rewrite)
            cursor = word.at + len(word.text)
    rewritten = "".join(part for piece in stack for part in (piece.gap, piece.word.text)) + text[cursor:]
    return Rewriting(rewritten, tuple(sorted(findings, key=lambda finding: finding.at)))


def _settle(
    stack: list[_Piece], pieces: list[_Piece], findings: list[Finding], running: frozenset[int], *, rewrite: bool
) -> None:
    """Puts the pieces on the stack, reducing what they complete until nothing is left to reduce."""
    pending = pieces[::-1]
    while pending:
        piece = pending.pop()
        if stack and {stack[-1].word.at, piece.word.at} <= running and _is_doubled(stack[-2:], piece):
            first = stack[-1]
            found = f"{first.word.text} {piece.word.text}"
            findings.append(Finding("doubled", first.word.at, found, first.word.text))
            stack[-1] = _Piece(_gap((first, piece)), first.word._replace(after=piece.word.after))
        else:
            stack.append(piece)
            pending += _simplify(stack, findings, running, rewrite=rewrite)[::-1]


def _is_doubled(before: Sequence[_Piece], other: _Piece) -> bool:
    one = before[-1]
    first, second = one.word.text, other.word.text
    opens = not one.word.joined and first == second.capitalize()
    if second == "be" and (len(before) < 2 or before[0].word.text.lower() not in BEFORE_BE):
        return False
    return (
        second in DOUBLED_WRONGLY
        and (first == second or opens)
        and other.word.joined
        and not are_quoted(one.word, other.word)
    )


def _breaks(gap: str) -> bool:
    return "\n" in gap or "\r" in gap


def _simplify(stack: list[_Piece], findings: list[Finding], running: frozenset[int], *, rewrite: bool) -> list[_Piece]:
    """Takes a wordy phrase off the top of the stack and returns the plain words for it; nothing when there is none."""
    for phrase in _phrases().get(stack[-1].word.text.lower(), ()):
        top = stack[-len(phrase.words) :]
        if not _stands(phrase, top):
            continue
        found = " ".join(piece.word.text for piece in top)
        instead = keep_case(found, phrase.instead) if phrase.safe else phrase.instead
        is_changed = rewrite and phrase.safe and all(piece.word.at in running for piece in top)
        findings.append(Finding("wordy" if is_changed else "plainer", top[0].word.at, found, instead))
        if is_changed:
            del stack[-len(top) :]
            return _pieces(_gap(top), [piece.word for piece in top], instead)
    return []


def _stands(phrase: _Phrase, top: Sequence[_Piece]) -> bool:
    return (
        tuple(piece.word.text.lower() for piece in top) == phrase.words
        and all(piece.word.joined for piece in top[1:])
        and not are_quoted(top[0].word, top[-1].word)
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
    """The text before the one piece that these become: their line break, if there is one that can stand there."""
    first = pieces[0]
    broken = (piece.gap for piece in pieces if _breaks(piece.gap))
    return next(broken, first.gap) if first.word.joined else first.gap
