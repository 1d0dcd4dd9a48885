"""What the writer's thread does: one transaction for a whole group of appends, and one by one where that fails."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import cast

from redraft.events.appends import Append, Encoded, Entry, NewRow, Outcome, Written, encode
from redraft.events.codec import GENESIS, decode_event
from redraft.events.errors import CodecError, Conflict, StoreError
from redraft.events.keyring import Keyring
from redraft.events.recorders import (
    ApplicationRecorder,
    DataError,
    IntegrityError,
    Notification,
    PersistenceError,
    StoredEvent,
    explain,
)


def commit(
    recorder: ApplicationRecorder,
    where: str,
    entries: Sequence[Entry],
    keyring: Keyring | None = None,
    failed: PersistenceError | None = None,
) -> None:
    """Gives every entry its outcome. `where` names the store in errors, `keyring` seals what is to be sealed.

    All that are encoded go into one transaction; `failed` is why that failed if somebody has tried it already. If one
    of them cannot be recorded, each is tried by itself, so that none fails for its neighbour's sake; if the store
    fails, each is looked up, for it may be recorded all the same.
    """
    ready = [entry for entry in entries if can_go_together(entry)]
    fault: PersistenceError | None = None
    try:
        if failed is not None:
            raise failed
        went_together(ready, _insert(recorder, rows_of(ready)))
    except (IntegrityError, DataError):
        pass
    except PersistenceError as error:
        fault = error
    for entry in entries:
        if entry.outcome is None:
            entry.outcome = _by_itself(recorder, where, entry, fault, keyring)
        entry.after = None


def can_go_together(entry: Entry) -> bool:
    """Whether an append can be written in one transaction with others."""
    return entry.encoded is not None and not (entry.after and entry.after.failed)


def rows_of(entries: Iterable[Entry]) -> list[NewRow]:
    """The rows of appends that are encoded."""
    return [row for entry in entries if entry.encoded for row in entry.encoded.rows]


def went_together(entries: Iterable[Entry], positions: Iterable[int]) -> None:
    """Gives appends that were written in one transaction their outcome: the positions of their rows, in order."""
    rest = iter(positions)
    for entry in entries:
        if entry.encoded:
            entry.outcome = Written(entry.encoded, tuple(islice(rest, len(entry.encoded.rows))))


def _by_itself(
    recorder: ApplicationRecorder, where: str, entry: Entry, fault: PersistenceError | None, keyring: Keyring | None
) -> Outcome:
    if entry.after is not None and entry.after.failed:
        before = entry.after.outcome
        return before if type(before) is StoreError else _conflict(entry.append)
    try:
        if fault is None:
            return _recorded(recorder, entry.append, keyring)
        return _looked_up(recorder, entry.append, fault, keyring)
    except PersistenceError as error:
        return StoreError(f"store {where}: {explain(fault or error)}")
    except (CodecError, StoreError) as error:
        return error


def _recorded(recorder: ApplicationRecorder, append: Append, keyring: Keyring | None) -> Written | Conflict:
    """Records one append, unless it is there already."""
    found = _find(recorder, append, keyring)
    if not isinstance(found, Encoded):
        return found
    try:
        return Written(found, tuple(_insert(recorder, found.rows)))
    except IntegrityError:
        again = _find(recorder, append, keyring)
        return _conflict(append) if isinstance(again, Encoded) else again


def _looked_up(
    recorder: ApplicationRecorder, append: Append, fault: PersistenceError, keyring: Keyring | None
) -> Written | Conflict:
    """What became of an append whose answer was lost; raises the fault when it is not recorded."""
    found = _find(recorder, append, keyring)
    if isinstance(found, Encoded):
        raise fault
    return found


def _find(
    recorder: ApplicationRecorder, append: Append, keyring: Keyring | None = None
) -> Encoded | Written | Conflict:
    """What to write if the run ends at the expected version; Written if these very events follow it; else Conflict."""
    expected = append.expected_version
    stored = list(recorder.select_events(append.run, gt=expected - 1, lte=append.end))
    previous = GENESIS
    if expected:
        if not stored or stored[0].originator_version != expected:
            return _conflict(append)
        previous = _hash(stored.pop(0))
    begins = not expected and not stored
    encoded = encode(append, previous, keyring.sealer(append.run, begins=begins) if keyring else None)
    if not stored:
        return encoded
    # The state holds the event's id and its hash: equal states are the same events, recorded by us.
    if [(row.topic, row.state) for row in stored] != [(row.topic, row.state) for row in encoded.rows]:
        return _conflict(append)
    return Written(encoded, tuple(row.id if isinstance(row, Notification) else 0 for row in stored))


def _insert(recorder: ApplicationRecorder, rows: Sequence[NewRow]) -> Sequence[int]:
    if not rows:
        return ()
    positions = recorder.insert_events(cast("Sequence[StoredEvent]", rows))
    if positions is None:
        raise PersistenceError(f"{type(recorder).__name__} gives no positions")
    return positions


def _hash(row: StoredEvent) -> str:
    return decode_event(str(row.originator_id), row.originator_version, row.topic, row.state).hash


def _conflict(append: Append) -> Conflict:
    return Conflict(append.run, append.expected_version)
