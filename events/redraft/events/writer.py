"""What the writer's thread does: one transaction for a whole group of appends, and one by one where that fails."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice
from typing import cast

import msgspec

from redraft.events.appends import Append, Encoded, NewRow, Outcome
from redraft.events.errors import Conflict, StoreError
from redraft.events.recorders import (
    ApplicationRecorder,
    DataError,
    IntegrityError,
    Notification,
    PersistenceError,
    StoredEvent,
    explain,
)


class Entry(msgspec.Struct, eq=False):
    """An append on its way. The writer fills in what became of it."""

    encoded: Encoded
    outcome: Outcome | None = None


def commit(
    recorder: ApplicationRecorder, where: str, entries: Sequence[Entry], failed: PersistenceError | None = None
) -> None:
    """Gives every entry its outcome. `where` names the store in errors.

    All go into one transaction; `failed` is why that failed if somebody has tried it already. If the database refuses
    one of them, each is tried by itself, so that none fails for its neighbour's sake; if the store fails, each is
    looked up, for it may be recorded all the same. Whether an append follows what it was decided on, the database
    says: see `sqlite_rules` and `postgres_schema`.
    """
    fault: PersistenceError | None = None
    try:
        if failed is not None:
            raise failed
        went_together(entries, _insert(recorder, rows_of(entries)))
    except IntegrityError as error:
        fault = error if len(entries) == 1 else None  # there is no neighbour that it could have been refused for
    except DataError:
        pass
    except PersistenceError as error:
        fault = error
    for entry in entries:
        if entry.outcome is None:
            entry.outcome = _by_itself(recorder, where, entry.encoded, fault)


def rows_of(entries: Iterable[Entry]) -> list[NewRow]:
    """The rows of these appends."""
    return [row for entry in entries for row in entry.encoded.rows]


def went_together(entries: Iterable[Entry], positions: Iterable[int]) -> None:
    """Gives appends that were written in one transaction their outcome: the positions of their rows, in order."""
    rest = iter(positions)
    for entry in entries:
        entry.outcome = tuple(islice(rest, len(entry.encoded.rows)))


def _by_itself(recorder: ApplicationRecorder, where: str, encoded: Encoded, fault: PersistenceError | None) -> Outcome:
    """Records one append; after a `fault`, only looks whether it is recorded.

    One that the database refuses is recorded already, or a conflict.
    """
    lost = None if isinstance(fault, IntegrityError) else fault
    try:
        if fault is None:
            with suppress(IntegrityError):
                return tuple(_insert(recorder, encoded.rows))
        found = _found(recorder, encoded)
        if found is None and lost is not None:
            return StoreError(f"store {where}: {explain(lost)}")
        return found or _conflict(encoded.append)
    except PersistenceError as error:
        return StoreError(f"store {where}: {explain(lost or error)}")
    except StoreError as error:
        return error


def _found(recorder: ApplicationRecorder, encoded: Encoded) -> tuple[int, ...] | Conflict | None:
    """Returns the positions of these very events, Conflict if others are in their place, None if there are none."""
    append = encoded.append
    version = append.expected_version
    stored = recorder.select_events(append.run, gt=version, lte=version + len(encoded.rows))
    if not stored:
        return None
    # The state holds the event's id and its hash: equal states are the same events, recorded by us.
    if [(row.topic, row.state) for row in stored] != [(row.topic, row.state) for row in encoded.rows]:
        return _conflict(append)
    return tuple(row.id if isinstance(row, Notification) else 0 for row in stored)


def _insert(recorder: ApplicationRecorder, rows: Sequence[NewRow]) -> Sequence[int]:
    if not rows:
        return ()
    positions = recorder.insert_events(cast("Sequence[StoredEvent]", rows))
    if positions is None:
        raise PersistenceError(f"{type(recorder).__name__} gives no positions")
    return positions


def _conflict(append: Append) -> Conflict:
    return Conflict(append.run, append.expected_version)
