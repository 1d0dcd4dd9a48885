"""Inspects what protects the events in PostgreSQL: that it is as `postgres.schema` makes it, and nothing is beside it.

What functions and triggers should be is read from the statements that make them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

import psycopg
from psycopg.rows import tuple_row
from psycopg.sql import Identifier

from redraft.events.encryption.keyring import IMPORTED
from redraft.events.encryption.keyring import TABLE as KEYS
from redraft.events.postgres.connection import Database
from redraft.events.postgres.schema import BY_HAND, EVENTS, IDS, LEASES, RELAY, VERSION_TABLE, rules_of
from redraft.events.store.recorder import FOLLOWS, ONCE, Inspection

_FUNCTION: Final = re.compile(
    r'FUNCTION "[^.]+"\."(\w+)" \(([^)]*)\)\s+RETURNS \w+ LANGUAGE (\w+)(.*?) AS \$body\$(.*?)\$body\$', re.DOTALL
)
_SETTING: Final = re.compile(r"SET (\w+) = (.+?)(?=\s+SET |$)")
_TRIGGER: Final = re.compile(
    r'(TRIGGER "?(\w+)"? [A-Z ]+ ON "[^.]+"\."(\w+)".*?) EXECUTE FUNCTION "[^.]+"\."(\w+)" \(\);'
)

_FUNCTIONS: Final = """
    SELECT proname, pg_get_function_identity_arguments(pg_proc.oid),
           lanname, coalesce(proconfig, '{}'), prosrc, prosecdef
    FROM pg_proc JOIN pg_language ON pg_language.oid = prolang WHERE pronamespace = %(schema)s::regnamespace
"""
_TRIGGERS: Final = """
    SELECT tgname, relname, split_part(pg_get_triggerdef(pg_trigger.oid), ' EXECUTE ', 1),
           CASE WHEN pronamespace = relnamespace THEN proname END, tgenabled = 'A', quote_ident(tgname)
    FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid JOIN pg_proc ON pg_proc.oid = tgfoid
    WHERE relnamespace = %(schema)s::regnamespace AND relname = ANY(%(record)s) AND NOT tgisinternal ORDER BY 1, 2
"""
_OTHERS: Final = """
    WITH ours AS (
        SELECT *, %(schema)s || '.' || relname AS place, relname = ANY(%(record)s) AS is_record
        FROM pg_class WHERE relnamespace = %(schema)s::regnamespace AND relname = ANY(%(all)s)
    )
    SELECT 'its table ' || relname || ' has the rule ' || quote_ident(rulename) || ', which Redraft did not make: it '
        'may keep rows out; as the owner, DROP RULE ' || quote_ident(rulename) || ' ON ' || place
    FROM pg_rewrite JOIN ours ON ours.oid = ev_class WHERE is_record AND relkind <> 'v'
    UNION ALL
    SELECT 'its table ' || relname || ' has row level security: it may hide rows; '
        'as the owner, ALTER TABLE ' || place || ' DISABLE ROW LEVEL SECURITY'
    FROM ours WHERE is_record AND relrowsecurity
    UNION ALL
    SELECT 'its table ' || ours.relname || ' has the child table ' || child || ', whose rows are read as its own, and '
        'nothing protects them; as the owner, ALTER TABLE ' || child || ' NO INHERIT ' || place
    FROM ours JOIN pg_inherits ON inhparent = ours.oid JOIN pg_class ON pg_class.oid = inhrelid,
        concat(pg_class.relnamespace::regnamespace, '.', quote_ident(pg_class.relname)) AS child
    WHERE is_record AND ours.relkind = 'r'
    UNION ALL
    SELECT 'its table redraft_leases is missing: no coordinator can relay; open it once as the owner of its tables'
    WHERE NOT EXISTS (SELECT 1 FROM ours WHERE relname = %(leases)s)
    UNION ALL
    SELECT 'its table ' || relname || ' is UNLOGGED: a crash of the server empties it; as the owner, ALTER TABLE '
        || place || ' SET LOGGED'
    FROM ours WHERE relpersistence <> 'p'
    UNION ALL
    SELECT 'its ' || relname || ' is a view, partitioned or foreign: nothing here protects its rows; as the owner, '
        'put them into an ordinary table of that name'
    FROM ours WHERE relkind <> 'r'
    UNION ALL
    SELECT 'its table ' || relname || ' takes rows without ' || quote_ident(attname) || '; as the owner, ALTER TABLE '
        || place || ' ALTER COLUMN ' || quote_ident(attname) || ' SET NOT NULL'
    FROM ours JOIN pg_attribute ON attrelid = ours.oid
    WHERE is_record AND relkind = 'r' AND attnum > 0 AND NOT attisdropped AND NOT attnotnull
    UNION ALL
    SELECT 'its index ' || indexrelid::regclass || ' is not valid: REINDEX it'
    FROM pg_index JOIN ours ON ours.oid = indrelid WHERE is_record AND NOT (indisvalid AND indisready)
    UNION ALL
    SELECT 'its table ' || relname || ' has no unique index' || coalesce(' ' || named, '') || ' on (' || columns
        || ') that covers every row, at once: it may take the same twice; as the owner, '
        || coalesce('ALTER TABLE ' || place || ' DROP CONSTRAINT IF EXISTS ' || named || '; DROP INDEX IF EXISTS '
        || %(schema)s || '.' || named || '; ', '')
        || 'CREATE UNIQUE INDEX ' || coalesce(named || ' ', '') || 'ON ' || place || ' (' || columns || ')'
    FROM unnest(%(tables)s::text[], %(columns)s::text[], %(names)s::text[]) AS needed (needing, columns, named)
    JOIN ours ON relname = needing AND relkind = 'r'
    WHERE NOT EXISTS (
        SELECT 1 FROM pg_index JOIN pg_class AS made ON made.oid = indexrelid
        WHERE indrelid = ours.oid AND indisunique AND indimmediate AND indpred IS NULL AND indexprs IS NULL
        AND made.relname = coalesce(named, made.relname) AND columns = (
            SELECT string_agg(attname, ', ' ORDER BY nth)
            FROM unnest(indkey::int2[]) WITH ORDINALITY AS key (number, nth)
            JOIN pg_attribute ON attrelid = indrelid AND attnum = number WHERE nth <= indnkeyatts
        )
    )
