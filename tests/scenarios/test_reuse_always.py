"""Verdicts of earlier runs, seen from outside: `redraft run` twice, and a deployment with workers of its own."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.app.cli_calls import call
from tests.app.deployments import Deployment
from tests.events.rabbit_server import URL, clear, new_prefix, require_rabbitmq

from redraft.events.bus.port import INBOX, work_queue
from redraft.events.messages.domain_events import DraftCritiqued

ACTORS = """
from pathlib import Path
from redraft.actors import critic, generator, publisher, refiner

@generator
def write(brief):
    return "a"

@critic
def judge(draft):
    with Path("calls").open("a") as calls:
        calls.write(draft.text)
    return 0.5

@refiner
def swap(draft):
    return "b" if draft.text == "a" else "a"

@publisher
def save(draft):
    return "nowhere"
"""
PLAN = """
name: again
steps:
  - generate: {actor: write}
  - repeat:
      until: score >= 0.9
      max_iterations: 2
      body:
        - critique: {actor: judge, reuse: always}
        - refine: {actor: swap}
  - publish: {actor: save}
"""
KEYS = (("generator", "write"), ("critic", "judge"), ("refiner", "swap"), ("publisher", "save"))


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDRAFT_STORE", "sqlite:///store.db")
    (tmp_path / "actors.py").write_text(ACTORS)
    (tmp_path / "plan.yaml").write_text(PLAN)


def test_redraft_run_twice_asks_once(tmp_path: Path) -> None:
    runs = []
    for _ in range(2):
        said = call("run", "plan.yaml", "two words", "--actors", "actors.py", "--json")
        assert said.code == 3, said.err
        runs.append(json.loads(said.out.splitlines()[-1])["run"])
    assert (tmp_path / "calls").read_text() == "ab"
    shown = call("show", runs[1])
    assert f"of run {runs[0]}" in shown.out
    assert "reused from event" in shown.out
    assert call("audit", runs[1], "--verify").code == 0
    assert call("audit", "--all", "--verify").code == 0
    line = next(each for each in json.loads(call("stats", "actors", runs[1], "--json").out) if each["actor"] == "judge")
    assert (line["asked"], line["done"], line["reused"]) == (0, 0, 3)
    assert "checked against their plans" in call("doctor", "--deep").out


def test_changed_code_is_asked_again(tmp_path: Path) -> None:
    for score in ("0.5", "0.6"):
        (tmp_path / "actors.py").write_text(ACTORS.replace("return 0.5", f"return {score}"))
        assert call("run", "plan.yaml", "two words", "--actors", "actors.py").code == 3
    assert (tmp_path / "calls").read_text() == "abab"


def test_an_exported_run_is_audited_without_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        assert call("run", "plan.yaml", "two words", "--actors", "actors.py").code == 3
    assert call("export", "-o", "one.jsonl.zst", "--run", "last").code == 0
    monkeypatch.setenv("REDRAFT_STORE", "sqlite:///other.db")
    assert call("import", "one.jsonl.zst").code == 0
    said = call("audit", "last", "--verify")
    assert (said.code, said.err.count("is not proven")) == (0, 3), said.err
    assert call("audit", "--all", "--verify").code == 0
    assert "1 run with verdicts of runs that are not here" in call("doctor", "--deep").out


def submitted(there: Deployment, brief: str) -> str:
    said = there.call("submit", "plan.yaml", brief)
    assert said.code == 0, said.err
    return said.out.strip()


@pytest.mark.check
def test_a_deployment_takes_the_verdicts_of_another_run(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_rabbitmq()
    monkeypatch.delenv("REDRAFT_STORE")
    there = Deployment(tmp_path, new_prefix(), postgres_url, "quorum")
    try:
        for number in (1, 2):
            there.start(f"coordinator {number}", "coordinator")
        there.start("worker", "worker", "actors.py")
        runs = []
        for _ in range(2):
            runs.append(submitted(there, "two words"))
            there.ended(runs[-1])
        first, second = ([e.data for e in there.history(run) if isinstance(e.data, DraftCritiqued)] for run in runs)
        assert [each.reused is not None for each in first] == [False, False, True]
        assert [each.reused and each.reused.run for each in second] == [runs[0]] * 3
        assert [each.critique for each in second] == [each.critique for each in first]
        assert (tmp_path / "calls").read_text() == "ab"
        assert there.call("audit", runs[1], "--verify").code == 0
        both = [submitted(there, "other words") for _ in range(2)]
        there.ended(*both)
        asked = (tmp_path / "calls").read_text()[2:]
        assert set(asked) == {"a", "b"}
        assert len(asked) <= 4, "two at the same time may both ask"
        assert there.call("audit", "--all", "--verify").code == 0
    finally:
        there.stop()
        asyncio.run(clear(URL, there.prefix, (INBOX, *(work_queue(*key) for key in KEYS))))
