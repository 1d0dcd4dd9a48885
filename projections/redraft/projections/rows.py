"""The rows of one table while they change: kept in memory across batches, so that what was written lately need not be
read again, and written in few statements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from operator import itemgetter
from typing import TypeAlias, assert_never, cast

from redraft.projections.place import Cursor, Tables
from redraft.projections.projection import Change, Delete, Key, Put, Row, Set, SetAll, Table
from redraft.projections.sqlite_tables import SQLITE_TABLES

_Group: TypeAlias = dict[Key, Row | None]


class Rows:
    """One table's rows as its writer knows them; `kept` is how many it holds between batches at most.

    Rows with the same first key column are held, and let go, together; that there are none is held too, and counts as
    one. What is held is true only as long as nobody else writes the table: `forget` when somebody did.
    """

    def __init__(self, table: Table, kept: int = 2_000, tables: Tables = SQLITE_TABLES) -> None:
        self._table = table
        self._tables = tables
        self._width = len(table.columns)
        self._kept = kept
        self._key_of = _getter(table.keys)
        self._values_of = _getter(tuple(table.columns))
        self._groups: dict[str | int, _Group] = {}
        self._whole: set[str | int] = set()
        self._emptied: set[str | int] = set()
        self._count = 0
        self._coming: Sequence[Change] = ()
        self._settled()

    def _settled(self) -> None:
        self._changed: dict[Key, Row] = {}
        self._deleted: dict[Key, None] = {}
        self._broad: dict[str | int, list[SetAll]] = {}

    def forget(self) -> None:
        """Drops all that is held, and what was changed but not written."""
        self._groups.clear()
        self._whole.clear()
        self._emptied.clear()
        self._count = 0
        self._settled()

    def change_all(self, changes: Sequence[Change], cursor: Cursor) -> None:
        """Takes in changes in their order; the cursor serves to look up, all at once, the rows that are not held."""
        self._coming = changes
        for change in changes:
            self._change(change, cursor)
        self._coming = ()

    def _change(self, change: Change, cursor: Cursor) -> None:
        match change:
            case Set():
                key = change.key
                group = self._groups.get(key[0])
                row = group.get(key) if group else None
                if row is None:
                    row = self._find(key, cursor)
                    if row is None and change.new is not None:
                        row = self._begun(key, change.new)
                if row is not None and (change.where is None or _holds(row, change.where)):
                    _set(row, change)
                    if len(row) != self._width:
                        self._check(row)
                    self._changed[key] = row
            case Put():
                self._check(change.row)
                row = change.row.copy()
                key = self._key_of(row)
                if None in key:
                    raise ValueError(f"table {self._table.name}: a row's key is {key}, with nothing in it")
                self._hold(key, row)
                self._changed[key] = row
            case SetAll():
                self._set_all(change)
            case Delete():
                self._delete(change.key)
            case _ as never:
                assert_never(never)

    def write(self, cursor: Cursor) -> None:
        """Writes what was changed since the last time.

        Broad changes go first, then deletions: the rows that are held already know of both.
        """
        for layer in _layers(self._broad.values()):
            self._write_broad(cursor, layer)
        for depth in {1, self._table.key}:
            if keys := [key for key in self._deleted if len(key) == depth]:
                self._tables.delete(cursor, self._table, depth, keys)
        if self._changed:
            self._tables.put(cursor, self._table, map(self._values_of, self._changed.values()))
        self._let_go_emptied()
        self._settled()
        self._trim()

    def _check(self, row: Row) -> None:
        if row.keys() != self._table.columns.keys():
            wrong = ", ".join(sorted(row.keys() ^ self._table.columns.keys()))
            raise ValueError(f"table {self._table.name}: a row holds its columns and no others; see to {wrong}")

    def _begun(self, key: Key, new: Row) -> Row:
        """A row that a change begins, held under its key."""
        self._check(new)
        if self._key_of(new) != key or None in key:
            raise ValueError(f"table {self._table.name}: a new row's key is {self._key_of(new)}, not {key}")
        row = new.copy()
        self._hold(key, row)
        return row

    def _hold(self, key: Key, row: Row | None) -> None:
        group = self._groups.get(key[0])
        if group is None:
            group = self._groups[key[0]] = {}
            self._count += 1
        elif group and key not in group:
            self._count += 1
        group[key] = row

    def _find(self, key: Key, cursor: Cursor) -> Row | None:
        group = self._groups.get(key[0])
        if group is not None and key in group:
            return group[key]
        if key[0] in self._whole:
            self._hold(key, None)
            return None
        self._load(cursor)
        return self._groups[key[0]][key]

    def _load(self, cursor: Cursor) -> None:
        """Looks up every row that a coming change needs; what has come is held already, if only as not there."""
        needed = (change.key for change in self._coming if isinstance(change, Set))
        missing = [key for key in dict.fromkeys(needed) if not self._holds(key)]
        for key in missing:
            if len(key) != self._table.key:
                raise ValueError(f"table {self._table.name}: a row's key has {self._table.key} values, unlike {key}")
            self._hold(key, None)
        for key, cells in self._tables.find(cursor, self._table, missing):
            row: Row = dict(zip(self._table.columns, cells, strict=True))
            for change in self._broad.get(key[0], ()):
                if _covers(change, row):
                    row.update(change.values)
            self._hold(key, row)

    def _holds(self, key: Key) -> bool:
        return key[0] in self._whole or key in self._groups.get(key[0], ())

    def _set_all(self, change: SetAll) -> None:
        values, where, unless = change.values, tuple(change.where.items()), tuple(change.unless.items())
        for key, row in self._groups.get(change.group, {}).items():
            if row is None:
                continue
            for name, allowed in where:  # as _covers, which takes twice as long for the rows of a group
                if row[name] not in allowed:
                    break
            else:
                for name, barred in unless:
                    if row[name] in barred:
                        break
                else:
                    row.update(values)
                    self._changed[key] = row
        if change.group not in self._whole:
            self._broad.setdefault(change.group, []).append(change)

    def _delete(self, key: Key) -> None:
        self._deleted[key] = None
        if len(key) == self._table.key:
            self._hold(key, None)
            self._changed.pop(key, None)
            return
        group = self._groups.get(key[0])
        if group is None:
            self._count += 1
        elif group:
            self._emptied.add(key[0])
            for gone in group:
                self._changed.pop(gone, None)
            self._count -= len(group) - 1
        self._groups[key[0]] = {}
        self._whole.add(key[0])

    def _let_go_emptied(self) -> None:
        """What had rows and has none is over; what never had any may be about to begin."""
        for group in self._emptied:
            if not self._groups[group]:
                self._let_go(group)
        self._emptied.clear()

    def _let_go(self, group: str | int) -> None:
        self._count -= len(self._groups.pop(group)) or 1
        self._whole.discard(group)

    def _trim(self) -> None:
        """Lets go of the groups that have been held longest, until no more than `kept` rows are left."""
        while self._count > self._kept:
            self._let_go(next(iter(self._groups)))

    def _write_broad(self, cursor: Cursor, layer: Iterable[SetAll]) -> None:
        """One statement for all broad changes of the same shape; no two of a layer concern the same group."""
        shapes: dict[tuple[object, ...], list[SetAll]] = {}
        for change in layer:
            shape = (*change.values, None, *change.where.items(), None, *change.unless.items())
            shapes.setdefault(shape, []).append(change)
        for alike in shapes.values():
            self._tables.set_all(cursor, self._table, alike)


def _getter(names: tuple[str, ...]) -> Callable[[Row], Key]:
    """What takes the values of these columns out of a row."""
    if len(names) > 1:
        return cast("Callable[[Row], Key]", itemgetter(*names))
    (name,) = names
    return lambda row: (cast("str", row[name]),)


def _set(row: Row, change: Set) -> None:
    row.update(change.values)
    if change.add:
        for name, more in change.add.items():
            row[name] = cast("float", row[name] or 0) + more
    if change.most:
        for name, value in change.most.items():
            before = cast("float | None", row[name])
            row[name] = value if before is None or value > before else before
    if change.least:
        for name, value in change.least.items():
            before = cast("float | None", row[name])
            row[name] = value if before is None or value < before else before


def _holds(row: Row, where: Mapping[str, tuple[str | int | float, ...]]) -> bool:
    for name, allowed in where.items():  # noqa: SIM110  a generator takes twice as long
        if row[name] not in allowed:
            return False
    return True


def _covers(change: SetAll, row: Row) -> bool:
    if not _holds(row, change.where):
        return False
    for name, barred in change.unless.items():  # noqa: SIM110  a generator takes twice as long
        if row[name] in barred:
            return False
    return True


def _layers(broad: Iterable[list[SetAll]]) -> Iterator[list[SetAll]]:
    """The first change of every group, then the second of every group, and so on: in a group their order matters."""
    for layer in zip_longest(*broad):
        yield [change for change in layer if change is not None]
