"""What the database itself makes sure of when an event is put into a SQLite file, whoever puts it there.

An event follows the one whose hash it names as `previous`: version 1 the `GENESIS` of the codec, any other the event of
the version before it. And its id is in the log once: the ids lie in a table beside the library's own. Both hold
for what is put in from then on, so that a file with older damage still opens, and is reported.

An event is JSON that begins `{"hash":"…","id":"…","time":…,"previous":"…"` (see `codec`), so hash and id have fixed
places, and the first `"previous":"` is the one that is meant: within a JSON text a quotation mark has a backslash.
Only as much is searched as ids may be long: `instr` goes byte by byte.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from redraft.events.codec import GENESIS
from redraft.events.sqlite_file import triggers_of

IDS: Final = "redraft_event_ids"
"""The table of the ids of all events."""

FOLLOWS: Final = "redraft_event_follows"
ONCE: Final = "redraft_event_once"
"""The names of the rules, which begin the messages of what is refused."""

RULES: Final = "redraft_event_rules"
"""The trigger that holds them."""

CREATE_IDS: Final = f"CREATE TABLE {IDS} (id BLOB NOT NULL PRIMARY KEY) WITHOUT ROWID"

_HASH: Final = "substr({0}.state, 10, 64)"
_HEAD: Final = "substr({0}.state, 82, 8192)"
_ID: Final = f'substr({{0}}.state, 82, instr({_HEAD}, CAST(\'","time":\' AS BLOB)) - 1)'
_PREVIOUS: Final = f'substr({{0}}.state, instr({_HEAD}, CAST(\'"previous":"\' AS BLOB)) + 93, 64)'


def rules_of(table: str) -> dict[str, str]:
    """The triggers on the table of events, and on that of ids: their statements by their names.

    One trigger holds both rules, since each costs an insert as much as its rule does. It looks before the row is in: an
    INSERT OR REPLACE takes out the event that is there without any trigger being told.
    """
    own, previous, before = _ID.format("NEW"), _PREVIOUS.format("NEW"), _HASH.format("e")
    return {
        RULES: f"CREATE TRIGGER {RULES} BEFORE INSERT ON {table} BEGIN SELECT CASE "  # noqa: S608
        f"WHEN coalesce({previous}, 0) IS NOT coalesce("
        f"(SELECT CASE e.originator_version WHEN NEW.originator_version - 1 THEN {before} ELSE '' END FROM {table} e "
        "WHERE e.originator_id = NEW.originator_id AND e.originator_version >= NEW.originator_version - 1 "
        "ORDER BY e.originator_version DESC LIMIT 1), "
        f"CASE NEW.originator_version WHEN 1 THEN CAST('{GENESIS}' AS BLOB) END) "
        f"THEN RAISE(ABORT, '{FOLLOWS}: the event does not follow the last event of its run') "
        f"WHEN EXISTS (SELECT 1 FROM {IDS} WHERE id = {own}) "
        f"THEN RAISE(ABORT, '{ONCE}: an event with this id is in the log already') END; "
        f"INSERT INTO {IDS} VALUES ({own}); END",
        **triggers_of(IDS),
    }


def lay_down(connection: sqlite3.Connection, table: str) -> None:
    """Gives a file that was made by an earlier release the rules, and the ids of the events that it has.

    The connection is in autocommit mode. Raises sqlite3.Error.
    """
    if _are_there(connection):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        if not _are_there(connection):
            connection.execute(CREATE_IDS)
            connection.execute(f"INSERT OR IGNORE INTO {IDS} {_ids_in(table)}")
            for statement in rules_of(table).values():
                connection.execute(statement)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def ids_fault(connection: sqlite3.Connection, table: str) -> str:
    """Returns what is wrong with the table of ids: it holds those of all events, and no other. Empty if nothing is."""
    if not _are_there(connection):
        return ""
    ids = _ids_in(table)
    lacking = connection.execute(f"SELECT count(*) FROM ({ids} EXCEPT SELECT id FROM {IDS})").fetchone()[0]  # noqa: S608
    strange = connection.execute(f"SELECT count(*) FROM (SELECT id FROM {IDS} EXCEPT {ids})").fetchone()[0]  # noqa: S608
    return f"{IDS} is not what it should be: {lacking} ids are missing, and {strange} of no event" * bool(
        lacking or strange
    )


def _ids_in(table: str) -> str:
    """A query for the ids of all events, of those that are events."""
    own = _ID.format("e")
    return f"SELECT {own} FROM {table} e WHERE typeof(e.state) = 'blob' AND length({own}) > 0"  # noqa: S608


def _are_there(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (IDS,)).fetchone() is not None
