"""The ready-made gates: each passes what is right, says what is wrong and where, and holds against hostile drafts."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import product
from pathlib import Path
from threading import Event
from time import sleep
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from redraft.actors.runtime.working.call import Call
from redraft.actors.workflow.actor import Actor
from redraft.app.builtin.gates.programs import LIMITED, MEMORY, python_critic, schema_critic, sql_critic
from redraft.app.builtin.gates.text import _find_phrases, agreement_critic, length_critic, pattern_critic, words_critic
from redraft.events.messages.commands import Critiqued, CritiqueDraft, Failed, OutcomeMessage, Request
from redraft.events.messages.content import Brief, new_draft


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with closing(sqlite3.connect("shop.db")) as shop:
        shop.execute("CREATE TABLE orders (id INTEGER, price REAL)")
        shop.executemany("INSERT INTO orders VALUES (?, ?)", [(n, n * 1.5) for n in range(100)])
        shop.commit()
    Path("order.json").write_text(
        json.dumps(
            {
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object",
                "properties": {"id": {"type": "integer", "minimum": 1}, "code": {"pattern": "^(a+)+$"}},
                "required": ["id"],
                "additionalProperties": False,
            }
        )
    )
    return tmp_path


async def outcome_of(gate: Actor, text: str, **options: Any) -> OutcomeMessage:
    over = asyncio.Event()
    request = Request("r/p#1", "r", "p", gate.name, 1, 30.0, Brief("b"), options)
    call = Call(gate, CritiqueDraft(request, new_draft(1, text)), over.set)
    await asyncio.wait_for(over.wait(), 60)
    return call.outcome()


async def faults(gate: Actor, text: str, **options: Any) -> tuple[str, ...]:
    """What the gate has against a text; a gate gives the full score or none."""
    outcome = await outcome_of(gate, text, **options)
    assert isinstance(outcome, Critiqued), outcome
    assert outcome.critique.score == (0 if outcome.critique.errors else 1)
    return outcome.critique.errors


async def refused(gate: Actor, text: str = "x", **options: Any) -> str:
    outcome = await outcome_of(gate, text, **options)
    assert isinstance(outcome, Failed), outcome
    assert not outcome.retryable
    return outcome.message


async def test_length():
    text = "One two three.\nFour five.\n"
    assert await faults(length_critic, text, min_words=5, max_words=5, max_lines=2, max_characters=26) == ()
    assert await faults(length_critic, text, max_words=4, min_lines=3, max_characters=9) == (
        "5 words, but at most 4 are allowed",
        "26 characters, but at most 9 are allowed",
        "2 lines, but at least 3 are required",
    )
    assert "max_word" in await refused(length_critic, max_word=4)


async def test_forbidden_words():
    said = await faults(words_critic, "We Delve deeper.\nA rich\n tapestry: delved", words=["delve", "rich tapestry"])
    assert said == ("line 1: 'Delve'", "line 2: 'rich\\n tapestry'")
    assert await faults(words_critic, "delves (c++)", words=["delve", "c"]) == ("line 1: 'c'",)
    assert await faults(words_critic, "A. B", words=[". B"]) == ()
    assert "option words is empty" in await refused(words_critic)


ALIKE = "aAbB iIİıſsSßKkµμσς'-._#+ \n\t\u00a0"  # noqa: RUF001
WORDS = st.text(ALIKE, min_size=1, max_size=5).filter(str.strip)


@given(st.lists(WORDS, min_size=1, max_size=5), st.text(ALIKE, max_size=40))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_forbidden_words_are_found_where_one_pattern_of_all_would_find_them(words: list[str], text: str):
    said = "|".join(r"\s+".join(map(re.escape, word.split())) for word in words)
    found = re.finditer(rf"(?<!\w)(?:{said})(?!\w)", text, re.IGNORECASE)
    lines = [(text.count("\n", 0, each.start()) + 1, each.span()) for each in found]
    assert [(line, each.span()) for line, each in _find_phrases(words, text)] == lines


def test_others_have_their_turns_while_a_long_text_is_held_against_many_forbidden_words():
    """What is one call in C keeps the interpreter to itself."""
    words = ["".join(letters) for letters in product("bcdfghjkl", repeat=3)]
    text = "the quick brown fox jumps\n" * 60_000 + words[-1]
    assert not list(_find_phrases(words, "the quick brown fox")), "patterns are made"
    begun, done = Event(), Event()

    def search() -> list[int]:
        begun.set()
        found = [line for line, _ in _find_phrases(words, text)]
        done.set()
        return found

    with ThreadPoolExecutor() as threads:
        searching = threads.submit(search)
        begun.wait()
        turns = 0
        while not done.is_set():
            sleep(0)  # another thread's turn, and then ours again
            turns += 1
    assert searching.result() == [60_001]
    assert turns > 5


async def test_patterns():
    assert await faults(pattern_critic, "# Title\n\ntext", must=["^# "], must_not=["TODO"]) == ()
    assert await faults(pattern_critic, "text\nTODO: all", must=["^# "], must_not=[r"TODO\b.*"]) == (
        "no text matches '^# '",
        r"line 2: 'TODO: all' matches 'TODO\\b.*'",
    )
    assert "is not a pattern of RE2" in await refused(pattern_critic, must=["(?=ahead)"])
    assert "neither must nor must_not" in await refused(pattern_critic)


async def test_a_pattern_that_would_backtrack_for_ever_ends():
    assert await faults(pattern_critic, "a" * 100_000 + "!", must=["^(a+)+$"]) == ("no text matches '^(a+)+$'",)


async def test_an_answer_of_marks_without_end_is_compared_all_the_same():
    assert await faults(agreement_critic, "Answer: a" + "\u0301\u0316" * 500_000) == ()


@pytest.mark.check
async def test_json_schema():
    assert await faults(schema_critic, '{"id": 7, "code": "aaa"}', schema="order.json") == ()
    said = await faults(schema_critic, '{"id": 0, "extra": 1}', schema="order.json")
    assert any("0 is less than the minimum of 1" in fault for fault in said)
    assert any("'extra' was unexpected" in fault for fault in said)
    assert (await faults(schema_critic, "id: 7", schema="order.json"))[0].startswith("it is not JSON")
    assert "NaN is not a number" in (await faults(schema_critic, '{"id": NaN}', schema="order.json"))[0]


@pytest.mark.check
async def test_hostile_json_ends():
    endless = json.dumps({"id": 1, "code": "a" * 40 + "!"})
    assert "could not be checked in 1 s" in (await faults(schema_critic, endless, schema="order.json", seconds=1.0))[-1]
    assert await faults(schema_critic, "[" * 200_000, schema="order.json")


async def test_a_schema_that_is_none_or_fetches_something_is_the_plans_fault(folder: Path):
    (folder / "bad.json").write_text('{"type": "strnig"}')
    (folder / "none.json").write_text("{")
    (folder / "far.json").write_text('{"$ref": "http://127.0.0.1:9/schema.json"}')
    assert "is not a JSON Schema" in await refused(schema_critic, "{}", schema="bad.json")
    assert "is not JSON" in await refused(schema_critic, "{}", schema="none.json")
    assert "refers to what is not in it" in await refused(schema_critic, "{}", schema="far.json")
    for name in ("../order.json", "/etc/passwd", "away.json", ""):
        assert "schema" in await refused(schema_critic, "{}", schema=name)


async def test_python_that_compiles():
    assert await faults(python_critic, "import os\nprint(os.name)\n") == ()
    assert await faults(python_critic, "def f(:\n  pass\n") == ("line 1: invalid syntax",)
    assert await faults(python_critic, "x = '\\d'\n") == ()
    assert await faults(python_critic, "x = 1\x00") != ()


@pytest.mark.parametrize("text", ["(" * 100_000, "-" * 100_000 + "1", "x = " + "[" * 90 + "]" * 90 + "\nreturn"])
async def test_python_that_breaks_the_compiler_fails_the_gate(text: str):
    assert await faults(python_critic, text)


async def test_python_is_not_run(folder: Path):
    await faults(python_critic, f"open({str(folder / 'made')!r}, 'w')")
    assert not (folder / "made").exists()


async def test_sql_that_runs():
    query = "-- the sum; of all\nSELECT sum(price) FROM orders WHERE id > 3;\n\nSELECT ';' AS x;\nSELECT 1\nFROM orders"
    assert await faults(sql_critic, query, database="shop.db") == ()


async def test_sql_that_does_not_run_is_told_with_its_line():
    said = await faults(sql_critic, "SELECT 1;\n\nSELECT cost FROM orders;\nSELEC 1", database="shop.db")
    assert said == ("line 3: no such column: cost", 'line 4: near "SELEC": syntax error')
    assert await faults(sql_critic, "-- nothing", database="shop.db") == ("there is no query in it",)


HOSTILE = [
    "DROP TABLE orders",
    "DELETE FROM orders",
    "INSERT INTO orders VALUES (1, 2)",
    "UPDATE orders SET price = 0",
    "ATTACH DATABASE 'other.db' AS other",
    "VACUUM INTO 'copy.db'",
    "CREATE TABLE t (a)",
    "CREATE TEMP TABLE t (a)",
    "PRAGMA journal_mode = WAL",
    "PRAGMA writable_schema = ON",
    "BEGIN IMMEDIATE",
    "SELECT load_extension('x')",
    "SELECT hex(fts3_tokenizer('simple'))",
    "SELECT FTS3_TOKENIZER('simple', x'4141414141414141')",
    "SELECT writefile('made', 'x')",
    "SELECT zeroblob(2000000000)",
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n",
    "SELECT count(*) FROM orders a, orders b, orders c, orders d, orders e, orders f",
    "SELECT " + "(" * 5_000 + "1" + ")" * 5_000,
    "SELECT instr(zeroblob(8000000), zeroblob(4000000) || x'01')",
    "SELECT a.id, zeroblob(16000000) FROM orders a, orders b",
    "SELECT group_concat(a.id, zeroblob(8000000)) FROM orders a, orders b ORDER BY zeroblob(16000000)",
]


@pytest.mark.parametrize("text", HOSTILE)
async def test_sql_can_only_read_and_not_for_long(text: str, folder: Path):
    before = (folder / "shop.db").read_bytes()
    assert await faults(sql_critic, text, database="shop.db", seconds=1.0)
    assert (folder / "shop.db").read_bytes() == before
    assert sorted(path.name for path in folder.iterdir()) == ["order.json", "shop.db"]


@pytest.mark.check
async def test_sql_within_one_endless_instruction_is_ended():
    endless = "SELECT 1;\nSELECT instr(zeroblob(8000000), zeroblob(4000000) || x'01')"
    assert await faults(sql_critic, endless, database="shop.db", seconds=0.5) == ("it could not be checked in 0.5 s",)


async def test_a_draft_that_breaks_the_checker_does_not_pass(folder: Path):
    (folder / "steps.json").write_text('{"properties": {"step": {"multipleOf": 0.1}}}')
    said = await faults(schema_critic, '{"step": ' + "9" * 400 + "}", schema="steps.json")
    assert said == ("it ended its checker, exit code 1",)


FIRST_PROCESS = """
import asyncio, os
from redraft.actors.workflow.context import Context
from redraft.app.builtin.gates.programs import python_critic
from redraft.events.messages.content import new_draft

