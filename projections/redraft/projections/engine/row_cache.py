"""Caches rows of one table across batches, so that recent ones are not read again; writes them in few statements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from operator import itemgetter
from typing import TypeAlias, assert_never, cast

from redraft.projections.engine.projection import Change, Delete, Fold, Key, Put, Row, Set, SetAll, Table, fold_own
from redraft.projections.engine.storage import Cursor, Tables

_Group: TypeAlias = dict[Key, Row | None]


class RowCache:
    """The rows of one table as its writer knows them; it holds at most `kept` rows between batches.

    Rows with the same first key column are cached and released together. The absence of rows is cached too, and counts
    as one row. The cache is valid only while no other writer changes the table.
    """

    def __init__(self, table: Table, tables: Tables, kept: int = 2_000) -> None:
        self._table = table
        self._tables = tables
        self._width = len(table.columns)
        self._kept = kept
        self._key_of = _make_getter(table.keys)
        self._values_of = _make_getter(tuple(table.columns))
        self._groups: dict[str | int, _Group] = {}
        self._whole: set[str | int] = set()
        self._emptied: set[str | int] = set()
        self._count = 0
        self._pending: Sequence[Change] = ()
        self._clear_changes()

    def _clear_changes(self) -> None:
        self._changed: dict[Key, Row] = {}
        self._deleted: dict[Key, None] = {}
        self._broad: dict[str | int, list[SetAll]] = {}

    def change_all(self, changes: Sequence[Change], cursor: Cursor) -> None:
        """Applies changes in order; the cursor serves to look up all missing rows at once."""
        self._pending = changes
        for change in changes:
            match change:
                case Set():
                    self._set(change, cursor)
                case Put():
                    self._put(change.row)
                case SetAll():
                    self._set_all(change)
                case Delete():
                    self._delete(change.key)
                case _ as never:
                    assert_never(never)
        self._pending = ()

    def fold(self, change: Fold, cursor: Cursor) -> Iterable[Change]:
        """Replaces a row by what it is folded to, at once; returns the further changes. Raises OwnError."""
        if change.step is None:
            self._delete(change.key)
            return ()
        self._pending = (Set(change.table, change.key, {}),)
        row, changes = fold_own(change.step, self._find(change.key, cursor))
        self._pending = ()
        self._put(row)
        return changes

    def _set(self, change: Set, cursor: Cursor) -> None:
        key = change.key
        group = self._groups.get(key[0])
        row = group.get(key) if group else None
        if row is None:
            row = self._find(key, cursor)
            if row is None and change.new is not None:
                row = self._begin_row(key, change.new)
        if row is not None and ((change.where is None and change.unless is None) or _applies(change, row)):
            row.update(change.values)
            if change.add or change.maximum or change.minimum:
                _count_values(row, change)
            if len(row) != self._width:
                self._check(row)
            self._changed[key] = row

    def _put(self, row: Row) -> None:
        self._check(row)
        key = self._key_of(row)
        if None in key:
            raise ValueError(f"table {self._table.name}: a row's key is {key}, with nothing in it")
        self._changed[key] = row.copy()
        self._hold(key, self._changed[key])

    def write(self, cursor: Cursor) -> None:
        """Writes all changes since the last call: broad ones first, then deletions, as cached rows reflect both."""
        for layer in zip_longest(*self._broad.values()):  # order matters within a group
            self._write_broad(cursor, filter(None, layer))
        for depth in {1, self._table.key}:
            if keys := [key for key in self._deleted if len(key) == depth]:
                self._tables.delete(cursor, self._table, depth, keys)
        if self._changed:
            self._tables.put(cursor, self._table, map(self._values_of, self._changed.values()))
        self._clear_changes()
        self._trim()

    def _check(self, row: Row) -> None:
        if row.keys() != self._table.columns.keys():
            wrong = ", ".join(sorted(row.keys() ^ self._table.columns.keys()))
            raise ValueError(
                f"table {self._table.name}: a row must hold exactly its columns; these are missing or unknown: {wrong}"
            )

    def _begin_row(self, key: Key, new: Row) -> Row:
        """Adds the row that a change starts with, under its key."""
        self._check(new)
        if self._key_of(new) != key or None in key:
            raise ValueError(f"table {self._table.name}: a new row's key is {self._key_of(new)}, not {key}")
        row = self._changed[key] = new.copy()
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
        """Looks up every row that a pending change needs; a key without a row is cached as absent."""
        needed = dict.fromkeys(change.key for change in self._pending if isinstance(change, Set))
        missing = [key for key in needed if key[0] not in self._whole and key not in self._groups.get(key[0], ())]
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

    def _set_all(self, change: SetAll) -> None:
        rows: Iterable[tuple[Key, Row | None]] = self._groups.get(change.group, {}).items()
        for name, allowed in change.where.items():  # as _covers, which takes longer for the rows of a group
            rows = [each for each in rows if each[1] is not None and each[1][name] in allowed]
        for name, barred in change.unless.items():
            rows = [each for each in rows if each[1] is not None and each[1][name] not in barred]
        for key, row in rows:
            if row is not None:
                row.update(change.values)
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

    def _trim(self) -> None:
        """Releases groups whose rows are all gone, and those cached longest until at most `kept` rows are left.

        A group that never had rows stays, as it may be about to start.
        """
        for group in self._emptied:
            if not self._groups[group]:
                self._let_go(group)
        self._emptied.clear()
        while self._count > self._kept:
            self._let_go(next(iter(self._groups)))

    def _let_go(self, group: str | int) -> None:
        self._count -= len(self._groups.pop(group)) or 1
        self._whole.discard(group)

    def _write_broad(self, cursor: Cursor, layer: Iterable[SetAll]) -> None:
        """Writes broad changes, one statement for all of the same shape; no two of a layer concern the same group."""
        shapes: dict[tuple[object, ...], list[SetAll]] = {}
        for change in layer:
            shape = (*change.values, None, *change.where.items(), None, *change.unless.items())
            shapes.setdefault(shape, []).append(change)
        for alike in shapes.values():
            self._tables.set_all(cursor, self._table, alike)


class RowCaches(dict[str, RowCache]):
    """The row caches of a projection's tables, by table name."""

    def __missing__(self, table: str) -> RowCache:
        raise ValueError(f"there is no table {table!r} in this projection; there are {', '.join(self)}")


