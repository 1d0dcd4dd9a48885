"""Calls the functions of projections before the transaction that writes what they return.

A function may take long, or for ever: while a transaction waits for it, no other read model can be written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import NamedTuple, TypeAlias, cast

from redraft.events.messages.domain_events import RunErased, RunQuarantined
from redraft.events.messages.envelope import Entry, Recorded, Unreadable
from redraft.projections.engine.projection import Change, Fold, Projection, call_own, changes_of


class Found(NamedTuple):
    """The changes of entries, and those of the entries that set their runs aside."""

    changes: list[Change | Fold]
    aside: list[Unreadable]


class Moved(Exception):
    """A projection is to be written from another position than its changes were found for."""


_Given: TypeAlias = tuple[str, frozenset[str], int, int]


class Ahead:
    """Holds what the functions of projections returned or raised, which were called before a transaction began.

    With `within` it holds nothing, and `take` calls the functions, in the transaction. `computed` names the checkpoints
    whose rows of the batch are computed already, and only have to be written.
    """

    def __init__(self, *, within: bool = False) -> None:
        self.computed: set[str] = set()
        self._within = within
        self._found: dict[_Given, Found | Exception] = {}

    def find(self, projection: Projection, aside: Set[str], entries: Sequence[Entry]) -> Set[str]:
        """Calls the functions of a projection for these entries; returns the runs that are set aside then."""
        if not entries:
            return aside
        given = _given(projection, aside, entries)
        try:
            found = self._found[given] = find_changes(projection, aside, entries)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is raised when it is taken
            self._found[given] = error
            return aside
        return aside | {each.run for each in found.aside}

    def take(self, projection: Projection, aside: Set[str], entries: Sequence[Entry]) -> Found:
        """Returns what was found for exactly these, once, or raises it, such as OwnError. Raises Moved without any."""
        if self._within:
            return find_changes(projection, aside, entries)
        found = self._found.pop(_given(projection, aside, entries), None)
        if found is None:
            raise Moved
        if isinstance(found, Exception):
            raise found
        return found


def _given(projection: Projection, aside: Set[str], entries: Sequence[Entry]) -> _Given:
    return projection.name, frozenset(aside), entries[0].position, entries[-1].position


def find_changes(projection: Projection, aside: Set[str], entries: Sequence[Entry]) -> Found:
    """Returns the changes of all entries, those of a run in order; the runs of `aside` are set aside already.

    Raises OwnError.
    """
    if not aside and {*map(type, entries)} == {Recorded}:
        return Found(changes_of(projection, cast("Sequence[Recorded]", entries)), [])
    gone, readable = set(aside), list[Recorded]()
    found = Found([], [])
    for entry in entries:
        if isinstance(entry, Recorded) and entry.run not in gone:
            readable.append(entry)
            continue
        found.changes.extend(changes_of(projection, readable))
        readable.clear()
        found.changes.extend(_changes_aside(projection, entry, first=entry.run not in gone))
        if isinstance(entry, Unreadable) and entry.run not in gone:
            gone.add(entry.run)
            found.aside.append(entry)
    found.changes.extend(changes_of(projection, readable))
    return found


def _changes_aside(projection: Projection, entry: Entry, *, first: bool) -> Iterable[Change | Fold]:
    """Returns the changes of an entry that sets its run aside (`first`), or whose run is set aside already."""
    if not isinstance(entry, Unreadable):
        return call_own(projection.apply, (entry,)) if isinstance(entry.data, RunQuarantined | RunErased) else ()
    return call_own(projection.aside, (entry,)) if first and projection.aside else ()
