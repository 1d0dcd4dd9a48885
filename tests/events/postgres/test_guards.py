"""What protects the events in PostgreSQL: whatever is changed about it is told, and nothing is recorded beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import uuid4

import psycopg
import pytest
from msgspec.structs import replace
from tests.app.cli_calls import call
from tests.appending import append_to
from tests.events.sqlite.test_rules import state

from redraft.events.backends import open_recorder, open_store
from redraft.events.errors import Conflict, StoreError
from redraft.events.messages.codec import GENESIS
from redraft.events.store.event_store import EventStore, NewEvent

Notes = Callable[..., list[NewEvent]]

NEXT = "(SELECT coalesce(max(notification_id), 0) + 1 FROM stored_events)"
EMPTY = "RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'"
MADE = "is not what this release makes"


@pytest.fixture
def server(postgres_url: str) -> Iterator[psycopg.Connection]:
    """A connection of the owner to a database with our tables, and a function `own` of theirs."""
    open_recorder(postgres_url).release()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE FUNCTION own () {EMPTY}")
        yield connection


def with_keys(url: str) -> None:
    """Makes the tables of keys and of imported runs."""
    opened = open_recorder(url)
    opened.keys.put("sealed", b"key")
    opened.keys.note_imported(["sealed"])
    opened.release()


async def faults(url: str) -> list[str]:
    async with open_store(url) as store:
        report = await store.verify_all()
        assert list(await store.inspect_guards()) == [fault.message for fault in report.faults]
    return [fault.message for fault in report.faults]


FIRST_FOLLOWS = "CREATE OR REPLACE TRIGGER redraft_event_follows AFTER INSERT ON stored_events"
MENDED = {
    f"CREATE OR REPLACE FUNCTION redraft_event_follows () {EMPTY} SET enable_seqscan = off "
    "SET search_path = pg_catalog, pg_temp": f"function redraft_event_follows {MADE}",
    f"CREATE OR REPLACE FUNCTION redraft_refuse () {EMPTY}": f"function redraft_refuse {MADE}",
    "CREATE OR REPLACE FUNCTION redraft_append (runs text[], versions bigint[], topics text[], states bytea[]) "
    "RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'": f"function redraft_append {MADE}",
    "CREATE OR REPLACE FUNCTION redraft_event_id (state bytea) RETURNS bytea LANGUAGE sql IMMUTABLE AS "
    "'SELECT state'": f"function redraft_event_id {MADE}",
    "ALTER FUNCTION redraft_event_follows RESET search_path": f"function redraft_event_follows {MADE}",
    "ALTER FUNCTION redraft_append SET search_path = own, public": f"function redraft_append {MADE}",
    "ALTER FUNCTION redraft_append SECURITY DEFINER": f"function redraft_append {MADE}",
    f"{FIRST_FOLLOWS} REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION own (); "
    "ALTER TABLE stored_events ENABLE ALWAYS TRIGGER redraft_event_follows": f"trigger redraft_event_follows on "
    f"stored_events {MADE}",
    "CREATE OR REPLACE TRIGGER redraft_refuse BEFORE UPDATE ON stored_events FOR EACH STATEMENT EXECUTE FUNCTION "
    "redraft_refuse (); ALTER TABLE stored_events ENABLE ALWAYS TRIGGER redraft_refuse": f"trigger redraft_refuse on "
    f"stored_events {MADE}",
    "CREATE OR REPLACE TRIGGER redraft_refuse BEFORE DELETE OR UPDATE OR TRUNCATE ON redraft_event_ids FOR EACH "
    "STATEMENT WHEN (pg_trigger_depth() > 9) EXECUTE FUNCTION redraft_refuse (); "
    "ALTER TABLE redraft_event_ids ENABLE ALWAYS TRIGGER redraft_refuse": f"trigger redraft_refuse on "
    f"redraft_event_ids {MADE}",
    "ALTER TABLE stored_events DISABLE TRIGGER redraft_event_follows": "trigger redraft_event_follows is missing",
    "DROP TRIGGER redraft_event_follows ON stored_events": "trigger redraft_event_follows is missing",
    "DROP TRIGGER redraft_refuse ON redraft_event_ids": "trigger redraft_refuse is missing",
    "DROP TRIGGER redraft_ids_by_hand ON redraft_event_ids": "trigger redraft_ids_by_hand is missing",
    "ALTER TABLE stored_events ENABLE TRIGGER redraft_refuse": "trigger redraft_refuse is missing",
}
"""What an owner may do to our functions and triggers, and what is said of it."""


@pytest.mark.parametrize("change", MENDED)
async def test_what_was_done_to_our_functions_and_triggers_is_told_and_the_remedy_mends_it(
    postgres_url: str, server: psycopg.Connection, notes: Notes, change: str
) -> None:
    async with open_store(postgres_url) as store:
        await append_to(store, "a", 0, notes("a", 2))
    assert await faults(postgres_url) == []
    server.execute(change.encode())
    (told,) = await faults(postgres_url)
    assert told.startswith("store postgresql://"), told
    assert MENDED[change] in told
    remedy = told.partition("as the owner of its tables, ")[2].partition(" in psql, ")[0]
    assert remedy.startswith("DROP FUNCTION")
    server.execute(remedy.encode())
    assert await faults(postgres_url) == []
    async with open_store(postgres_url) as store:
        await append_to(store, "a", 2, notes("a", after=2))


STRANGE = {
    "CREATE TRIGGER more BEFORE INSERT ON stored_events FOR EACH ROW EXECUTE FUNCTION own ()": (
        "stored_events has the trigger more",
        "DROP TRIGGER",
    ),
    "CREATE TRIGGER more AFTER INSERT ON redraft_event_ids EXECUTE FUNCTION own ()": (
        "redraft_event_ids has the trigger more",
        "DROP TRIGGER",
    ),
    "CREATE RULE more AS ON INSERT TO stored_events DO INSTEAD NOTHING": (
        "stored_events has the rule more",
        "DROP RULE",
    ),
    'CREATE RULE "more, 2" AS ON INSERT TO redraft_event_ids DO ALSO SELECT 1': (
        'redraft_event_ids has the rule "more, 2"',
        "DROP RULE",
    ),
    'CREATE TABLE "Child" () INHERITS (stored_events)': ("stored_events has the child table ", "ALTER TABLE"),
    "ALTER TABLE stored_events ENABLE ROW LEVEL SECURITY": ("stored_events has row level security", "ALTER TABLE"),
    "ALTER TABLE redraft_event_ids FORCE ROW LEVEL SECURITY, ENABLE ROW LEVEL SECURITY": (
        "redraft_event_ids has row level security",
        "ALTER TABLE",
    ),
}


ON_EVENTS = "stored_events has no unique index on (originator_id, originator_version)"
ON_POSITIONS = "stored_events has no unique index on (notification_id)"
ON_IDS = "redraft_event_ids has no unique index redraft_event_once on (id)"
NO_POSITIONS = "DROP INDEX stored_events_notification_id_idx; CREATE UNIQUE INDEX stored_events_notification_id_idx ON"
NO_ONCE = "ALTER TABLE redraft_event_ids DROP CONSTRAINT redraft_event_once"
STRANGE |= {
    "ALTER TABLE stored_events DROP CONSTRAINT stored_events_pkey": (ON_EVENTS, "CREATE UNIQUE"),
    "ALTER TABLE stored_events DROP CONSTRAINT stored_events_pkey, ADD PRIMARY KEY (originator_id, originator_version) "
    "DEFERRABLE": (ON_EVENTS, "CREATE UNIQUE"),
    f"{NO_POSITIONS} stored_events (notification_id) WHERE notification_id < 0": (ON_POSITIONS, "CREATE UNIQUE"),
    f"{NO_POSITIONS} stored_events ((notification_id + 1))": (ON_POSITIONS, "CREATE UNIQUE"),
    f"{NO_POSITIONS} stored_events (notification_id, topic)": (ON_POSITIONS, "CREATE UNIQUE"),
    NO_ONCE: (ON_IDS, "ALTER TABLE"),
    f"{NO_ONCE}, ADD CONSTRAINT redraft_event_once PRIMARY KEY (id) DEFERRABLE": (ON_IDS, "ALTER TABLE"),
    f"{NO_ONCE}; CREATE UNIQUE INDEX redraft_event_once ON redraft_event_ids (id) WHERE id = ''": (
        ON_IDS,
        "ALTER TABLE",
    ),
    "ALTER TABLE redraft_event_ids RENAME CONSTRAINT redraft_event_once TO other": (ON_IDS, "ALTER TABLE"),
    "ALTER TABLE stored_events ALTER notification_id DROP NOT NULL": (
        "stored_events takes rows without notification_id",
        "ALTER TABLE",
    ),
    "ALTER TABLE stored_events SET UNLOGGED": ("stored_events is UNLOGGED", "ALTER TABLE"),
    "ALTER TABLE redraft_event_ids SET UNLOGGED": ("redraft_event_ids is UNLOGGED", "ALTER TABLE"),
    "ALTER TABLE redraft_schema SET UNLOGGED": ("redraft_schema is UNLOGGED", "ALTER TABLE"),
    "ALTER TABLE redraft_keys SET UNLOGGED": ("redraft_keys is UNLOGGED", "ALTER TABLE"),
    "ALTER TABLE redraft_keys DROP CONSTRAINT redraft_keys_pkey": (
        "redraft_keys has no unique index on (run)",
        "CREATE UNIQUE",
    ),
    "CREATE TRIGGER more BEFORE INSERT ON redraft_keys FOR EACH ROW EXECUTE FUNCTION own ()": (
        "redraft_keys has the trigger more",
        "DROP TRIGGER",
    ),
    "CREATE RULE more AS ON INSERT TO redraft_imported DO INSTEAD NOTHING": (
        "redraft_imported has the rule more",
        "DROP RULE",
    ),
}
"""What an owner may do to our tables, what is said of it, and how its remedy begins."""


@pytest.mark.parametrize("change", STRANGE)
async def test_what_was_done_to_our_tables_is_told_and_the_remedy_mends_it(
    postgres_url: str, server: psycopg.Connection, change: str
) -> None:
    with_keys(postgres_url)
    assert await faults(postgres_url) == []
    server.execute(change.encode())
    (told,) = await faults(postgres_url)
    what, remedy = STRANGE[change]
    assert what in told
    assert remedy in told
    server.execute((remedy + told.partition(remedy)[2]).encode())
    assert await faults(postgres_url) == []


def test_doctor_names_each_in_a_line(
    postgres_url: str, server: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.execute(b"ALTER FUNCTION redraft_append SET work_mem = 64")
    server.execute(b"CREATE RULE more AS ON INSERT TO stored_events DO INSTEAD NOTHING")
    monkeypatch.setenv("REDRAFT_STORE", postgres_url)
    for arguments, code in (((), 0), (("--deep",), 1)):
        said = call("doctor", *arguments)
        lines = [line for line in said.out.splitlines() if line.startswith("warn tables")]
        assert said.code == code
        assert [("redraft_append" in line, "rule more" in line) for line in lines] == [(True, False), (False, True)]


async def test_a_database_of_an_earlier_commit_still_works_and_is_told(
    postgres_url: str, server: psycopg.Connection, notes: Notes
) -> None:
    server.execute(b"DROP TRIGGER redraft_ids_by_hand ON redraft_event_ids")
    server.execute(b"ALTER FUNCTION redraft_event_follows RESET search_path")
    async with open_store(postgres_url) as store:
        await append_to(store, "a", 0, notes("a", 2))
        assert len(await store.inspect_guards()) == 2


# Events that are kept out


EATEN = {
    "all": "BEGIN RETURN NULL; END",
    "first": "BEGIN RETURN CASE WHEN NEW.originator_version > 1 THEN NEW END; END",
    "middle": "BEGIN RETURN CASE WHEN NEW.originator_version <> 2 THEN NEW END; END",
    "last": "BEGIN RETURN CASE WHEN NEW.originator_version < 3 THEN NEW END; END",
}


async def refused(store: EventStore, notes: Notes, run: str = "a") -> str:
    """Says why three events of a run cannot be recorded; nothing of them is."""
    head = await store.head()
    with pytest.raises(StoreError) as error:
        await append_to(store, run, 0, notes(run, 3))
    assert not isinstance(error.value, Conflict)
    assert await store.head() == head
    return str(error.value)


@pytest.mark.parametrize("threads", [False, True], ids=["direct", "thread"])
@pytest.mark.parametrize("eaten", EATEN)
@pytest.mark.parametrize("before", [0, 2])
async def test_events_that_a_trigger_eats_are_not_taken_as_recorded_nor_for_a_conflict(
    postgres_url: str, server: psycopg.Connection, notes: Notes, eaten: str, before: int, *, threads: bool
) -> None:
    opened = open_recorder(postgres_url)
    async with EventStore(replace(opened, direct=None) if threads else opened) as store:
        for number in range(before):
            await append_to(store, f"before-{number}", 0, notes(f"before-{number}"))
        server.execute(f"CREATE FUNCTION eat () RETURNS trigger LANGUAGE plpgsql AS '{EATEN[eaten]}'".encode())
        server.execute(b"CREATE TRIGGER eat BEFORE INSERT ON stored_events FOR EACH ROW EXECUTE FUNCTION eat ()")
        told = await refused(store, notes)
        assert "see redraft doctor" in told
        assert len(told.splitlines()) == 1
        server.execute(b"DROP TRIGGER eat ON stored_events")
        assert len(await append_to(store, "a", 0, notes("a", 3))) == 3


@pytest.mark.parametrize(
    "rule",
    [
        "DO INSTEAD NOTHING",
        "DO INSTEAD INSERT INTO elsewhere VALUES (NEW.*)",
        "WHERE NEW.originator_version > 2 DO INSTEAD NOTHING",
        "WHERE NEW.originator_version > 2 DO INSTEAD INSERT INTO elsewhere VALUES (NEW.*)",
    ],
)
async def test_events_that_a_rule_diverts_are_not_taken_as_recorded(
    postgres_url: str, server: psycopg.Connection, notes: Notes, rule: str
) -> None:
    server.execute(b"CREATE TABLE elsewhere AS SELECT * FROM stored_events")
    server.execute(f"CREATE RULE divert AS ON INSERT TO stored_events {rule}".encode())
    async with open_store(postgres_url) as store:
        assert "see redraft doctor" in await refused(store, notes)


@pytest.mark.parametrize("table", ["redraft_keys", "redraft_imported"])
@pytest.mark.parametrize(
    "change",
    [
        "CREATE TRIGGER eat BEFORE INSERT ON {} FOR EACH ROW EXECUTE FUNCTION own ()",
        "CREATE RULE eat AS ON INSERT TO {} WHERE NEW.run = 'b' DO INSTEAD NOTHING",
    ],
)
def test_a_key_and_a_note_of_an_import_that_are_kept_out_are_told(
    postgres_url: str, server: psycopg.Connection, table: str, change: str
) -> None:
    with_keys(postgres_url)
    server.execute(change.format(table).encode())
    opened = open_recorder(postgres_url)
    with pytest.raises(StoreError, match=f"keeps rows out of {table}; see redraft doctor"):
        opened.keys.put("b", b"key") if table == "redraft_keys" else opened.keys.note_imported(["a", "b"])
    if table == "redraft_keys":
        with pytest.raises(StoreError, match="see redraft doctor"):
            opened.keys.bar("b")
        assert opened.keys.put("sealed", b"other") == b"key"
    assert not opened.keys.is_imported("a")
    opened.release()


async def test_a_view_in_place_of_a_table_is_told(postgres_url: str, server: psycopg.Connection) -> None:
    server.execute(b"ALTER TABLE redraft_leases RENAME TO more")
    server.execute(b"CREATE VIEW redraft_leases AS SELECT * FROM more")
    (told,) = await faults(postgres_url)
    assert "its redraft_leases is a view, partitioned or foreign" in told


# What an ordinary user can do


@pytest.fixture
def ordinary(postgres_url: str, server: psycopg.Connection) -> Iterator[psycopg.Connection]:
    """A connection of a user who may read and insert, and has a schema of their own."""
    name = f"redraft_ordinary_{uuid4().hex[:8]}"
    place = server.execute(b"SELECT current_schema()").fetchone()
    assert place
    server.execute(f"CREATE ROLE {name} LOGIN".encode())
    server.execute(f"CREATE SCHEMA {name} AUTHORIZATION {name}".encode())
    server.execute(f"GRANT USAGE ON SCHEMA {place[0]} TO {name}".encode())
    server.execute(f"GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA {place[0]} TO {name}".encode())
    with psycopg.connect(f"{postgres_url}&user={name}", autocommit=True) as connection:
        connection.execute(f"SET search_path = {name}, pg_catalog, {place[0]}".encode())
        yield connection
    server.execute(f"DROP OWNED BY {name} CASCADE".encode())
    server.execute(f"DROP ROLE {name}".encode())


def insert(connection: psycopg.Connection, run: str, version: int, what: bytes, at: str = NEXT) -> str:
    """Inserts an event by hand; returns the name of the constraint that refuses it, or nothing."""
    try:
        connection.execute(
            f"INSERT INTO stored_events VALUES (%s, %s, 'x', %s, {at})".encode(),  # noqa: S608
            (run, version, what),
        )
    except psycopg.IntegrityError as error:
        return str(error.diag.constraint_name)
    return ""


OWN = "CREATE FUNCTION {0} (one {1}, other {1}) RETURNS {2} LANGUAGE sql IMMUTABLE AS 'SELECT {3}'"
OPERATOR = "CREATE OPERATOR {0} (LEFTARG = {1}, RIGHTARG = {1}, FUNCTION = {2})"


async def test_own_operators_let_no_event_in_that_does_not_follow(
    ordinary: psycopg.Connection, postgres_url: str, notes: Notes
) -> None:
    async with open_store(postgres_url) as store:
        await append_to(store, "a", 0, notes("a"))
    ordinary.execute(OWN.format("is", "bytea", "boolean", "true").encode())
    ordinary.execute(OPERATOR.format("=", "bytea", "is").encode())
    assert insert(ordinary, "a", 2, state("a2", GENESIS)) == "redraft_event_follows"
    assert insert(ordinary, "b", 1, state("a/test/1", GENESIS)) == "redraft_event_once"


async def test_own_operators_choose_no_position(ordinary: psycopg.Connection) -> None:
    ordinary.execute(OWN.format("never", "bigint", "boolean", "false").encode())
    for name in ("<", ">=", ">"):
        ordinary.execute(OPERATOR.format(name, "bigint", "never").encode())
    ordinary.execute(b"CREATE FUNCTION never (one bigint, other int) RETURNS boolean LANGUAGE sql AS 'SELECT false'")
    for name in ("<", ">"):
        ordinary.execute(f"CREATE OPERATOR {name} (LEFTARG = bigint, RIGHTARG = int, FUNCTION = never)".encode())
    assert insert(ordinary, "a", 1, state("a1", GENESIS), "999") == "redraft_event_position"


def test_ids_are_not_inserted_by_hand(ordinary: psycopg.Connection, server: psycopg.Connection) -> None:
    for connection in (ordinary, server):
        with pytest.raises(psycopg.Error, match="INSERT of redraft_event_ids is refused") as error:
            connection.execute(b"INSERT INTO redraft_event_ids VALUES ('a')")
        assert error.value.diag.constraint_name == "redraft_ids_by_hand"
