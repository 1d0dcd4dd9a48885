"""Late critics as they are shown, and forks with other settings of history, issues, criteria and late critics."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.app.cli_calls import call, said

ACTORS = """\
from redraft.actors import critic, generator, refiner


@generator
def write(brief):
    return "x"


@critic(criteria={"length": "it is long", "tone": "it is plain"})
def count(draft):
    size = len(draft.text)
    tone = 0.9 if size == 1 else 0.1 * size
    return {"criteria": {"length": min(1, size / 5), "tone": tone}, "issues": [{"text": "longer", "quote": draft.text}]}


@critic
def judge(draft):
    return min(1, len(draft.text) / 5)


@refiner
def improve(draft):
    return draft.text + "x"
"""
PLAN = """\
name: late
steps:
  - generate: {actor: write}
  - repeat:
      until: score >= 0.99 and errors == 0
      max_iterations: 5
      rollback_margin: 0.3
      rollback_of: length
      body:
        - critique: {actor: count}
        - critique: {actor: judge, when: length >= 0.6}
        - refine: {actor: improve}
"""


@pytest.fixture(autouse=True)
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDRAFT_STORE", f"sqlite:///{tmp_path / 'log.db'}")
    Path("actors.py").write_text(ACTORS)
    Path("plan.yaml").write_text(PLAN)
    assert call("run", "plan.yaml", "--text", "rain", "--actors", "actors.py").code in (0, 3)


def test_the_request_of_a_critic_that_was_skipped_is_answered_by_why() -> None:
    shown = call("show", "last", "--step", "Refinement[1]/judge")
    assert (shown.code, shown.out) == (2, "")
    assert shown.err == (
        "redraft: --step: Refinement[1]/judge was skipped, and no worker was asked about draft 1: "
        "not length 0.20 >= 0.6 (event 7)\n"
    )
    assert "Refinement[3]/judge" in said("show", "last", "--step", "Refinement[3]/judge")


def test_a_fork_may_change_what_late_critics_wait_for_and_its_record_is_sound() -> None:
    events = map(json.loads, said("events", "--run", "last", "--json").splitlines())
    at = next(each["version"] for each in events if each["name"].startswith("draft.refined"))
    changes = ("judge.when=length >= 0.4", "rollback_of=tone", "improve.only_issues=true", "count.history=2")
    settings = [part for change in changes for part in ("--set", change)]
    made = call("fork", "last", "--at", str(at), *settings, "--actors", "actors.py", "--json", "-q")
    assert made.code == 2
    assert "count: history is 2, but count does not take 'history'" in made.err
    made = call("fork", "last", "--at", str(at), *settings[:-2], "--actors", "actors.py", "--json", "-q")
    assert made.code in (0, 3), made.err
    assert "events verified" in said("audit", "last", "--verify")
    tree = said("show", "last")
    assert "judge  draft 1  skipped: not length 0.20 >= 0.6" in tree
    assert "judge  score 0.40, draft 2" in tree


def test_no_draft_is_accepted_by_criteria_that_nobody_gave() -> None:
    plan = PLAN.replace("score >= 0.99 and errors == 0", "min(criteria) >= 0.1").replace(
        "actor: judge, ", "actor: deep, "
    )
    Path("deep.yaml").write_text(plan.replace("name: late", "name: deep"))
    Path("actors.py").write_text(
        ACTORS
        + "\n\n@critic(criteria={'depth': 'it goes deep'})\ndef deep(draft):\n    return {'criteria': {'depth': 0.1}}\n"
    )
    spoken = call("run", "deep.yaml", "--text", "rain", "--actors", "actors.py")
    assert "deep was not asked about draft 2: not length 0.40 >= 0.6" in spoken.err
    assert "the condition holds: min(criteria) 0.10 >= 0.1; draft 3 leaves it" in spoken.err
    assert "22 events verified" in said("audit", "last", "--verify")
    told = said("whatif", "last", "--until", "depth >= 0.05 or tokens > 5")
    assert "accepted" in told
