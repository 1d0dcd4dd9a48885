"""One number for a text: 1 is faultless. docs/prose.md explains the formula."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

from redraft.app.builtin.prose_finding import Fault, Finding

WEIGHTS: Final[Mapping[Fault, float]] = {
    "spelling": 1.0,
    "doubled": 0.8,
    "wordy": 0.3,
    "doubtful": 0.3,
    "plainer": 0.1,
    "style": 0.1,
    "long": 0.1,
}
PER_WORDS: Final = 100
"""Findings are counted per so many words; a shorter text counts as so long, so that one slip does not sink it."""
MELLOWNESS: Final = 8.0
"""The weight of findings per PER_WORDS words at which the score has fallen to 1/e."""
HARD: Final = 30.0
"""Reading ease from which on down a text is very hard to read (Flesch's own scale), and loses score."""
HARDSHIP: Final = 0.1
"""What a text loses whose reading ease is 0 or less."""


def prose_score(words: int, findings: Iterable[Finding], ease: float | None) -> float:
    """The score, 0..1, of a text of so many words with these findings; `ease` is None when it was not measured."""
    weight = math.fsum(WEIGHTS[finding.fault] for finding in findings)
    density = weight * PER_WORDS / max(words, PER_WORDS)
    hardship = 0.0 if ease is None else HARDSHIP * min(1.0, max(0.0, (HARD - ease) / HARD))
    return round(max(0.0, math.exp(-density / MELLOWNESS) - hardship), 4)
