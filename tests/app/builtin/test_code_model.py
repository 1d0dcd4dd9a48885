"""`code` with a model that mends: a module whose tests fail is mended until they pass, by recorded answers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from model_server import ModelServer, message_of, read_script
from tests.app.cli_calls import Said, call, one_line
from tests.app.quick_python import quick_python
from tests.app.roman_module import lay_down

ANSWERS = Path(__file__).parents[3] / "examples" / "answers" / "roman.jsonl"


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDRAFT_STORE", "sqlite:///store.db")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-scripted-0123456789abcdef")
    lay_down(tmp_path)
    monkeypatch.setattr(sys, "executable", quick_python(tmp_path))


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


@pytest.mark.check
def test_the_first_answer_alone_would_not_have_been_accepted(monkeypatch: pytest.MonkeyPatch):
    only = [{**read_script(ANSWERS)[0], "always": True}]
    with ModelServer(only) as server:
        said = mended(server, monkeypatch, "--json")
    end = json.loads(said.out)
    assert (said.code, end["outcome"], end["reason"]) == (3, "exhausted", "the refiner left")
    assert end["score"] < 1


@pytest.mark.check
def test_a_model_that_does_away_with_the_code_does_not_pass(monkeypatch: pytest.MonkeyPatch):
    cheat = {"reply": {"text": "def to_roman(number): return 'IV'\n", "changes": ["all"]}, "always": True}
    with ModelServer([cheat]) as server:
        said = mended(server, monkeypatch, "--json")
    end = json.loads(said.out)
    assert (said.code, end["outcome"]) == (3, "plateaued")
    assert end["draft"]["version"] == 1  # the gates hold back every other: a name is gone, and tests that passed fail
    assert end["score"] < 1


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (("roman.py", "--tests", "nowhere"), "--tests nowhere: there is no such file or folder; correct the path"),
        (
            ("-", "--tests", "tests"),
            "--tests need a module that they import; name a .py file as the source, or a folder",
        ),
    ],
)
@pytest.mark.parametrize("verb", [("run", "--workflow", "code"), ("submit", "code")], ids=["run", "submit"])
def test_tests_that_cannot_test_are_refused_before_anything_is_recorded(
    verb: tuple[str, ...], words: tuple[str, ...], fault: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("REDRAFT_BUS", "amqp://127.0.0.1:9/")
    said = call(*verb, *words, stdin=b"x = 1\n")
    assert said.code == 2
    assert one_line(said) == fault
    assert not Path("store.db").exists()


@pytest.mark.check
def test_a_run_goes_on_from_another_folder_with_the_tests_that_it_began_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with ModelServer([{**read_script(ANSWERS)[0], "status": 400}]) as server:
        assert mended(server, monkeypatch, "--json").code == 1
    monkeypatch.setenv("REDRAFT_STORE", f"sqlite:///{tmp_path / 'store.db'}")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with ModelServer(read_script(ANSWERS)) as server:
        monkeypatch.setenv("REDRAFT_MODEL_URL", server.url)
        said = call("fork", "last", "--at", "1", "--json")
        assert server.left == []
    assert json.loads(said.out)["outcome"] == "accepted", said
