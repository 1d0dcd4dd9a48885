"""Run as a program, with the name of a gate: judges the draft on its standard input as Python, as JSON or as SQL.

The exit code is 0 when it is sound, 1 with a fault a line when it is not, 3 with a line when not the draft is at fault.
"""

from __future__ import annotations

import ast
import json
import signal
import sqlite3
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import closing, redirect_stdout
from io import StringIO
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

MOST: Final = 100
"""The largest number of faults by a schema that are reported."""

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


_REFUSED: Final = frozenset({"load_extension", "fts3_tokenizer"})
"""Functions of SQLite by which a query reaches code: the second takes, and gives, the address of some."""


def main() -> int:
    text = sys.stdin.buffer.read()
    match sys.argv[1]:
        case "python":
            return check_python(text)
        case "public-names":
            return check_names(json.loads(text))
        case "modules":
            return check_modules(json.loads(text))
        case "json-schema":
            return check_json(json.loads(text))
        case _:
            return check_sql(json.loads(text))


def check_python(text: bytes) -> int:
    """Compiles the text, without running it."""
    warnings.simplefilter("ignore")
    try:
        compile(text, "draft.py", "exec", dont_inherit=True)
    except SyntaxError as error:
        return _report(f"line {error.lineno or 1}: {error.msg}", 1)
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        return _report(f"{type(error).__name__}: {error}", 1)
    return 0


def check_names(given: Mapping[str, str]) -> int:
    """Compares the public names of two modules: those of the brief have to be in the draft, which has to compile."""
    from redraft.app.builtin.support.module_names import bound_names, public_names

    if code := check_python(given["draft"].encode()):
        return code
    try:
        before = ast.parse(given["brief"].encode())  # as bytes: Python heeds the encoding that a module declares
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return 0  # no module that anybody could import: no name of it is lost
    lost = sorted(public_names(before) & bound_names(before) - bound_names(ast.parse(given["draft"].encode())))
    return max((_report(f"the name {name} is gone", 1) for name in lost[:MOST]), default=0)


def check_modules(given: Mapping[str, Mapping[str, str]]) -> int:
    """Compares the modules of a draft of several files, by path, with those of the brief, if there are any.

    A module that is gone has lost all its public names; one without a public name may go.
    """
    code = 0
    for path in sorted({*given["before"], *given["after"]}):
        before, after = given["before"].get(path, ""), given["after"].get(path, "")
        with redirect_stdout(StringIO()) as said:
            code = max(check_names({"brief": before, "draft": after}), code)
        sys.stdout.write("".join(f"{path}: {line}\n" for line in said.getvalue().splitlines()))
    return code


def check_json(given: Mapping[str, str]) -> int:
    """Judges the JSON text `draft` by the JSON Schema `schema`."""
    from jsonschema import SchemaError
    from jsonschema.validators import Draft202012Validator, validator_for
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    try:
        schema = json.loads(given["schema"])
        kind = validator_for(schema, default=Draft202012Validator)
        kind.check_schema(schema)
    except (ValueError, RecursionError) as error:
        return _report(f"the schema is not JSON: {error}; correct it", 3)
    except SchemaError as error:
        return _report(f"the schema is not a JSON Schema: {error.message} at {error.json_path}; correct it", 3)
    try:
        text = json.loads(given["draft"], parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        return _report(f"it is not JSON: {error}", 1)
    try:
        faults = kind(schema, registry=Registry()).iter_errors(text)
        lines = [_line(fault) for _, fault in zip(range(MOST), faults, strict=False)]
    except Unresolvable as error:
        return _report(f"the schema refers to what is not in it: {error}; put it in", 3)
    except RecursionError:
        return _report("it is nested too deeply", 1)
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 1 if lines else 0


def check_sql(given: Mapping[str, Any]) -> int:
    """Runs the SQL `text` on the SQLite file `database`, which it may only read.

    A statement that takes too long within one instruction of SQLite's ends the process by SIGALRM.
    """
    seconds = float(given["seconds"])
    try:
        database = _open_database(Path(given["database"]))
    except sqlite3.Error as error:
        return _report(str(error), 3)
    with closing(database):
        deadline = monotonic() + seconds
        database.set_progress_handler(lambda: monotonic() > deadline, _STEPS)
        signal.setitimer(signal.ITIMER_REAL, seconds + LATEST)
        code = 0
        for fault in _faults(database, given["text"], deadline, seconds, int(given["rows"])):
            code = _report(fault, 1)
            sys.stdout.flush()
        return code


def _line(fault: ValidationError) -> str:
    message = fault.message if len(fault.message) < 400 else f"{fault.message[:200]} … {fault.message[-150:]}"
    return f"{fault.json_path}: {' '.join(message.split())}"


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is not a number in JSON")


def _report(line: str, code: int) -> int:
    sys.stdout.write(f"{' '.join(line.split())}\n")
    return code


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
            message = str(error) or type(error).__name__
            yield f"line {line}: {_WORDS.get(message, message) if message != 'interrupted' else late}"
    if not faults and not answers:
        yield "there is no query in it"


def _open_database(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)
    database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    for limit in (sqlite3.SQLITE_LIMIT_LENGTH, sqlite3.SQLITE_LIMIT_SQL_LENGTH):
        database.setlimit(limit, LARGEST)
    database.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    database.set_authorizer(_allows)
    return database


def _allows(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    is_function = action == sqlite3.SQLITE_FUNCTION
    if action not in _ALLOWED or (is_function and (second or first or "").lower() in _REFUSED):
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
