"""What the bytes of a SQLite file are at a position of the log, for a checkpoint; with its seal and without.

A file may be sealed at any time later, when who has it open closes it, though nothing is added to it: so two files are
told apart by what they are without their seals. Whether a seal is right it tells itself; see `sqlite_seal`.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from redraft.events.sqlite_bytes import Bytes, bytes_of
from redraft.events.sqlite_file import connect
from redraft.events.sqlite_seal import span_of
from redraft.events.sqlite_snapshot import file_at_rest

_EVENTS: Final = "stored_events"
_CHUNK: Final = 2**20


class FileDigest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A SQLite file, byte for byte: its size and SHA-256; and its own count of changes, which SQLite keeps in it.

    The count goes up whenever the file grows, a table is made, or it is vacuumed, and not for every row. `but_seal` is
    the SHA-256 of all but its seal; empty if it was written by a version that did not tell them apart.
    """

    size: int
    sha256: str
    changes: int | None = None
    but_seal: str = ""

    def is_of(self, other: FileDigest) -> bool:
        """Whether both are of the same bytes, but for the seal."""
        return self.sha256 == other.sha256 or (bool(self.but_seal) and self.but_seal == other.but_seal)


def digest_of(path: Path | None, position: int) -> FileDigest | None:
    """The digest of a SQLite file in a moment of rest, others may have it open.

    None for what is none or cannot be read, when the log does not end at this position (any more), and when there is no
    moment of rest.
    """
    if path is None or not path.is_file():
        return None
    try:
        with closing(connect(path)) as connection, file_at_rest(connection, path) as at_rest:
            if not at_rest or _head(connection) != position:
                return None
            with bytes_of(path) as file:
                return _digest(file, *span_of(connection, file))
    except (sqlite3.Error, OSError):
        return None


def _head(connection: sqlite3.Connection) -> int:
    (head,) = connection.execute(f"SELECT max(rowid) FROM {_EVENTS}").fetchone()  # noqa: S608
    return head or 0


def _digest(file: Bytes, start: int, end: int) -> FileDigest:
    """The seal lies between `start` and `end`."""
    file.seek(24)
    changes = int.from_bytes(file.read(4))
    file.seek(0)
    size, whole, rest = 0, sha256(), sha256()
    while part := file.read(_CHUNK):
        whole.update(part)
        rest.update(part[: max(start - size, 0)])
        rest.update(part[max(end - size, 0) :])
        size += len(part)
    return FileDigest(size, whole.hexdigest(), changes, rest.hexdigest())
