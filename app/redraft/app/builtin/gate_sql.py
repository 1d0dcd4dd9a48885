"""The gate `sql`: a draft that must run on a SQLite database. It may read that database and nothing else."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from time import monotonic
from typing import Annotated, Final

import msgspec

from redraft.actors.roles import Context, critic
from redraft.app.builtin.gate_text import verdict
from redraft.app.builtin.options import read_options
from redraft.app.builtin.own_file import own_file
from redraft.events.content import Critique, Draft
from redraft.events.errors import PermanentError

LARGEST: Final = 16 * 1024 * 1024
"""Bytes of the largest text or blob that a statement may make."""

LONGEST: Final = 50_000
"""Characters of the longest draft that is run."""

_WORDS: Final = {"not authorized": "a draft may only read", "interrupted": "took too long"}
_STEPS: Final = 1_000
"""Instructions of SQLite's machine between two looks at the clock."""
_ALLOWED: Final = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)


class SqlOptions(msgspec.Struct, frozen=True):
    """`database`: a SQLite file below the folder in which the worker was started. `seconds`: for all statements
    together (60 at most). `rows`: how many rows of each statement are read (1,000,000 at most)."""

    database: str = ""
    seconds: Annotated[float, msgspec.Meta(gt=0, le=60)] = 5.0
    rows: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 10_000


@critic(name="sql")
def sql_critic(draft: Draft, context: Context) -> Critique:
    """Whether every statement of the draft runs on a database, which is opened read-only; options: SqlOptions.

    Statements that change anything, name other files or settings, or take too long are faults of the draft. Raises
    PermanentError when the database cannot be opened.
    """
    options = read_options(SqlOptions, context.options, "sql")
    if not options.database:
        raise PermanentError("sql: option database is missing; name a SQLite file, such as database: data/shop.db")
    path = own_file(options.database, "sql: option database")
    if len(draft.text) > LONGEST:
        return verdict([f"{len(draft.text):,} characters, and at most {LONGEST:,} are run"])
    with closing(_opened(path, options.database)) as database:
        deadline = monotonic() + min(options.seconds, context.timeout * 0.9)
        database.set_progress_handler(lambda: monotonic() > deadline, _STEPS)
        return verdict(_faults(database, draft.text, deadline, options))


def _faults(database: sqlite3.Connection, text: str, deadline: float, options: SqlOptions) -> list[str]:
    faults: list[str] = []
    answers = 0
    for line, statement in _statements(text):
        late = f"took longer than {options.seconds:g} s"
        try:
            if monotonic() > deadline:
                return [*faults, f"line {line}: {late}"]
            with closing(database.cursor()) as cursor:
                cursor.execute(statement)
                answers += cursor.description is not None
                cursor.fetchmany(options.rows)
        except (sqlite3.Error, sqlite3.Warning, ValueError, MemoryError, OverflowError) as error:
            said = str(error) or type(error).__name__
            faults.append(f"line {line}: {_WORDS.get(said, said) if said != 'interrupted' else late}")
    return faults if faults or answers else ["there is no query in it"]


def _opened(path: Path, name: str) -> sqlite3.Connection:
    try:
        database = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)
        database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error as error:
        raise PermanentError(f"sql: option database: {name!r} cannot be read: {error}; name a SQLite file") from None
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
