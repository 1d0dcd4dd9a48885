"""Events on their way into the log: what is to be recorded, as rows, and what became of it."""

from __future__ import annotations

from datetime import datetime
from typing import Final, TypeAlias

import msgspec

from redraft.events.codec import GENESIS, Seal, Stored, encode_event
from redraft.events.domain_events import DomainEvent
from redraft.events.envelope import Origin, Recorded
from redraft.events.errors import CodecError, Conflict, StoreError

SEALED: Final = b'"sealed":"'
"""What the bytes of an event with encrypted texts hold, and those of none without: in a text a quote is escaped."""


class NewEvent(msgspec.Struct, frozen=True, gc=False):
    """An event that is to be recorded: where it comes from, when it happened (UTC), and what happened."""

    origin: Origin
    time: datetime
    data: DomainEvent


class Append(msgspec.Struct, frozen=True, gc=False):
    """Events (at least one) to follow the event of a run that they were decided on.

    That event is named by its version and by its hash, `previous`: a version says how many events there are, not which.
    For the first events of a new run these are 0 and `GENESIS`.
    """

    run: str
    expected_version: int
    events: tuple[NewEvent, ...]
    previous: str = GENESIS


class NewRow(msgspec.Struct, frozen=True, gc=False):
    """A row as recorders take it: the library's `StoredEvent` field by field, at a fifth of what one costs to make."""

    originator_id: str
    originator_version: int
    topic: str
    state: bytes


class Encoded(msgspec.Struct, frozen=True, gc=False):
    """An append with the rows and the hash of each of its events: all that is to be written is fixed.

    `size` is that of the rows, in bytes. `sealed`: its run is encrypted.
    """

    append: Append
    rows: tuple[NewRow, ...]
    hashes: tuple[str, ...]
    size: int
    sealed: bool = False

    @property
    def hash(self) -> str:
        """The hash of the last event: the `previous` of whatever is decided on it."""
        return self.hashes[-1]


class Landed(msgspec.Struct, frozen=True, gc=False):
    """The events (at least one) of a recorded append, as they are read from the log, and their size in bytes."""

    events: tuple[Recorded, ...]
    size: int


Outcome: TypeAlias = tuple[int, ...] | Conflict | StoreError
"""What became of an append: the positions of its events in the log, or why it is not recorded."""


def encode(append: Append, seal: Seal | None = None) -> Encoded:
    """The rows of an append, sealed if need be; raises CodecError for an event that could not be read again."""
    rows: list[NewRow] = []
    hashes: list[str] = []
    last, size = append.previous, 0
    for version, event in enumerate(append.events, append.expected_version + 1):
        stored = _encode_one(append.run, version, last, event, seal)
        last = stored.hash
        size += len(stored.state)
        rows.append(NewRow(append.run, version, stored.name, stored.state))
        hashes.append(last)
    return Encoded(append, tuple(rows), tuple(hashes), size, seal is not None)


def _encode_one(run: str, version: int, previous: str, event: NewEvent, seal: Seal | None) -> Stored:
    try:
        return encode_event(run, version, previous, event.time, event.origin, event.data, seal)
    except (UnicodeEncodeError, OverflowError, TypeError, msgspec.MsgspecError, CodecError) as error:
        raise CodecError(
            f"event {version} of run {run} ({type(event.data).__name__}) cannot be written: {error}"
        ) from error


def landed(encoded: Encoded, positions: tuple[int, ...]) -> Landed:
    """The events of an append as they are read from the log."""
    append, before = encoded.append, encoded.append.previous
    events: list[Recorded] = []
    for event, row, own, position in zip(append.events, encoded.rows, encoded.hashes, positions, strict=True):
        origin = event.origin
        events.append(
            Recorded(
                origin.id,
                append.run,
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
                encoded.sealed and SEALED in row.state,
            )
        )
        before = own
    return Landed(tuple(events), encoded.size)
