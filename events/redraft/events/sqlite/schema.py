"""The rules that a SQLite file itself enforces on every insert of an event, and a check of the file around its events.

An event follows the one whose hash it names as `previous`: version 1 the `GENESIS` of the codec, any other the event of
the version before it. Its id, in its one spelling, is in the log once: a table beside the library's own holds all ids.
The file gives it its position: nobody names the rowid. Its version is an integer, and its run and topic are texts.
These rules apply to later inserts, so a file with older damage still opens, and is reported.

An event is JSON that begins `{"hash":"…","id":"…","time":…,"previous":"…"` (see `codec`), so hash and id have fixed
places, and the first `"previous":"` is the field, because a quotation mark within a JSON text has a backslash. The
search covers only the longest possible ids: `instr` goes byte by byte.

The check covers pages, tables, triggers, and the ids of events; `store.verification` verifies the rows. Together they
report every change that alters what can be read. Unused bytes, such as free pages, are not checked.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, TypeAlias

from redraft.events.encryption.keyring import IMPORTED
from redraft.events.encryption.keyring import TABLE as KEYS
from redraft.events.errors import StoreError
from redraft.events.messages.codec import GENESIS
from redraft.events.sqlite.file import SCHEMA_VERSION, connect, explain, is_unavailable, transaction, triggers_of
from redraft.events.store.recorder import FOLLOWS, ONCE, POSITION, SPELLED, TEXTS, VERSION, Inspection

IDS: Final = "redraft_event_ids"
"""The table of the ids of all events."""

RULES: Final = "redraft_event_rules"
"""The trigger that enforces all rules."""

PLACED: Final = f"{RULES}_after"
"""The trigger that looks at the position of an event where it is known, after the insert."""

CREATE_IDS: Final = f"CREATE TABLE {IDS} (id BLOB NOT NULL PRIMARY KEY) WITHOUT ROWID"

CREATE_LATER: Final = {
    KEYS: f"CREATE TABLE IF NOT EXISTS {KEYS} (run TEXT NOT NULL PRIMARY KEY, wrapped BLOB NOT NULL)",
    IMPORTED: f"CREATE TABLE IF NOT EXISTS {IMPORTED} (run TEXT NOT NULL PRIMARY KEY)",
}
"""The tables that are created when they are first needed."""

_HASH: Final = "substr({0}.state, 10, 64)"
_HEAD: Final = "substr({0}.state, 82, 8192)"
_ID: Final = f'substr({{0}}.state, 82, instr({_HEAD}, CAST(\'","time":\' AS BLOB)) - 1)'
_PREVIOUS: Final = f'substr({{0}}.state, instr({_HEAD}, CAST(\'"previous":"\' AS BLOB)) + 93, 64)'
_IS_NO_TEXT: Final = (  # of ids beyond ASCII each character has to be what SQLite writes for it: else it is not valid
    "typeof({0}.originator_id) <> 'text' OR instr({0}.originator_id, char(0)) OR {0}.originator_id GLOB '*[^ -~]*' "
    "AND EXISTS (WITH RECURSIVE nth(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM nth WHERE n < length({0}.originator_id)"
    ") SELECT 1 FROM nth WHERE CAST(substr({0}.originator_id, n, 1) AS BLOB) IS NOT "
    "CAST(char(unicode(substr({0}.originator_id, n, 1))) AS BLOB))"
)
_ID_TEXT: Final = f"CAST({_ID} AS TEXT)"
_STRANGE: Final = ("[^bfnrtu]", "u[^0]", "u0[^0]", "u00[^01]", "u000[^0-7bef]", "u001[^0-9a-f]")
"""GLOB patterns of escapes that `codec` never writes, without their backslash.

