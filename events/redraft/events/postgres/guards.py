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

from redraft.events.postgres.connection import Database
from redraft.events.postgres.schema import BY_HAND, EVENTS, IDS, LEASES, rules_of
from redraft.events.store.recorder import FOLLOWS, Inspection

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
    WHERE tgrelid IN (to_regclass(%(events)s), to_regclass(%(ids)s)) AND NOT tgisinternal ORDER BY 1, 2
"""
_OTHERS: Final = """
    SELECT 'its table ' || relname || ' has the rule ' || quote_ident(rulename) || ', which Redraft did not make: it '
        'may keep events out; as the owner, DROP RULE ' || quote_ident(rulename) || ' ON '
        || %(schema)s || '.' || relname
    FROM pg_rewrite JOIN pg_class ON pg_class.oid = ev_class
    WHERE ev_class IN (to_regclass(%(events)s), to_regclass(%(ids)s))
    UNION ALL
    SELECT 'its table ' || relname || ' has row level security: it may hide events; '
        'as the owner, ALTER TABLE ' || %(schema)s || '.' || relname || ' DISABLE ROW LEVEL SECURITY'
    FROM pg_class WHERE oid IN (to_regclass(%(events)s), to_regclass(%(ids)s)) AND relrowsecurity
    UNION ALL
    SELECT 'its table redraft_leases is missing: no coordinator can relay; open it once as the owner of its tables'
    WHERE to_regclass(%(leases)s) IS NULL
    UNION ALL
    SELECT 'its index ' || indexrelid::regclass || ' is not valid: REINDEX it'
    FROM pg_index WHERE indrelid = %(events)s::regclass AND NOT (indisvalid AND indisready)
    UNION ALL
    SELECT 'it needs two unique indexes, and has ' || count(*)
    FROM pg_index WHERE indrelid = %(events)s::regclass AND indisunique HAVING count(*) < 2
"""
_WITHOUT: Final = {
    "redraft_refuse": "events may have been changed",
    FOLLOWS: "nothing makes sure that an event follows the last one of its run",
    BY_HAND: "anybody who may insert can take the ids of later events",
}
"""The consequence of each trigger's absence, by its name, for the line that reports it."""

_Row: TypeAlias = tuple[Any, ...]


def inspect(database: Database, schema: str) -> Inspection:
    """Returns the faults of functions and triggers that protect the events, and of the indexes that find them."""
    names = {"events": EVENTS, "ids": IDS, "leases": LEASES}
    values = {key: Identifier(schema, name).as_string() for key, name in names.items()}
    values["schema"] = place = Identifier(schema).as_string()
    try:
        with database.connect() as connection, connection.cursor(row_factory=tuple_row) as cursor:
            functions, triggers, others = (
                cursor.execute(query, values).fetchall() for query in (_FUNCTIONS, _TRIGGERS, _OTHERS)
            )
    except psycopg.Error as error:
        raise database.unreadable(error) from None
    anew = f"as the owner of its tables, DROP FUNCTION {place}.{FOLLOWS} CASCADE in psql, and open it once "
    anew += "(redraft list): that makes all of them anew"
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
            what = f"its table {table} has the trigger {quoted}, which Redraft did not make: it may change events or "
            yield f"{what}keep them out; as the owner, DROP TRIGGER {quoted} ON {place}.{table}"


def _one_line(statement: str) -> str:
    return " ".join(statement.split())
