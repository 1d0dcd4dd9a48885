"""Finds quotes in a text, and tells which parts of a text a change left alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from redraft.events.messages.content import Span

SHOWN: Final = 80
"""The number of characters of a quote that an error repeats."""


def first_place(quote: str, text: str) -> Span | None:
    """Returns the first place of a quote in a text, or else the first where only spaces and line ends differ."""
    start = text.find(quote)
    if start >= 0:
        return start, start + len(quote)
    words = quote.split()
    found = re.search(r"\s+".join(map(re.escape, words)), text) if words else None
    return found.span() if found else None


def times_found(quote: str, text: str) -> int:
    """Returns how often a quote stands in a text, also where its places overlap; 2 stands for more."""
    first = text.find(quote)
    return 0 if first < 0 else 1 if text.find(quote, first + 1) < 0 else 2


def joined(spans: Iterable[Span]) -> list[Span]:
    """Returns places in order, those that overlap or touch as one."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def changes_only(spans: Sequence[Span], before: str, after: str) -> bool:
    """Returns whether `after` can be made from `before` by changing nothing outside of these places."""
    *inner, last = _between(joined(spans), before)
    if not inner:
        return before == after
    place = len(inner[0])
    if not after.startswith(inner[0]):
        return False
    for kept in inner[1:]:  # the earliest place leaves most room for what follows
        start = after.find(kept, place)
        if start < 0:
            return False
        place = start + len(kept)
    return after.endswith(last) and place + len(last) <= len(after)


def _between(spans: Sequence[Span], text: str) -> Iterator[str]:
    """Yields what is before, between and after these places, one more than there are places."""
    place = 0
    for start, end in spans:
        yield text[place:start]
        place = end
    yield text[place:]


def brief(quote: str) -> str:
    """Returns a quote as an error repeats it: sign by sign, line ends as `\\n`, and not at length."""
    return repr(quote if len(quote) <= SHOWN else f"{quote[:SHOWN]}…")