They are sought in an id from which the escapes of a backslash and of a quotation mark were removed.
"""

_IS_NO_ID: Final = (
    'substr({0}.state, 74, 8) IS NOT CAST(\'","id":"\' AS BLOB) '  # noqa: S608
    rf"""OR {_ID_TEXT} GLOB '*["\]*' AND (SELECT instr(id, '"') OR """
    + " OR ".join(rf"""id || '"' GLOB '*\{each}*'""" for each in _STRANGE)
    + rf""" FROM (SELECT replace(replace({_ID_TEXT}, '\\', ''), '\"', '') AS id))"""
)
"""Whether an id is not written as `codec` writes it: JSON has other spellings, with which it could be there twice."""


def rules_of(table: str) -> dict[str, str]:
    """Returns the triggers on the table of events, and on that of ids: their statements by their names.

    One trigger enforces all rules, because a second trigger costs an insert as much as a rule does. It runs before the
    insert: an INSERT OR REPLACE would remove the existing event without firing any trigger. There the rowid is -1 where
    the statement names none, so who names -1 is refused after the insert. The id of a run is looked at in its first
    event alone: all others follow that one.
    """
    own, previous, before = _ID.format("NEW"), _PREVIOUS.format("NEW"), _HASH.format("e")
    chosen = f"RAISE(ABORT, '{POSITION}: the database gives an event its position')"
    return {
        RULES: f"CREATE TRIGGER {RULES} BEFORE INSERT ON {table} BEGIN SELECT CASE "  # noqa: S608
        f"WHEN NEW.rowid <> -1 THEN {chosen} "
        "WHEN typeof(NEW.originator_version) <> 'integer' "  # of '3x' - 1 SQLite makes 2
        f"THEN RAISE(ABORT, '{VERSION}: the version of an event is an integer') "
        f"WHEN typeof(NEW.topic) <> 'text' OR NEW.originator_version = 1 AND ({_IS_NO_TEXT.format('NEW')}) "
        f"THEN RAISE(ABORT, '{TEXTS}: the id of a run, without the character U+0000, and the topic of an event are "
        "texts') "
        f"WHEN coalesce({previous}, 0) IS NOT coalesce("
        f"(SELECT CASE e.originator_version WHEN NEW.originator_version - 1 THEN {before} ELSE '' END FROM {table} e "
        "WHERE e.originator_id = NEW.originator_id AND e.originator_version >= NEW.originator_version - 1 "
        "ORDER BY e.originator_version DESC LIMIT 1), "
        f"CASE NEW.originator_version WHEN 1 THEN CAST('{GENESIS}' AS BLOB) END) "
        f"THEN RAISE(ABORT, '{FOLLOWS}: the event does not follow the last event of its run') "
        f"WHEN {_IS_NO_ID.format('NEW')} "
        f"THEN RAISE(ABORT, '{SPELLED}: the id of the event is not written as Redraft writes it') END; "
        f"INSERT INTO {IDS} VALUES ({own}) ON CONFLICT DO NOTHING; "  # also if the event's own INSERT is an OR REPLACE
        f"SELECT RAISE(ABORT, '{ONCE}: an event with this id is in the log already') WHERE changes() = 0; END",
        PLACED: f"CREATE TRIGGER {PLACED} AFTER INSERT ON {table} WHEN NEW.rowid < 1 BEGIN SELECT {chosen}; END",
        **triggers_of(IDS),
    }


def add_rules(connection: sqlite3.Connection, table: str) -> None:
    """Adds the rules, and the ids of its events, to a file that an earlier release made.

    The connection is in autocommit mode. Raises sqlite3.Error.
    """
    if _are_there(connection):
        return
    with transaction(connection):
        if not _are_there(connection):
            connection.execute(CREATE_IDS)
            connection.execute(f"INSERT OR IGNORE INTO {IDS} {_ids_in(table)}")
            for name, statement in rules_of(table).items():
                connection.execute(f"DROP TRIGGER IF EXISTS {name}")
                connection.execute(statement)


def find_ids_fault(connection: sqlite3.Connection, table: str) -> str:
    """Returns the fault of the table of ids, which must hold those of all events and no other; empty if it has none."""
    if not _are_there(connection):
        return ""
    ids = _ids_in(table)
    absent = f"({ids}) AS own LEFT JOIN {IDS} AS held USING (id) WHERE held.id IS NULL"
    lacking = connection.execute(f"SELECT count(DISTINCT own.id) FROM {absent}").fetchone()[0]  # noqa: S608
    strange = connection.execute(f"SELECT count(*) FROM (SELECT id FROM {IDS} EXCEPT {ids})").fetchone()[0]  # noqa: S608
    return f"{IDS} is not what it should be: {lacking} ids are missing, and {strange} of no event" * bool(
        lacking or strange
    )


def _find_rows_of_no_run(connection: sqlite3.Connection, table: str) -> list[str]:
    """Returns the fault of rows that are found by no id of a run, whatever hash they have; empty if there are none."""
    query = f"SELECT count(*) FROM {table} e WHERE {_IS_NO_TEXT.format('e')}"  # noqa: S608
    (found,) = connection.execute(query).fetchone()
    return [f"{found} rows of {table} name a run by what is no text: they were not recorded by Redraft"] * bool(found)


def _ids_in(table: str) -> str:
    """Returns a query for the ids of all events, without rows that are no events."""
    own = _ID.format("e")
    return f"SELECT {own} AS id FROM {table} e WHERE typeof(e.state) = 'blob' AND length({own}) > 0"  # noqa: S608


def _are_there(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (IDS,)).fetchone() is not None


MOST: Final = 100
"""The most faults of the pages that are listed."""

_Made: TypeAlias = tuple[str, str, str | None]
"""An entry of the schema: its type, its table, and the statement that made it."""

_MADE_ANEW: Final = (
    f", or an earlier release made it: while nothing uses the file, DROP TRIGGER {RULES}; DROP TABLE {IDS}; "
    "the next append makes them anew"
)
_IF_NOT_EXISTS: Final = "IF NOT EXISTS "


def inspect(path: Path, table: str, statements: Sequence[str]) -> Inspection:
    """Returns the faults of a file that holds the table of events, which these statements made.

    Raises StoreError when the disk or another process keeps it from being read: that is no fault of the file.
    """
    faults: list[str] = []
    otherwise: list[str] = []
    try:
        with closing(connect(path)) as connection:
            told = [each for (each,) in connection.execute(f"PRAGMA integrity_check({MOST})")]
            faults += [each for each in told if each != "ok"]
            faults += _schema(connection, table, statements[0])
            if connection.execute("PRAGMA user_version").fetchone() != (SCHEMA_VERSION,):
                faults.append("the version of its tables was changed")
            if told == ["ok"]:
                faults += _find_rows_of_no_run(connection, table)
                if fault := find_ids_fault(connection, table):
                    otherwise.append(fault)
    except sqlite3.Error as error:
        if is_unavailable(error):
            raise StoreError(f"store {path}: {explain(error)}") from error
        faults.append(explain(error))
    return Inspection(*([f"file {path}: {fault}" for fault in each] for each in (faults, otherwise)))


def _table(name: str, statement: str) -> dict[str, _Made]:
    """Returns the rows of the schema for a table whose primary key is an index of its own."""
    return {
        name: ("table", name, statement.replace(_IF_NOT_EXISTS, "")),
        f"sqlite_autoindex_{name}_1": ("index", name, None),
    }


def _triggers(statements: Mapping[str, str]) -> dict[str, _Made]:
    """Returns the rows of the schema for these triggers; their table follows the word ON in their statements."""
    return {name: ("trigger", sql.partition(" ON ")[2].split()[0], sql) for name, sql in statements.items()}


def _schema(connection: sqlite3.Connection, table: str, statement: str) -> Iterator[str]:
    """Yields the faults of the schema: tables, indexes and triggers that were changed, removed or added.

    The rules are there as a whole, or, in a file that only an earlier release has written to, not at all.
    """
    expected = {**_table(table, statement), **_triggers(triggers_of(table))}
    rules: dict[str, _Made] = {IDS: ("table", IDS, CREATE_IDS), **_triggers(rules_of(table))}
    rows = connection.execute("SELECT name, tbl_name, type, sql FROM sqlite_master").fetchall()
    found = {name: (kind, owner, sql) for name, owner, kind, sql in rows}
    if rules.keys() & found.keys():
        expected |= rules
    for later, made in CREATE_LATER.items():
        if later in found:
            expected |= _table(later, made)
    for name in dict.fromkeys((*expected, *found)):
        if name not in found:
            yield f"{name} is missing" + _MADE_ANEW * (name == PLACED)
        elif name not in expected:
            yield f"{name} was not made by Redraft"
        elif found[name] != expected[name]:
            yield f"{name} was changed" + _MADE_ANEW * (name in (RULES, PLACED))
