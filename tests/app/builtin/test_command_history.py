"""Programs that are given the history of their loop, and what was said of the last draft."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.app.cli_calls import call, said

from redraft.actors import refiner, step
from redraft.events.errors import PlanError

WRITE = """\
import json, sys
critique = json.load(open(sys.argv[1]))
history = json.load(open(sys.argv[2]))
rounds = history.get("rounds", [])
print(json.dumps([critique, len(rounds), [each["text"] for each in history.get("drafts", [])]]))
"""
JUDGE = """\
import json, sys
history = json.load(open(sys.argv[1]))
rounds = history.get("rounds", [])
seen = [each["text"] for each in history.get("drafts", [])]
score = 1 + 3 * len(rounds)
print(json.dumps({"score": score, "suggestions": [f"{len(rounds)} before"], "rounds": len(rounds), "seen": len(seen),
                  "scores": [each["score"] for each in rounds]}))
"""
PLAN = """\
name: told
steps:
  - repeat:
      until: score >= 7
      max_iterations: 5
      body:
        - generate:
            actor: command
            name: write
            history: 1
            with: {run: [PYTHON, "{here}/write.py", "{critique}", "{history}"]}
        - critique:
            actor: command
            name: judge
            scale: [1, 10]
            with: {run: [PYTHON, "{here}/judge.py", "{history}"], parser: json}
"""


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDRAFT_STORE", f"sqlite:///{tmp_path / 'log.db'}")
    Path("write.py").write_text(WRITE)
    Path("judge.py").write_text(JUDGE)
    Path("brief.txt").write_text("rain")


def run(plan: str = PLAN) -> dict[str, Any]:
    Path("plan.yaml").write_text(plan.replace("PYTHON", sys.executable))
    found: dict[str, Any] = json.loads(said("run", "plan.yaml", "brief.txt", "--json"))
    return found


def test_programs_are_given_the_history_and_a_generator_what_was_said() -> None:
    result = run()

    drafts = [json.loads(each) for each in texts_written()]
    assert [each[1] for each in drafts] == [0, 1, 2]
    assert drafts[0][0] is None
    assert [drafts[2][0]["suggestions"], drafts[2][0]["score"]] == [["1 before"], 4]
    assert [len(each[2]) for each in drafts] == [0, 1, 1]
    details = [each["critique"]["details"] for each in result["critiques"]]
    assert [each["rounds"] for each in details] == [0, 1, 2]
    assert details[2]["scores"] == "[1.0,4.0]"
    assert [each["seen"] for each in details] == [0, 0, 0], "its plan asks for no texts"


def texts_written() -> list[str]:
    events = map(json.loads, said("events", "--run", "last", "--json").splitlines())
    return [each["data"]["draft"]["text"] for each in events if each["name"] == "draft.generated.v1"]


@pytest.mark.parametrize("role", ["critic", "generator", "refiner"])
def test_a_program_that_is_given_a_history_it_does_not_name_is_refused_with_the_remedy(role: str) -> None:
    with pytest.raises(PlanError, match=r'^command: history is 2, but no argument says \{history\}; add "\{history\}"'):
        step("command", role=role, history=2, options={"run": ["cat"]})


def test_so_is_one_in_a_plan_before_anything_runs() -> None:
    Path("plan.yaml").write_text(PLAN.replace("PYTHON", "python3").replace(', "{history}"]}', "]}"))

    spoken = call("run", "plan.yaml", "brief.txt")

    assert (spoken.code, spoken.err.count("\n")) == (2, 1)
    assert "write: history is 1, but no argument says {history}" in spoken.err


def test_so_is_a_function_that_does_not_take_it() -> None:
    @refiner
    def improve(draft: object) -> str:
        return "x"

    with pytest.raises(PlanError, match=r"^improve: history is 2, but improve does not take 'history'; add it"):
        step(improve, history=2)
