"""Verdicts are taken again on RabbitMQ with PostgreSQL too: the critic's worker is not called for them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.app.deployments import Deployment
from tests.events.rabbit_server import URL, clear, new_prefix, require_rabbitmq

from redraft.events.bus.port import INBOX, work_queue
from redraft.events.messages.domain_events import DraftCritiqued

pytestmark = pytest.mark.check

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
      max_iterations: 4
      body:
        - critique: {actor: judge, reuse: run}
        - refine: {actor: swap}
  - publish: {actor: save}
"""
KEYS = (("generator", "write"), ("critic", "judge"), ("refiner", "swap"), ("publisher", "save"))


def test_a_deployment_asks_a_critic_once_about_each_text(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_rabbitmq()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "actors.py").write_text(ACTORS)
    (tmp_path / "plan.yaml").write_text(PLAN)
    there = Deployment(tmp_path, new_prefix(), postgres_url, "quorum")
    try:
        there.start("up", "up", "plan.yaml", "--actors", "actors.py")
        said = there.call("submit", "plan.yaml", "two words")
        assert said.code == 0, said.err
        run = said.out.strip()
        there.ended(run)
        judged = [each.data for each in there.history(run) if isinstance(each.data, DraftCritiqued)]
        assert [bool(each.reused) for each in judged] == [False, False, True, True, True]
        assert (tmp_path / "calls").read_text() == "ab"
        assert there.call("audit", run, "--verify").code == 0
        assert "reused from event" in there.call("show", run).out
        (line,) = [each for each in there.json("stats", "actors") if each["actor"] == "judge"]
        assert (line["asked"], line["done"], line["reused"]) == (2, 2, 3)
    finally:
        there.stop()
        asyncio.run(clear(URL, there.prefix, (INBOX, *(work_queue(*key) for key in KEYS))))
