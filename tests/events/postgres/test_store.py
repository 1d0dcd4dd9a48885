"""What is PostgreSQL's own: whose database it is, what its errors say, and that the library's recorder agrees."""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing, closing, contextmanager, suppress
from typing import LiteralString
from urllib.parse import quote
from uuid import uuid4

import psycopg
import pytest
from eventsourcing.persistence import IntegrityError, StoredEvent
from eventsourcing.popo import POPOApplicationRecorder
from eventsourcing.postgres import PostgresApplicationRecorder, PostgresDatastore
from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace
from psycopg.rows import DictRow
from tests.appending import append_to
from tests.events.fitting import ROWS, Fitting

from redraft.events.backends import open_lease, open_recorder, open_store
from redraft.events.errors import Conflict, IncompatibleStore, InputError, StoreError, Tampered
from redraft.events.postgres import direct_writer
from redraft.events.postgres.connection import Database, is_row_too_large
from redraft.events.postgres.recorder import PostgresRecorder
from redraft.events.postgres.schema import SCHEMA_VERSION
from redraft.events.store.event_store import EventStore, NewEvent
from redraft.events.store.recorder import DataError, OperationalError

Notes = Callable[..., list[NewEvent]]

SECRET = "s3cr3t"  # noqa: S105


@pytest.fixture
def beside(postgres_url: str) -> Iterator[psycopg.Connection]:
    """A connection to the store's database, as another program has."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection


def one(connection: psycopg.Connection, statement: str) -> object:
    (value,) = connection.execute(statement).fetchone() or (None,)
    return value


def relations(connection: psycopg.Connection) -> list[tuple[object, ...]]:
    return connection.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace ORDER BY 1"
    ).fetchall()


# What a URL names


@pytest.mark.parametrize(
    "text",
    [
        f"postgresql://me:{SECRET}@host:port/db",
        f"postgresql://me:{SECRET}@host:99999/db",
        f"postgresql://me:{SECRET}/x@host/db",
        f"postgresql://me:{SECRET}@x@host/db",
        f"postgresql://me:{SECRET}#@host:5432:1/db",
        f"postgresql://me:%{SECRET}@host/db",
        f"postgresql://me:{SECRET}@host/db?no_such=1",
        f"postgresql://me@host/db?password={SECRET}&x",
    ],
)
def test_a_url_that_is_not_understood_is_refused_without_its_secrets(text: str) -> None:
    with pytest.raises(InputError, match="postgresql://user@host:5432/database") as caught:
        open_store(text)
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "where"),
    [
        (f"postgresql://me:{SECRET}@host:5433/db", "postgresql://me@host:5433/db"),
        (f"postgres://me@host/db?password={SECRET}", "postgresql://me@host/db"),
        ("postgresql:///db?host=/run/postgresql", "postgresql:///db?host=/run/postgresql"),
        (f"postgresql://me:{quote('a@b/c', safe='')}@one:5432,two:5433/db", "postgresql://me@one:5432,two:5433/db"),
        ("postgresql://[::1]:5432/db", "postgresql://[::1]:5432/db"),
        ("postgresql://", "postgresql:///"),
        ("postgresql://me@host/db?schema=drafts", "postgresql://me@host/db?schema=drafts"),
        ("postgresql:///db?host=/run/pg&schema=drafts", "postgresql:///db?host=/run/pg&schema=drafts"),
    ],
)
def test_a_database_is_named_without_its_password(url: str, where: str) -> None:
    assert Database(url).where == where


def test_a_server_that_is_not_there_is_told_with_the_remedy() -> None:
    with pytest.raises(StoreError, match=r"postgresql://me@127\.0\.0\.1:1/db: .*refused.*; check that") as caught:
        open_store(f"postgresql://me:{SECRET}@127.0.0.1:1/db")
    assert type(caught.value) is StoreError
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_database_that_is_not_there_is_told(postgres_server: str) -> None:
    given = psycopg.conninfo.conninfo_to_dict(postgres_server)
    given["dbname"] = "no-such"
    url = "postgresql://?" + "&".join(f"{name}={value}" for name, value in given.items())
    with pytest.raises(StoreError, match='database "no-such" does not exist; check that'):
        open_store(url)


def test_a_password_in_what_the_server_says_is_left_out() -> None:
    database = Database(f"postgresql://me:{SECRET}@host/db")
    assert database.explain(psycopg.OperationalError(f"no way for {SECRET}\nhere")).startswith("no way for … here; ")


def test_psycopg_is_needed_only_where_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in sys.modules if each.split(".")[0] == "psycopg" or ".postgres." in each]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    open_recorder("memory:")
    with pytest.raises(InputError, match=r"needs psycopg .*; pip install"):
        open_recorder("postgresql://host/db")


# Whose database it is


async def test_a_new_database_is_laid_out_and_can_be_opened_again(postgres_url: str, notes: Notes) -> None:
    async with open_store(postgres_url) as store:
        first = await append_to(store, "a", 0, notes("a", 3))
    async with open_store(postgres_url) as store:
        assert await store.read("a") == first


async def test_many_may_open_a_new_database_at_once(postgres_url: str, notes: Notes) -> None:
    stores = await asyncio.gather(*(asyncio.to_thread(open_store, postgres_url) for _ in range(8)))
    await asyncio.gather(*(append_to(store, f"r{n}", 0, notes(f"r{n}")) for n, store in enumerate(stores)))
    assert await stores[0].head() == 8
    for store in stores:
        await store.close()


@pytest.mark.parametrize(
    "statement", ["CREATE TABLE stored_events (mine text)", "CREATE VIEW books AS SELECT 1", "CREATE TABLE z (a int)"]
)
def test_a_database_of_another_program_is_refused_and_left_as_it_is(
    postgres_url: str, beside: psycopg.Connection, statement: str
) -> None:
    beside.execute(statement)
    before = relations(beside)
    with pytest.raises(IncompatibleStore, match=r"another program.*; name another") as caught:
        open_store(postgres_url)
    assert "\n" not in str(caught.value)
    assert relations(beside) == before


def test_a_database_of_a_later_version_is_refused(postgres_url: str, beside: psycopg.Connection) -> None:
    open_recorder(postgres_url).release()
    beside.execute("UPDATE redraft_schema SET version = %s", (SCHEMA_VERSION + 1,))
    with pytest.raises(IncompatibleStore, match=r"later version of Redraft .*; upgrade"):
        open_store(postgres_url)


def test_a_schema_that_is_not_there_is_told(postgres_server: str) -> None:
    given = psycopg.conninfo.conninfo_to_dict(postgres_server)
    rest = "&".join(f"{name}={value}" for name, value in given.items())
    with pytest.raises(IncompatibleStore, match="has no schema nowhere; CREATE SCHEMA"):
        open_store(f"postgresql://?{rest}&options=-csearch_path%3Dnowhere")


@pytest.mark.parametrize(
    "name", ["", "Drafts", "1st", "a-b", "pg_mine", "information_schema", "a" * 64, "a%3Bdrop", "ä"]
)
def test_a_schema_that_cannot_be_used_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="of the store cannot be used; write at most 63 of a to z") as caught:
        open_store(f"postgresql://me:{SECRET}@127.0.0.1:1/db?schema={name}")
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_schema_that_this_user_may_not_make_is_told(reader: str) -> None:
    with pytest.raises(StoreError, match=r"schema=nobodys: permission denied for database .*; grant"):
        open_store(f"{reader}&schema=nobodys")


def test_a_database_in_another_encoding_is_refused(postgres_server: str) -> None:
    name = f"{psycopg.conninfo.conninfo_to_dict(postgres_server)['dbname']}_latin"
    with psycopg.connect(postgres_server, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
        try:
            rest = psycopg.conninfo.conninfo_to_dict(postgres_server, dbname=name)
            with pytest.raises(IncompatibleStore, match="in LATIN1; name one that is in UTF8"):
                open_store("postgresql://?" + "&".join(f"{key}={value}" for key, value in rest.items()))
        finally:
            server.execute(f"DROP DATABASE {name}")


@pytest.fixture
def reader(postgres_url: str, beside: psycopg.Connection) -> Iterator[str]:
    """The URL of the store for a user who may read, and nothing else."""
    name, schema = f"redraft_reader_{uuid4().hex[:8]}", one(beside, "SELECT current_schema()")
    open_recorder(postgres_url).release()
    beside.execute(f"CREATE ROLE {name} LOGIN")
    beside.execute(f"GRANT USAGE ON SCHEMA {schema} TO {name}")
    beside.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {name}")
    yield f"{postgres_url}&user={name}"
    beside.execute(f"DROP OWNED BY {name}")
    beside.execute(f"DROP ROLE {name}")


async def test_who_may_only_read_can_read(postgres_url: str, reader: str, notes: Notes) -> None:
    async with open_store(postgres_url) as owner:
        await append_to(owner, "a", 0, notes("a", 2))
    async with open_store(reader) as store:
        assert await store.verify("a") == 2
        with pytest.raises(StoreError, match=r"permission denied.*; grant"):
            await append_to(store, "a", 2, notes("a", after=2))


def test_who_may_not_make_the_tables_is_told(postgres_url: str, reader: str, beside: psycopg.Connection) -> None:
    beside.execute("DROP TABLE stored_events, redraft_schema, redraft_relay, redraft_event_ids, redraft_leases")
    with pytest.raises(StoreError, match=r"permission denied for schema .*; grant"):
        open_store(reader)


async def test_a_database_of_an_earlier_release_gets_the_table_of_leases_from_who_may_make_tables(
    postgres_url: str, reader: str, beside: psycopg.Connection
) -> None:
    beside.execute("DROP TABLE redraft_leases")
    async with open_store(reader) as store:
        assert [
            fault.message for fault in (await store.verify_all()).faults if "redraft_leases is missing" in fault.message
        ]
    async with open_lease(reader) as lease:
        with pytest.raises(StoreError, match=r"redraft_leases.* does not exist"):
            await lease.acquire()
    async with open_store(postgres_url), open_lease(postgres_url) as lease:
        assert await lease.acquire() == 0


# Rows stay


@pytest.mark.parametrize(
    "statement", ["UPDATE stored_events SET topic = 'x'", "DELETE FROM stored_events", "TRUNCATE stored_events"]
)
@pytest.mark.parametrize("role", ["origin", "replica"])
async def test_events_are_never_changed_or_deleted(
    postgres_url: str, beside: psycopg.Connection, notes: Notes, statement: str, role: str
) -> None:
    async with open_store(postgres_url) as store:
        await append_to(store, "a", 0, notes("a", 3))
        beside.execute(f"SET session_replication_role = {role}")
        with pytest.raises(psycopg.Error, match="events are never changed"):
            beside.execute(statement)
        assert await store.verify("a") == 3


@pytest.mark.parametrize(
    "change", ["state = '{}'", "state = ''", "topic = 'x'", "originator_version = 9", "originator_id = 'b'"]
)
async def test_a_row_that_was_changed_all_the_same_is_found(
    postgres_url: str, beside: psycopg.Connection, notes: Notes, change: str
) -> None:
    async with open_store(postgres_url) as store:
        await append_to(store, "a", 0, notes("a", 3))
        beside.execute("ALTER TABLE stored_events DISABLE TRIGGER redraft_refuse")
        beside.execute(f"UPDATE stored_events SET {change} WHERE originator_version = 2")  # noqa: S608
        with pytest.raises(Tampered, match="event 2 of run a"):
            await store.verify("a")


# What a session is given


@pytest.mark.parametrize(
    ("server", "kept"), [("off", "on"), ("local", "on"), ("remote_write", "on"), ("remote_apply", "remote_apply")]
)
def test_a_commit_is_on_disk_whatever_the_server_is_set_to(postgres_url: str, server: str, kept: str) -> None:
    url = f"{postgres_url}%20-csynchronous_commit%3D{server}%20-cdefault_transaction_isolation%3Dserializable"
    with closing(Database(url).connect()) as connection:
        shown = connection.execute(
            "SELECT current_setting('synchronous_commit') AS commit, current_setting('lock_timeout') AS lock,"
            " current_setting('statement_timeout') AS statement, current_setting('transaction_isolation') AS isolation,"
            " current_setting('idle_in_transaction_session_timeout') AS idle"
        ).fetchone()
    assert shown == {
        "commit": kept,
        "lock": "10s",
        "statement": "30s",
        "isolation": "read committed",
        "idle": "8s",
    }


async def test_a_log_that_stays_held_is_told(
    postgres_url: str, beside: psycopg.Connection, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redraft.events.postgres.connection.LOCK_SECONDS", 0.05)
    async with open_store(postgres_url) as store:
        with beside.transaction(force_rollback=True):
            (row,) = Fitting().rows([("b", 1, "t", b"x")])
            beside.execute("SELECT redraft_append('{b}', '{1}', '{t}', ARRAY[%b])", (row.state,))
            with pytest.raises(StoreError, match="another program has held it for 10 seconds; end"):
                await append_to(store, "a", 0, notes("a"))
        assert [event.position for event in await append_to(store, "a", 0, notes("a"))] == [1]


async def test_a_statement_that_takes_too_long_is_told(
    postgres_url: str, beside: psycopg.Connection, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_store(postgres_url) as store:
        await append_to(store, "a", 0, notes("a"))
    monkeypatch.setattr("redraft.events.postgres.connection.STATEMENT_SECONDS", 0.5)
    async with open_store(postgres_url) as hasty:
        with beside.transaction():
            beside.execute("LOCK TABLE stored_events")
            with pytest.raises(StoreError, match="took longer than 30 seconds; see"):
                await hasty.read("a")
        async with asyncio.timeout(30):
            while True:  # on a busy machine half a second may be too little once more
                with suppress(StoreError):
                    assert len(await hasty.read("a")) == 1
                    break


async def test_a_server_that_takes_no_writes_is_told(postgres_url: str, notes: Notes) -> None:
    open_recorder(postgres_url).release()
    async with open_store(f"{postgres_url}%20-cdefault_transaction_read_only%3Don") as store:
        with pytest.raises(StoreError, match="takes no writes; name the primary"):
            await append_to(store, "a", 0, notes("a"))


async def test_a_name_that_postgres_cannot_keep_fails_no_neighbour(postgres_url: str, notes: Notes) -> None:
    async with open_store(postgres_url) as store:
        results = await asyncio.gather(
            append_to(store, "a\0b", 0, notes("x")), append_to(store, "c", 0, notes("c")), return_exceptions=True
        )
        assert isinstance(results[0], StoreError)
        assert results[1] == await store.read("c")


# Large and many


async def test_a_group_above_the_size_of_one_call_is_still_all_or_nothing(
    postgres_url: str, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redraft.events.postgres.recorder._MOST_BYTES", 50_000)
    by_thread = EventStore(replace(open_recorder(postgres_url), direct=None))
    async with by_thread as store, open_store(postgres_url) as other:
        await append_to(store, "a", 0, notes("a"))
        await append_to(other, "a", 1, notes("a", 30, after=1, by="other", text="x" * 10_000))
        with pytest.raises(Conflict):
            await append_to(store, "a", 1, notes("a", 31, after=1, text="x" * 10_000))
        assert await store.head() == 31
        events = await append_to(store, "a", 31, notes("a", 30, after=31, text="x" * 10_000))
        assert [event.position for event in events] == list(range(32, 62))
        assert await store.verify("a") == 61


async def test_appends_up_to_a_megabyte_need_no_thread(
    postgres_url: str, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The larger of them do not fit into a socket's buffer at once."""
    opened, by_thread = open_recorder(postgres_url), list[int]()
    insert = opened.recorder.insert_events

    def counting(rows: Sequence[StoredEvent]) -> Sequence[int] | None:
        by_thread.append(len(rows))
        return insert(rows)

    monkeypatch.setattr(opened.recorder, "insert_events", counting)
    async with EventStore(opened) as store:
        events = [
            await append_to(store, f"r{kib}", 0, notes(f"r{kib}", 3, text="x" * (kib * 1024))) for kib in (0, 8, 330)
        ]
        assert by_thread == []
        events.append(await append_to(store, "large", 0, notes("large", 3, text="x" * 350 * 1024)))
        assert by_thread == [3]
        assert [await store.read(run[0].run) for run in events] == events


