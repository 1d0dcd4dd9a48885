"""The port under the event store: recorders of the `eventsourcing` library, with Redraft's additions; one in memory."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from heapq import nsmallest
from typing import Any, Final, Protocol, TypeAlias
from uuid import UUID

import msgspec
from eventsourcing.persistence import (
    DatabaseError,
    DataError,
    IntegrityError,
    Notification,
    OperationalError,
    PersistenceError,
    StoredEvent,
)
from eventsourcing.popo import POPOApplicationRecorder

from redraft.events.encryption.keyring import RunKeys
from redraft.events.messages.codec import GENESIS, link_of
from redraft.events.store.append import NewRow

__all__ = [
    "DataError",
    "DatabaseError",
    "IntegrityError",
    "LogRow",
    "MemoryRecorder",
    "Notification",
    "Opened",
    "OperationalError",
    "PersistenceError",
    "Recorder",
    "StoredEvent",
    "explain",
]


class LogRow(msgspec.Struct, frozen=True, gc=False):
    """A row of the log: the fields of the library's `Notification`, which is several times as slow to create."""

    id: int
    originator_id: str
    originator_version: int
    topic: str
    state: bytes


class Place(msgspec.Struct, frozen=True, gc=False):
    """A place in the order of runs and versions, at which a row is, as its database compares it; at first before all.

    Where a file was tampered with, a run's id may be any bytes, or no text at all (`is_text`).
    """

    run: str | bytes = ""
    version: float | bytes = 0
    is_text: bool = True


class Recorder(Protocol):
    """The part of the library's recorder that the event store needs, and what it needs besides. Its calls block."""

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:  # noqa: ANN401
        """Records all of the events or none, and returns their positions; raises PersistenceError."""

    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[Notification]:
        """Returns the events of a run with versions above `gt`, up to and with `lte`."""

    def select_notifications(
        self, start: int | None, limit: int, stop: int | None = None, *, inclusive_of_start: bool = True
    ) -> Sequence[Notification]:
        """Returns the events of the log from a position on, up to and with `stop`."""

    def select_after(self, position: int, limit: int, max_bytes: int) -> Sequence[LogRow]:
        """Returns the rows of the log after a position, of at most `max_bytes` together, but at least one."""

    def select_by_run(self, after: Place, limit: int) -> tuple[Sequence[LogRow], Place]:
        """Returns rows in the order of runs and versions, each with its position, after a place; and the last's."""

    def max_notification_id(self) -> int | None:
        """Returns the position of the last event, None when there is none."""


class Inspection(msgspec.Struct, frozen=True):
    """The faults of a database.

    `otherwise` holds faults without a known cause, reported only when no other fault is found, in the events either.
    """

    faults: Sequence[str] = ()
    otherwise: Sequence[str] = ()


FOLLOWS: Final = "redraft_event_follows"
"""The rule of every database that an event follows the last one of its run, as errors name it."""

ONCE: Final = "redraft_event_once"
"""The rule of every database that an event's id is in the log once, as errors name it."""

SPELLED: Final = "redraft_event_id"
"""The rule of databases that an event's id is written as `codec` writes it, as errors name it: JSON allows others."""

POSITION: Final = "redraft_event_position"
"""The rule of databases that nobody chooses an event's position in the log, as errors name it."""

TEXTS: Final = "redraft_event_texts"
"""The rule of SQLite, where a column takes any value, that run and topic of an event are texts, as errors name it."""

VERSION: Final = "redraft_event_version"
"""The rule of SQLite that the version of an event is an integer, as errors name it."""

LAST: Final = 2**63 - 1
"""The highest version and position that a database can hold."""

Listen: TypeAlias = Callable[[Callable[[int], None]], Coroutine[None, None, None]]
Then: TypeAlias = Callable[[Sequence[int] | PersistenceError], None]
"""Called with the positions of the recorded rows, or with the error after which it is unknown whether they were."""


class DirectWriter(Protocol):
    """Records rows from the event loop itself, one insert at a time, without blocking it noticeably."""

    def begin(self, rows: Sequence[NewRow], then: Then) -> bool:
        """Begins to record the rows, all or none, and calls `then` later; returns False when it does not accept these
        rows.

        `then` gets the positions that `insert_events` of a recorder would return, or the error that it would raise.
        """

    def close(self) -> None:
        """Frees its resources; no insert may be running."""


