"""Verifies a whole log with bounded memory: once in its order, once run by run, and its database.

In the order of the log it hashes each event, finds missing positions, and carries a digest of all hashes on: two logs
with the same digest at a position hold the same events, in the same order, up to it. Run by run it follows the chain of
hashes, and positions must go up. Both ways must have met the same rows, because a database finds a run's events by an
index, which is a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from hashlib import sha256
from secrets import token_bytes
from typing import Final

import msgspec

from redraft.events.encryption.keyring import Keyring
from redraft.events.errors import EncryptionKeyMissing, StoreError, Tampered
from redraft.events.messages.codec import GENESIS, is_version, link_of, verify_content
from redraft.events.messages.domain_events import RunErased
from redraft.events.messages.event_names import EVENT_NAMES
from redraft.events.store.recorder import Inspection, LogRow, Place, Recorder

AT_ONCE: Final = 500
"""Rows that one step reads."""

MOST_BYTES: Final = 8 * 1024 * 1024
"""Bytes of events that one step reads in the order of the log, unless a single event has more."""

MOST_FAULTS: Final = 1_000
"""The most faults that a report lists; further ones are only counted."""

_ERASED: Final = EVENT_NAMES[RunErased]


class Fault(msgspec.Struct, frozen=True, omit_defaults=True):
    """A fault, with the run (empty: the log or its database) and the position, where they are known."""

    message: str
    run: str = ""
    position: int = 0


class Report(msgspec.Struct, frozen=True):
    """The result of a verification up to a position: `digest` stands for all events up to it, `marks` for earlier
    positions.

    `faults` are the first faults, `count` is the number of all. `keys` is the SHA-256 of the wrapped keys of runs, in
    their order: a line each, with the run, a space, and the key in hex.
    """

    runs: int
    events: int
    position: int
    digest: str
    marks: dict[int, str]
    faults: tuple[Fault, ...]
    count: int
    keys: str = ""


class LogCheck:
    """A verification in steps. Each `step` is blocking and short."""

    def __init__(
        self,
        recorder: Recorder,
        keyring: Keyring,
        head: int,
        marks: Collection[int] = (),
        place: Callable[[], Inspection] | None = None,
    ) -> None:
        """`head` is the last position to verify, `marks` are positions for a digest; `place` inspects the database.

        With an encryption key in the `keyring`, tries to open the keys of runs.
        """
        self._recorder = recorder
        self._keyring = keyring
        self._head = head
        self._marked = frozenset(marks)
        self._place = place
        self._work = self._verify()
        self._used_keys = sha256()
        self._faults: list[Fault] = []
        self._count = 0
        self._position = 0
        self._events = 0
        self._digest = bytes(32)
        self._salt = token_bytes()
        self._marks: dict[int, str] = {}
        self._sum = 0
        self._runs = 0
        self._others = 0
        self._other_sum = 0

    def step(self) -> bool:
        """Does the next step; returns False when all is done."""
        return next(self._work, False)

    def is_database_damaged(self) -> bool:
        """Returns whether the inspection finds a fault; for a database that cannot be read to the end."""
        self._check_database()
        return self._count > 0

    def report(self) -> Report:
        return Report(
            self._runs,
            self._events,
            self._position,
            self._digest.hex(),
            self._marks,
            tuple(self._faults),
            self._count,
            self._used_keys.hexdigest(),
        )

    def _report(self, message: str, run: str = "", position: int = 0) -> None:
        self._count += 1
        if len(self._faults) < MOST_FAULTS:
            self._faults.append(Fault(message, run, position))

    def _verify(self) -> Iterator[bool]:
        """Verifies all, and yields True after each step."""
        while self._position < self._head and (
            rows := self._recorder.select_after(self._position, AT_ONCE, MOST_BYTES)
        ):
            for row in rows:
                if row.id > self._head:
                    break
                self._verify_row(row)
            yield True
        self._report_gap(self._head + 1)
        run, (rows, place) = _Run(""), self._recorder.select_by_run(Place(), AT_ONCE)
        while rows:
            for row in rows:
                if row.originator_id != run.name:
                    self._end_run(run)
                    run = _Run(row.originator_id)
                    self._runs += 1
                self._follow(run, row)
            yield True
            rows, place = self._recorder.select_by_run(place, AT_ONCE)
        self._end_run(run)
        if (self._others, self._other_sum) != (self._events, self._sum):
            self._report("what the database finds by run is not what is in the log: its index was changed")
        self._check_database()

    def _verify_row(self, row: LogRow) -> None:
        run, version, at = row.originator_id, row.originator_version, row.id
        if at != self._position + 1:
            self._report_gap(at)
        self._position = at
        self._events += 1
        self._sum += self._fingerprint(row)
        try:
            own = verify_content(run, version, row.topic, row.state)
        except (Tampered, TypeError, AttributeError, ValueError) as error:
            self._report(_describe(error, row), run, at)
            own = ""
        self._digest = sha256(self._digest + own.encode()).digest()
        if at in self._marked:
            self._marks[at] = self._digest.hex()

    def _fingerprint(self, row: LogRow) -> int:
        """Returns a number that stands for a row with all its content, in this check alone.

        Python's hash of bytes is a keyed one; the salt makes it so even where PYTHONHASHSEED fixes its key.
        """
        state: object = row.state  # in a file that was tampered with it may be of any type
        whole = state if isinstance(state, bytes) else repr(state).encode(errors="replace")
        return hash((hash(self._salt + whole), row.id, row.originator_id, row.originator_version, row.topic))

    def _report_gap(self, at: int) -> None:
        first, last = self._position + 1, at - 1
        if first == last:
            self._report(f"the event at position {first} of the log is missing: it was taken out", position=first)
        elif first < last:
            self._report(
                f"the events at positions {first} to {last} of the log are missing: they were taken out", "", first
            )

    def _follow(self, run: _Run, row: LogRow) -> None:
        if row.id <= self._head:
            self._others += 1
            self._other_sum += self._fingerprint(row)
        version = row.originator_version
        if not is_version(version):  # reported already, from the log
            return
        run.version, expected = version, run.version + 1
        if row.id > self._head:
            return
        try:
            link = link_of(run.name, version, row.topic, row.state)
        except (Tampered, TypeError):
            run.hash = ""  # reported already, from the log
            return
        if message := _explain_link_fault(run, row, link.previous, expected):
            self._report(message, run.name, row.id)
        run.position = row.id
        run.hash = row.state[9:73].decode(errors="replace")
        run.sealed = run.sealed or bool(link.sealed)
        run.erased = run.erased or row.topic == _ERASED

    def _end_run(self, run: _Run) -> None:
        """Checks that an encrypted run has a key, unless its erasure is recorded."""
        if not run.sealed:
            return
        key = self._keyring.keys.get(run.name)
        if not key:
            if not run.erased:
                self._report(
                    f"run {run.name} cannot be read any more: its key is gone, and no erasure is recorded", run.name
                )
            return
        self._used_keys.update(f"{run.name} {key.hex()}\n".encode(errors="replace"))
        if run.erased:
            self._report(f"run {run.name} was erased, but its key is there again: erase it once more", run.name)
        try:
            self._keyring.check(run.name, key)
        except EncryptionKeyMissing as error:
            self._report(f"{error}; if that is the one given here, this key was changed", run.name)

    def _check_database(self) -> None:
        found = self._place() if self._place else Inspection()
        for message in found.faults:
            self._report(message)
        for message in () if self._count else found.otherwise:
            self._report(message)


class _Run(msgspec.Struct):
    """The run that is being followed: its version, hash and position so far, and whether it was sealed or erased."""

    name: str
    version: int = 0
    hash: str = GENESIS
    position: int = 0
    sealed: bool = False
    erased: bool = False


def _explain_link_fault(run: _Run, row: LogRow, previous: str, expected: int) -> str:
    """Returns why an event does not follow the one before it in its run; empty if it does."""
    version = row.originator_version
    if version != expected:
        return f"event {expected} of run {run.name} is missing: it was taken out"
    if run.hash and previous != run.hash:
        return (
            f"event {version} of run {run.name} ({row.topic}) does not follow the event before it: "
            "one was changed or taken out"
        )
    if row.id < run.position:
        return f"event {version} of run {run.name} was moved: in the log it stands before an event that it follows"
    return ""


def _describe(error: Exception, row: LogRow) -> str:
    if isinstance(error, StoreError):
        return str(error)
    return f"event {row.originator_version} of run {row.originator_id} is not what was recorded: it holds no text"
