"""Verifying a whole log with a bounded memory: once in its order, once run by run, and what holds it.

In the order of the log each event is hashed, no position may be missing, and a digest of all hashes so far is carried
on: two logs with the same digest at a position hold the same events, in the same order, up to it. Run by run the chain
is followed. Both ways must have met the same rows: a database finds a run's events by an index, which is a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from hashlib import sha256
from typing import Final, Protocol, runtime_checkable

import msgspec

from redraft.events.codec import GENESIS, link_of, verify_content
from redraft.events.domain_events import EVENT_NAMES, RunErased
from redraft.events.errors import StoreError, Tampered
from redraft.events.inspection import Inspection
from redraft.events.recorders import Notification
from redraft.events.run_keys import RunKeys

AT_ONCE: Final = 500
"""Rows that are looked at in one step."""

MOST_FAULTS: Final = 1_000
"""Faults that are kept; more are only counted."""

_WHOLE: Final = 2**256
_ERASED: Final = EVENT_NAMES[RunErased]


@runtime_checkable
class Rows(Protocol):
    """What is asked of a recorder."""

    def select_notifications(
        self, start: int | None, limit: int, stop: int | None = None, *, inclusive_of_start: bool = True
    ) -> Sequence[Notification]: ...

    def select_after(self, position: int, limit: int, most_bytes: int) -> Sequence[Notification]:
        """The rows of the log after a position, as many as have so many bytes together, and at least one."""
        ...

    def select_by_run(self, run: str, version: int, limit: int) -> Sequence[Notification]:
        """Rows in the order of runs and versions, after this version of this run, each with its position."""
        ...


class Fault(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is wrong, with the run (empty: the log or its database) and the position, where they are known."""

    told: str
    run: str = ""
    position: int = 0


class Report(msgspec.Struct, frozen=True):
    """What was found up to a position of the log: `digest` stands for all events up to it, `marks` for earlier ones.

    `faults` are the first of them, `count` is how many there are. `remarks` say what could not be looked at. `keys` is
    the SHA-256 of the wrapped keys of runs, in their order: a line each, with the run, a space, and the key in hex.
    `all_keys` is the same of all that there are, also of runs of which nothing is recorded (yet).
    """

    runs: int
    events: int
    position: int
    digest: str
    marks: dict[int, str]
    faults: tuple[Fault, ...]
    count: int
    remarks: tuple[str, ...] = ()
    keys: str = ""
    all_keys: str = ""