assert os.getpid() == 1
said = asyncio.run(python_critic(new_draft(1, "x = 1"), Context("r", "p", 1, 30.0, "k", {})))
print(said.score, *said.errors)
"""


def test_a_checker_serves_a_worker_that_is_the_first_process_of_its_container():
    namespace = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child")
    if not shutil.which("unshare") or subprocess.run([*namespace, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no process here can be the first of a namespace")
    command = [*namespace, sys.executable, "-c", FIRST_PROCESS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("1.0\n", "")


@pytest.mark.check
def test_a_checker_has_limits_that_the_kernel_keeps(tmp_path: Path):
    def ended(program: str) -> tuple[int, str]:
        (tmp_path / "program.py").write_text(program)
        limits = [str(os.getpid()), str(MEMORY), "1"]
        command = [sys.executable, "-I", str(LIMITED), *limits, str(tmp_path / "program.py")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stderr

    assert ended("import sys; sys.exit(7)") == (7, "")
    assert "MemoryError" in ended("bytearray(2 << 30)")[1]
    assert ended("while True: pass")[0] in (-signal.SIGXCPU, -signal.SIGKILL)


@pytest.mark.check
async def test_sql_with_many_semicolons_ends():
    assert await faults(sql_critic, "SELECT '" + ";" * 49_000, database="shop.db", seconds=2.0)
    assert await faults(sql_critic, ";" * 60_000, database="shop.db") == (
        "60,000 characters, and at most 50,000 are run",
    )


async def test_a_database_that_is_none_is_the_plans_fault(folder: Path):
    (folder / "text.db").write_text("this is no database, and it is long enough to be read as a page of one" * 9)
    (folder / "link.db").symlink_to("/etc/passwd")
    for name in ("", "none.db", "text.db", "../shop.db", "/tmp/shop.db", "link.db", "order.json"):
        assert "database" in await refused(sql_critic, "SELECT 1", database=name)
    assert not (folder / "none.db").exists()
