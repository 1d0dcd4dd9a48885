"""Our tables in a PostgreSQL database: checks that they are ours before anything is written, and creates them.

The events lie in the table of the `eventsourcing` library, with the same columns, so that any program built on it can
read them. They are inserted by one function, `redraft_append`, and nothing changes them.

For every insert, by that function or by hand, the server itself checks that an event follows the one whose hash it
names as `previous` (version 1: `GENESIS`), that its position is the next one of the log, and that its id, in its one
spelling, is in the log once, by a table of ids beside the library's own; see `sqlite.schema` for an event's layout.
These rules apply to later inserts, so a database with older damage still opens, and is reported. They look names up in
`pg_catalog` alone, as who may insert could have operators of their own. `postgres.guards` reports what was changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, LiteralString

import psycopg
from psycopg.rows import DictRow, tuple_row
from psycopg.sql import SQL, Composed, Identifier

from redraft.events.errors import IncompatibleStore
from redraft.events.messages.codec import GENESIS
from redraft.events.postgres.connection import Connection, Database
from redraft.events.store.recorder import FOLLOWS, ONCE, POSITION, SPELLED

SCHEMA_VERSION: Final = 1
"""The version of the tables that this version of Redraft makes, kept in the table `redraft_schema`."""

EVENTS: Final = "stored_events"
RELAY: Final = "redraft_relay"
LEASES: Final = "redraft_leases"
APPLICATION: Final = 0x52446674
"""The first key of our advisory locks: "RDft". The second is 0 while tables are made, else a table's oid."""

VERSION_TABLE: Final = "redraft_schema"
DURABLE_COMMIT: Final = "SET LOCAL synchronous_commit = on"
"""Makes the creation of tables durable, where other commits need not be: their creator does not check again."""

UPGRADE_SECONDS: Final = 3600
"""The most seconds that the upgrade of an earlier release's tables may take."""


_TABLES: Final = """
    CREATE TABLE {version} (version integer NOT NULL);

    CREATE TABLE {events} (
        originator_id text NOT NULL,
        originator_version bigint NOT NULL,
        topic text NOT NULL,
        state bytea NOT NULL,
        notification_id bigint NOT NULL,
        PRIMARY KEY (originator_id, originator_version)
    );

    CREATE UNIQUE INDEX ON {events} (notification_id);

    CREATE TABLE {relay} (epoch bigint NOT NULL, position bigint NOT NULL);
    INSERT INTO {relay} VALUES (0, 0);

    INSERT INTO {version} VALUES ({number});
"""
IDS: Final = "redraft_event_ids"
"""The table of the ids of all events."""

BY_HAND: Final = "redraft_ids_by_hand"
"""The trigger that refuses ids which no event brings."""

