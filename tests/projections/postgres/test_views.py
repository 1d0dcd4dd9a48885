"""What is PostgreSQL's own: rows of any changes, statements in its words, a server that goes away, changed tables."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from math import inf
from random import Random
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.errors import LockNotAvailable
from tests.events.postgres_cluster import postgres_cluster
from tests.projections.engine.test_row_cache import CHANGES, TABLE, naive, put
from tests.projections.logs import PROJECTIONS, ListLog, busy_log, contents, fill, made_afresh, view_of

from redraft.events.backends import open_store
from redraft.events.errors import IncompatibleStore, InputError, NoSuchRun, ReadModelCorrupt, StoreError
from redraft.events.messages.envelope import Recorded
from redraft.events.postgres import connection as postgres_connection
from redraft.events.postgres.connection import Connections, Database
from redraft.events.postgres.schema import prepare
from redraft.projections.backends import open_views
from redraft.projections.engine.projection import Change, Fold, Projection, Put, Row, Set, Table, unchanged
from redraft.projections.engine.projector import catch_up, rebuild
from redraft.projections.engine.row_cache import RowCache
from redraft.projections.engine.states import SetAside
from redraft.projections.engine.storage import Cells
from redraft.projections.engine.writer import Notice
from redraft.projections.postgres.session import PostgresCursor, PostgresSession
from redraft.projections.postgres.storage import POSTGRES_TABLES, PostgresStorage
from redraft.projections.read_models.runs_query import find_run, list_runs
from redraft.projections.read_models.steps import list_due

LOG = busy_log(12)


@pytest.fixture
def session(postgres_url: str) -> Iterator[PostgresSession]:
    database = Database(postgres_url)
    opened = PostgresSession(Connections(database), prepare(database))
    with opened.transaction() as cursor:
        POSTGRES_TABLES.create(cursor, TABLE)
    yield opened
    opened.close()


def written(cursor: PostgresCursor, batches: Sequence[Sequence[Change]], kept: int = 2_000) -> list[Cells]:
    rows = RowCache(TABLE, POSTGRES_TABLES, kept)
    for batch in batches:
        rows.change_all(batch, cursor)
        rows.write(cursor)
    return cursor.execute("SELECT * FROM things ORDER BY run, path").fetchall()


@given(st.lists(st.lists(CHANGES, max_size=8), max_size=8), st.sampled_from([0, 2, 5_000]))
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
def test_batches_held_or_let_go_give_the_rows_of_single_changes(
    session: PostgresSession, batches: list[list[Change]], kept: int
) -> None:
    with session.transaction() as cursor:
        cursor.execute("DELETE FROM things")
        found = written(cursor, batches, kept)
    expected = naive([change for batch in batches for change in batch])
    assert {each[:2]: dict(zip(TABLE.columns, each, strict=True)) for each in found} == expected


@pytest.fixture
def two(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[PostgresSession, PostgresSession]]:
    """Two ways to the same read models that wait for each other for 0.7 s, and may stand still for 1 s."""
    monkeypatch.setattr(postgres_connection, "IDLE_SECONDS", 1.0)
    monkeypatch.setattr(postgres_connection, "LOCK_SECONDS", 0.7)
    database = Database(postgres_url)
    one, other = (PostgresSession(Connections(database), prepare(database)) for _ in range(2))
    yield one, other
    one.close()
    other.close()


@pytest.mark.parametrize("ahead", [False, True])
def test_who_stands_still_in_the_middle_of_a_transaction_does_not_keep_others_waiting(
    two: tuple[PostgresSession, PostgresSession], ahead: bool
) -> None:
    def stand_still() -> None:
        with two[0].transaction(ahead=ahead) as standing:
            assert standing.execute("SELECT 1").fetchone() == (1,)
            with two[1].transaction() as other:
                assert other.execute("SELECT 2").fetchone() == (2,)
            standing.execute("SELECT 3").fetchone()

    with pytest.raises(psycopg.Error, match=r"terminating connection|connection is lost|server closed"):
        stand_still()


def test_who_works_for_long_is_not_ended_by_those_who_wait(two: tuple[PostgresSession, PostgresSession]) -> None:
    def wait() -> None:
        with two[1].transaction():
            raise AssertionError("it is taken")

    with two[0].transaction(ahead=True) as working, ThreadPoolExecutor() as threads:
        waiting = threads.submit(wait)
        while not waiting.done():
            assert working.execute("SELECT 1 FROM pg_sleep(0.01)").fetchone() == (1,)
        assert isinstance(waiting.exception(), LockNotAvailable)
        assert working.execute("SELECT 2").fetchone() == (2,)


@pytest.mark.parametrize("count", [1, 2, 257, 5000])
def test_any_number_of_rows_is_written_whole(session: PostgresSession, count: int) -> None:
    rows = [put(("a", f"{number:04d}"), "open", number, 1 / (number + 3)) for number in range(count)]
    with session.transaction() as cursor:
        found = written(cursor, [rows])
    assert [cells[3:] for cells in found] == [(number, 1 / (number + 3)) for number in range(count)]


def test_values_come_back_as_they_were(session: PostgresSession) -> None:
    rows = [
        put(("é", "%s ? :name \\ ' \""), "", 2**62, 1e300),
        put(("😀", "a\nb"), None, None, 5),
        put(("nul", "n"), "a\0b", -1, None),
    ]
    with session.transaction() as cursor:
        found = written(cursor, [rows, [Set("things", ("nul", "n"), {"status": "c\0"})]])
        assert cursor.execute(
            "SELECT '?' || '%' || ':x' || run FROM things WHERE run = :run", {"run": "é"}
        ).fetchone() == ("?%:xé",)
    assert found == [
        ("nul", "n", "c\N{REPLACEMENT CHARACTER}", -1, None),
        ("é", "%s ? :name \\ ' \"", "", 2**62, 1e300),
        ("😀", "a\nb", None, None, 5.0),
    ]


@pytest.mark.parametrize(
    "values",
    [
        (None, None, None),
        ("null", 1, 0.1),
        ("", -(2**63), inf),
        ("{,}", 2**63 - 1, -inf),
        ('"', 0, 5),
        ("\\", True, -0.0),
        ("é\t\x7f", 7, 1e-300),
    ],
)
def test_a_value_comes_back_as_it_was(
    session: PostgresSession, values: tuple[str | None, int | None, float | None]
) -> None:
    with session.transaction() as cursor:
        found = written(cursor, [[put(("a", "x"), *values), put(("b", "x"), None, None, None)]])
    assert found == [("a", "x", *values), ("b", "x", None, None, None)]


def test_a_key_that_is_written_otherwise_is_found_again(session: PostgresSession) -> None:
    keys = [("a\0", "x"), ("b", "x")]
    with session.transaction() as cursor:
        written(cursor, [[put(key, None, 1, None) for key in keys]])
        found = written(cursor, [[Set("things", key, {}, {"n": 1}) for key in keys]])
    assert [cells[3] for cells in found] == [2, 2]


def test_rows_stand_in_the_same_order_as_in_a_file(session: PostgresSession) -> None:
    with session.transaction() as cursor:
        found = written(cursor, [[put((run, "x"), None, 1, None) for run in ("a", "B", "_", "b", "A", "ä", "Z")]])
    assert [cells[0] for cells in found] == sorted(["a", "B", "_", "b", "A", "ä", "Z"])


def test_a_type_that_there_is_not_is_named(session: PostgresSession) -> None:
    with session.transaction() as cursor, pytest.raises(ValueError, match="declare it as TEXT, INTEGER, REAL"):
        POSTGRES_TABLES.create(cursor, Table("odd", {"a": "BLOB NOT NULL"}))


def test_an_error_takes_back_all_of_a_transaction(session: PostgresSession) -> None:
    with suppress(LookupError), session.transaction() as cursor:
        written(cursor, [[put(("a", "x"), None, 1, None)]])
        raise LookupError
    with session.reading() as cursor:
        assert cursor.execute("SELECT count(*) FROM things").fetchone() == (0,)


# Beside the store


@pytest.mark.parametrize("opened", [PostgresStorage.open, PostgresStorage.open_reader])
def test_plans_are_made_anew_as_tables_grow(
    postgres_url: str, opened: Callable[[PostgresStorage], PostgresSession]
) -> None:
    session = opened(PostgresStorage(postgres_url))
    with session.reading() as cursor:
        assert cursor.execute("SHOW plan_cache_mode").fetchone() == ("force_custom_plan",)
    session.close()


def test_many_keys_are_looked_up_in_a_table_that_nobody_analyzes(postgres_url: str) -> None:
    session = PostgresStorage(postgres_url).open()
    with session.transaction() as cursor:
        POSTGRES_TABLES.create(cursor, TABLE)
        written(cursor, [[put((f"run {number:05}", "x"), "open", 1, None) for number in range(5000)]])
        explained: Any = SimpleNamespace(execute=lambda sql, given: cursor.execute(f"EXPLAIN {sql}", given))
        POSTGRES_TABLES.delete(explained, TABLE, 1, [(f"run {number:05}",) for number in range(100)])
        plan = "\n".join(line for (line,) in cursor.fetchall())
    session.close()
    assert "Index" in plan
    assert "Seq Scan" not in plan


async def test_read_models_and_store_share_a_database_in_either_order(postgres_url: str) -> None:
    async with open_views(postgres_url, PROJECTIONS) as views, open_store(postgres_url) as store:
        await fill(store, LOG)
        await catch_up(views, store)
        assert await contents(views) == await made_afresh(LOG)
    async with open_store(postgres_url) as store, open_views(postgres_url, PROJECTIONS) as views:
        assert views.position == await store.head() == len(LOG)


async def test_a_database_of_another_program_is_refused(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as beside:
        beside.execute("CREATE TABLE runs (mine text)")
        with pytest.raises(IncompatibleStore, match="another program"):
            await open_views(postgres_url, PROJECTIONS).open()
        assert beside.execute("SELECT count(*) FROM runs").fetchone() == (0,)


async def test_a_url_that_is_not_understood_is_refused() -> None:
    with pytest.raises(InputError, match="give postgresql://") as caught:
        await open_views("postgresql://me:s3cr3t@host:x/db", PROJECTIONS).open()
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize(
    "harm",
    ["DROP TABLE steps", "ALTER TABLE runs DROP COLUMN brief", "DROP TABLE redraft_projections", "DROP TABLE tracking"],
)
async def test_tables_that_were_changed_are_told_and_a_rebuild_mends_them(postgres_url: str, harm: str) -> None:
    async with view_of(LOG, postgres_url) as views:
        harmed(postgres_url, harm)
        calls = (list_runs(views), list_due(views, LOG[-1].time), views.refresh())
        told = [
            str(each) for each in await asyncio.gather(*calls, return_exceptions=True) if type(each) is ReadModelCorrupt
        ]
        assert told
        assert all("; `redraft rebuild` builds them again" in each and "\n" not in each for each in told)
        assert await rebuild(views, ListLog(LOG)) == len(LOG)
        assert await contents(views) == await made_afresh(LOG)
    async with open_views(postgres_url, PROJECTIONS) as views:
        assert views.position == len(LOG)


@pytest.mark.parametrize("table", ["redraft_projections", "redraft_log", "tracking"])
async def test_a_table_that_was_taken_away_is_there_again_when_they_are_opened(postgres_url: str, table: str) -> None:
    async with view_of(LOG, postgres_url):
        pass
    harmed(postgres_url, f"DROP TABLE {table}")
    async with view_of(LOG, postgres_url) as views:
        assert await contents(views) == await made_afresh(LOG)


def harmed(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as beside:
        beside.execute(statement)


async def test_a_run_with_a_key_that_no_index_takes_is_set_aside_alone(postgres_url: str) -> None:
    table = Table("long_keys", {"run": "TEXT NOT NULL", "key": "TEXT NOT NULL"}, key=2)
    long = "".join(chr(Random(number).randrange(0x4E00, 0x9FFF)) for number in range(4_000))
    bad = LOG[40]

    def key_of(event: Recorded) -> tuple[Change, ...]:
        key = long if event.position == bad.position else event.name
        return (Put("long_keys", {"run": event.run, "key": key}),)

    told: list[Notice] = []
    projection = Projection("long_keys", 1, (table,), key_of, aside=unchanged)
    async with open_views(postgres_url, (projection,), told.append) as views:
        assert await catch_up(views, ListLog(LOG)) == len(LOG)
        assert [(each.run, each.position) for each in told if isinstance(each, SetAside)] == [(bad.run, bad.position)]
        kept = await views.query("SELECT DISTINCT run FROM long_keys ORDER BY run")
        assert [run for (run,) in kept] == sorted({each.run for each in LOG})


async def test_a_name_that_cannot_be_is_no_run(postgres_url: str) -> None:
    async with view_of(LOG, postgres_url) as views:
        for text in ("a\0b", "%", "?", ":run", "'"):
            with pytest.raises(NoSuchRun):
                await find_run(views, text)


async def test_a_connection_that_ends_while_rows_are_written_is_told_and_the_next_write_has_another(
    postgres_url: str,
) -> None:
    ended: list[int] = []

    def ending(event: Recorded) -> tuple[Fold, ...]:
        def step(row: Row | None) -> tuple[Row, tuple[Change, ...]]:
            if event.position == 77 and not ended:
                ended.append(event.position)
                harmed(postgres_url, _END_OTHERS)
            return {"name": "x"}, ()

        return (Fold("counts", ("x",), step),)

    counts = Table("counts", {"name": "TEXT NOT NULL"})
    projections = (PROJECTIONS[0], Projection("counts", 1, (counts,), ending), *PROJECTIONS[1:])
    async with open_views(postgres_url, projections) as views:
        with pytest.raises(StoreError, match=r"read models in postgresql://.*; check that the server runs"):
            await views.write(LOG, 0)
        assert {mark.position for mark in (await views.checkpoints()).values()} == {0}
        assert await catch_up(views, ListLog(LOG)) == len(LOG)
        assert await contents(views) == await made_afresh(LOG)


_END_OTHERS = """
    SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


