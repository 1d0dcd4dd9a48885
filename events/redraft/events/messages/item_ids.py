"""The ids of runs that work on the items of an Each, and the paths of items."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from hashlib import sha256
from typing import Final

from redraft.events.messages.domain_events import ItemOf

ITEM: Final = "item"
"""The value of a run's state that holds the item on which it works."""

INDEX: Final = "index"
"""The value of a run's state that holds the number (from 1) of its item."""

MARK: Final = "~"
"""The character between the id of a run and what tells the runs of its items apart."""


_OF_ITEM: Final = re.compile(r"(.+)~\d+-[0-9a-f]{8}", re.DOTALL)


def run_of_item(of: ItemOf) -> str:
    """Returns the id of the run that works on an item: that of the run whose item it is, and what tells it apart."""
    number, place = of.path.rpartition("[")[2].rstrip("]"), f"{of.run}/{of.path}"
    return f"{of.run}{MARK}{number}-{sha256(place.encode()).hexdigest()[:8]}"


def root_of(run: str) -> str:
    """Returns the id of the run to which, at whatever depth, a run of an item belongs; of any other its own."""
    *_, root = lineage(run)
    return root


def run_around(run: str) -> str:
    """Returns the id of the run around the run of an item, by that one's id; empty for an id of any other run."""
    found = _OF_ITEM.fullmatch(run)
    return found[1] if found is not None else ""


def lineage(run: str) -> Iterator[str]:
    """Yields a run and, if it is the run of an item, the runs around it, from the inside out."""
    while run:
        yield run
        run = run_around(run)


def is_within(run: str, others: Container[str]) -> bool:
    """Returns whether a run, or one of those around it, is among the others."""
    return any(each in others for each in lineage(run))


def item_path(path: str, number: int) -> str:
    """Returns the path of an item of the Each at this path: `Chapters[3]`."""
    return f"{path}[{number}]"


def number_of_item(path: str) -> int:
    """Returns the number (from 1) of the item at this path."""
    return int(path.rpartition("[")[2].rstrip("]"))


def each_path(path: str) -> str:
    """Returns the path of the Each around the item at this path."""
    return path.rpartition("[")[0]