@pytest.mark.check
async def test_an_event_of_many_megabytes_is_kept(postgres_url: str, notes: Notes) -> None:
    async with open_store(postgres_url) as store:
        events = await append_to(store, "a", 0, notes("a", 2, text="ü" * 20_000_000))
        assert await store.read("a") == events


# The library's recorder and ours


@pytest.fixture
def ours(postgres_url: str) -> Iterator[PostgresRecorder]:
    opened = open_recorder(postgres_url)
    assert isinstance(opened.recorder, PostgresRecorder)
    yield opened.recorder
    opened.release()


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(groups=ROWS)
def test_our_recorder_gives_what_the_librarys_in_memory_gives(
    ours: PostgresRecorder, groups: list[list[tuple[str, int, str, bytes]]]
) -> None:
    """Each example has runs of its own, and begins where the log of the others ends."""
    theirs, begin, mark = POPOApplicationRecorder(), ours.max_notification_id() or 0, uuid4().hex
    fitting = Fitting(mark)
    for group in groups:
        rows = fitting.rows(group)
        results: list[object] = []
        for recorder, less in ((ours, begin), (theirs, 0)):
            try:
                results.append([position - less for position in recorder.insert_events(rows) or ()])
            except IntegrityError:
                results.append("conflict")
        assert results[0] == results[1]
        if results[0] != "conflict":
            fitting.taken(rows)
    assert (ours.max_notification_id() or 0) - begin == (theirs.max_notification_id() or 0)
    for start, limit, stop, topics, inclusive in (
        (1, 99, 99, (), True),
        (2, 3, 99, (), True),
        (2, 3, 4, (), False),
        (1, 99, 5, ("t1",), False),
    ):
        asked = {"topics": topics, "inclusive_of_start": inclusive}
        found = ours.select_notifications(begin + start, limit, begin + stop, **asked)
        expected = theirs.select_notifications(start, limit, stop, **asked)
        assert [(row.id - begin, row.topic, row.state) for row in found] == [
            (row.id, row.topic, row.state) for row in expected
        ]
    for run in "abcd":
        everything = sorted(theirs.select_events(mark + run), key=lambda row: row.originator_version)
        for gt, lte, desc, most in ((None, None, False, None), (2, 4, False, None), (None, 5, True, 2)):
            expected = [row for row in everything if (gt or 0) < row.originator_version <= (lte or 9)]
            found = ours.select_events(mark + run, gt=gt, lte=lte, desc=desc, limit=most)
            assert _plain(found) == (expected[::-1] if desc else expected)[:most]


