"""Whether a SQLite file is what it should be around the events: its header, its pages, its tables and triggers.

What no check can tell are bytes that hold nothing: free space in pages and free pages, the end of a chain of overflow
pages, the number of the SQLite library that wrote the file last, and the counter of changes to the schema.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from redraft.events.run_keys import CREATE as CREATE_KEYS
from redraft.events.run_keys import TABLE as KEYS
from redraft.events.sqlite_file import APPLICATION_ID, SCHEMA_VERSION, connect, explain, triggers_of

MOST: Final = 100
"""Faults of the pages that are named."""

_IF_NOT_EXISTS: Final = "IF NOT EXISTS "
_FIXED: Final = (
    (0, b"SQLite format 3\0", "the name of the format"),
    (18, b"\2\2\0\x40\x20\x20", "the format of the pages"),
    (44, bytes((0, 0, 0, 4)), "the format of the schema"),
    (48, bytes(8), "the settings of the cache"),
    (56, bytes((0, 0, 0, 1)), "the encoding"),
    (60, SCHEMA_VERSION.to_bytes(4), "the version of the tables"),
    (64, bytes(4), "the settings of vacuuming"),
    (68, APPLICATION_ID.to_bytes(4), "the program that it belongs to"),
    (72, bytes(20), "what is reserved"),
)
"""Bytes of the header that are the same in every file of ours: https://www.sqlite.org/fileformat2.html#the_database_header"""


def checker(path: Path, table: str, statements: Sequence[str]) -> Callable[[], Sequence[str]]:
    """What looks at the file, whose table of events was made by these statements, and tells what is wrong with it."""
    expected = {table: statements[0].replace(_IF_NOT_EXISTS, ""), f"sqlite_autoindex_{table}_1": None}
    expected |= triggers_of(table)
    return lambda: list(_faults(path, expected))


def _faults(path: Path, expected: Mapping[str, str | None]) -> Iterator[str]:
    try:
        yield from _header(path)
        with closing(connect(path)) as connection:
            for (told,) in connection.execute(f"PRAGMA integrity_check({MOST})"):
                if told != "ok":
                    yield f"file {path}: {told}"
            yield from _schema(connection, path, expected)
    except sqlite3.Error as error:
        yield f"file {path}: {explain(error)}"


def _header(path: Path) -> Iterator[str]:
    with path.open("rb") as file:
        head = file.read(100)
    for at, right, what in _FIXED:
        if head[at : at + len(right)] != right:
            yield f"file {path}: bytes {at} to {at + len(right) - 1} are not what they should be ({what})"
    if head[24:28] != head[92:96]:
        yield f"file {path}: its two counts of changes differ (bytes 24 to 27 and 92 to 95)"


def _schema(connection: sqlite3.Connection, path: Path, expected: Mapping[str, str | None]) -> Iterator[str]:
    """Tables, indexes and triggers that were changed, taken away or put in."""
    rows = connection.execute("SELECT name, tbl_name, type, sql FROM sqlite_master").fetchall()
    found = {name: sql for name, _, _, sql in rows}
    if KEYS in found:
        expected = {**expected, KEYS: CREATE_KEYS.replace(_IF_NOT_EXISTS, ""), f"sqlite_autoindex_{KEYS}_1": None}
    for name in dict.fromkeys((*expected, *found)):
        if name not in found:
            yield f"file {path}: {name} is missing"
        elif name not in expected:
            yield f"file {path}: {name} is none of ours"
        elif found[name] != expected[name]:
            yield f"file {path}: {name} was changed"
