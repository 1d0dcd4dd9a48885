"""Run as a program: runs SQL on a SQLite database, which it may only read. What to do comes as JSON on standard input.

The exit code is 0 when every statement runs, 1 with a fault a line when one does not, 3 with a line when the database
is at fault. A statement that takes too long within one instruction of SQLite's ends the process by SIGALRM.
"""

from __future__ import annotations

import json
import signal
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from time import monotonic
from typing import Any, Final

LARGEST: Final = 16 * 1024 * 1024
"""Bytes of the largest text or blob that a statement may make."""

LATEST: Final = 0.5
"""Seconds after its deadline at which SQLite is no longer asked to end, but ended."""

_WORDS: Final = {"not authorized": "a draft may only read"}
_STEPS: Final = 1_000
"""Instructions of SQLite's machine between two looks at the clock."""
_ALLOWED: Final = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)


def main() -> int:
    given: dict[str, Any] = json.load(sys.stdin.buffer)
    seconds = float(given["seconds"])
    try:
        database = _opened(Path(given["database"]))
    except sqlite3.Error as error:
        sys.stdout.write(f"{error}\n")
        return 3
    with closing(database):
        deadline = monotonic() + seconds
        database.set_progress_handler(lambda: monotonic() > deadline, _STEPS)
        signal.setitimer(signal.ITIMER_REAL, seconds + LATEST)
        faults = 0
        for fault in _faults(database, given["text"], deadline, seconds, int(given["rows"])):
            faults += 1
            sys.stdout.write(f"{' '.join(fault.split())}\n")
            sys.stdout.flush()
        return 1 if faults else 0


def _faults(database: sqlite3.Connection, text: str, deadline: float, seconds: float, rows: int) -> Iterator[str]:
    faults = answers = 0
    for line, statement in _statements(text):
        late = f"took longer than {seconds:g} s"
        if monotonic() > deadline:
            yield f"line {line}: {late}"
            return
        try:
            with closing(database.cursor()) as cursor:
                cursor.execute(statement)
                answers += cursor.description is not None
                for _ in zip(range(rows), cursor, strict=False):
                    pass
        except (sqlite3.Error, sqlite3.Warning, ValueError, MemoryError, OverflowError) as error:
            faults += 1
            said = str(error) or type(error).__name__
            yield f"line {line}: {_WORDS.get(said, said) if said != 'interrupted' else late}"
    if not faults and not answers:
        yield "there is no query in it"


def _opened(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)
    database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    for limit in (sqlite3.SQLITE_LIMIT_LENGTH, sqlite3.SQLITE_LIMIT_SQL_LENGTH):
        database.setlimit(limit, LARGEST)
    database.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    database.set_authorizer(_allows)
    return database


def _allows(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    is_function = action == sqlite3.SQLITE_FUNCTION
    if action not in _ALLOWED or (is_function and (second or first or "").lower() == "load_extension"):
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Each statement with the line on which it begins; a semicolon within a text or a comment ends none."""
    line, statement = 1, ""
    *ended, last = text.split(";")
    for piece in ended:
        statement += f"{piece};"
        if sqlite3.complete_statement(statement):
            yield line + _blank_lines(statement), statement
            line += statement.count("\n")
            statement = ""
    if (statement + last).strip():
        yield line + _blank_lines(statement + last), statement + last


def _blank_lines(text: str) -> int:
    return text[: len(text) - len(text.lstrip())].count("\n")


if __name__ == "__main__":
    sys.exit(main())
