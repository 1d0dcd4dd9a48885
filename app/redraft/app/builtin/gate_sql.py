"""The gate `sql`: a draft that must run on a SQLite database. It may read that database and nothing else."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from redraft.actors.roles import Context, critic
from redraft.app.builtin.gate_program import STARTING, checked
from redraft.app.builtin.gate_text import verdict
from redraft.app.builtin.options import read_options
from redraft.app.builtin.own_file import own_file
from redraft.events.content import Critique, Draft
from redraft.events.errors import PermanentError

LONGEST: Final = 50_000
"""Characters of the longest draft that is run."""


class SqlOptions(msgspec.Struct, frozen=True):
    """`database`: a SQLite file below the folder in which the worker was started. `seconds`: for all statements
    together (60 at most). `rows`: how many rows of each statement are read (1,000,000 at most)."""

    database: str = ""
    seconds: Annotated[float, msgspec.Meta(gt=0, le=60)] = 5.0
    rows: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 10_000


@critic(name="sql")
async def sql_critic(draft: Draft, context: Context) -> Critique:
    """Whether every statement of the draft runs on a database, which is opened read-only; options: SqlOptions.

    Statements that change anything, name other files or settings, or take too long or too much memory are faults of
    the draft. They run in a process of their own. Raises PermanentError when the database cannot be opened.
    """
    options = read_options(SqlOptions, context.options, "sql")
    if not options.database:
        raise PermanentError("sql: option database is missing; name a SQLite file, such as database: data/shop.db")
    path = own_file(options.database, "sql: option database")
    if len(draft.text) > LONGEST:
        return verdict([f"{len(draft.text):,} characters, and at most {LONGEST:,} are run"])
    seconds = min(options.seconds, context.timeout * 0.9)
    given = {"database": str(path), "text": draft.text, "seconds": seconds, "rows": options.rows}
    refusal = f"option database: {options.database!r} cannot be read: {{}}; name a SQLite file"
    return await checked("sql", "sql_check.py", msgspec.json.encode(given), seconds, context, refusal, STARTING)
