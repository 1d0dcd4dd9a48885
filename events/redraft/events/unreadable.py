"""Rows of the log that are no events here: written by a later release, damaged, or put there by a stranger.

SQLite keeps anything in any column, so nothing is taken for granted of a row but its position.
"""

from __future__ import annotations

from typing import Final

from redraft.events.codec import hash_of
from redraft.events.envelope import Unreadable
from redraft.events.errors import CodecError, Tampered, UnknownName, UnknownRules
from redraft.events.recorders import StoredEvent

LONGEST: Final = 200
"""The characters that are told of a name that no event has."""


def place_of(row: StoredEvent) -> tuple[str, int, int]:
    """The run, version and position of a row. Raises CodecError when its version is no number."""
    run, version = _text(row.originator_id), _number(row.originator_version)
    if version is None:
        raise CodecError(f"a row of run {run} cannot be read: its version is no number")
    return run, version, getattr(row, "id", 0)


def unreadable(row: StoredEvent, error: CodecError | Tampered) -> Unreadable:
    """Returns what is known of a row that could not be read, for this error."""
    return Unreadable(
        _text(row.originator_id),
        _number(row.originator_version) or 0,
        getattr(row, "id", 0),
        _text(row.topic)[:LONGEST],
        str(error.__cause__ or error),
        hash_of(_bytes(row.state)),
        isinstance(error, UnknownName | UnknownRules),
    )


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode(errors="replace")


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
