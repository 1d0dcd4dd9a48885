"""The examples and the README's first program do what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(folder: Path, *command: str) -> str:
    environment = {**os.environ, "REDRAFT_STORE": f"sqlite:///{folder / 'log.db'}"}
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, cwd=folder, env=environment, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize(
    ("example", "last"),
    [
        ("article.py", "accepted after 3 iterations, score 1.0: the condition holds: score 1 >= 0.9"),
        ("panel.py", "accepted: the condition holds: score 1 >= 0.99"),
        ("chapters.py", "a book of 3 chapters, the last of 11 words; 6 refinements; accepted: the condition holds: "),
        ("advice.py", "1 x write about: far"),
        ("exactly_once.py", "20 notes, from event 1 to event 20"),
        ("follow.py", "event 20: accepted: the condition holds: score 1 >= 0.9"),
    ],
)
def test_an_example_runs(tmp_path: Path, example: str, last: str):
    assert run(tmp_path, str(ROOT / "examples" / example)).splitlines()[-1].startswith(last)


def test_every_python_example_is_run_here():
    named = {mark.args[1][n][0] for mark in test_an_example_runs.pytestmark for n in range(len(mark.args[1]))}
    assert named == {path.name for path in (ROOT / "examples").glob("*.py")} - {"model_server.py"}


def test_the_first_twenty_lines_of_the_readme_are_a_program(tmp_path: Path):
    first = "\n".join((ROOT / "README.md").read_text().splitlines()[:20])
    program = re.search(r"```python\n(.*?)```", first, re.DOTALL)
    assert program
    (tmp_path / "program.py").write_text(program[1])
    assert run(tmp_path, "program.py").splitlines() == [
        "Tides exist, and so on",
        "the condition holds: score 0.9167 >= 0.9",
    ]