class LogCheck:
    """A verification under way. Each `step` is blocking and short."""

    def __init__(
        self,
        rows: Rows,
        keys: RunKeys,
        head: int,
        marks: Collection[int] = (),
        place: Callable[[], Inspection] | None = None,
    ) -> None:
        """`head` is the position to go up to, `marks` where the digest is wanted; `place` looks at the database."""
        self._rows = rows
        self._keys = keys
        self._head = head
        self._wanted = frozenset(marks)
        self._place = place
        self._todo = [self._look_at_place, self._along_keys, self._along_runs, self._along_log]
        self._remarks: tuple[str, ...] = ()
        self._keyed = ""
        self._used_keys = sha256()
        self._all_keys = sha256()
        self._faults: list[Fault] = []
        self._count = 0
        self._position = 0
        self._events = 0
        self._digest = bytes(32)
        self._marks: dict[int, str] = {}
        self._sum = 0
        self._runs = 0
        self._run = _Run("")
        self._others = 0
        self._other_sum = 0

    def step(self) -> bool:
        """Goes on for a while; False when all is done."""
        if self._todo and not self._todo[-1]():
            self._todo.pop()
        return bool(self._todo)

    def is_place_damaged(self) -> bool:
        """Whether the database itself says what is wrong with it; for when it cannot be read to the end."""
        self._todo = []
        self._look_at_place()
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
            self._remarks,
            self._used_keys.hexdigest(),
            self._all_keys.hexdigest(),
        )

    def _found(self, told: str, run: str = "", position: int = 0) -> None:
        self._count += 1
        if len(self._faults) < MOST_FAULTS:
            self._faults.append(Fault(told, run, position))

    def _along_log(self) -> bool:
        rows = self._rows.select_notifications(self._position, AT_ONCE, self._head, inclusive_of_start=False)
        for row in rows:
            run, version, at = str(row.originator_id), row.originator_version, row.id
            self._look_for_gap(at)
            self._position = at
            self._events += 1
            self._sum = (self._sum + _number(row)) % _WHOLE
            try:
                own = verify_content(run, version, row.topic, row.state)
            except (Tampered, TypeError, AttributeError, ValueError) as error:
                self._found(_told(error, row), run, at)
                own = ""
            self._digest = sha256(self._digest + own.encode()).digest()
            if at in self._wanted:
                self._marks[at] = self._digest.hex()
        if not rows and self._position < self._head:
            self._look_for_gap(self._head + 1)
        return bool(rows)

    def _look_for_gap(self, at: int) -> None:
        first, last = self._position + 1, at - 1
        if first == last:
            self._found(f"the event at position {first} of the log is missing: it was taken out", position=first)
        elif first < last:
            self._found(
                f"the events at positions {first} to {last} of the log are missing: they were taken out", "", first
            )

    def _along_runs(self) -> bool:
        rows = self._rows.select_by_run(self._run.name, self._run.version, AT_ONCE)
        for row in rows:
            if str(row.originator_id) != self._run.name:
                self._end_run()
                self._run = _Run(str(row.originator_id))
                self._runs += 1
            self._follow(row)
        if not rows:
            self._end_run()
            if (self._others, self._other_sum) != (self._events, self._sum):
                self._found("what the database finds by run is not what is in the log: its index was changed")
        return bool(rows)

    def _follow(self, row: Notification) -> None:
        run, version = self._run, row.originator_version
        before: object = run.version  # in a file that was tampered with it may be a text
        run.version, expected = version, before + 1 if isinstance(before, int) else version
        if row.id > self._head:
            return
        self._others += 1
        self._other_sum = (self._other_sum + _number(row)) % _WHOLE
        try:
            link = link_of(run.name, version, row.topic, row.state)
        except (Tampered, TypeError):
            run.hash = ""  # told already, from the log
            return
        if version != expected:
            self._found(f"event {expected} of run {run.name} is missing: it was taken out", run.name, row.id)
        elif link.previous != run.hash and run.hash:
            where = f"event {version} of run {run.name} ({row.topic})"
            self._found(f"{where} does not follow the event before it: one was changed or taken out", run.name, row.id)
        run.hash = row.state[9:73].decode(errors="replace")
        run.sealed = run.sealed or bool(link.sealed)
        run.erased = run.erased or row.topic == _ERASED

    def _end_run(self) -> None:
        """Whether a sealed run can be read as its record says."""
        run = self._run
        if not run.sealed:
            return
        key = self._keys.get(run.name)
        has_key = key is not None
        if key is not None:
            self._used_keys.update(_line(run.name, key))
        if run.erased and has_key:
            self._found(f"run {run.name} was erased, but its key is there again: erase it once more", run.name)
        elif not run.erased and not has_key:
            self._found(
                f"run {run.name} cannot be read any more: its key is gone, and no erasure is recorded", run.name
            )

    def _along_keys(self) -> bool:
        page = self._keys.page(self._keyed, AT_ONCE)
        for run, wrapped in page:
            self._keyed = run
            self._all_keys.update(_line(run, wrapped))
        return bool(page)

    def _look_at_place(self) -> bool:
        found = self._place() if self._place else Inspection()
        self._remarks = tuple(found.remarks)
        for told in found.faults:
            self._found(told)
        for told in () if self._count else found.otherwise:
            self._found(told)
        return False


class _Run(msgspec.Struct):
    """The run that is being followed: its version and hash so far, and what was met."""

    name: str
    version: int = 0
    hash: str = GENESIS
    sealed: bool = False
    erased: bool = False


def _number(row: Notification) -> int:
    """A number that stands for a row with all that is in it."""
    whole = sha256(f"{row.id}\n{row.originator_id}\n{row.originator_version}\n{row.topic}\n".encode(errors="replace"))
    state: object = row.state  # in a file that was tampered with it may be of any type
    whole.update(state if isinstance(state, bytes) else repr(state).encode(errors="replace"))
    return int.from_bytes(whole.digest())


def _line(run: str, key: bytes) -> bytes:
    return f"{run} {key.hex()}\n".encode(errors="replace")


def _told(error: Exception, row: Notification) -> str:
    if isinstance(error, StoreError):
        return str(error)
    return f"event {row.originator_version} of run {row.originator_id} is not what was recorded: it holds no text"
