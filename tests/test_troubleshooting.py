"""Each line that docs/troubleshooting.md quotes is in the code, and each of its twenty mistakes says what is quoted."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from tests.app.cli_calls import spawn
from tests.pages import ROOT
from tests.processes import plain

PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
MISTAKES, LINES = PAGE.split("## The twenty mistakes")[1].split("## A run that failed")
ROWS = re.findall(r"^\| (\d+) \| .*? \| `([^`]+)` \| .* \|$", MISTAKES, re.MULTILINE)
QUOTED = re.findall(r"^\| `([^`]+)`.* \| .* \| .*\|$", LINES, re.MULTILINE)

BASE = """
from redraft.actors import Critique, Workflow, critic, generator, plateau, publisher, refiner, score, step
@generator
def write(brief): return brief.text
@critic
def judge(draft): return Critique(0.5)
@refiner
def improve(draft): return draft.text + " more"
"""
LOOP = "loop = Workflow('w').start_with(write).repeat_until(score >= 0.9, max_iterations=2, body=[judge, improve])\n"
PLAN = """
name: w
steps:
  - generate: {actor: write}
  - repeat: {until: score >= 0.9, max_iterations: 5, body: [critique: {actor: judge}, refine: {actor: improve}]}
"""
PROGRAM = "from hello import loop\nfrom redraft.app import refine\nprint(refine(loop, 'text').text)\n"


def redraft(*arguments: str, folder: Path, code: str = BASE + LOOP, **settings: str) -> str:
    (folder / "hello.py").write_text(code)
    said = spawn(*arguments, folder=folder, **settings)
    assert said.code != 0, said
    return said.err


def made(folder: Path, code: str) -> str:
    """What a run of a workflow with this code says, in which `judge` or `improve` are given anew."""
    return redraft("run", "hello.py:loop", "text", folder=folder, code=BASE + code)


def python(folder: Path, *arguments: str) -> str:
    (folder / "hello.py").write_text(BASE + LOOP)
    environment = plain() | {"PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0, done
    return done.stderr


def plan(folder: Path, text: str) -> str:
    (folder / "plan.yaml").write_text(text)
    return redraft("run", "--workflow", "plan.yaml", "text", folder=folder)


CRITIC = "@critic\ndef judge(draft): {}\n" + LOOP
MADE = {
    1: lambda at: python(at, "-E", "-S", "-c", "from redraft.app import refine"),
    2: lambda at: python(at, "-c", "import redraft; redraft.refine"),
    3: lambda at: redraft("run", "esay.md", folder=at),
    4: lambda at: redraft("run", "hello.py", "text", folder=at),
    5: lambda at: redraft("run", "hello.py:lop", "text", folder=at),
    6: lambda at: made(at, "def judge(draft): return Critique(0.5)\n" + LOOP),
    7: lambda at: made(at, "@critic\ndef judge(text): return Critique(0.5)\n" + LOOP),
    8: lambda at: made(at, CRITIC.format("Critique(0.5)")),
    9: lambda at: made(at, CRITIC.format("return Critique(8)")),
    10: lambda at: made(at, CRITIC.format("return Critique(draft.length / 100)")),
    11: lambda at: made(
        at, "async def ask(text): return text\n@refiner\ndef improve(draft): return ask(draft.text)\n" + LOOP
    ),
    12: lambda at: made(at, LOOP.replace("score >= 0.9", "score >= 0.9 or plateau()")),
    13: lambda at: made(at, LOOP.replace("max_iterations=2, ", "")),
    14: lambda at: made(
        at, "@publisher\ndef save(draft): return 'x'\nloop = Workflow('w').start_with(write).finally_(save)\n"
    ),
    15: lambda at: plan(at, PLAN.replace("max_iterations", "max_iteration")),
    16: lambda at: plan(at, PLAN),
    17: lambda at: python(at, "-c", PROGRAM),
    18: lambda at: redraft("list", folder=at, REDRAFT_STORE="runs.db"),
    19: lambda at: redraft("submit", "hello.py:loop", "text", folder=at),
    20: lambda at: redraft("run", "Why", "--workflow", "article", folder=at),
}


def test_there_are_twenty():
    assert [int(number) for number, _ in ROWS] == list(MADE) == list(range(1, 21))


@pytest.mark.parametrize(("number", "line"), [(int(number), line) for number, line in ROWS])
def test_a_mistake_says_its_line(tmp_path: Path, number: int, line: str):
    said = MADE[number](tmp_path)
    assert re.search(re.escape(line).replace("…", ".*"), said), said


def test_lines_are_quoted():
    assert len(QUOTED) > 100


@pytest.mark.parametrize("line", QUOTED)
def test_a_quoted_line_is_in_the_code(line: str):
    """Whatever stands between two `…` is written in one text of the code."""
    parts = [part.strip(" :") for part in line.split("…") if len(part.strip(" :")) > 3]
    missing = [part for part in parts if not any(part in text for text in texts())]
    assert not missing, f"not in the code: {missing}"


@cache
def texts() -> frozenset[str]:
    """Every text that stands in the code; what an f-string fills in divides it."""
    folders = (ROOT / each / "redraft" for each in ("events", "actors", "projections", "app"))
    return frozenset(text for folder in folders for file in folder.rglob("*.py") for text in _texts(file))


def _texts(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