def _make_getter(names: tuple[str, ...]) -> Callable[[Row], Key]:
    """Returns a function that takes the values of these columns out of a row."""
    if len(names) > 1:
        return cast("Callable[[Row], Key]", itemgetter(*names))
    (name,) = names
    return lambda row: (cast("str", row[name]),)


def _count_values(row: Row, change: Set) -> None:
    if change.add:
        for name, more in change.add.items():
            row[name] = cast("float", row[name] or 0) + more
    if change.maximum:
        for name, value in change.maximum.items():
            before = cast("float | None", row[name])
            row[name] = value if before is None or value > before else before
    if change.minimum:
        for name, value in change.minimum.items():
            before = cast("float | None", row[name])
            row[name] = value if before is None or value < before else before


def _matches(row: Row, where: Mapping[str, tuple[str | int | float, ...]]) -> bool:
    for name, allowed in where.items():  # noqa: SIM110  a generator takes twice as long
        if row[name] not in allowed:
            return False
    return True


def _applies(change: Set, row: Row) -> bool:
    return (change.where is None or _matches(row, change.where)) and not (change.unless and _is_barred(row, change))


def _is_barred(row: Row, change: Set | SetAll) -> bool:
    if change.unless:
        for name, barred in change.unless.items():
            if row[name] in barred:
                return True
    return False


def _covers(change: SetAll, row: Row) -> bool:
    return _matches(row, change.where) and not _is_barred(row, change)
