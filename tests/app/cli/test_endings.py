"""The ends of loops on the command line: exit codes, what is published, and what people are asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.app.cli_calls import call, document, one_line

ACTORS = """
from redraft.actors import critic, generator, refiner

@generator
def write(brief): return brief.text

@critic
def judge(draft): return 0.5 + 0.1 * draft.text.count("!")

@refiner
def improve(draft): return draft.text + "!"
"""

PLAN = """\
name: loud
steps:
  - generate: {actor: write}
  - repeat:
      until: score >= 0.9
      max_iterations: 2
      on_exhausted: ENDING
      body:
        - critique: {actor: judge}
        - refine: {actor: improve}
  - publish: {actor: file, with: {path: out.txt}}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDRAFT_STORE", "sqlite:///store.db")
    monkeypatch.setenv("LOGNAME", "ann")
    (tmp_path / "actors.py").write_text(ACTORS)
    return tmp_path


def run(folder: Path, ending: str, *more: str) -> tuple[int, str]:
    (folder / "plan.yaml").write_text(PLAN.replace("ENDING", ending))
    ended = call("run", "-w", "plan.yaml", "--actors", "actors.py", "Tides", "-q", *more)
    return ended.code, ended.err


def test_a_loop_that_fails_has_the_exit_code_of_an_exhausted_run_and_publishes_nothing(folder: Path) -> None:
    assert run(folder, "publish")[0] == 3
    assert (folder / "out.txt").read_text() == "Tides!!"
    (folder / "out.txt").unlink()
    assert run(folder, "fail")[0] == 3
    assert not (folder / "out.txt").exists()
    assert document("list")[0]["outcome"] == "exhausted"
    assert call("audit", "last", "--verify").code == 0


def test_an_unknown_ending_is_refused_in_one_line(folder: Path) -> None:
    (folder / "plan.yaml").write_text(PLAN.replace("ENDING", "pubish"))
    refused = call("run", "-w", "plan.yaml", "--actors", "actors.py", "Tides", "-q")
    assert refused.code == 2
    assert one_line(refused) == "plan.yaml:7: Refinement: on_exhausted is 'pubish'; did you mean publish?"


def test_a_fork_from_before_the_end_publishes_what_the_plan_would_not(folder: Path) -> None:
    run(folder, "fail")
    before_end = document("list")[0]["version"] - 1
    forked = call(
        *("fork", "last", "--at", str(before_end), "--set", "on_exhausted=publish"), *("--actors", "actors.py", "-q")
    )
    assert forked.code == 3, forked.err
    assert (folder / "out.txt").read_text() == "Tides!!"
    assert call("audit", "--all", "--verify").code == 0


def test_people_are_asked_at_the_end_and_a_fork_cannot_unask_them(folder: Path) -> None:
    assert run(folder, "ask\n      ask: {deadline: 1s, on_deadline: approve}")[0] == 3
    assert (folder / "out.txt").read_text() == "Tides!!"
    asked = [each for each in _events() if each["path"] == "Refinement[ask]"]
    assert [each["name"] for each in asked] == ["approval.requested.v1", "approval.expired.v1"]
    unasked = ("--set", "on_exhausted=publish", "--actors", "actors.py", "-q")
    refused = call("fork", "last", "--at", str(asked[0]["version"]), *unasked)
    assert refused.code == 2
    assert "Refinement is already done" in one_line(refused)
    assert call("fork", "last", "--at", str(asked[0]["version"] - 2), *unasked).code == 3
    assert call("audit", "--all", "--verify").code == 0


def _events() -> list[dict[str, Any]]:
    said = call("events", "--run", "last", "--json")
    lines = [json.loads(line) for line in said.out.splitlines()]
    return [{"path": "", **each["data"], **each} for each in lines]
