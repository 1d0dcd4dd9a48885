"""Whether a SQLite file is what it should be around the events: its header, its pages, its tables and triggers.

Bytes that hold nothing are looked at too: free space in pages and free pages, the end of a chain of overflow pages; see
`sqlite_unused`, which also says where they may be anything. Of two numbers in the header any that is
possible is taken: which SQLite library wrote the file last, and how often the schema was changed. What these leave open
the seal shows, if the file was not written to since it was sealed; see `sqlite_seal`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Final, TypeAlias

from redraft.events.inspection import Inspection
from redraft.events.run_keys import CREATE as CREATE_KEYS
from redraft.events.run_keys import CREATE_IMPORTED, IMPORTED
from redraft.events.run_keys import TABLE as KEYS
from redraft.events.sqlite_bytes import Bytes, bytes_of
from redraft.events.sqlite_file import APPLICATION_ID, SCHEMA_VERSION, connect, explain, triggers_of
from redraft.events.sqlite_rules import CREATE_IDS, IDS, ids_fault, rules_of
from redraft.events.sqlite_seal import CREATE as CREATE_SEAL
from redraft.events.sqlite_seal import TABLE as SEAL
from redraft.events.sqlite_seal import faults_of
from redraft.events.sqlite_snapshot import file_at_rest
from redraft.events.sqlite_unused import Tree, Walk

MOST: Final = 100
"""Faults of the pages that are named, and changed bytes that hold nothing."""

STRAY: Final = (
    "holds nothing, yet is not zero: something else than Redraft wrote it; "
    "if nothing else is wrong, redraft export, and redraft import into a new store, make a clean copy"
)
WRITTEN_TO: Final = (
    "the bytes that hold nothing were not looked at, because the store is written to all the time; "
    "verify it again when less goes on, or a copy of it"
)

_Made: TypeAlias = tuple[str, str, str | None]
"""What the schema says of something: of which type it is, of which table, and by which statement it was made."""

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


class FileCheck:
    """A look at a file that holds the table of events, whenever it is wanted; see `Inspection`."""

    def __init__(self, path: Path, table: str, statements: Sequence[str]) -> None:
        """`statements` are those that made the table."""
        self._path = path
        self._table = table
        self._expected: dict[str, _Made] = {
            **_table(table, statements[0]),
            **_triggers(triggers_of(table)),
        }
        self._rules: dict[str, _Made] = {IDS: ("table", IDS, CREATE_IDS), **_triggers(rules_of(table))}

    def __call__(self) -> Inspection:
        faults: list[str] = []
        remarks: list[str] = []
        otherwise: list[str] = []
        try:
            self._look(faults, remarks, otherwise)
        except sqlite3.Error as error:
            faults.append(explain(error))
        except OSError as error:
            faults.append(f"it cannot be read: {error.strerror}")
        return Inspection(*([f"file {self._path}: {told}" for told in each] for each in (faults, remarks, otherwise)))

    def _look(self, faults: list[str], remarks: list[str], otherwise: list[str]) -> None:
        with bytes_of(self._path) as file:
            faults.extend(_header(file))
        with closing(connect(self._path)) as connection:
            told = [each for (each,) in connection.execute(f"PRAGMA integrity_check({MOST})")]
            faults.extend(each for each in told if each != "ok")
            faults.extend(_schema(connection, self._expected, self._rules))
            if told == ["ok"] and (fault := ids_fault(connection, self._table)):
                otherwise.append(fault)
            if told != ["ok"]:
                return  # where nothing is held is not known
            with file_at_rest(connection, self._path) as at_rest:
                if not at_rest:
                    remarks.append(WRITTEN_TO)
                    return
                with bytes_of(self._path) as file:
                    faults.extend(_unused(connection, file, self._table))
                    otherwise.extend(faults_of(connection, file, self._table, KEYS))


def _unused(connection: sqlite3.Connection, file: Bytes, table: str) -> Iterator[str]:
    """Bytes that hold nothing and were changed."""
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    found = connection.execute("SELECT rootpage, tbl_name FROM sqlite_master WHERE rootpage > 0").fetchall()
    trees = [Tree(1, only_added=True), *(Tree(root, only_added=name in (table, SEAL, IDS)) for root, name in found)]
    for stray in islice(Walk(file, pages).strays(trees), MOST):
        yield f"byte {stray.at} (page {stray.page}) {STRAY}"


def _header(file: Bytes) -> Iterator[str]:
    file.seek(0)
    head = file.read(100)
    for at, right, what in _FIXED:
        if head[at : at + len(right)] != right:
            yield f"bytes {at} to {at + len(right) - 1} are not what they should be ({what})"
    if head[24:28] != head[92:96]:
        yield "its two counts of changes differ (bytes 24 to 27 and 92 to 95)"
    if not 0 < int.from_bytes(head[40:44]) < 2**16:
        yield "bytes 40 to 43 are not what they should be (the count of changes to the tables)"
    version = int.from_bytes(head[96:100])
    if not (version // 1_000_000 == 3 and version % 1_000 < 100):  # 3.40.1 is 3,040,001
        yield "bytes 96 to 99 are not what they should be (the version of SQLite that wrote it last)"


def _table(name: str, statement: str) -> dict[str, _Made]:
    """A table with a primary key that is an index of its own."""
    return {
        name: ("table", name, statement.replace(_IF_NOT_EXISTS, "")),
        f"sqlite_autoindex_{name}_1": ("index", name, None),
    }


def _triggers(statements: Mapping[str, str]) -> dict[str, _Made]:
    """Returns the rows of the schema for these triggers; their table follows the word ON in their statements."""
    return {name: ("trigger", sql.partition(" ON ")[2].split()[0], sql) for name, sql in statements.items()}


def _schema(connection: sqlite3.Connection, expected: Mapping[str, _Made], rules: Mapping[str, _Made]) -> Iterator[str]:
    """Tables, indexes and triggers that were changed, taken away or put in.

    `rules` are there as a whole, or not at all: in a file that only an earlier release has written to.
    """
    rows = connection.execute("SELECT name, tbl_name, type, sql FROM sqlite_master").fetchall()
    found = {name: (kind, table, sql) for name, table, kind, sql in rows}
    if rules.keys() & found.keys():
        expected = {**expected, **rules}
    if KEYS in found:
        expected = {**expected, **_table(KEYS, CREATE_KEYS)}
    if IMPORTED in found:
        expected = {**expected, **_table(IMPORTED, CREATE_IMPORTED)}
    if SEAL in found:  # its key is the number of the row
        expected = {**expected, SEAL: ("table", SEAL, CREATE_SEAL.replace(_IF_NOT_EXISTS, ""))}
    for name in dict.fromkeys((*expected, *found)):
        if name not in found:
            yield f"{name} is missing"
        elif name not in expected:
            yield f"{name} is none of ours"
        elif found[name] != expected[name]:
            yield f"{name} was changed"
