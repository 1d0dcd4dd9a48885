"""Events on their way into the log: what is to be recorded, as rows, and what became of it."""

from __future__ import annotations

from datetime import datetime
from typing import TypeAlias

import msgspec

from redraft.events.codec import Seal, Stored, decode_event, encode_event
from redraft.events.domain_events import DomainEvent
from redraft.events.envelope import Origin, Recorded
from redraft.events.errors import CodecError, Conflict, StoreError


class NewEvent(msgspec.Struct, frozen=True, gc=False):
    """An event that is to be recorded: where it comes from, when it happened (UTC), and what happened."""

    origin: Origin
    time: datetime
    data: DomainEvent


class Append(msgspec.Struct, frozen=True, gc=False):
    """Events (at least one) to follow the event `expected_version` of a run; 0 for the first events of a new run."""

    run: str
    expected_version: int
    events: tuple[NewEvent, ...]

    @property
    def end(self) -> int:
        """The version of the run when these events are recorded."""
        return self.expected_version + len(self.events)


class NewRow(msgspec.Struct, frozen=True, gc=False):
    """A row as recorders take it: the library's `StoredEvent` field by field, at a fifth of what one costs to make."""

    originator_id: str
    originator_version: int
    topic: str
    state: bytes


class Encoded(msgspec.Struct, frozen=True, gc=False):
    """The rows of an append, the hash of each event, and the hash of the event before them."""

    rows: tuple[NewRow, ...]
    hashes: tuple[str, ...]
    previous: str


class Written(msgspec.Struct, frozen=True, gc=False):
    """An append that is recorded, and the positions of its events in the log."""

    encoded: Encoded
    positions: tuple[int, ...]


class Landed(msgspec.Struct, frozen=True, gc=False):
    """The events (at least one) of a recorded append, as they are read from the log, and their size in bytes."""

    events: tuple[Recorded, ...]
    size: int


Failure: TypeAlias = Conflict | StoreError | CodecError
Outcome: TypeAlias = Written | Failure


class Entry(msgspec.Struct, eq=False):
    """An append on its way. It is encoded if the hash of the event before it is known.

    `after` is the append on its way that it builds upon: if that one fails, so does this. The writer fills in
    `outcome`.
    """

    append: Append
    encoded: Encoded | None = None
    after: Entry | None = None
    outcome: Outcome | None = None

    @property
    def failed(self) -> bool:
        return self.outcome is not None and not isinstance(self.outcome, Written)


def encode(append: Append, previous: str, seal: Seal | None = None) -> Encoded:
    """The rows of an append that follows the event with the hash `previous`, sealed if need be; raises CodecError."""
    rows: list[NewRow] = []
    hashes: list[str] = []
    last = previous
    for version, event in enumerate(append.events, append.expected_version + 1):
        stored = _encode_one(append.run, version, last, event, seal)
        last = stored.hash
        rows.append(NewRow(append.run, version, stored.name, stored.state))
        hashes.append(last)
    return Encoded(tuple(rows), tuple(hashes), previous)


def _encode_one(run: str, version: int, previous: str, event: NewEvent, seal: Seal | None) -> Stored:
    """The bytes of an event that can be read again; JSON would write NaN as null."""
    try:
        stored = encode_event(run, version, previous, event.time, event.origin, event.data, seal)
    except (UnicodeEncodeError, OverflowError, TypeError, msgspec.MsgspecError) as error:
        raise _unwritable(run, version, event, str(error)) from error
    opener = None if seal is None else lambda _: seal
    if b"null" in stored.state and decode_event(run, version, stored.name, stored.state, 0, opener).data != event.data:
        raise _unwritable(run, version, event, "it holds a number that JSON does not have")
    return stored


def _unwritable(run: str, version: int, event: NewEvent, why: str) -> CodecError:
    return CodecError(f"event {version} of run {run} ({type(event.data).__name__}) cannot be written: {why}")


def landed(append: Append, written: Written) -> Landed:
    """The events of an append as they are read from the log."""
    encoded, run, before = written.encoded, append.run, written.encoded.previous
    events: list[Recorded] = []
    size = 0
    for event, row, own, position in zip(append.events, encoded.rows, encoded.hashes, written.positions, strict=True):
        origin, size = event.origin, size + len(row.state)
        events.append(
            Recorded(
                origin.id,
                run,
                row.originator_version,
                event.time,
                origin.actor,
                origin.causation,
                origin.correlation,
                origin.trace,
                before,
                own,
                row.topic,
                event.data,
                position,
                origin.repeats,
            )
        )
        before = own
    return Landed(tuple(events), size)
