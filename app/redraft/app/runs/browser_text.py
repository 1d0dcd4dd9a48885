"""The text that a browser's form was filled with, and what comes back of it, byte for byte where nobody changed it.

A browser makes every line end `\\n` and every NUL `\\ufffd`. What a person left alone is therefore taken from the draft
that the form was filled with.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from redraft.projections.run_views.diff import find_gaps

_END: Final = re.compile(r"\r\n|\r|\n")
_LINE: Final = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_LETTER: Final = re.compile(r"\r\n|.", re.DOTALL)
_PAIRS: Final = 250_000
"""The maximum number of pairs of lines, or of characters, that are compared in a changed stretch."""


def as_in_browser(text: str) -> str:
    """Returns a text as a browser's form gives it back when nobody changes it."""
    return _END.sub("\n", text).replace("\0", "\ufffd")


def from_browser(before: str, given: str) -> str:
    """Returns what a form gave back that was filled with `before`, with that text's own characters where they stay.

    A line that is new ends as most lines of `before` do.
    """
    ends = Counter(_END.findall(before)).most_common(1)
    return "".join(_apart(_lines(before, as_in_browser(given), ends[0][0] if ends else "\n")))


def _apart(pieces: Iterable[str]) -> Iterator[str]:
    """Yields the pieces. A line feed that came to stand behind the carriage return of another line becomes one too.

    Both together would be one line end.
    """
    last = ""
    for piece in pieces:
        shown = f"\r{piece[1:]}" if last.endswith("\r") and piece.startswith("\n") else piece
        last = shown or last
        yield shown


def _lines(before: str, given: str, end: str) -> Iterator[str]:
    old, new = _LINE.findall(before), _LINE.findall(given)
    at = 0
    for a, b, c, d in find_gaps([as_in_browser(line) for line in old], new, _PAIRS):
        yield from old[at:a]
        yield from _letters(_LETTER.findall("".join(old[a:b])), [*"".join(new[c:d])], end)
        at = b
    yield from old[at:]


def _letters(old: Sequence[str], new: Sequence[str], end: str) -> Iterator[str]:
    at = 0
    for a, b, c, d in find_gaps([as_in_browser(letter) for letter in old], new, _PAIRS):
        yield from old[at:a]
        yield from (end if letter == "\n" else letter for letter in new[c:d])
        at = b
    yield from old[at:]
