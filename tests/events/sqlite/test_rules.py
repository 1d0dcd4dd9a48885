"""What the databases refuse by themselves, from whoever speaks SQL to them: no code of Redraft writes here."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

import msgspec
import psycopg
import pytest
from tests.appending import append_to

from redraft.events.backends import open_recorder, open_store
from redraft.events.errors import Conflict, StoreError
from redraft.events.messages.codec import GENESIS
from redraft.events.store.event_store import NewEvent

OLD = Path(__file__).parents[2] / "samples" / "damaged" / "coordinators.db"
"""A store of the release before the rules, with the damage of two coordinators in it."""

FOLLOWS, ONCE, RULES = "redraft_event_follows", "redraft_event_once", "redraft_event_rules"
POSITION, TEXTS, SPELLED = "redraft_event_position", "redraft_event_texts", "redraft_event_id"
VERSION = "redraft_event_version"
Notes = Callable[..., list[NewEvent]]


class Writer(Protocol):
    """Inserts a row with plain SQL, and says why it was refused; empty when it was taken."""

    def __call__(self, run: str, version: int, state: bytes, verb: str = "INSERT") -> str: ...


def state(event_id: str, previous: str, mark: str = "a") -> bytes:
    """The bytes of an event as far as the databases look at them."""
    time = "2026-03-01T12:00:00Z"
    return f'{{"hash":"{mark * 64}","id":"{event_id}","time":"{time}","previous":"{previous}","actor":"sql"}}'.encode()


def sqlite_writer(path: Path) -> Writer:
    def write(run: str, version: int, state: bytes, verb: str = "INSERT") -> str:
        with closing(sqlite3.connect(path)) as connection:
            try:
                with connection:
                    connection.execute(f"{verb} INTO stored_events VALUES (?, ?, 'x', ?)", (run, version, state))
            except sqlite3.IntegrityError as error:
                return str(error)
        return ""

    return write


def postgres_writer(url: str) -> Writer:
    insert = (
        "INSERT INTO stored_events SELECT %s, %s, 'x', %s, coalesce(max(notification_id), 0) + 1 FROM stored_events"
    )

    def write(run: str, version: int, state: bytes, verb: str = "INSERT") -> str:
        with psycopg.connect(url, autocommit=True) as connection:
            try:
                connection.execute(insert.encode(), (run, version, state))
            except psycopg.IntegrityError as error:
                return str(error.diag.constraint_name)
        return ""

    return write


@pytest.fixture(params=["sqlite", "postgresql"])
async def written(request: pytest.FixtureRequest, tmp_path: Path, notes: Notes) -> Writer:
    """A way to write by SQL into a log that has the events 1 and 2 of run `a`, the first with the id `a/test/1`."""
    is_sqlite = request.param == "sqlite"
    url = f"sqlite:///{tmp_path}/log.db" if is_sqlite else request.getfixturevalue("postgres_url")
    async with open_store(url) as store:
        await append_to(store, "a", 0, notes("a", 2))
    return sqlite_writer(tmp_path / "log.db") if is_sqlite else postgres_writer(url)


async def test_what_follows_is_taken(written: Writer) -> None:
    assert written("b", 1, state("b1", GENESIS)) == ""
    assert written("b", 2, state("b2", "a" * 64, "b")) == ""
    assert written("b", 3, state("b3", "b" * 64, "c")) == ""


@pytest.mark.parametrize(
    ("version", "previous"),
    [(1, "a" * 64), (2, GENESIS), (3, "b" * 64), (0, GENESIS), (-1, GENESIS), (2**62, "a" * 64)],
    ids=["first", "second", "gap", "zero", "negative", "far"],
)
async def test_what_does_not_follow_is_refused_by_name(written: Writer, version: int, previous: str) -> None:
    if version != 1:
        assert written("b", 1, state("b1", GENESIS)) == ""
    assert FOLLOWS in written("b", version, state("bx", previous, "d"))


async def test_an_id_that_is_there_is_refused_by_name(written: Writer) -> None:
    assert ONCE in written("b", 1, state("a/test/1", GENESIS))
    assert written("b", 1, state("b1", GENESIS)) == ""
    assert ONCE in written("c", 1, state("b1", GENESIS))


ESCAPED = (r"\u0061/test/1", r"a\/test\/1", r"b\u000A", r"b\u000a", r"b\u0008", r"b\u0022", r"b\u005c", r"b\x", "b\\")


@pytest.mark.parametrize("spelled", ESCAPED)
async def test_an_id_that_is_spelled_as_redraft_spells_none_is_refused(written: Writer, spelled: str) -> None:
    """Else the same id would be in the log twice."""
    assert SPELLED in written("b", 1, state(spelled, GENESIS))


async def test_an_id_that_stands_elsewhere_is_refused(written: Writer) -> None:
    for other in (b'", "id":"', b'","ix":"', b'","id": "'):
        assert SPELLED in written("b", 1, state("a/test/1", GENESIS).replace(b'","id":"', other))


@pytest.mark.parametrize("number", [*range(0x20), 0x22, 0x2F, 0x5C, 0x7F, 0xE9, 0x2028, 0x1F600])
async def test_every_character_may_be_in_an_id(written: Writer, number: int) -> None:
    spelled = msgspec.json.encode(f"b{chr(number)}{chr(number)}1").decode()[1:-1]
    assert written("b", 1, state(spelled, GENESIS)) == ""
    assert ONCE in written("c", 1, state(spelled, GENESIS))


async def test_a_row_that_is_no_event_is_refused(written: Writer) -> None:
    for strange in (b"", b"{}", b"\xff\xfe", b'{"hello":"world"}'):
        assert written("stranger", 1, strange)


VERBS = ("INSERT OR IGNORE", "INSERT OR REPLACE", "REPLACE", "INSERT OR FAIL", "INSERT OR ROLLBACK")


@pytest.mark.parametrize("verb", VERBS)
async def test_no_verb_of_sqlite_gets_around_the_rules(tmp_path: Path, notes: Notes, verb: str) -> None:
    async with open_store(f"sqlite:///{tmp_path}/log.db") as store:
        await append_to(store, "a", 0, notes("a", 2))
    write = sqlite_writer(tmp_path / "log.db")
    assert ONCE in write("b", 1, state("a/test/1", GENESIS), verb)
    assert FOLLOWS in write("a", 4, state("a4", "a" * 64), verb)
    assert FOLLOWS in write("a", 1, state("a1", GENESIS), verb)
    async with open_store(f"sqlite:///{tmp_path}/log.db") as store:
        assert [event.id for event in await store.read("a")] == ["a/test/1", "a/test/2"]


@pytest.mark.parametrize("verb", ["INSERT", *VERBS])
async def test_two_rows_of_one_statement_cannot_have_one_id(tmp_path: Path, notes: Notes, verb: str) -> None:
    async with open_store(f"sqlite:///{tmp_path}/log.db") as store:
        await append_to(store, "a", 0, notes("a"))
    rows = ("b", 1, state("same", GENESIS), "c", 1, state("same", GENESIS))
    with closing(sqlite3.connect(tmp_path / "log.db")) as file:
        with pytest.raises(sqlite3.IntegrityError, match=ONCE), file:
            file.execute(f"{verb} INTO stored_events VALUES (?, ?, 'x', ?), (?, ?, 'x', ?)", rows)
        ids = file.execute("SELECT count(*) FROM redraft_event_ids").fetchone()
        assert ids == file.execute("SELECT count(*) FROM stored_events").fetchone()
        if verb != "INSERT OR FAIL":  # which keeps the rows before the one that is refused
            assert ids == (1,)


async def test_a_clause_that_does_nothing_on_a_conflict_lets_no_row_in(tmp_path: Path, notes: Notes) -> None:
    async with open_store(f"sqlite:///{tmp_path}/log.db") as store:
        await append_to(store, "a", 0, notes("a"))
    insert = "INSERT INTO stored_events VALUES (?, ?, 'x', ?) ON CONFLICT DO NOTHING"
    with closing(sqlite3.connect(tmp_path / "log.db")) as file:
        for run, version in (("b", 1), ("a", 1)):
            with pytest.raises(sqlite3.IntegrityError, match=f"{ONCE}|{FOLLOWS}"), file:
                file.execute(insert, (run, version, state("a/test/1", GENESIS)))
        assert file.execute("SELECT count(*) FROM stored_events").fetchone() == (1,)


@pytest.mark.parametrize("verb", ["INSERT", *VERBS])
async def test_nobody_names_the_position_of_an_event_in_a_file(tmp_path: Path, notes: Notes, verb: str) -> None:
    async with open_store(f"sqlite:///{tmp_path}/log.db") as store:
        await append_to(store, "a", 0, notes("a", 2))
    row = ("b", 1, "x", state("b1", GENESIS))
    with closing(sqlite3.connect(tmp_path / "log.db")) as file:
        for name, position in (("rowid", 2), ("oid", 3), ("_rowid_", 0), ("rowid", -5), ("rowid", 2**63 - 1)):
            columns = f"{name}, originator_id, originator_version, topic, state"
            with pytest.raises(sqlite3.IntegrityError, match=POSITION), file:
                file.execute(f"{verb} INTO stored_events ({columns}) VALUES (?, ?, ?, ?, ?)", (position, *row))
        others = ("c", 1, "x", state("c1", GENESIS), "b", 2, "x", state("b2", "a" * 64))
        file.execute(f"{verb} INTO stored_events VALUES (?, ?, ?, ?)", row)
        file.execute(f"{verb} INTO stored_events VALUES (?, ?, ?, ?), (?, ?, ?, ?)", others)
        found = file.execute("SELECT rowid, originator_id FROM stored_events ORDER BY rowid").fetchall()
    assert found == [(1, "a"), (2, "a"), (3, "b"), (4, "c"), (5, "b")]


@pytest.mark.parametrize("verb", ["INSERT", *VERBS])
async def test_position_minus_one_is_refused_like_any_other(tmp_path: Path, verb: str) -> None:
    """Before an insert it is the same as none. Nothing is left of a statement that has it, whatever the verb."""
    open_recorder(f"sqlite:///{tmp_path}/log.db").release()
    columns = "rowid, originator_id, originator_version, topic, state"
    insert = f"{verb} INTO stored_events ({columns}) VALUES (NULL, 'a', 1, 'x', ?), (-1, 'b', 1, 'x', ?)"
    with closing(sqlite3.connect(tmp_path / "log.db", isolation_level=None)) as file:
        with pytest.raises(sqlite3.IntegrityError, match=POSITION):
            file.execute(insert, (state("a1", GENESIS), state("b1", GENESIS)))
        for table in ("stored_events", "redraft_event_ids"):
            assert file.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)  # noqa: S608


STRANGE_RUNS = ("x'fffe'", "CAST(x'ff41' AS TEXT)", "CAST(x'e28241' AS TEXT)", "'a' || char(0)", "NULL")


@pytest.mark.parametrize("run", STRANGE_RUNS)
async def test_a_run_and_a_topic_that_are_no_texts_are_refused_by_a_file(
    tmp_path: Path, notes: Notes, run: str
) -> None:
    async with open_store(f"sqlite:///{tmp_path}/log.db") as store:
        await append_to(store, "a", 0, notes("a"))
    insert = "INSERT INTO stored_events VALUES ({}, 1, {}, ?)"
    with closing(sqlite3.connect(tmp_path / "log.db")) as file, file:
        for values in ((run, "'x'"), ("'b'", "NULL"), ("'b'", "x'78'")):
            with pytest.raises(sqlite3.IntegrityError, match=TEXTS):
                file.execute(insert.format(*values), (state("b1", GENESIS),))
        file.execute(insert.format("'Gezeiten, 潮汐 ]^-'", "'x'"), (state("b1", GENESIS),))


@pytest.mark.parametrize("verb", ["INSERT", *VERBS])
async def test_a_version_that_is_no_integer_is_refused_by_a_file(tmp_path: Path, verb: str) -> None:
    """SQLite takes `'2x' - 1` for 1, so that a text would follow event 1."""
    open_recorder(f"sqlite:///{tmp_path}/log.db").release()
    insert = verb + " INTO stored_events VALUES ('b', {}, 'x', ?)"
    with closing(sqlite3.connect(tmp_path / "log.db")) as file, file:
        file.execute(insert.format("1"), (state("b1", GENESIS),))
        for version in ("'2x'", "x'32'", "2.5", "9e999", "'99999999999999999999'", "'first'", "NULL"):
            with pytest.raises(sqlite3.IntegrityError, match=VERSION):
                file.execute(insert.format(version), (state("b2", "a" * 64, "b"),))
        file.execute(insert.format("'2 '"), (state("b2", "a" * 64, "b"),))  # which the column keeps as a number
        assert file.execute("SELECT originator_version FROM stored_events").fetchall() == [(1,), (2,)]


async def test_a_run_whose_id_no_store_keeps_is_no_conflict(tmp_path: Path, notes: Notes, postgres_url: str) -> None:
    """A conflict would be decided on again, and again."""
    for url in (f"sqlite:///{tmp_path}/log.db", postgres_url):
        async with open_store(url) as store:
            with pytest.raises(StoreError) as refused:
                await append_to(store, "a\0b", 0, notes("a"))
            assert not isinstance(refused.value, Conflict)
            assert await store.head() == 0


async def test_nobody_chooses_the_position_of_an_event_in_postgresql(postgres_url: str, notes: Notes) -> None:
    async with open_store(postgres_url) as store:
        await append_to(store, "a", 0, notes("a", 2))
    two = "INSERT INTO stored_events VALUES ('b', 1, 'x', %s, %s), ('b', 2, 'x', %s, %s)"
    first, second = state("b1", GENESIS), state("b2", "a" * 64)
    with psycopg.connect(postgres_url, autocommit=True) as server:
        for one, other in ((-5, -4), (0, 1), (3, 5), (4, 3 + 2), (-5, 3), (3, 2**63 - 1), (2**63 - 1, -(2**63))):
            with pytest.raises(psycopg.IntegrityError) as refused:
                server.execute(two, (first, one, second, other))
            assert refused.value.diag.constraint_name in (POSITION, "stored_events_notification_id_idx")
        server.execute(two, (first, 3, second, 4))
    async with open_store(postgres_url) as store:
        assert await append_to(store, "c", 0, notes("c"))
        assert await store.head() == 5


async def test_the_ids_can_be_neither_changed_nor_taken_away(tmp_path: Path, notes: Notes, postgres_url: str) -> None:
    for url in (f"sqlite:///{tmp_path}/log.db", postgres_url):
        async with open_store(url) as store:
            await append_to(store, "a", 0, notes("a"))
    statements = ("DELETE FROM redraft_event_ids", "UPDATE redraft_event_ids SET id = id")
    with closing(sqlite3.connect(tmp_path / "log.db")) as file, psycopg.connect(postgres_url) as server:
        for statement in statements:
            with pytest.raises(sqlite3.IntegrityError, match="never"):
                file.execute(statement)
            with pytest.raises(psycopg.Error, match="never"), server.transaction():
                server.execute(statement.encode())


def test_psql_is_told_the_name_of_the_constraint(postgres_url: str) -> None:
    if shutil.which("psql") is None and "REDRAFT_REQUIRE_SERVICES" not in os.environ:
        pytest.skip("psql is not here; install it: apt-get install postgresql-client")
    open_recorder(postgres_url).release()
    insert = "INSERT INTO stored_events VALUES ('a', 3, 'x', 'y', 1)"
    done = subprocess.run(["psql", postgres_url, "-c", insert], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert FOLLOWS in done.stderr


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return Path(shutil.copy(OLD, tmp_path / "old.db"))


def schema(path: Path) -> set[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}


async def test_a_damaged_store_of_an_earlier_release_opens_and_has_the_rules_once_it_is_written_to(
    old: Path, notes: Notes
) -> None:
    async with open_store(f"sqlite:///{old}") as store:
        there = await store.head()
        assert not schema(old) & {RULES, "redraft_event_ids"}  # reading changes nothing
        (first,) = await append_to(store, "new", 0, notes("new"))
        with pytest.raises(Conflict):
            await store.append("new", 2, notes("new", after=2), first.hash)
        assert await store.head() == there + 1
    assert schema(old) >= {RULES, "redraft_event_ids"}
    write = sqlite_writer(old)
    with closing(sqlite3.connect(old)) as connection:
        known = connection.execute("SELECT state FROM stored_events LIMIT 1").fetchone()[0]
    assert ONCE in write("again", 1, known.replace(known[9:73], b"e" * 64))


async def test_a_database_of_an_earlier_release_gets_the_rules_when_it_is_opened(
    postgres_url: str, notes: Notes
) -> None:
    async with open_store(postgres_url) as store:
        await append_to(store, "a", 0, notes("a"))
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for statement in (
            "DROP TRIGGER redraft_event_follows ON stored_events",
            "DROP FUNCTION redraft_event_follows, redraft_event_id",
            "DROP TABLE redraft_event_ids",
        ):
            connection.execute(statement.encode())
    async with open_store(postgres_url):
        pass
    write = postgres_writer(postgres_url)
    assert write("b", 2, state("b2", GENESIS)) == FOLLOWS
    assert write("b", 1, state("a/test/1", GENESIS)) == ONCE


async def test_what_takes_the_rules_away_is_told(tmp_path: Path, notes: Notes, postgres_url: str) -> None:
    for url in (f"sqlite:///{tmp_path}/log.db", postgres_url):
        async with open_store(url) as store:
            await append_to(store, "a", 0, notes("a"))
    with closing(sqlite3.connect(tmp_path / "log.db")) as connection, connection:
        connection.execute(f"DROP TRIGGER {RULES}")
    with psycopg.connect(postgres_url, autocommit=True) as server:
        server.execute(b"ALTER TABLE stored_events DISABLE TRIGGER redraft_event_follows")
    for url in (f"sqlite:///{tmp_path}/log.db", postgres_url):
        async with open_store(url) as store:
            report = await store.verify_all()
        assert any("redraft_event_" in fault.message for fault in report.faults), report.faults


async def test_rules_of_an_earlier_release_are_made_anew_as_the_report_says(tmp_path: Path, notes: Notes) -> None:
    async with open_store(f"sqlite:///{tmp_path}/log.db") as store:
        await append_to(store, "a", 0, notes("a"))
    with closing(sqlite3.connect(tmp_path / "log.db")) as file:
        file.execute(f"DROP TRIGGER {RULES}")
        file.execute(f"CREATE TRIGGER {RULES} BEFORE INSERT ON stored_events BEGIN SELECT 1; END")
        async with open_store(f"sqlite:///{tmp_path}/log.db") as store:
            (fault,) = (await store.verify_all()).faults
        file.executescript(fault.message.partition("uses the file, ")[2].rpartition(" the next append")[0])
    async with open_store(f"sqlite:///{tmp_path}/log.db") as store:
        await append_to(store, "a", 1, notes("a", after=1))
        assert (await store.verify_all()).faults == ()
