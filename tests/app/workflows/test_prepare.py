"""Whoever begins a run, the model that it asks and its price are kept with it: `run`, `fork` and `refine` alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from model_server import Json, ModelServer
from tests.app.cli_calls import call

from redraft.actors import Workflow, score, step
from redraft.app import refine
from redraft.app.settings.settings import Settings
from redraft.app.wiring.local import open_readonly
from redraft.events.messages.domain_events import RunStarted

MODEL, OTHER = "openai:my-own", "openai:another"
PRICES: dict[str, Any] = {MODEL: {"input": 100, "output": 400}, OTHER: {"input": 1, "output": 4}}
KEPT = {"model": MODEL, "price_input": 100, "price_output": 400}
SCRIPT: list[Json] = [
    {"for": "You write", "text": "The Moon pulls."},
    {"for": "You judge", "reply": {"score": 10}, "always": True},
]
PLAN = """
name: asked
steps:
  - generate: {actor: llm, name: write}
  - repeat: {until: score >= 1, max_iterations: 2, body: [{critique: {actor: llm, name: judge}}]}
"""


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDRAFT_STORE", "sqlite:///store.db")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-scripted-0123456789abcdef")
    monkeypatch.setenv("REDRAFT_MODEL", MODEL)
    monkeypatch.setenv("REDRAFT_MODEL_PRICES", json.dumps(PRICES))
    (tmp_path / "asked.yaml").write_text(PLAN)


async def test_refine_keeps_the_model_of_the_settings_and_its_price() -> None:
    judge = step("llm", role="critic", name="judge")
    workflow = Workflow("asked").start_with(step("llm", role="generator", name="write"))
    workflow = workflow.repeat_until(score >= 1, max_iterations=2, body=[judge])
    with ModelServer(SCRIPT) as server:
        settings = Settings(store="sqlite:///store.db", model=MODEL, model_url=server.url, model_prices=PRICES)
        result = await refine(workflow, "Why tides exist", settings=settings)
    async with open_readonly(settings) as log:
        begun = (await log.client.history(result.run))[0].data
    assert isinstance(begun, RunStarted)
    write, loop = begun.plan.steps
    assert (write.options, loop.body[0].options) == (KEPT, KEPT)  # type: ignore[union-attr]


def options_of(run: str) -> dict[str, Any]:
    first = json.loads(call("events", "--run", run, "--json").out.splitlines()[0])
    found: dict[str, Any] = first["data"]["plan"]["steps"][1]["body"][0]["options"]
    return found


def test_run_and_fork_keep_the_model_and_its_price(monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer(SCRIPT) as server:
        monkeypatch.setenv("REDRAFT_MODEL_URL", server.url)
        first = json.loads(call("run", "Why tides exist", "--workflow", "asked.yaml", "--json", "-q").out)["run"]
        assert options_of(first) == KEPT
        monkeypatch.setenv("REDRAFT_MODEL", OTHER)
        again = json.loads(call("fork", first, "--at", "3", "--json", "-q").out)["run"]
        assert options_of(again) == KEPT
        changed = ("--set", f"judge.model={OTHER}")
        other = json.loads(call("fork", first, "--at", "3", *changed, "--json", "-q").out)["run"]
    assert options_of(other) == {"model": OTHER, "price_input": 1, "price_output": 4}