_RULES: Final = r"""
    SET LOCAL statement_timeout = {upgrade};  -- a large log of an earlier release has many ids
    LOCK TABLE {events} IN SHARE ROW EXCLUSIVE MODE;

    CREATE OR REPLACE FUNCTION {append} (runs text[], versions bigint[], topics text[], states bytea[])
    RETURNS bigint LANGUAGE plpgsql AS $body$
    DECLARE head bigint; inserted bigint;
    BEGIN
        -- The lock makes the order of positions that of commits, so that who follows the log passes over none. Each
        -- statement sees what was committed when it began, so that the positions have no gaps.
        PERFORM pg_advisory_xact_lock({application}, {events_name}::regclass::oid::integer);
        SELECT coalesce(max(notification_id), 0) INTO head FROM {events};
        WITH inserted_rows AS (
            INSERT INTO {events} (originator_id, originator_version, topic, state, notification_id)
            SELECT run, version, topic, state, head + nth
            FROM unnest(runs, versions, topics, states) WITH ORDINALITY AS given (run, version, topic, state, nth)
            RETURNING 1  -- refused where a rule puts the rows elsewhere
        ) SELECT count(*) INTO inserted FROM inserted_rows;
        IF inserted <> cardinality(runs) THEN
            RAISE EXCEPTION 'a trigger or a rule keeps events out of {events_text}; see redraft doctor';
        END IF;
        head := head + inserted;
        PERFORM pg_notify('redraft_' || {events_name}::regclass::oid, head::text);
        RETURN head;
    END $body$;

    CREATE OR REPLACE FUNCTION {refuse} () RETURNS trigger LANGUAGE plpgsql AS $body$
    BEGIN
        IF TG_OP = 'INSERT' AND pg_trigger_depth() > 1 THEN
            RETURN NULL;  -- for an event that is inserted
        END IF;
        RAISE EXCEPTION 'events are never changed, nor their ids inserted by hand: % of % is refused', TG_OP,
            TG_TABLE_NAME USING CONSTRAINT = TG_NAME, SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME;
    END $body$;

    CREATE OR REPLACE TRIGGER redraft_refuse BEFORE DELETE OR UPDATE OR TRUNCATE ON {events}
        FOR EACH STATEMENT EXECUTE FUNCTION {refuse} ();
    ALTER TABLE {events} ENABLE ALWAYS TRIGGER redraft_refuse;

    CREATE TABLE IF NOT EXISTS {ids} (id bytea NOT NULL, CONSTRAINT {once} PRIMARY KEY (id));
    DROP TRIGGER IF EXISTS {by_hand} ON {ids};

    CREATE OR REPLACE FUNCTION {id_of} (state bytea) RETURNS bytea LANGUAGE sql IMMUTABLE AS $body$
        SELECT substring(state from 82 for position('","time":'::bytea in state) - 82)
    $body$;

    INSERT INTO {ids} SELECT {id_of}(state) FROM {events} WHERE position('","time":'::bytea in state) > 82
        ON CONFLICT DO NOTHING;

    CREATE OR REPLACE TRIGGER redraft_refuse BEFORE DELETE OR UPDATE OR TRUNCATE ON {ids}
        FOR EACH STATEMENT EXECUTE FUNCTION {refuse} ();
    ALTER TABLE {ids} ENABLE ALWAYS TRIGGER redraft_refuse;

    CREATE TRIGGER {by_hand} BEFORE INSERT ON {ids}
        FOR EACH STATEMENT EXECUTE FUNCTION {refuse} ();
    ALTER TABLE {ids} ENABLE ALWAYS TRIGGER {by_hand};

    -- Without statistics a server may read whole tables; each row here is found by its key.
    CREATE OR REPLACE FUNCTION {follows} () RETURNS trigger LANGUAGE plpgsql
    SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $body$
    DECLARE first bigint; last bigint; number bigint; is_next boolean; wrong text;
    BEGIN
        SELECT min(notification_id), max(notification_id), count(*), EXISTS (
            SELECT 1 FROM {events} AS before WHERE before.notification_id = greatest(min(added.notification_id), 1) - 1
        ), min(format('event %s of run %s', added.originator_version, added.originator_id)) FILTER (
            WHERE substring(added.state from position('"previous":"'::bytea in added.state) + 12 for 64)
            IS DISTINCT FROM CASE added.originator_version WHEN 1 THEN {genesis}::bytea ELSE (
                SELECT substring(before.state from 10 for 64) FROM {events} AS before
                WHERE before.originator_id = added.originator_id
                AND before.originator_version = added.originator_version - 1
            ) END
        ) INTO first, last, number, is_next, wrong FROM added;
        IF first < 1 OR last - number >= first OR first > 1 AND NOT is_next THEN
            RAISE EXCEPTION '{position_name}: position % is not the next one of the log', first
                USING ERRCODE = 'integrity_constraint_violation',
                CONSTRAINT = '{position_name}', SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME;
        END IF;
        IF wrong IS NOT NULL THEN
            RAISE EXCEPTION '{follows_name}: % does not follow the last event of its run', wrong
                USING ERRCODE = 'integrity_constraint_violation',
                CONSTRAINT = '{follows_name}', SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME;
        END IF;
        -- JSON has more than one spelling of an id, and it could be in the log twice; ours is without needless escapes.
        INSERT INTO {ids} SELECT {id_of}(state) FROM added
        WHERE substring(state from 74 for 8) = '","id":"'::bytea AND (
            position('"'::bytea in {id_of}(state)) + position(decode('5c', 'hex') in {id_of}(state)) = 0
            OR convert_from({id_of}(state), 'LATIN1') ~ E'^([^"\\\\]|\\\\(["\\\\bfnrt]|u00(0[0-7bef]|1[0-9a-f])))*$'
        );
        GET DIAGNOSTICS last = ROW_COUNT;
        IF last <> number THEN
            RAISE EXCEPTION '{spelled_name}: an id is not written as Redraft writes it, or was kept out of {ids_text}'
                USING ERRCODE = 'integrity_constraint_violation',
                CONSTRAINT = '{spelled_name}', SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME;
        END IF;
        RETURN NULL;
    END $body$;

    CREATE OR REPLACE TRIGGER {follows_trigger} AFTER INSERT ON {events}
        REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION {follows} ();
    ALTER TABLE {events} ENABLE ALWAYS TRIGGER {follows_trigger};
"""
"""The functions and triggers, and the table of ids: what is there already is made anew."""

