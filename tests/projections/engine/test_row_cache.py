"""Rows held in memory and written in blocks give what changes made one by one give."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redraft.projections.engine.projection import Change, Delete, Key, Put, Row, Set, SetAll, Table
from redraft.projections.engine.row_cache import RowCache
from redraft.projections.engine.views import Cells
from redraft.projections.sqlite.storage import SQLITE_TABLES

TABLE = Table(
    "things",
    {"run": "TEXT NOT NULL", "path": "TEXT NOT NULL", "status": "TEXT", "n": "INTEGER", "best": "REAL"},
    key=2,
)
RUNS = st.sampled_from(["a", "b", "c"])
KEYS = st.tuples(RUNS, st.sampled_from(["x", "y", "z"]))
STATUS = st.sampled_from(["open", "waiting", "done", None])
SCORES = st.floats(0, 1)
VALUES = st.fixed_dictionaries({}, optional={"status": STATUS, "n": st.integers(-9, 9), "best": SCORES | st.none()})


def put(key: tuple[str, str], status: str | None, n: int | None, best: float | None) -> Put:
    return Put("things", {"run": key[0], "path": key[1], "status": status, "n": n, "best": best})


def begun(key: tuple[str, str], values: Row, add: dict[str, int] | None, status: str | None) -> Set:
    where = {"status": ("open", "done")} if status == "done" else None
    unless = {"n": (1, 3)} if status == "waiting" else None
    return Set("things", key, values, add, new=put(key, status, 1, None).row, where=where, unless=unless)


CHANGES = st.one_of(
    st.builds(put, KEYS, STATUS, st.integers(-9, 9), SCORES | st.none()),
    st.builds(
        Set,
        st.just("things"),
        KEYS,
        VALUES,
        st.none() | st.fixed_dictionaries({"n": st.integers(-9, 9)}),
        st.none() | st.fixed_dictionaries({"best": SCORES}),
        st.none() | st.fixed_dictionaries({"best": SCORES}),
    ),
    st.builds(begun, KEYS, VALUES, st.none() | st.fixed_dictionaries({"n": st.integers(-9, 9)}), STATUS),
    st.builds(
        SetAll,
        st.just("things"),
        RUNS,
        VALUES.filter(bool),
        st.sampled_from([{}, {"status": ("open", "waiting")}, {"status": ("done",), "n": (1, 2, 3)}]),
        st.sampled_from([{}, {}, {"status": ("done",)}, {"n": (1, 2)}]),
    ),
    st.builds(Delete, st.just("things"), KEYS | st.tuples(RUNS)),
)


def applies(change: Set, row: Row) -> bool:
    spared = any(row[name] in barred for name, barred in (change.unless or {}).items())
    return not spared and all(row[name] in allowed for name, allowed in (change.where or {}).items())


def naive(changes: Sequence[Change]) -> dict[Key, Row]:
    """What the changes mean, one by one."""
    rows: dict[Key, Row] = {}
    for change in changes:
        match change:
            case Put(row=row):
                rows[str(row["run"]), str(row["path"])] = dict(row)
            case Set(key=key, values=values, add=add, maximum=maximum, minimum=minimum, new=new):
                if new is not None:
                    rows.setdefault(key, dict(new))
                if key in rows and applies(change, rows[key]):
                    rows[key] |= values
                    for name, more in (add or {}).items():
                        rows[key][name] = (rows[key][name] or 0) + more  # type: ignore[operator]
                    for name, value in (maximum or {}).items():
                        before = rows[key][name]
                        rows[key][name] = value if before is None else max(before, value)
                    for name, value in (minimum or {}).items():
                        before = rows[key][name]
                        rows[key][name] = value if before is None else min(before, value)
            case SetAll(group=group, values=values, where=where, unless=unless):
                for key, row in rows.items():
                    spared = any(row[name] in barred for name, barred in unless.items())
                    if key[0] == group and not spared and all(row[name] in each for name, each in where.items()):
                        row |= values
            case Delete(key=gone):
                rows = {key: row for key, row in rows.items() if key[: len(gone)] != gone}
    return rows


def table_in_memory(table: Table = TABLE) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    columns = ", ".join(f"{name} {kind}" for name, kind in table.columns.items())
    connection.execute(f"CREATE TABLE {table.name} ({columns}, PRIMARY KEY ({', '.join(table.keys)})) WITHOUT ROWID")
    return connection


@given(st.lists(st.lists(CHANGES, max_size=8), max_size=8), st.sampled_from([0, 2, 5_000]))
def test_batches_held_or_let_go_give_the_rows_of_single_changes(batches: list[list[Change]], kept: int) -> None:
    with closing(table_in_memory()) as connection:
        rows, cursor = RowCache(TABLE, SQLITE_TABLES, kept), connection.cursor()
        for batch in batches:
            rows.change_all(batch, cursor)
            rows.write(cursor)
        found = cursor.execute("SELECT * FROM things").fetchall()
    expected = naive([change for batch in batches for change in batch])
    assert {each[:2]: dict(zip(TABLE.columns, each, strict=True)) for each in found} == expected


@pytest.mark.parametrize("count", [1, 2, 3, 255, 256, 257, 1000])
def test_any_number_of_rows_is_written_whole(count: int) -> None:
    with closing(table_in_memory()) as connection:
        rows, cursor = RowCache(TABLE, SQLITE_TABLES), connection.cursor()
        for number in range(count):
            rows.change_all([put(("a", f"{number:04d}"), "open", number, 1 / (number + 3))], cursor)
        rows.write(cursor)
        found = cursor.execute("SELECT n, best FROM things ORDER BY n").fetchall()
    assert found == [(number, 1 / (number + 3)) for number in range(count)]


def test_a_statement_for_many_rows_takes_few_statements() -> None:
    with closing(table_in_memory()) as connection:
        rows, cursor = RowCache(TABLE, SQLITE_TABLES), connection.cursor()
        for number in range(500):
            rows.change_all([put((f"run {number % 50}", f"{number:04d}"), "open", number, None)], cursor)
        for group in range(50):
            rows.change_all([SetAll("things", f"run {group}", {"status": "done"}, {"status": ("open",)})], cursor)
        statements: list[str] = []
        connection.set_trace_callback(statements.append)
        rows.write(cursor)
        assert len(statements) == 3
        assert cursor.execute("SELECT status, count(*) FROM things GROUP BY 1").fetchall() == [("done", 500)]


def test_a_row_read_after_a_broad_change_knows_of_it() -> None:
    later: list[Change] = [SetAll("things", "a", {"n": 5}), Set("things", ("a", "x"), {"status": "done"})]
    assert in_a_batch_of_its_own([put(("a", "x"), "open", 1, None)], later) == [("a", "x", "done", 5, None)]


@pytest.mark.parametrize("times", [(1, 2), (2, 1)])
def test_broad_changes_of_one_group_keep_their_order(times: tuple[int, int]) -> None:
    left = [SetAll("things", "a", {"status": "done", "n": time}, {"status": ("open", "waiting")}) for time in times]
    assert in_a_batch_of_its_own([put(("a", "x"), "open", 9, None)], left) == [("a", "x", "done", times[0], None)]


def in_a_batch_of_its_own(before: Sequence[Change], changes: Sequence[Change]) -> list[Cells]:
    """The rows after changes that meet a table whose rows are not held."""
    with closing(table_in_memory()) as connection:
        rows, cursor = RowCache(TABLE, SQLITE_TABLES, kept=0), connection.cursor()
        for batch in (before, changes):
            rows.change_all(batch, cursor)
            rows.write(cursor)
        return cursor.execute("SELECT * FROM things ORDER BY run, path").fetchall()


def test_a_put_is_not_changed_by_what_comes_after() -> None:
    first = put(("a", "x"), "open", 1, None)
    with closing(table_in_memory()) as connection:
        rows, cursor = RowCache(TABLE, SQLITE_TABLES), connection.cursor()
        rows.change_all([first], cursor)
        rows.change_all([Set("things", ("a", "x"), {"n": 2})], cursor)
    assert first.row["n"] == 1


@pytest.mark.parametrize(
    "change",
    [
        Put("things", {"run": "a", "path": "x", "status": "open", "n": 1}),
        Put("things", {"run": "a", "path": "x", "status": "open", "n": 1, "beste": 1.0}),
        Set("things", ("a", "y"), {"beste": 1.0}),
        Set("things", ("a", "z"), {}, new={"run": "a", "path": "z", "status": "open", "n": 1}),
    ],
)
def test_a_column_too_few_or_too_many_is_named(change: Change) -> None:
    with closing(table_in_memory()) as connection:
        rows, cursor = RowCache(TABLE, SQLITE_TABLES), connection.cursor()
        rows.change_all([put(("a", "y"), "open", 1, None)], cursor)
        with pytest.raises(ValueError, match=r"table things: .* missing or unknown: best"):
            rows.change_all([change], cursor)


@pytest.mark.parametrize(
    "change",
    [
        Put("things", {"run": "a", "path": None, "status": "open", "n": 1, "best": None}),
        Set("things", ("a", "z"), {}, new={"run": "a", "path": "x", "status": "open", "n": 1, "best": None}),
    ],
)
def test_a_row_without_its_key_is_refused(change: Change) -> None:
    with closing(table_in_memory()) as connection, pytest.raises(ValueError, match=r"table things: a .*row's key is"):
        RowCache(TABLE, SQLITE_TABLES).change_all([change], connection.cursor())


@pytest.mark.parametrize("key", [("a",), ("a", "x", "y")])
def test_a_key_that_is_too_short_or_too_long_is_refused(key: Key) -> None:
    with closing(table_in_memory()) as connection, pytest.raises(ValueError, match="table things: a row's key has 2"):
        RowCache(TABLE, SQLITE_TABLES).change_all([Set("things", key, {"n": 1})], connection.cursor())


@pytest.mark.parametrize(
    ("name", "columns", "key"),
    [
        ("tracking", {"a": "TEXT"}, 1),
        ("redraft_log", {"a": "TEXT"}, 1),
        ("no table", {"a": "TEXT"}, 1),
        ("x" * 51, {"a": "TEXT"}, 1),
        ("things", {"a b": "TEXT"}, 1),
        ("things", {"a": "TEXT"}, 2),
        ("things", {"a": "TEXT"}, 0),
    ],
)
def test_a_table_that_cannot_be_is_refused(name: str, columns: dict[str, str], key: int) -> None:
    with pytest.raises(ValueError, match="table"):
        Table(name, columns, key)


def test_what_begins_and_ends_between_two_writes_is_not_written_and_nothing_of_it_is_held() -> None:
    with closing(table_in_memory()) as connection:
        rows, cursor = RowCache(TABLE, SQLITE_TABLES), connection.cursor()
        statements: list[str] = []
        connection.set_trace_callback(statements.append)
        for change in (Delete("things", ("a",)), put(("a", "x"), "open", 1, None), Delete("things", ("a",))):
            rows.change_all([change], cursor)
        rows.write(cursor)
        rows.change_all([Set("things", ("a", "x"), {"n": 2})], cursor)
    assert [each.split()[0] for each in statements] == ["DELETE", "SELECT"]


def test_that_there_is_nothing_yet_is_held_until_something_begins() -> None:
    with closing(table_in_memory()) as connection:
        rows, cursor = RowCache(TABLE, SQLITE_TABLES), connection.cursor()
        rows.change_all([Delete("things", ("a",))], cursor)
        rows.write(cursor)
        statements: list[str] = []
        connection.set_trace_callback(statements.append)
        rows.change_all([SetAll("things", "a", {"n": 1})], cursor)
        rows.change_all([Set("things", ("a", "x"), {"n": 2}, new=put(("a", "x"), "open", 1, None).row)], cursor)
        rows.write(cursor)
    assert [each.split()[0] for each in statements] == ["INSERT"]


def test_rows_that_are_not_held_are_looked_up_at_once() -> None:
    keys = [(f"run {number}", path) for number in range(50) for path in ("x", "y")]
    with closing(table_in_memory()) as connection:
        cursor = connection.cursor()
        before = RowCache(TABLE, SQLITE_TABLES)
        before.change_all([put(key, "open", 1, None) for key in keys if key != ("run 3", "y")], cursor)
        before.write(cursor)
        rows, statements = RowCache(TABLE, SQLITE_TABLES), list[str]()
        connection.set_trace_callback(statements.append)
        twice = [Set("things", key, {}, {"n": 1}) for key in keys] * 2
        rows.change_all([SetAll("things", "run 7", {"n": 10}), *twice], cursor)
        assert [each.split()[0] for each in statements] == ["SELECT"]
        rows.write(cursor)
        found = cursor.execute("SELECT n, count(*) FROM things GROUP BY n ORDER BY n").fetchall()
    assert found == [(3, 97), (12, 2)]


def test_no_more_is_held_than_may_be_of_what_there_is_not() -> None:
    with closing(table_in_memory()) as connection:
        rows, cursor = RowCache(TABLE, SQLITE_TABLES, kept=2), connection.cursor()
        for run in ("a", "b", "c"):
            rows.change_all([Delete("things", (run,))], cursor)
        rows.write(cursor)
        statements: list[str] = []
        connection.set_trace_callback(statements.append)
        for run in ("c", "b", "a"):
            rows.change_all([Set("things", (run, "x"), {"n": 2})], cursor)
    assert [each.split()[0] for each in statements] == ["SELECT"]
