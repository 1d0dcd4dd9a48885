"""`code` with a model that mends: a module whose tests fail is mended until they pass, by recorded answers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from model_server import ModelServer, message_of, read_script
from tests.app.cli_calls import Said, call

ANSWERS = Path(__file__).parents[2] / "examples" / "answers" / "roman.jsonl"
MODULE = '''"""Numbers as the Romans wrote them."""
import os
SIGNS = [(1000, "M"), (500, "D"), (100, "C"), (50, "L"), (10, "X"), (5, "V"), (1, "I")]


def to_roman(number: int) -> str:
    """A number from 1 to 3999 in Roman numerals."""
    text = ""
    for value, sign in SIGNS:
        while number >= value:
            text += sign
            number -= value
    return text
'''
TESTS = """import pytest
from roman import to_roman


@pytest.mark.parametrize(("number", "text"), [(1, "I"), (4, "IV"), (9, "IX"), (1994, "MCMXCIV"), (3999, "MMMCMXCIX")])
def test_a_number(number, text):
    assert to_roman(number) == text


def test_nothing_is_no_number():
    with pytest.raises(ValueError):
        to_roman(0)
"""


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDRAFT_STORE", "sqlite:///store.db")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-scripted-0123456789abcdef")
    Path("roman.py").write_text(MODULE)
    Path("tests").mkdir()
    Path("tests/test_roman.py").write_text(TESTS)


def mended(server: ModelServer, monkeypatch: pytest.MonkeyPatch, *more: str) -> Said:
    monkeypatch.setenv("REDRAFT_MODEL_URL", server.url)
    return call("run", "roman.py", "--tests", "tests", "--model", "openai:gpt-4o", *more)


def passes(module: Path) -> bool:
    """Whether pytest itself passes on this module."""
    Path("roman.py").write_text(module.read_text())
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "tests"], capture_output=True, check=False)
    return done.returncode == 0


def test_a_module_with_failing_tests_is_mended_until_they_pass(monkeypatch: pytest.MonkeyPatch):
    with ModelServer(read_script(ANSWERS)) as server:
        said = mended(server, monkeypatch, "--out", "better.py")
        assert server.left == []
        first, second = (message_of(each["body"]) for each in server.asked)
    assert said.code == 0, said.err
    assert "test_a_number[4-IV]" in first
    assert "test_a_number[4-IV]" not in second.partition("<<<HISTORY")[0]
    assert "test_a_number[9-IX]" in second.partition("<<<HISTORY")[0]
    assert passes(Path("better.py"))
    shown = call("show", "last").out
    assert "iteration 3" in shown
    assert "2 calls" in shown


def test_the_first_answer_alone_would_not_have_been_accepted(monkeypatch: pytest.MonkeyPatch):
    only = [{**read_script(ANSWERS)[0], "always": True}]
    with ModelServer(only) as server:
        said = mended(server, monkeypatch, "--json")
    end = json.loads(said.out)
    assert (said.code, end["outcome"]) == (3, "plateaued")
    assert end["score"] < 1


def test_a_model_that_does_away_with_the_code_does_not_pass(monkeypatch: pytest.MonkeyPatch):
    cheat = {"reply": {"text": "def to_roman(number): return 'IV'\n", "changes": ["all"]}, "always": True}
    with ModelServer([cheat]) as server:
        said = mended(server, monkeypatch, "--json")
    end = json.loads(said.out)
    assert (said.code, end["outcome"]) == (1, "failed")
    assert "declined does not say why" in end["reason"]
    assert end["score"] < 1