def _plain(rows: Sequence[StoredEvent]) -> list[StoredEvent]:
    return [StoredEvent(row.originator_id, row.originator_version, row.topic, row.state) for row in rows]


async def test_the_librarys_own_recorder_reads_our_table(
    postgres_url: str, ours: PostgresRecorder, beside: psycopg.Connection, notes: Notes
) -> None:
    async with open_store(postgres_url) as store:
        await append_to(store, "a", 0, notes("a", 3))
    with PostgresDatastore(
        beside.info.dbname,
        beside.info.host,
        beside.info.port,
        beside.info.user,
        beside.info.password,
        schema=str(one(beside, "SELECT current_schema()")),
        originator_id_type="text",
    ) as datastore:
        library = PostgresApplicationRecorder(datastore)
        assert library.select_notifications(1, 9) == ours.select_notifications(1, 9)
        assert library.select_events("a") == _plain(ours.select_events("a"))


def test_the_librarys_subscription_works_on_our_recorder(ours: PostgresRecorder) -> None:
    ours.insert_events(Fitting().rows([("a", 1, "t", b"x")]))
    with ours.subscribe(gt=0) as events:
        assert next(events).originator_version == 1


@pytest.mark.timeout(60)
def test_the_librarys_subscription_misses_nothing_that_was_inserted_before_it_listens(
    ours: PostgresRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = Fitting().rows([("a", 1, "t", b"x"), ("b", 1, "t", b"x")])
    inserted = threading.Event()
    lend = ours.datastore.get_connection

    @contextmanager
    def lend_late_to_who_listens() -> Iterator[psycopg.Connection[DictRow]]:
        if "_listen" in threading.current_thread().name:
            inserted.wait()
        with lend() as connection:
            yield connection

    monkeypatch.setattr(ours.datastore, "get_connection", lend_late_to_who_listens)
    ours.insert_events([first])
    with ours.subscribe(gt=0) as events:
        try:
            assert next(events).originator_id == "a"
            ours.insert_events([second])
        finally:
            inserted.set()
        assert next(events).originator_id == "b"


# Connections


async def test_connections_that_the_server_ended_are_replaced_before_they_are_used(
    postgres_url: str, beside: psycopg.Connection, notes: Notes
) -> None:
    async with open_store(postgres_url) as store:
        for version in range(5):
            await append_to(store, "a", version, notes("a", after=version))
            assert len(await store.read("a")) == version + 1
            ended = beside.execute(
                "SELECT pid, pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                " WHERE application_name = 'redraft' AND datname = current_database()"
            ).fetchall()
            assert ended


async def test_a_closed_store_leaves_no_connection(postgres_url: str, beside: psycopg.Connection, notes: Notes) -> None:
    ours = f"{postgres_url}&application_name=counted"
    async with EventStore(open_recorder(ours), poll=0.01) as store:
        tail = store.tail(0)
        waiting = asyncio.ensure_future(anext(tail))
        await until(beside, 2)
        await append_to(store, "a", 0, notes("a"))
        assert len(await waiting) == 1
        await tail.aclose()
    await until(beside, 0)


async def until(beside: psycopg.Connection, count: int) -> None:
    """Returns when the program has so many connections: one that listens, and one that looks for the end of the log."""
    async with asyncio.timeout(30):
        while one(beside, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'counted'") != count:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


LONG_TEXT: LiteralString = """
    CREATE TABLE keys (k text PRIMARY KEY);
    CREATE FUNCTION long_text(many int) RETURNS text LANGUAGE sql AS
        $$ SELECT string_agg(md5(number::text), ' ') FROM generate_series(1, many) AS number $$
"""


@pytest.mark.parametrize(
    ("statement", "never"),
    [
        ("INSERT INTO keys VALUES (long_text(1000))", True),
        ("INSERT INTO keys VALUES (long_text(150))", True),
        ("SELECT to_tsvector('simple', long_text(40000))", True),
        ("DO $$ BEGIN RAISE 'too many notifications in the NOTIFY queue' USING ERRCODE = '54000'; END $$", False),
        ("SELECT pg_terminate_backend(pg_backend_pid())", False),
    ],
)
def test_a_row_that_is_too_large_is_told_from_a_server_that_takes_nothing_now(
    postgres_url: str, statement: LiteralString, never: bool
) -> None:
    database = Database(postgres_url)
    with database.connect() as connection:
        connection.execute(LONG_TEXT)
        with pytest.raises(psycopg.OperationalError) as raised:
            connection.execute(statement)
    assert is_row_too_large(raised.value) == never
    assert type(database.persistence_error(raised.value)) is (DataError if never else OperationalError)


# A process without file descriptors


@contextmanager
def no_descriptors(spare: int = 0) -> Iterator[None]:
    """Leaves this process no file descriptor to open, but for so many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + spare, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_a_process_without_file_descriptors_appends_and_reads_by_the_connections_that_it_has(
    postgres_url: str, notes: Notes
) -> None:
    async with asyncio.timeout(60), open_store(postgres_url) as store:
        first = await append_to(store, "a", 0, notes("a"))
        assert await store.head() == 1
        with no_descriptors():
            with pytest.raises(OSError, match="Too many open files"):
                os.dup(0)
            second = await append_to(store, "a", 1, notes("a", after=1))
            assert await store.head() == 2
        assert await store.read("a") == (*first, *second)


async def test_an_append_that_cannot_be_sent_fails_and_the_next_is_written(
    postgres_url: str, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(rows: object) -> tuple[bytes, bytes, bytes, bytes]:
        raise MemoryError

    async with asyncio.timeout(60), open_store(postgres_url) as store:
        await append_to(store, "a", 0, notes("a"))
        with monkeypatch.context() as patch:
            patch.setattr(direct_writer, "_arrays", cannot)
            with pytest.raises(StoreError, match="MemoryError"):
                await append_to(store, "a", 1, notes("a", after=1))
        assert [each.position for each in await append_to(store, "a", 1, notes("a", after=1))] == [2]
        assert len(await store.read("a")) == 2


async def test_who_listens_or_appends_goes_on_after_a_connection_that_could_not_be_made(
    postgres_url: str, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect, failed = Database.connect_async, 0

    async def without_descriptors(database: Database) -> object:
        nonlocal failed
        if failed < 3:
            failed += 1
            raise OSError(24, "Too many open files")
        return await connect(database)

    monkeypatch.setattr(Database, "connect_async", without_descriptors)
    async with (
        asyncio.timeout(60),
        open_store(postgres_url, poll=600) as store,
        open_store(postgres_url) as other,
        aclosing(store.tail(0)) as batches,
    ):
        following, written = asyncio.ensure_future(anext(batches)), 0
        while not following.done():
            with suppress(StoreError):
                await append_to(other, "a", written, notes("a", after=written))
                written += 1
            await asyncio.wait({following}, timeout=0.05)
        assert await following
    assert failed == 3


@pytest.mark.parametrize("spare", range(5))
async def test_a_connection_for_which_too_few_descriptors_are_left_is_an_error_of_the_server(
    postgres_url: str, spare: int
) -> None:
    database = Database(postgres_url)
    with no_descriptors(spare):
        with suppress(psycopg.OperationalError):
            database.connect().close()
        with suppress(psycopg.OperationalError):
            await (await database.connect_async()).close()
    database.connect().close()
