"""The bytes of a SQLite file that hold nothing, and are not what SQLite leaves in such places.

The file is walked page by page: the trees of tables and indexes, the chains of overflow pages, the free pages, the page
that holds the locks. Memory is a byte a page. What makes no sense is passed over: `PRAGMA integrity_check` tells of it.

Redraft's connections write with `PRAGMA secure_delete=ON`: what is deleted, or moved to another page, is overwritten
with zeros, and a page begins as zeros. So what holds nothing is zero where rows are only ever added at the end: in the
leaves of the table of events and the node above them as long as there is one, in overflow pages, in the schema, in free
pages, and in an index that is a single page.

A gap, between the array of pointers and the cells, may hold anything where cells are taken away: in an index whose
pages are split, in nodes above the leaves, and in a table of which rows are deleted. SQLite (`editPage`, `freeSpace`,
`rebuildPage` in its `btree.c`) leaves pointers there behind the end of an array that was longer, headers of blocks that
were free, and cells as they were before a page was laid out anew. Not even a single byte among zeros can be told from a
changed one: it is the header of a block of less than 256 bytes after which no other was free. In sound files of SQLite
3.40 and 3.54, one in 70 to 530 pages of a large index had one, of many values and anywhere in the gap; rules about its
value and its place were broken by a few pages in 100,000, so there is none here.

Holes between cells are zero but for their headers, and so is the end of a chain of a key's overflow pages. Of these,
and of the node above the leaves, a single byte is told; more is not, because a SQLite that does not overwrite what it
deletes leaves whole cells there when it vacuums a file.

A seal shows all that is left open here, as long as the file is as it was when it was closed; see `sqlite_seal`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from redraft.events.sqlite_bytes import Bytes
from redraft.events.sqlite_pages import INTERIOR_TABLE, LEAF_INDEX, LEAF_TABLE, Node, holes, node_of

LOCKS: Final = 2**30
"""Where in a file the page lies that is for locks alone."""

SHORT: Final = 8
"""Bytes of a hole in which even a cell that was not overwritten could leave a single byte that is not zero."""

_SCHEMA: Final = 1
"""The first page of the schema. SQLite writes its rows twice: once they are split, pages have old pointers in them."""

_LEAST: Final = 480
"""Usable bytes of the smallest page that there is."""


class Tree(msgspec.Struct, frozen=True):
    """A table or an index, by its first page, and whether rows are only ever added (a table: at its end)."""

    root: int
    only_added: bool


class Stray(NamedTuple):
    """A byte that holds nothing, and was changed: its place in the file, from 0, and its page, from 1."""

    at: int
    page: int


class Walk:
    """A look at all pages of a file that nobody changes meanwhile."""

    def __init__(self, file: Bytes, pages: int) -> None:
        """`pages` is how many the database has; a file may be longer."""
        self._file = file
        self._head = self._read(0, 100).ljust(100, b"\0")
        size = int.from_bytes(self._head[16:18])
        self._size = 65536 if size == 1 else size
        self._usable = self._size - self._head[20]
        self._pages = pages
        self._seen = bytearray(pages + 1)

    def strays(self, trees: Sequence[Tree]) -> Iterator[Stray]:
        """The first stray byte of each range that has one."""
        if self._usable < _LEAST:
            return
        lock = LOCKS // self._size + 1
        if self._enter(lock):
            yield from self._zeros(lock, self._page(lock), 0)
        yield from self._freelist(int.from_bytes(self._head[32:36]))
        were_freed = not all(tree.only_added for tree in trees)
        for tree in trees:
            yield from self._tree(tree, were_freed=were_freed)

    def _read(self, at: int, count: int) -> bytes:
        self._file.seek(at)
        return self._file.read(count)

    def _page(self, number: int) -> bytes:
        return self._read((number - 1) * self._size, self._size)

    def _enter(self, number: int) -> bool:
        """Whether there is such a page, and it was not met before."""
        if not 0 < number <= self._pages or self._seen[number]:
            return False
        self._seen[number] = 1
        return True

    def _zeros(self, number: int, page: bytes, start: int, end: int | None = None) -> Iterator[Stray]:
        held = page[start:end]
        stripped = held.lstrip(b"\0")
        if stripped:
            yield Stray((number - 1) * self._size + start + len(held) - len(stripped), number)

    def _lone(self, number: int, page: bytes, start: int, end: int) -> Iterator[Stray]:
        """A single byte among zeros."""
        if end - start - page.count(0, start, end) == 1:
            yield from self._zeros(number, page, start, end)

    def _freelist(self, trunk: int) -> Iterator[Stray]:
        while self._enter(trunk):
            page = self._page(trunk)
            end = 8 + 4 * int.from_bytes(page[4:8])
            if end > self._usable:
                return
            yield from self._zeros(trunk, page, self._numbers_end(page, end))
            for at in range(8, end, 4):
                leaf = int.from_bytes(page[at : at + 4])
                if self._enter(leaf):
                    yield from self._zeros(leaf, self._page(leaf), 0)
            trunk = int.from_bytes(page[:4])

    def _numbers_end(self, page: bytes, start: int) -> int:
        """Where numbers of pages end that were left behind in a list of free pages, which was longer once."""
        at = start
        while 0 < int.from_bytes(page[at : at + 4]) <= self._pages and at + 4 <= self._usable:
            at += 4
        return at

    def _tree(self, tree: Tree, *, were_freed: bool) -> Iterator[Stray]:
        """`were_freed`: pages of the file may have been in the list of free pages before."""
        todo, tops = [tree.root], 0
        top: list[Stray] = []
        while todo:
            number = todo.pop()
            if not self._enter(number):
                continue
            page = self._page(number)
            node = node_of(page, 100 if number == 1 else 0, self._usable) if len(page) == self._size else None
            if node is None:
                continue
            todo.extend(reversed(node.children))
            yield from self._holes(number, page, node)
            if tree.only_added and node.kind == LEAF_TABLE and (tree.root != _SCHEMA or number == _SCHEMA):
                yield from self._zeros(number, page, node.gap, node.content)
            elif tree.only_added and _is_top(node, number, tree):
                tops += 1
                top = list(self._lone(number, page, node.gap, node.content))
            for first, count in node.chains:
                yield from self._chain(first, count, is_row=node.kind == LEAF_TABLE, were_freed=were_freed)
        if tops == 1:  # it was never split
            yield from top

    def _holes(self, number: int, page: bytes, node: Node) -> Iterator[Stray]:
        for begin, end in holes(page, node, self._usable):
            if end - begin > SHORT:
                yield from self._lone(number, page, begin, end)

    def _chain(self, page: int, count: int, *, is_row: bool, were_freed: bool) -> Iterator[Stray]:
        """The overflow pages from this one on, with so many bytes of a row, or else of a key."""
        most = self._usable - 4
        while count > most and self._enter(page):
            count -= most
            page = int.from_bytes(self._read((page - 1) * self._size, 4))
        if 0 < count <= most and self._enter(page):
            held, end = self._page(page), 4 + count
            begin = self._numbers_end(held, -(-end // 4) * 4) if were_freed else end
            yield from (self._zeros if is_row else self._lone)(page, held, begin, self._size)


def _is_top(node: Node, number: int, tree: Tree) -> bool:
    """Whether a page is above the leaves of a table, or an index of a single page."""
    return node.kind == INTERIOR_TABLE or (node.kind == LEAF_INDEX and number == tree.root)
