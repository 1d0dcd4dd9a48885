"""`redraft stats` of a run tells steps of one actor apart."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.app.cli_calls import call, document

SAME = """
from redraft.actors import Workflow, critic, generator, parallel, step

@generator
def write(brief): return "one two"

@critic(scale=(1, 10), criteria={"accuracy": "it is right"}, measures=("words",))
def judge(draft, context):
    more = context.options["more"]
    return {"criteria": {"accuracy": 2 + more}, "measures": {"words": 2 + more}}

critics = [step(judge, name=name, options={"more": more}) for name, more in (("strict", 0), ("mild", 3))]
same = Workflow("same").start_with(write, parallel("Panel", *critics))
"""


@pytest.mark.parametrize("what", ["criteria", "measures"])
def test_the_step_stands_beside_the_critic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDRAFT_STORE", "sqlite:///store.db")
    (tmp_path / "same.py").write_text(SAME)
    assert call("run", "same.py:same", "Tides", "-q").code == 0
    lines = call("stats", what, "last").out.splitlines()
    assert lines[0].split()[-1] == "path"
    assert {line.split()[-1] for line in lines[1:]} == {"Panel/strict", "Panel/mild"}
    found = document("stats", what, "last")
    number = "score" if what == "criteria" else "value"
    by_step = {each["path"]: each[number] for each in found}
    assert by_step["Panel/strict"] < by_step["Panel/mild"]