"""
_UNIQUE: Final = (
    (EVENTS, "originator_id, originator_version", None),
    (EVENTS, "notification_id", None),
    (IDS, "id", ONCE),
    (KEYS, "run", None),
    (IMPORTED, "run", None),
)
"""The unique indexes that must be there: table, columns, and the index's name where errors are recognised by it."""

_RECORD: Final = [EVENTS, IDS, KEYS, IMPORTED]
_WITHOUT: Final = {
    "redraft_refuse": "events may have been changed",
    FOLLOWS: "nothing makes sure that an event follows the last one of its run",
    BY_HAND: "anybody who may insert can take the ids of later events",
}
"""The consequence of each trigger's absence, by its name, for the line that reports it."""

_Row: TypeAlias = tuple[Any, ...]


def inspect(database: Database, schema: str) -> Inspection:
    """Returns the faults of functions and triggers that protect the events, and of our tables and their indexes."""
    place = Identifier(schema).as_string()
    values: dict[str, Any] = {
        "schema": place,
        "record": _RECORD,
        "all": [*_RECORD, VERSION_TABLE, RELAY, LEASES],
        "leases": LEASES,
        **dict(zip(("tables", "columns", "names"), map(list, zip(*_UNIQUE, strict=True)), strict=True)),
    }
    try:
        with database.connect() as connection, connection.cursor(row_factory=tuple_row) as cursor:
            functions, triggers, others = (
                cursor.execute(query, values).fetchall() for query in (_FUNCTIONS, _TRIGGERS, _OTHERS)
            )
    except psycopg.Error as error:
        raise database.unreadable(error) from None
    anew = f"while nothing writes to it, as the owner of its tables, DROP FUNCTION {place}.{FOLLOWS} CASCADE in psql, "
    anew += "and open it once (redraft list): that makes all of them anew"
    rules = rules_of(schema)
    ours = [*_functions(rules, functions), *_triggers(rules, triggers)]
    faults = [f"{fault}; {anew}" for fault in ours] + [*_strangers(rules, triggers, place), *(row[0] for row in others)]
    return Inspection([f"store {database.where}: {fault}" for fault in faults])


def _functions(rules: str, rows: Sequence[_Row]) -> Iterator[str]:
    """Yields the faults of our functions; others of the same name, with other arguments, are never called."""
    made = {row[:2]: row[2:] for row in rows}
    for name, arguments, language, header, body in _FUNCTION.findall(rules):
        settings = [f"{key}={value}" for key, value in _SETTING.findall(header)]
        if made.get((name, arguments)) != (language, settings, body, False):
            yield f"its function {name} is not what this release makes: an earlier one made it, or somebody replaced it"


def _triggers(rules: str, rows: Sequence[_Row]) -> Iterator[str]:
    """Yields the faults of our triggers."""
    found = {row[:2]: row[2:5] for row in rows}
    for made, name, table, function in _TRIGGER.findall(_one_line(rules)):
        definition, calls, fires = found.get((name, table), ("", "", False))
        if not fires:
            yield f"its trigger {name} is missing or does not fire on {table}: {_WITHOUT[name]}"
        elif (definition.replace('"', ""), calls) != (f"CREATE {made}".replace('"', ""), function):
            yield f"its trigger {name} on {table} is not what this release makes: somebody replaced it"


def _strangers(rules: str, rows: Sequence[_Row], place: str) -> Iterator[str]:
    """Yields the triggers that Redraft did not make."""
    ours = {(name, table) for _, name, table, _ in _TRIGGER.findall(_one_line(rules))}
    for name, table, *_, quoted in rows:
        if (name, table) not in ours:
            what = f"its table {table} has the trigger {quoted}, which Redraft did not make: it may change rows or "
            yield f"{what}keep them out; as the owner, DROP TRIGGER {quoted} ON {place}.{table}"


def _one_line(statement: str) -> str:
    return " ".join(statement.split())
