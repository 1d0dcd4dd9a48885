"""The history over RabbitMQ, in plain and in encrypted runs: named by the plan, given by the relay, read by workers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.app.deployments import deployment

pytestmark = pytest.mark.check

ACTORS = """
from redraft.actors import Critique, critic, generator, publisher

@generator(history=2)
async def write(critique, history):
    if critique is None:
        return "v1"
    last = history.rounds[-1]
    assert critique.suggestions == last.suggestions
    return f"{await history.text(last.draft.version)}, v{last.draft.version + 1}"

@critic
async def judge(draft, history):
    return Critique(draft.version / 4, suggestions=(f"not after {len(history.rounds)}",))

@critic(criteria={"truth": "every claim is right"})
async def dear(draft):
    return Critique(1.0, criteria={"truth": 1.0})

@publisher
def save(draft):
    return "here"
"""
PLAN = """
name: told
steps:
  - repeat:
      name: Loop
      until: score >= 0.3 and not truth < 0.5
      max_iterations: 5
      body:
        - generate: {actor: write, history: 1}
        - critique: {actor: judge, history: 0}
        - critique: {actor: dear, when: score >= 0.6, criteria: {truth: every claim is right}}
  - publish: {actor: save}
"""


@pytest.mark.parametrize("is_sealed", [False, True], ids=["plain", "sealed"])
def test_workers_are_given_the_history_that_the_plan_says(tmp_path: Path, *, is_sealed: bool):
    with deployment(tmp_path) as deployed:
        (tmp_path / "told.py").write_text(ACTORS)
        (tmp_path / "told.yaml").write_text(PLAN)
        if is_sealed:
            assert deployed.call("key", "encryption", "key").code == 0
            (tmp_path / "redraft.toml").write_text('encrypt_new_runs = true\nencrypt_key_file = "key"\n')
            assert deployed.call("trust").code == 0
        deployed.start("coordinator", "coordinator")
        deployed.start("worker", "worker", "told.py")
        submitted = deployed.call("submit", "told.yaml", "tides", "--wait", "--json")
        assert submitted.code == 0, submitted.err
        result = json.loads(submitted.out)
        assert (result["outcome"], result["draft"]["text"]) == ("accepted", "v1, v2, v3")
        shown = deployed.call("show", result["run"], "--step", "Loop[3]/write", "--json")
        tree = deployed.call("show", result["run"])
        checked = deployed.call("audit", result["run"], "--verify")
    command = json.loads(shown.out)
    assert [each["text"] for each in command["command"]["history"]["drafts"]] == ["v1, v2"]
    assert checked.code == 0, checked.out
    assert tree.out.count("skipped: not score") == 2
    assert "dear  draft 2  skipped: not score 0.50 >= 0.6" in tree.out
