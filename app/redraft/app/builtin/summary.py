"""Long lists and long changes, said shortly: what goes into an event is bounded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

LISTED: Final = 100
"""How many findings a critique lists; the rest is counted."""


def listed(lines: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The first LISTED lines, and a sentence about the others if there are any."""
    more = len(lines) - LISTED
    return tuple(lines[:LISTED]), (f"{more} more findings are not listed",) if more > 0 else ()


def changed_lines(before: str, after: str, who: str) -> tuple[str, ...]:
    """`who: 3 lines added, 2 removed`, counted without regard to order, in linear time; empty when nothing changed."""
    if before == after:
        return ()
    old, new = Counter(before.splitlines()), Counter(after.splitlines())
    added, removed = (new - old).total(), (old - new).total()
    if not added and not removed:
        return (f"{who}: lines moved or their ends changed",)
    return (f"{who}: {added} line{'s' * (added != 1)} added, {removed} removed",)
