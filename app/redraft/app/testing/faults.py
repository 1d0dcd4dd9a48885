"""What goes wrong in a history: drawn from the seed, counted, and written down."""

from __future__ import annotations

from random import Random
from typing import Final

import msgspec

EVERY: Final = 1_000_000_000


class Odds(msgspec.Struct, frozen=True):
    """How likely each thing is to go wrong, each time that it could: 0 never, 1 always."""

    letter_doubled: float = 0.02
    letter_late: float = 0.05
    letter_lost: float = 0.003
    publish_fails: float = 0.01
    commit_fails: float = 0.01
    answer_lost: float = 0.02
    read_fails: float = 0.003
    notice_lost: float = 0.2
    actor_fails: float = 0.03
    actor_wrong: float = 0.01
    actor_late: float = 0.01
    crashes: float = 3.0
    """How many processes are killed, on average."""
    pauses: float = 1.0
    """How many stand still for minutes, on average."""


CALM: Final = Odds(*[0.0] * len(Odds.__struct_fields__))
"""Nothing goes wrong."""


class Faults:
    """Draws what goes wrong, and tells each in the words of the domain. After `most` of them nothing does any more.

    It draws the same whatever `most` is, so that a shorter history begins as the longer one does.
    """

    def __init__(self, random: Random, odds: Odds, most: int = EVERY) -> None:
        self.odds = odds
        self.told: list[str] = []
        self._random = random
        self._most = most

    def happens(self, chance: float, what: str) -> bool:
        """Whether it goes wrong this time."""
        return self._random.random() < chance and self.strikes(what)

    def strikes(self, what: str) -> bool:
        """Writes down that something goes wrong, unless enough has."""
        if len(self.told) >= self._most:
            return False
        self.told.append(what)
        return True

    def number(self, average: float) -> int:
        """A whole number around this average."""
        return self._random.randint(0, round(2 * average)) if average else 0

    def between(self, least: float, most: float) -> float:
        """Seconds, more often few than many."""
        return least + (most - least) * self._random.random() ** 2
