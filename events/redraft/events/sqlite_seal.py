"""The seal of a SQLite file: what all of its bytes were when a store that had written to it was closed.

SQLite leaves remains of its own where a file holds nothing (see `sqlite_unused`), and a wrapped key looks like any
other bytes: only a record of what they were can tell that one of these was changed. The seal is that record, in a table
of one row: the SHA-256 of the whole file but for the row itself, with the end of the log, the number of keys, SQLite's
own count of changes to the file, and a SHA-256 of all that.

As long as these three are as they were sealed, the file was not written to since, and another byte is a fault: an event
moves the end of the log; a key is one more, or breaks the seal when it is destroyed (`break_seal`); a vacuum, a new
table, a file that grows is counted by SQLite. Otherwise the seal tells nothing: after a writer that was killed, while
one goes on. The row is of a fixed size and written over in its place, so that writing it changes no other byte.

It tells of damage and of careless hands. Whoever means to deceive can compute it anew: signed checkpoints are for that.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing, suppress
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Final, Self

import msgspec

from redraft.events.sqlite_bytes import Bytes
from redraft.events.sqlite_file import MOST_BYTES, connect

TABLE: Final = "redraft_seal"
CREATE: Final = (
    f"CREATE TABLE IF NOT EXISTS {TABLE} (id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1), seal BLOB NOT NULL)"
)

WAIT_SECONDS: Final = 0.2
"""How long a store that is closed waits for others to let it seal the file."""

_REMEDY: Final = (
    "restore it from a copy; or, if nothing else is wrong and encrypted runs can be read, redraft export, and redraft "
    "import into a new store, make a clean copy"
)
FAULT: Final = (
    f"its bytes are not those that it had when it was last closed: something else than Redraft changed them; {_REMEDY}"
)
BROKEN: Final = (
    f"its seal, the row of table {TABLE}, is not what it should be: something else than Redraft changed it; {_REMEDY}"
)

_FIELDS: Final = struct.Struct(">Iqq32s")
_LENGTH: Final = _FIELDS.size + 32
_CHUNK: Final = 2**20


class Seal(msgspec.Struct, frozen=True):
    """What was sealed: `changes` as SQLite counts them, the position `head`, so many keys, the digest of the file."""

    changes: int = 0
    head: int = 0
    keys: int = 0
    digest: bytes = bytes(32)

    def packed(self) -> bytes:
        fields = _FIELDS.pack(self.changes, self.head, self.keys, self.digest)
        return fields + sha256(fields).digest()

    @classmethod
    def unpacked(cls, row: bytes) -> Self | None:
        """None for what is no seal, or was changed."""
        fields, check = row[: _FIELDS.size], row[_FIELDS.size :]
        return cls(*_FIELDS.unpack(fields)) if sha256(fields).digest() == check else None

    def is_of(self, other: Seal) -> bool:
        """Whether nothing was written to the file from one to the other."""
        return (self.changes, self.head, self.keys) == (other.changes, other.head, other.keys)


UNSEALED: Final = Seal()
LAY_OUT: Final = (CREATE, f"INSERT OR IGNORE INTO {TABLE} VALUES (1, x'{UNSEALED.packed().hex()}')")  # noqa: S608
"""What makes the table and its row, as it is until the file is sealed."""


def seal_file(path: Path, events: str, keys: str) -> None:
    """Seals a file with tables of these names for what is in it now, unless others write to it, or it is too large.

    `MOST_BYTES` is the limit. Nothing is raised: a file without a seal is as good as one of before there were any.
    """
    with suppress(sqlite3.Error, OSError, MemoryError), closing(connect(path, WAIT_SECONDS)) as connection:
        if _size(connection) <= MOST_BYTES and hasattr(connection, "serialize"):  # it may be compiled without
            _make(connection)
            _write(connection, events, keys)


def break_seal(connection: sqlite3.Connection) -> None:
    """Takes the seal away, if there is one. Raises sqlite3.Error."""
    if _is_there(connection, TABLE):
        connection.execute(f"UPDATE {TABLE} SET seal = ?", (UNSEALED.packed(),))  # noqa: S608


def span_of(connection: sqlite3.Connection, file: Bytes) -> tuple[int, int]:
    """From where to where the row of the seal lies in a file at rest, (0, 0) without one. Raises sqlite3.Error."""
    if not _is_there(connection, TABLE):
        return 0, 0
    place = _place(connection, file, _row(connection))
    return (0, 0) if place is None else (place, place + _LENGTH)


def faults_of(connection: sqlite3.Connection, file: Bytes, events: str, keys: str) -> Iterator[str]:
    """What the seal shows of a file that is at rest, and is what the connection reads. Raises sqlite3.Error."""
    if not _is_there(connection, TABLE):
        return  # a file of before there were seals, until it is closed by who wrote to it
    row = _row(connection)
    place, sealed = _place(connection, file, row), Seal.unpacked(row)
    if place is None or sealed is None:
        yield BROKEN
        return
    now = _state(connection, file, events, keys)
    if sealed != UNSEALED and sealed.is_of(now) and _digest(file, _size(connection), place) != sealed.digest:
        yield FAULT


def _make(connection: sqlite3.Connection) -> None:
    if _is_there(connection, TABLE):
        return
    connection.execute("BEGIN IMMEDIATE")
    for statement in LAY_OUT:
        connection.execute(statement)
    connection.execute("COMMIT")


def _write(connection: sqlite3.Connection, events: str, keys: str) -> None:
    """What is read is not locked. If somebody else commits before it is sealed, SQLite refuses to write it.

    The file is read through SQLite: closing a file of our own would give up the locks that SQLite holds on it in this
    process. A seal that was changed is left as it is, for an audit to tell of it.
    """
    connection.execute("BEGIN")
    row = _row(connection)
    sealed = Seal.unpacked(row)
    file = BytesIO(connection.serialize())
    place = _place(connection, file, row)
    now = _state(connection, file, events, keys)
    if place is not None and sealed is not None and (sealed == UNSEALED or not sealed.is_of(now)):
        digest = _digest(file, _size(connection), place)
        written = msgspec.structs.replace(now, digest=digest).packed()
        connection.execute(f"UPDATE {TABLE} SET seal = ?", (written,))  # noqa: S608
    connection.execute("COMMIT")


def _is_there(connection: sqlite3.Connection, table: str) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone() is not None


def _row(connection: sqlite3.Connection) -> bytes:
    """The row of the seal; b"" when it is not what it should be."""
    rows = connection.execute(f"SELECT id, seal FROM {TABLE}").fetchall()  # noqa: S608
    match rows:
        case [(1, bytes(row))] if len(row) == _LENGTH:
            return row
        case _:
            return b""


def _place(connection: sqlite3.Connection, file: Bytes, row: bytes) -> int | None:
    """Where in the file the row of the seal begins."""
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (TABLE,)).fetchone()
    start = (int(root) - 1) * int(size)
    file.seek(start)
    at = file.read(size).find(row) if row else -1
    return None if at < 0 else start + at


def _state(connection: sqlite3.Connection, file: Bytes, events: str, keys: str) -> Seal:
    """What would be sealed now, without the digest."""
    file.seek(24)
    changes = int.from_bytes(file.read(4))
    (head,) = connection.execute(f"SELECT max(rowid) FROM {events}").fetchone()  # noqa: S608
    count = 0
    if _is_there(connection, keys):
        (count,) = connection.execute(f"SELECT count(*) FROM {keys}").fetchone()  # noqa: S608
    return Seal(changes, head or 0, count)


def _size(connection: sqlite3.Connection) -> int:
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    return int(pages) * int(size)


def _digest(file: Bytes, size: int, place: int) -> bytes:
    """The SHA-256 of a file of this size but for the seal, which is at this place."""
    held = sha256()
    for start, end in ((0, place), (place + _LENGTH, size)):
        file.seek(start)
        while start < end and (part := file.read(min(end - start, _CHUNK))):
            held.update(part)
            start += len(part)
    return held.digest()