@pytest.mark.check
async def test_a_server_that_is_killed_is_told_and_the_read_models_go_on() -> None:
    with postgres_cluster() as cluster:
        async with view_of(LOG[:50], cluster.url) as views:
            cluster.kill()
            for call in (list_runs(views), views.refresh(), views.write(LOG[50:], 50)):
                with pytest.raises(StoreError, match=r"read models in postgresql://.*; check that the server runs"):
                    await call
            cluster.start()
            assert await catch_up(views, ListLog(LOG)) == len(LOG)
            assert await contents(views) == await made_afresh(LOG)


async def test_a_table_of_another_program_is_never_dropped(postgres_url: str) -> None:
    def theirs() -> list[Any]:
        with Database(postgres_url).connect() as connection:
            return connection.execute("SELECT k FROM theirs").fetchall()

    async with view_of(LOG, postgres_url):
        with Database(postgres_url).connect() as connection:
            connection.execute("CREATE TABLE theirs (k text NOT NULL PRIMARY KEY)")
            connection.execute("INSERT INTO theirs VALUES ('kept')")
        before = theirs()
        kept = Table("theirs", {"k": "TEXT NOT NULL"})
        for projection in (
            Projection("own", 1, (kept,), lambda event: ()),
            Projection("own", 2, (kept, Table("more", {"k": "TEXT NOT NULL"})), lambda event: ()),
        ):
            with pytest.raises(
                InputError, match="there is a table 'theirs' in the database, and no read model made it"
            ):
                await open_views(postgres_url, (projection,)).open()
        assert theirs() == before
    with Database(postgres_url).connect() as connection:
        connection.execute("ALTER TABLE runs DROP COLUMN brief")  # what is damaged is made anew, and nothing else
    damaged = (*PROJECTIONS, Projection("own", 1, (kept,), lambda event: ()))
    with pytest.raises(InputError, match="no read model made it"):
        await open_views(postgres_url, damaged).open()
    assert theirs() == before


