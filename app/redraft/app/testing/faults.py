"""What goes wrong in a history: drawn from the seed, counted, and written down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from hashlib import blake2b
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
    book_fails: float = 0.002
    """A named subscription cannot be read or moved, or nobody hears that it was."""
    handler_fails: float = 0.03
    crashes: float = 3.0
    """How many processes are killed, on average."""
    pauses: float = 1.0
    """How many stand still for minutes, on average."""
    broker_wiped: float = 0.08
    """Once in a history the broker loses its queues and all that is in them; people send again what is open."""
    broker_forgets: float = 0.08
    """The same, and nobody sends anything again."""
    older: float = 0.03
    """A coordinator starts as an older release, which knows no rules of today's."""
    clock_differs: float = 0.1
    """The clock of a process shows minutes more or less than the others'."""
    clock_jumps: float = 0.05
    """The clock of a process is set while it works."""
    killed_at_work: float = 0.05
    """A worker is killed while an actor of a user's own works, or when it has done its work and has told nobody yet."""


CALM: Final = Odds(*[0.0] * len(Odds.__struct_fields__))
"""Nothing goes wrong."""


class Note(msgspec.Struct, frozen=True):
    """What happened at this time, in seconds since the history began; `run` is empty where it is about several."""

    at: float
    what: str
    run: str = ""


class Faults:
    """Draws what goes wrong, and tells each in the words of the domain. After `most` of them nothing does any more.

    Those `without` (their numbers, from 0) are left out. It draws the same whatever these are, so that a shorter
    history begins as the longer one does. `notes` are what went wrong and what was noted beside it, each with its time
    by the `clock`. With `apart`, each fault is drawn by what it is and how often it could have been before, so that one
    that is left out changes no other.
    """

    def __init__(
        self,
        random: Random,
        odds: Odds,
        most: int = EVERY,
        without: frozenset[int] = frozenset(),
        clock: Callable[[], float] = lambda: 0.0,
        *,
        apart: bool = False,
    ) -> None:
        self.odds = odds
        self.told: list[str] = []
        self.notes: list[Note] = []
        self._random = random
        self._most = most
        self._without = without
        self._drawn = 0
        self._clock = clock
        self._key = random.getrandbits(64).to_bytes(8) if apart else b""
        self._times: Counter[str] = Counter()

    def happens(self, chance: float, what: str) -> bool:
        """Whether it goes wrong this time."""
        return self._chance(what) < chance and self.strikes(what)

    def strikes(self, what: str) -> bool:
        """Writes down that something goes wrong, unless enough has."""
        number, self._drawn = self._drawn, self._drawn + 1
        if number >= self._most or number in self._without:
            return False
        self.told.append(what)
        self.note(what)
        return True

    def _chance(self, what: str) -> float:
        """A number from 0 to 1, 1 left out."""
        if not self._key:
            return self._random.random()
        self._times[what] += 1
        said = f"{self._times[what]} {what}".encode()
        return int.from_bytes(blake2b(said, digest_size=6, key=self._key).digest()) / 2**48

    def note(self, what: str, run: str = "") -> None:
        """Keeps what happened for those who want to understand a history; `run` is whom it concerns, if it is one."""
        self.notes.append(Note(self._clock(), what, run))

    def number(self, average: float) -> int:
        """A whole number around this average."""
        return self._random.randint(0, round(2 * average)) if average else 0

    def skew(self) -> float:
        """Seconds that a clock is set to more or less, up to five minutes."""
        return self._random.uniform(-300, 300)

    def between(self, least: float, most: float) -> float:
        """Seconds, more often few than many."""
        return least + (most - least) * self._random.random() ** 2
