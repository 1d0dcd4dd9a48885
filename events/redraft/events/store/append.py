"""Appends: the events to record as rows, and the results of recording them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, TypeAlias

import msgspec

from redraft.events.errors import CodecError, Conflict, StoreError, Unstorable
from redraft.events.messages.codec import GENESIS, TextCipher, encode_event
from redraft.events.messages.domain_events import DomainEvent
from redraft.events.messages.envelope import Origin, Recorded
from redraft.events.messages.memory import memory_of

SEALED: Final = b'"sealed":"'
"""Part of the bytes of every event with encrypted texts, and of no other event: within a text a quote is escaped."""


class NewEvent(msgspec.Struct, frozen=True, gc=False):
    """An event to record: its origin, its time (UTC), and its data."""

    origin: Origin
    time: datetime
    data: DomainEvent


class Append(msgspec.Struct, frozen=True, gc=False):
    """Events (at least one) that follow the event of a run on which they were decided.

    That event is identified by its version and its hash, `previous`: a version says how many events there are, not
    which. For the first events of a new run these are 0 and `GENESIS`.
    """

    run: str
    expected_version: int
    events: tuple[NewEvent, ...]
    previous: str = GENESIS


class NewRow(msgspec.Struct, frozen=True, gc=False):
    """A row for a recorder: the fields of the library's `StoredEvent`, which is five times as slow to create."""

    originator_id: str
    originator_version: int
    topic: str
    state: bytes


class Encoded(msgspec.Struct, frozen=True, gc=False):
    """An append with the row and the hash of each of its events: the bytes to write are final.

    `size` is the size of the rows, in bytes. `sealed`: its run is encrypted.
    """

    append: Append
    rows: tuple[NewRow, ...]
    hashes: tuple[str, ...]
    size: int
    sealed: bool = False

    @property
    def hash(self) -> str:
        """The hash of the last event: the `previous` of the next append."""
        return self.hashes[-1]


class CommittedAppend(msgspec.Struct, frozen=True, gc=False):
    """The events (at least one) of a recorded append, as they are read from the log, and their memory in bytes."""

    events: tuple[Recorded, ...]
    size: int


NotTaken: TypeAlias = Conflict | Unstorable
"""Why a database does not take an append: others were faster, or it never takes these events."""

AppendResult: TypeAlias = tuple[int, ...] | Conflict | StoreError
"""The result of an append: the positions of its events in the log, or the reason why it is not recorded."""


def encode(append: Append, seal: TextCipher | None = None, stored_as: Sequence[DomainEvent] | None = None) -> Encoded:
    """Encodes an append, encrypted with a `seal`; raises CodecError for an event that could not be read again.

    `stored_as` are its events as they are stored, if not as they are.
    """
    rows: list[NewRow] = []
    hashes: list[str] = []
    last, size = append.previous, 0
    for number, event in enumerate(append.events):
        version = append.expected_version + 1 + number
        data = event.data if stored_as is None else stored_as[number]
        try:
            stored = encode_event(append.run, version, last, event.time, event.origin, data, seal)
        except (UnicodeEncodeError, OverflowError, TypeError, msgspec.MsgspecError, CodecError) as error:
            what = f"event {version} of run {append.run} ({type(event.data).__name__})"
            raise CodecError(f"{what} cannot be written: {error}") from error
        last = stored.hash
        size += len(stored.state)
        rows.append(NewRow(append.run, version, stored.name, stored.state))
        hashes.append(last)
    return Encoded(append, tuple(rows), tuple(hashes), size, seal is not None)


def to_committed(encoded: Encoded, positions: tuple[int, ...]) -> CommittedAppend:
    """Returns the events of an append as they are read from the log."""
    append, before, memory = encoded.append, encoded.append.previous, 0
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
        memory += max(memory_of(event.data), len(row.state))
    return CommittedAppend(tuple(events), memory)