class Opened(msgspec.Struct, frozen=True):
    """A recorder, its name in error messages, whether its calls may wait for a disk, and how to release it.

    `listen` is there if the recorder can hear of other processes' appends: it runs until it is cancelled, and calls its
    argument with the end of the log. `keys` stores the keys of encrypted runs; without it they are in memory. `check`
    inspects the database that holds the events. `direct` is there where appends need no thread. `scan` counts a run's
    rows without the index, where an index can be wrong. `guards` inspects what of it is quickly inspected.
    """

    recorder: Recorder
    where: str
    waits: bool
    release: Callable[[], None]
    listen: Listen | None = None
    keys: RunKeys | None = None
    check: Callable[[], Inspection] | None = None
    direct: DirectWriter | None = None
    scan: Callable[[str], int] | None = None
    guards: Callable[[], Inspection] | None = None


def versions_between(gt: int | None, lte: int | None) -> tuple[int, int]:
    """Returns the lower bound (exclusive) and the upper bound (inclusive) of the versions to read, as numbers."""
    return -1 if gt is None else gt, LAST if lte is None else lte


class MemoryRecorder(POPOApplicationRecorder):
    """The library's recorder in memory, with positions with every read, and the rules that databases have."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        super().__init__(*args, **kwargs)
        self._ids: set[str] = set()
        self._tips: dict[str, tuple[int, str]] = {}

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:  # noqa: ANN401
        """Records all of the events or none. It keeps the objects, so it makes the library's own of them.

        Raises IntegrityError when an event is there already, or does not follow the last event of its run.
        """
        own = [StoredEvent(s.originator_id, s.originator_version, s.topic, s.state) for s in stored_events]
        with self._database_lock:
            ids, tips = self._check_rules(own)
            positions = super().insert_events(own, **kwargs)
            self._ids |= ids
            self._tips |= tips
            return positions

    def _check_rules(self, events: Sequence[StoredEvent]) -> tuple[set[str], dict[str, tuple[int, str]]]:
        """Returns the events' ids and the new heads of their runs; raises IntegrityError when one violates a rule."""
        ids: set[str] = set()
        tips: dict[str, tuple[int, str]] = {}
        for event in events:
            run, version = str(event.originator_id), event.originator_version
            link = link_of(run, version, event.topic, event.state)
            if (version - 1, link.previous) != tips.get(run, self._tips.get(run, (0, GENESIS))):
                raise IntegrityError(f"{FOLLOWS}: event {version} does not follow the last event of run {run}")
            if link.id in ids or link.id in self._ids:
                raise IntegrityError(f"{ONCE}: an event with the id {link.id} is in the log already")
            ids.add(link.id)
            tips[run] = (version, link.hash)
        return ids, tips

    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[Notification]:
        run = str(originator_id)
        with self._database_lock:
            found = super().select_events(originator_id, gt=gt, lte=lte, desc=desc, limit=limit)
            at = self._stored_events_index[run]
            return [
                Notification(run, s.originator_version, s.topic, s.state, at[s.originator_version] + 1) for s in found
            ]

    def select_after(self, position: int, limit: int, max_bytes: int) -> Sequence[LogRow]:
        """Returns the rows of the log after a position. They are in memory, so their bytes are not counted."""
        return [
            LogRow(row.id, str(row.originator_id), row.originator_version, row.topic, row.state)
            for row in self.select_notifications(position, limit, inclusive_of_start=False)
        ]

    def select_by_run(self, after: Place, limit: int) -> tuple[Sequence[LogRow], Place]:
        with self._database_lock:
            found = [(str(s.originator_id), s.originator_version, at) for at, s in enumerate(self._stored_events)]
            chosen = nsmallest(limit, (each for each in found if each[:2] > (after.run, after.version)))
            rows = [(self._stored_events[at], at + 1) for _, _, at in chosen]
            page = [LogRow(at, str(s.originator_id), s.originator_version, s.topic, s.state) for s, at in rows]
            return page, place_of_last(page, after)


def place_of_last(page: Sequence[LogRow], after: Place) -> Place:
    """Returns the place of the last row of a page; that after which it begins where it has none."""
    return Place(page[-1].originator_id, page[-1].originator_version) if page else after


def explain(error: BaseException) -> str:
    """Returns a recorder's error as one line; the recorder has put its meaning and remedy into it."""
    return " ".join(str(error).split()) or type(error).__name__
