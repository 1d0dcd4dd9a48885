"""Commits a group of appends on the writer's thread: in one transaction, and one by one where that fails."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice
from typing import cast

import msgspec

from redraft.events.errors import Conflict, StoreError, Unstorable
from redraft.events.store.append import Append, AppendResult, Encoded, NewRow
from redraft.events.store.recorder import DataError, IntegrityError, PersistenceError, Recorder, StoredEvent, explain


class PendingAppend(msgspec.Struct, eq=False):
    """An append that is not yet recorded. The writer sets its outcome."""

    encoded: Encoded
    outcome: AppendResult | None = None


def commit(
    recorder: Recorder, where: str, entries: Sequence[PendingAppend], failed: PersistenceError | None = None
) -> None:
    """Sets the outcome of every entry. `where` names the store in errors.

    Writes all in one transaction; `failed` is the error of that transaction if it was attempted already. If the
    database refuses one of them, tries each alone, so that none fails because of another; if the store fails, looks
    each up, because it may be recorded all the same. The database checks that each append follows the event on which it
    was decided: see `sqlite.schema` and `postgres.schema`.
    """
    fault: PersistenceError | None = None
    try:
        if failed is not None:
            raise failed
        set_outcomes(entries, _insert(recorder, rows_of(entries)))
    except IntegrityError as error:
        fault = error if len(entries) == 1 else None  # a single append cannot have been refused because of another
    except DataError:
        pass
    except PersistenceError as error:
        fault = error
    for entry in entries:
        if entry.outcome is None:
            entry.outcome = _commit_alone(recorder, where, entry.encoded, fault)


def rows_of(entries: Iterable[PendingAppend]) -> list[NewRow]:
    """Returns the rows of these appends."""
    return [row for entry in entries for row in entry.encoded.rows]


def set_outcomes(entries: Iterable[PendingAppend], positions: Iterable[int]) -> None:
    """Sets the outcome of appends that were written in one transaction: the positions of their rows, in order."""
    rest = iter(positions)
    for entry in entries:
        entry.outcome = tuple(islice(rest, len(entry.encoded.rows)))


def _commit_alone(recorder: Recorder, where: str, encoded: Encoded, fault: PersistenceError | None) -> AppendResult:
    """Records one append; after a `fault`, only looks whether it is recorded.

    An append that the database refuses is recorded already, or a conflict; Unstorable if it would never be taken.
    """
    lost = None if isinstance(fault, IntegrityError) else fault
    try:
        if fault is None:
            with suppress(IntegrityError):
                return tuple(_insert(recorder, encoded.rows))
        found = _find_recorded(recorder, encoded)
        if found is None and lost is not None:
            return StoreError(f"store {where}: {explain(lost)}")
        return found or _conflict(encoded.append)
    except DataError as error:
        return Unstorable(encoded.append.run, explain(error))
    except PersistenceError as error:
        return StoreError(f"store {where}: {explain(lost or error)}")
    except StoreError as error:
        return error


def _find_recorded(recorder: Recorder, encoded: Encoded) -> tuple[int, ...] | Conflict | None:
    """Returns the positions of these very events, Conflict if others are in their place, None if there are none."""
    append = encoded.append
    version = append.expected_version
    stored = recorder.select_events(append.run, gt=version, lte=version + len(encoded.rows))
    if not stored:
        return None
    # The state holds the event's id and its hash: equal states are the same events, recorded by us.
    if [(row.topic, row.state) for row in stored] != [(row.topic, row.state) for row in encoded.rows]:
        return _conflict(append)
    return tuple(row.id for row in stored)


def _insert(recorder: Recorder, rows: Sequence[NewRow]) -> Sequence[int]:
    return recorder.insert_events(cast("Sequence[StoredEvent]", rows)) or () if rows else ()


def _conflict(append: Append) -> Conflict:
    return Conflict(append.run, append.expected_version)