@pytest.mark.parametrize("thing", ["TABLE theirs (k text)", "VIEW theirs AS SELECT 1", "SEQUENCE theirs"])
async def test_what_has_the_name_of_a_table_is_told_and_nothing_else_is_dropped(postgres_url: str, thing: str) -> None:
    async with view_of(LOG, postgres_url) as views:
        with Database(postgres_url).connect() as connection:
            connection.execute(f"CREATE {thing}".encode())
        own = Projection("own", 1, (Table("theirs", {"k": "TEXT NOT NULL"}),), lambda event: ())
        with pytest.raises(InputError, match="there is a table 'theirs' in the database"):
            await open_views(postgres_url, (own,)).open()
        assert await views.checkpoints()
        assert await contents(views) == await made_afresh(LOG)


async def test_a_table_of_another_schema_of_the_path_is_left_alone(postgres_url: str) -> None:
    own = Projection("own", 1, (Table("theirs", {"k": "TEXT NOT NULL"}),), lambda event: ())
    with Database(postgres_url).connect() as connection:
        connection.execute("CREATE SCHEMA IF NOT EXISTS further; CREATE TABLE further.theirs (k text)")
        connection.execute("INSERT INTO further.theirs VALUES ('kept')")
    try:
        both = postgres_url + quote(",further")
        async with open_views(both, (own,)):
            pass
        with Database(postgres_url).connect() as connection:
            connection.execute("DROP TABLE theirs")
        async with open_views(both, (own,)) as views:
            assert await views.query("SELECT * FROM theirs") == []
        with Database(postgres_url).connect() as connection:
            assert connection.execute("SELECT k FROM further.theirs").fetchall() == [{"k": "kept"}]
    finally:
        with Database(postgres_url).connect() as connection:
            connection.execute("DROP SCHEMA further CASCADE")


async def test_positions_of_another_program_are_left_alone(postgres_url: str) -> None:
    """The table `tracking` is laid out as that of the `eventsourcing` library, of which there may be one already."""
    prepare(Database(postgres_url))
    with Database(postgres_url).connect() as connection:
        connection.execute("CREATE TABLE tracking (application_name text PRIMARY KEY, notification_id bigint)")
        connection.execute("INSERT INTO tracking VALUES ('theirs', 5)")
    async with view_of(LOG, postgres_url):
        with Database(postgres_url).connect() as connection:
            connection.execute("ALTER TABLE runs DROP COLUMN brief")
    async with view_of(LOG, postgres_url) as views:
        assert await contents(views) == await made_afresh(LOG)
    with Database(postgres_url).connect() as connection:
        kept = connection.execute("SELECT notification_id FROM tracking WHERE application_name = 'theirs'").fetchone()
    assert kept == {"notification_id": 5}


def test_no_table_of_a_projection_is_called_as_that_of_the_log() -> None:
    with pytest.raises(ValueError, match="a table cannot be named 'stored_events'; that name is taken"):
        Table("stored_events", {"k": "TEXT NOT NULL"})
