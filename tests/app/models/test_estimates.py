"""What is set aside for the first calls of models, and a panel of them near the limit of a budget."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from model_server import Json, ModelServer
from tests.app.cli_calls import call

from redraft.actors.formats.yaml_reader import read_plan
from redraft.actors.plans.paths import steps_in
from redraft.app.models.configuration import Models
from redraft.app.models.estimates import OUTPUT, PROMPT, with_estimates
from redraft.app.settings.settings import ModelPrice
from redraft.events.backends import open_store
from redraft.events.messages.content import Brief
from redraft.events.messages.domain_events import DraftCritiqued, StepRequested
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import Option, Plan

CRITICS = 20
PANEL = "name: panel\nsteps:\n- generate: {actor: llm}\n- parallel:\n    name: P\n    steps:\n" + "".join(
    f"    - critique: {{actor: llm, name: c{n}}}\n" for n in range(CRITICS)
)


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDRAFT_STORE", "sqlite:///store.db")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-scripted-0123456789abcdef")
    monkeypatch.setenv("REDRAFT_MODEL", "openai:gpt-4o")
    Path("panel.yaml").write_text(PANEL)


def script() -> list[Json]:
    judged = {"for": "You judge", "reply": {"score": 9}, "always": True, "delay": 0.05}
    return [{"for": "You write", "text": "The Moon pulls the sea."}, judged]


async def events() -> tuple[Recorded, ...]:
    async with open_store("sqlite:///store.db") as log:
        async for batch in log.tail(0):
            return await log.read(batch[-1].run)
    raise AssertionError


@pytest.mark.parametrize(("quantity", "limit"), [("tokens", 6000), ("cost", 0.03), ("calls", 6)])
def test_a_panel_near_the_limit_asks_no_more_critics_than_fit(
    quantity: str, limit: float, monkeypatch: pytest.MonkeyPatch
):
    with ModelServer(script()) as server:
        monkeypatch.setenv("REDRAFT_MODEL_URL", server.url)
        said = call("run", "panel.yaml", "Why tides exist", "--budget", f"{quantity}={limit}", "--json")
    end = json.loads(said.out)
    assert (said.code, end["outcome"]) == (3, "over_budget"), said.err
    assert end["usage"][quantity] <= limit
    assert 2 <= len(server.asked) <= CRITICS
    used, held = 0.0, {}
    for event in asyncio.run(events()):
        match event.data:
            case StepRequested(path=path, reserved=reserved):
                held[path] = getattr(reserved, quantity)
                assert held[path] > 0
                assert used + sum(held.values()) <= limit
            case other:
                used += getattr(getattr(other, "usage", None), quantity, 0)
                held.pop(getattr(other, "path", ""), None)
                if isinstance(other, DraftCritiqued):
                    assert used <= limit


@pytest.mark.check
def test_without_a_budget_nothing_is_estimated_and_with_a_small_one_nobody_is_asked(monkeypatch: pytest.MonkeyPatch):
    with ModelServer(script()) as server:
        monkeypatch.setenv("REDRAFT_MODEL_URL", server.url)
        assert call("run", "panel.yaml", "Why tides exist").code == 0
        assert not any(event.data.reserved.tokens for event in asyncio.run(events()) if is_request(event))
        asked = len(server.asked)
        said = call("run", "panel.yaml", "Why tides exist", "--budget", "tokens=3000")
        assert len(server.asked) == asked
    assert said.code == 3
    assert "the budget of the run is 3000 tokens: 0 are used, and 3052 more would be needed" in said.err


def is_request(event: Recorded) -> bool:
    return isinstance(event.data, StepRequested)


def options(
    step: str, brief: str = "x" * 400, more: str = "budget: {tokens: 9}", **prices: ModelPrice
) -> dict[str, Option]:
    plan = read_plan(f"name: p\nsteps:\n- generate: {{actor: source}}\n- {step}\n{more}\n")
    return only(with_estimates(plan, Brief(brief), Models("openai:my-own", prices=prices)))


def only(plan: Plan) -> dict[str, Option]:
    return dict(steps_in(plan.steps))["it"].options


def test_an_estimate_is_of_prompt_brief_draft_and_answer_for_each_sample():
    calls = {"reserve_tokens": PROMPT + 101 + OUTPUT + OUTPUT, "reserve_calls": 1}
    assert options("refine: {actor: llm, name: it}") == calls
    thrice = options("critique: {actor: llm, name: it, with: {samples: 3, max_tokens: 50}}")
    assert thrice["reserve_tokens"] == 3 * (PROMPT + 101 + 101 + 50), "the brief is longer than what may be written"
    assert thrice["reserve_calls"] == 3
    verify = options("critique: {actor: verify, name: it, with: {questions: 2}}")
    assert verify["reserve_calls"] == 4


def test_the_price_of_the_model_makes_the_cost_and_what_a_plan_says_stays():
    step = "refine: {actor: llm, name: it, with: {model: 'openai:mine', reserve_calls: 7}}"
    given, taken = PROMPT + 101 + OUTPUT, OUTPUT
    told = options(step, **{"openai:mine": ModelPrice(input=1, output=10)})
    assert told["reserve_cost"] == round((given + taken * 10) / 1e6, 6)
    assert told["reserve_calls"] == 7
    assert options("refine: {actor: llm, name: it, with: {reserve_tokens: 5}}") == {"reserve_tokens": 5}


def test_a_days_budget_is_estimated_for_too_and_a_wall_time_is_not():
    step = "refine: {actor: llm, name: it}"
    assert options(step, more="daily_budget: {cost: 1.0}")["reserve_calls"] == 1
    assert options(step, more="budget: {seconds: 60}") == {}
