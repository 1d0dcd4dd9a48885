"""What is wrong with one run or one queue, and how it is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from redraft.events.errors import (
    BusError,
    RedraftError,
    Sealed,
    StoreError,
    Tampered,
    TooLarge,
    UnknownName,
    UnknownRules,
)

LONGEST: Final = 500
"""How many characters of an error are told."""


class Refused(msgspec.Struct, frozen=True):
    """A request that cannot be made or sent: its step fails."""

    run: str
    position: int
    path: str
    fault: str


class LeftOut(msgspec.Struct, frozen=True):
    """Nothing can be sent for this event of a run. `position` is 0 where it is the run that cannot be read."""

    run: str
    position: int
    fault: str


class Blocked(msgspec.Struct, frozen=True):
    """A queue cannot be used: what goes there waits."""

    queue: str
    fault: str


class Freed(msgspec.Struct, frozen=True):
    """Nothing waits for a queue any more: all was sent, or is no longer asked for."""

    queue: str


Trouble: TypeAlias = Refused | LeftOut | Blocked | Freed
Tell: TypeAlias = Callable[[Trouble], None]


def untold(trouble: Trouble) -> None:
    """Tells nobody."""


def told(error: Exception) -> str:
    """An error in a line; one that is not raised on purpose with its kind."""
    said = str(error) if isinstance(error, RedraftError) else f"{type(error).__name__}: {error}"
    return " ".join(said.split())[:LONGEST]


def is_for_another(error: Exception) -> bool:
    """Whether an error says that a run belongs to a later release, or to who has its key: there it may go on."""
    return isinstance(error, UnknownName | UnknownRules | Sealed)


def raise_if_general(error: Exception) -> None:
    """Raises an error that says nothing of one run: store or bus cannot be used."""
    if isinstance(error, StoreError | BusError) and not isinstance(error, Tampered | TooLarge):
        raise error
