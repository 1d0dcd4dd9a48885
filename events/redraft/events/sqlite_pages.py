"""The pages of a SQLite file, and which of their bytes hold nothing: https://www.sqlite.org/fileformat2.html#b_tree_pages

A page that makes no sense is passed over: `PRAGMA integrity_check` tells of those.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

INTERIOR_INDEX, INTERIOR_TABLE, LEAF_INDEX, LEAF_TABLE = 2, 5, 10, 13

_KINDS: Final = frozenset((INTERIOR_INDEX, INTERIOR_TABLE, LEAF_INDEX, LEAF_TABLE))


class Node(msgspec.Struct, frozen=True):
    """A page of a tree. Between `gap` and `content` it holds nothing; from `freeblock` on, a chain leads through holes.

    `children` are pages; `chains` are first overflow pages with how many bytes there are in the chain.
    """

    kind: int
    gap: int
    content: int
    freeblock: int
    children: Sequence[int]
    chains: Sequence[tuple[int, int]]


def node_of(page: bytes, head: int, usable: int) -> Node | None:
    """What a page of a tree holds, whose header begins at `head`; None when it makes no sense."""
    kind = page[head]
    if kind not in _KINDS:
        return None
    freeblock, count, content = struct.unpack_from(">HHH", page, head + 1)
    array = head + (12 if kind in (INTERIOR_INDEX, INTERIOR_TABLE) else 8)
    gap, content = array + 2 * count, content or 65536
    if not gap <= content <= usable:
        return None
    cells = struct.unpack_from(f">{count}H", page, array)
    if count and not content <= min(cells) <= max(cells) < usable:
        return None
    is_interior = kind in (INTERIOR_INDEX, INTERIOR_TABLE)
    children = [int.from_bytes(page[at : at + 4]) for at in (*cells, head + 8)] if is_interior else []
    chains: list[tuple[int, int]] = []
    if kind == LEAF_TABLE:
        _rows(page, cells, usable, chains)
    elif kind != INTERIOR_TABLE:
        _keys(page, [at + 4 for at in cells] if is_interior else cells, usable, chains)
    return Node(kind, gap, content, freeblock, children, chains)


def holes(page: bytes, node: Node, usable: int) -> Iterator[tuple[int, int]]:
    """Where the bytes of free blocks lie, without their headers of four bytes; the chain only goes forward."""
    at, before = node.freeblock, 0
    while before < at <= usable - 4:
        following, size = struct.unpack_from(">HH", page, at)
        if size < 4 or at + size > usable:
            return
        yield at + 4, at + size
        before, at = at, following


def local_size(payload: int, usable: int, *, table: bool) -> int:
    """How many bytes of a payload lie in its page; the others lie in a chain of overflow pages."""
    most = usable - 35 if table else (usable - 12) * 64 // 255 - 23
    if payload <= most:
        return payload
    least = (usable - 12) * 32 // 255 - 23
    fitting = least + (payload - least) % (usable - 4)
    return fitting if fitting <= most else least


def _rows(page: bytes, cells: Sequence[int], usable: int, chains: list[tuple[int, int]]) -> None:
    """The chains of the rows in a leaf of a table."""
    most = usable - 35
    for at in cells:
        payload, begin = _number(page, at)
        if payload > most:
            local = local_size(payload, usable, table=True)
            end = _number(page, begin)[1] + local
            chains.append((int.from_bytes(page[end : end + 4]), payload - local))


def _keys(page: bytes, cells: Sequence[int], usable: int, chains: list[tuple[int, int]]) -> None:
    """The chains of keys in a page of an index, whose payloads begin there."""
    for at in cells:
        payload, begin = _number(page, at)
        local = local_size(payload, usable, table=False)
        if local < payload:
            end = begin + local
            chains.append((int.from_bytes(page[end : end + 4]), payload - local))


def _number(page: bytes, at: int) -> tuple[int, int]:
    """A number of one to nine bytes, and where it ends; what lies behind the page counts as zeros."""
    value = 0
    for byte in page[at : at + 8]:
        at += 1
        value = value << 7 | byte & 127
        if byte < 128:
            return value, at
    return value << 8 | int.from_bytes(page[at : at + 1]), at + 1
