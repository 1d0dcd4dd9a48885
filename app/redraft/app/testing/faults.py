"""Draws the faults of a history from its seed, counts them, and records them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from hashlib import blake2b
from random import Random
from typing import Final, TypeAlias

import msgspec

EVERY: Final = 1_000_000_000


class Odds(msgspec.Struct, frozen=True):
    """The probability of each fault each time that it could happen: 0 never, 1 always."""

    letter_doubled: float = 0.02
    letter_late: float = 0.05
    letter_lost: float = 0.003
    publish_fails: float = 0.01
    commit_fails: float = 0.01
    answer_lost: float = 0.02
    read_fails: float = 0.003
    notice_lost: float = 0.2
    actor_fails: float = 0.03
    """An actor fails at its work; a user's own has done it by then, and its answer is lost: it is called again."""
    actor_wrong: float = 0.01
    """An actor of Redraft's own histories returns what it must not; a user's own returns what it returns."""
    actor_late: float = 0.01
    """An actor of Redraft's own histories takes minutes; a user's own takes as long as it takes."""
    book_fails: float = 0.002
    """A named subscription cannot be read or moved, or the answer is lost."""
    handler_fails: float = 0.03
    crashes: float = 3.0
    """How many processes are killed, on average."""
    pauses: float = 1.0
    """How many stall for minutes, on average."""
    broker_wiped: float = 0.08
    """Once in a history the broker loses its queues and all messages; people send open requests again."""
    broker_forgets: float = 0.08
    """Once in a history the broker loses its queues and all messages, and nobody sends open requests again."""
    broker_restarts: float = 0.08
    """Once in a history the broker restarts: requests in its queues are lost, and the inbox is not."""
    broker_stalls: float = 0.1
    """Up to three times in a history the broker takes no message and answers no question, for up to 20 minutes."""
    older: float = 0.03
    """A coordinator starts as an older release, without the newest rules."""
    clock_differs: float = 0.1
    """The clock of a process is minutes ahead or behind."""
    clock_jumps: float = 0.05
    """The clock of a process is set while it works."""
    killed_at_work: float = 0.05
    """A worker is killed while a user's own actor works, or after that, before it has sent the result."""


CALM: Final = Odds(*[0.0] * len(Odds.__struct_fields__))
"""Nothing goes wrong."""


AVERAGES: Final = ("crashes", "pauses")
"""The odds that are no probabilities, but how many of them a history has on average."""

MOST: Final = 100.0
"""The largest average."""


def check_odds(odds: Odds) -> None:
    """Raises TypeError for odds that are none, ValueError for a probability that is not within 0 and 1."""
    if not isinstance(odds, Odds):
        raise TypeError(f"odds: give Odds, such as Odds(letter_lost=0.1), or CALM, not {odds!r}")
    for name in Odds.__struct_fields__:
        value, most = getattr(odds, name), MOST if name in AVERAGES else 1.0
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
            raise ValueError(f"odds: {name} is {value!r}; give a number from 0 to {most:g}")


class Note(msgspec.Struct, frozen=True):
    """Something that happened, in seconds since the history began; `run` is empty if it concerns several."""

    at: float
    what: str
    run: str = ""


Struck: TypeAlias = tuple[str, int]
"""A fault: its sentence, without whom it strikes, and its number among those with this sentence, from 1."""


class Faults:
    """Draws faults, and records each in a sentence. After `max_faults` of them no more happen, and none but the `only`.

    The draws do not depend on that, so a shorter history begins like the longer one. `struck` are the faults as `only`
    has them, `notes` they and other notes, each with its time by the `clock`. With `apart`, each draw depends only on
    the fault and on how often it could have happened, so leaving one out changes no other.
    """

    def __init__(
        self,
        random: Random,
        odds: Odds,
        max_faults: int = EVERY,
        only: frozenset[Struck] | None = None,
        clock: Callable[[], float] = lambda: 0.0,
        *,
        apart: bool = False,
    ) -> None:
        self.odds = odds
        self.planted: list[str] = []
        self.struck: list[Struck] = []
        self.notes: list[Note] = []
        self._random = random
        self._max_faults = max_faults
        self._only = only
        self._drawn = 0
        self._clock = clock
        self._key = random.getrandbits(64).to_bytes(8) if apart else b""
        self._times: Counter[str] = Counter()
        self._strikes: Counter[str] = Counter()

    def happens(self, chance: float, what: str) -> bool:
        """Returns whether the fault happens this time."""
        return self._chance(what) < chance and self.strikes(what)

    def strikes(self, what: str, whom: str = "") -> bool:
        """Records a fault and returns True, unless it is left out. Whom it strikes makes it no other fault."""
        number, self._drawn = self._drawn, self._drawn + 1
        self._strikes[what] += 1
        fault = what, self._strikes[what]
        if number >= self._max_faults or (self._only is not None and fault not in self._only):
            return False
        told = f"{whom} {what}" if whom else what
        self.planted.append(told)
        self.struck.append(fault)
        self.note(told)
        return True

    def _chance(self, what: str) -> float:
        """Returns a number from 0 to 1, excluding 1."""
        if not self._key:
            return self._random.random()
        self._times[what] += 1
        said = f"{self._times[what]} {what}".encode()
        return int.from_bytes(blake2b(said, digest_size=6, key=self._key).digest()) / 2**48

    def note(self, what: str, run: str = "") -> None:
        """Records what happened, for people who read a history; `run` is the run that it concerns, if it is one."""
        self.notes.append(Note(self._clock(), what, run))

    def number(self, average: float) -> int:
        """Returns a random integer around this average."""
        return self._random.randint(0, round(2 * average)) if average else 0

    def skew(self) -> float:
        """Returns how many seconds a clock is off, up to five minutes either way."""
        return self._random.uniform(-300, 300)

    def between(self, low: float, high: float) -> float:
        """Returns a random number of seconds, more often few than many."""
        return low + (high - low) * self._random.random() ** 2
