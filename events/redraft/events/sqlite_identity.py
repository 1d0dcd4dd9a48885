"""Whose a SQLite file is, told without harm to who has it open.

A process that closes a file loses all the locks that it has on it (POSIX, fcntl). Were a file that is open already read
and closed by hand, SQLite's own lock would be gone: another process could then take its write-ahead log away, and what
is committed after that would be lost. So SQLite is asked, which knows of the connections of its process. It is told
that the file does not change (`immutable`, https://www.sqlite.org/uri.html): it neither locks nor writes anything.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

_MAGIC: Final = b"SQLite format 3\0"
_SMALLEST: Final = 512
"""Bytes of the smallest page: SQLite takes a shorter file for an empty database."""


class Identity(NamedTuple):
    """SQLite's `application_id` and `user_version`: https://www.sqlite.org/fileformat2.html#the_database_header"""

    application: int
    version: int


def identity_of(path: Path) -> Identity | None:
    """The identity of the database at `path`, which is a file; None when it is no database. Raises OSError."""
    if path.stat().st_size < _SMALLEST:
        return None
    try:
        return _asked(path)
    except sqlite3.Error:
        return _read(path)  # nobody has a file open that SQLite cannot open


def address_of(path: Path) -> str:
    """The URI of a file, without options: what follows two slashes would be a host to SQLite."""
    plain = str(path)
    if plain.startswith("//"):
        plain = "/" + plain.lstrip("/")
    return f"file:{quote(plain)}"


def _asked(path: Path) -> Identity:
    with closing(sqlite3.connect(f"{address_of(path)}?mode=ro&immutable=1", uri=True)) as connection:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        return Identity(application, version)


def _read(path: Path) -> Identity | None:
    with path.open("rb") as file:
        head = file.read(100)
    if len(head) < 100 or not head.startswith(_MAGIC):
        return None
    return Identity(int.from_bytes(head[68:72]), int.from_bytes(head[60:64]))
