"""Which bytes of a SQLite file hold something, by the file format: https://www.sqlite.org/fileformat2.html

Written for the tests alone, from the documentation, so that it shares nothing with what it is to judge.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

UNCHECKED: Final = frozenset((*range(40, 44), *range(96, 100)))
"""Bytes of the header that may be anything: the counter of schema changes, and which SQLite wrote the file last."""

_INTERIOR_INDEX, _INTERIOR_TABLE, _LEAF_INDEX, _LEAF_TABLE = 2, 5, 10, 13


class Map:
    """`used[n]` is 1 where byte n of the file holds something; `may_be_left(n)` tells where SQLite leaves something."""

    def __init__(self, file: bytes) -> None:
        self._file = file
        self._size = int.from_bytes(file[16:18]) or 65536
        assert file[20] == 0, "the pages have reserved space"
        self.used = bytearray(len(file))
        self._mark(0, 100)
        self._freelist()
        self._appended: set[int] = set()
        self._taken_from: set[int] = set()
        for root, grows in [(1, True), *self._roots()]:
            self._tree(root, self._appended if grows else self._taken_from)

    def may_be_left(self, place: int) -> bool:
        """Whether a byte lies in a page from which cells are taken away: of an index, or of keys; and holds nothing."""
        return not self.used[place] and place // self._size + 1 in self._taken_from

    def _mark(self, start: int, end: int) -> None:
        self.used[start:end] = b"\1" * (end - start)

    def _freelist(self) -> None:
        trunk = int.from_bytes(self._file[32:36])
        while trunk:
            at = (trunk - 1) * self._size
            leaves = int.from_bytes(self._file[at + 4 : at + 8])
            self._mark(at, at + 8 + 4 * leaves)
            trunk = int.from_bytes(self._file[at : at + 4])

    def _roots(self) -> Iterator[tuple[int, bool]]:
        """The root pages of tables and indexes, and which is of the events: SQLite itself is asked for them."""
        import sqlite3
        from contextlib import closing

        with closing(sqlite3.connect(":memory:")) as connection:
            connection.deserialize(self._as_rollback_file())
            found = connection.execute("SELECT rootpage, name FROM sqlite_master WHERE rootpage").fetchall()
            yield from ((root, name == "stored_events") for root, name in found)

    def _as_rollback_file(self) -> bytes:
        """The same file without a write-ahead log, which a database in memory cannot have."""
        return self._file[:18] + b"\1\1" + self._file[20:]

    def _tree(self, page: int, pages: set[int]) -> None:
        pages.add(page)
        start = (page - 1) * self._size
        head = start + (100 if page == 1 else 0)
        kind = self._file[head]
        interior = kind in (_INTERIOR_INDEX, _INTERIOR_TABLE)
        pointers = head + (12 if interior else 8)
        count = int.from_bytes(self._file[head + 3 : head + 5])
        self._mark(head, pointers + 2 * count)
        self._freeblocks(start, int.from_bytes(self._file[head + 1 : head + 3]))
        if interior:
            self._tree(int.from_bytes(self._file[head + 8 : head + 12]), pages)
        for number in range(count):
            place = pointers + 2 * number
            self._cell(kind, start + int.from_bytes(self._file[place : place + 2]), pages)

    def _freeblocks(self, start: int, offset: int) -> None:
        while offset:
            self._mark(start + offset, start + offset + 4)
            offset = int.from_bytes(self._file[start + offset : start + offset + 2])

    def _cell(self, kind: int, at: int, pages: set[int]) -> None:
        begin = at
        if kind in (_INTERIOR_INDEX, _INTERIOR_TABLE):
            self._tree(int.from_bytes(self._file[at : at + 4]), pages)
            at += 4
        if kind == _INTERIOR_TABLE:
            self._mark(begin, self._varint(at)[1])
            return
        payload, at = self._varint(at)
        if kind == _LEAF_TABLE:
            _, at = self._varint(at)
        local = self._local(payload, table=kind == _LEAF_TABLE)
        end = at + local
        if local < payload:
            self._overflow(int.from_bytes(self._file[end : end + 4]), payload - local)
            end += 4
        self._mark(begin, end)

    def _local(self, payload: int, *, table: bool) -> int:
        """How many bytes of a payload lie in its page."""
        usable = self._size
        most = usable - 35 if table else (usable - 12) * 64 // 255 - 23
        least = (usable - 12) * 32 // 255 - 23
        if payload <= most:
            return payload
        fitting = least + (payload - least) % (usable - 4)
        return fitting if fitting <= most else least

    def _overflow(self, page: int, left: int) -> None:
        while page:
            at = (page - 1) * self._size
            here = min(left, self._size - 4)
            self._mark(at, at + 4 + here)
            left -= here
            page = int.from_bytes(self._file[at : at + 4])

    def _varint(self, at: int) -> tuple[int, int]:
        value = 0
        for number in range(9):
            byte = self._file[at + number]
            if number == 8:
                return value << 8 | byte, at + 9
            value = value << 7 | byte & 127
            if byte < 128:
                return value, at + number + 1
        raise AssertionError
