"""What is asked of a run with items: forks at each of its events, another policy, a rehearsal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.app.cli_calls import call

BOOK = """
from redraft.actors import Workflow, critic, generator, refiner, repeat, score

@generator
def write(context): return f"chapter {context.state.item}"

@critic
def judge(draft): return 1.0

@refiner
def improve(draft): return draft.text

@generator
def bind(context): return ", ".join(each.text for each in context.outputs)

book = Workflow("book", state={"items": ["a", "b", "c"]})
loop = repeat("Loop", until=score >= 0.5, max_iterations=1, body=[judge, improve])
book = book.for_each("items", name="Chapters", concurrency=2, body=[write, loop]).then(bind, judge)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDRAFT_STORE", "sqlite:///store.db")
    (tmp_path / "book.py").write_text(BOOK)
    assert call("run", "book.py:book", "Tides", "-q").code == 0
    return tmp_path


def events(run: str = "last") -> list[dict[str, Any]]:
    return [json.loads(line) for line in call("events", "--run", run, "--json").out.splitlines()]


@pytest.mark.check
def test_a_fork_with_another_list_is_found_right_wherever_it_begins():
    parent = str(events()[0]["run"])
    length = len(events(parent))
    for at in range(1, length):
        forked = call("fork", parent, "--at", str(at), "--set", 'state.items=["z"]', "-w", "book.py:book", "-q")
        assert forked.code == 0, (at, forked.err)
        audit = call("audit", "--all", "--verify")
        assert audit.code == 0, (at, audit.out + audit.err)
        made = [each["data"] for each in events() if each["name"] == "draft.generated.v1"]
        assert made[-1]["draft"]["text"] == ("chapter z" if at == 1 else "chapter a, chapter b, chapter c"), at


def test_the_tree_of_a_fork_has_its_own_runs_of_the_items_that_it_began_again():
    parent = str(events()[0]["run"])
    for at in (2, 3, 4, 5, 6):
        assert call("fork", parent, "--at", str(at), "-w", "book.py:book", "-q").code == 0
        fork = str(events()[0]["run"])
        answered = {each["data"]["path"] for each in events(parent)[:at] if each["name"] == "draft.generated.v1"}
        shown = call("show", fork).out
        for number in (1, 2, 3):
            path = f"Chapters[{number}]"
            owner = parent if path in answered else fork
            assert f"{path} run {owner}~{number}-" in " ".join(shown.split()), (at, shown)
            assert f"{path} is an item, which run {owner}~{number}-" in call("show", fork, "--step", path).err, at


def test_another_policy_for_a_loop_of_the_items_is_asked_of_one_of_them():
    refused = call("whatif", "last", "--loop", "Chapters/Loop", "--max-iterations", "2")
    assert refused.code == 2
    assert "the loop Chapters/Loop is in the runs of the items of Chapters; ask for one of these" in refused.err
    listed = json.loads(call("list", "--items", "--json").out)
    item = next(str(each["run"]) for each in listed if "~1-" in str(each["run"]))
    assert call("whatif", item, "--loop", "Loop", "--max-iterations", "2").code == 0


def test_a_condition_on_the_item_is_rehearsed(tmp_path: Path):
    changed = BOOK.replace("until=score >= 0.5", "until=(score >= 0.5) & (state.index >= 1)")
    (tmp_path / "indexed.py").write_text(changed.replace("repeat, score", "repeat, score, state"))
    said = call("simulate", "indexed.py:book", "--runs", "2")
    assert said.code == 0, said.err