_LEASES: Final = """
    CREATE TABLE {leases} (
        name text PRIMARY KEY, epoch bigint NOT NULL, holder text NOT NULL, since timestamptz NOT NULL,
        expires timestamptz NOT NULL, locked boolean NOT NULL
    );
"""
"""`locked`: the session of the holder has a lock that it loses when it ends."""

_OURS: Final = """
    FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE nspname = current_schema() AND relkind IN ('r', 'p', 'v', 'm', 'f')
    AND NOT EXISTS (SELECT 1 FROM pg_depend WHERE objid = pg_class.oid AND deptype = 'e')
"""
"""Tables and views of our schema, without those of extensions."""


@contextmanager
def schema_change(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Runs a block that creates tables in a durable transaction, in one process at a time."""
    with connection.transaction():
        connection.execute(DURABLE_COMMIT)
        connection.execute("SELECT pg_advisory_xact_lock(%s, 0)", (APPLICATION,))
        yield


def prepare(database: Database) -> str:
    """Makes sure that the schema of the store holds our tables, and returns its name; makes the one that a URL names.

    Raises IncompatibleStore, with nothing written, when Redraft did not make the database; StoreError when it cannot be
    reached, or our tables cannot be made. A database that has them is only read; one of an earlier release gets the
    rules for appends and the table of leases, if this user may make tables: otherwise `guards` names what is missing.
    So does one whose owner dropped the function `redraft_event_follows`, to have all functions and triggers made anew.
    """
    try:
        with database.connect() as connection:
            if database.schema:
                _make_schema(connection, database.schema)
            schema = _schema(connection, database.where)
            if not _is_ours(connection, schema, database.where):
                with schema_change(connection):
                    _lay_out(connection, schema, database.where)
            for name, statements in ((IDS, _RULES), (FOLLOWS, _RULES), (LEASES, _LEASES)):
                if not _has(connection, schema, name):
                    _add(connection, schema, name, statements)
    except psycopg.Error as error:
        raise database.unreadable(error) from None
    return schema


def _make_schema(connection: psycopg.Connection[DictRow], schema: str) -> None:
    """Makes a schema where it is missing; psycopg.Error when this user may not."""
    if _one(connection, SQL("SELECT 1 FROM pg_namespace WHERE nspname = {}").format(schema)) is None:
        with schema_change(connection):
            connection.execute(SQL("CREATE SCHEMA IF NOT EXISTS {}").format(Identifier(schema)))


def _schema(connection: psycopg.Connection[DictRow], where: str) -> str:
    query = "SELECT current_schema(), current_setting('server_encoding'), current_setting('search_path')"
    schema, encoding, path = _one(connection, SQL(query).format()) or ("", "", "")
    if encoding != "UTF8":
        raise IncompatibleStore(f"store {where} is a database in {encoding}; name one that is in UTF8")
    if not schema:
        raise IncompatibleStore(f"store {where} has no schema {path}; CREATE SCHEMA, or name another")
    return str(schema)


def _is_ours(connection: psycopg.Connection[DictRow], schema: str, where: str) -> bool:
    """Returns whether our tables are there; raises IncompatibleStore for those of a later version."""
    query = f"SELECT 1 {_OURS} AND relname = %s"
    if connection.execute(query, (VERSION_TABLE,)).fetchone() is None:
        return False
    table = Identifier(schema, VERSION_TABLE)
    made = connection.execute(SQL("SELECT max(version) AS version FROM {}").format(table)).fetchone()
    version = made["version"] if made else None
    if version is None or version > SCHEMA_VERSION:
        raise IncompatibleStore(
            f"store {where} was written by a later version of Redraft (its schema is {version}, ours "
            f"{SCHEMA_VERSION}); upgrade Redraft, or name another database"
        )
    return True


def _lay_out(connection: psycopg.Connection[DictRow], schema: str, where: str) -> None:
    if _is_ours(connection, schema, where):
        return  # another process made them meanwhile
    stranger = _one(connection, SQL(f"SELECT relname {_OURS} ORDER BY 1 LIMIT 1").format())
    if stranger is not None:
        raise IncompatibleStore(
            f"store {where} is the database of another program (schema {schema} holds {stranger[0]}); "
            "name another, or a schema of its own for Redraft: add ?schema=redraft to the URL"
        )
    connection.execute(_statements(_TABLES + _RULES, schema))


def _has(connection: psycopg.Connection[DictRow], schema: str, name: str) -> bool:
    """Returns whether a table or function is there; reads the catalogue itself, as another process may have made it."""
    query = SQL(
        "SELECT 1 FROM pg_class WHERE relnamespace = {place}::regnamespace AND relname = {name} "
        "UNION ALL SELECT 1 FROM pg_proc WHERE pronamespace = {place}::regnamespace AND proname = {name}"
    )
    return _one(connection, query.format(place=Identifier(schema).as_string(), name=name)) is not None


def _add(connection: Connection, schema: str, name: str, statements: LiteralString) -> None:
    """Adds tables and rules that an earlier release did not make, unless this user may not make tables."""
    usual, connection.silence = connection.silence, UPGRADE_SECONDS + 10.0
    try:
        with schema_change(connection):
            if not _has(connection, schema, name):
                connection.execute(_statements(statements, schema))
    except psycopg.errors.InsufficientPrivilege:
        return
    finally:
        connection.silence = usual


def rules_of(schema: str) -> str:
    """Returns the statements that make the functions and triggers in a schema."""
    return _statements(_RULES, schema).as_string()


def _statements(text: LiteralString, schema: str) -> Composed:
    tables = {"version": VERSION_TABLE, "events": EVENTS, "relay": RELAY, "ids": IDS, "leases": LEASES}
    functions = {
        "append": "redraft_append",
        "refuse": "redraft_refuse",
        "id_of": "redraft_event_id",
        "follows": FOLLOWS,
    }
    return SQL(text).format(
        **{key: Identifier(schema, name) for key, name in (tables | functions).items()},
        events_name=Identifier(schema, EVENTS).as_string(),
        events_text=SQL(EVENTS),
        application=APPLICATION,
        number=SCHEMA_VERSION,
        upgrade=UPGRADE_SECONDS * 1000,
        once=Identifier(ONCE),
        ids_text=SQL(IDS),
        spelled_name=SQL(SPELLED),
        by_hand=Identifier(BY_HAND),
        follows_trigger=Identifier(FOLLOWS),
        follows_name=SQL(FOLLOWS),
        position_name=SQL(POSITION),
        genesis=GENESIS,
    )


def _one(connection: psycopg.Connection[DictRow], query: Composed) -> tuple[object, ...] | None:
    with connection.cursor(row_factory=tuple_row) as cursor:
        return cursor.execute(query).fetchone()
