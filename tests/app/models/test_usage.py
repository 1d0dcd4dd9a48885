"""What a run used is counted against its conditions, told at its end, and shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.app.cli_calls import call

PAID = """
from redraft.actors import Critique, StepError, Usage, Workflow, cost, critic, generator, refiner, score, tokens
from redraft.actors import Retry, step

USED = Usage(1000, 0.25, 1, input_tokens=900, output_tokens=100, model="openai:gpt", prompt="5f", currency="USD")

@generator
def write(brief, context):
    context.used(USED)
    return brief.text

@critic
def judge(draft, context):
    context.used(USED)
    if context.attempt == 1:
        raise StepError("not now")
    return Critique(0.1)

@refiner
def improve(draft, context):
    context.used(USED)
    return draft.text + "!"

def until(condition):
    judging = step(judge, retry=Retry(2, 0.001))
    return Workflow("paid").start_with(write).repeat_until(condition, max_iterations=9, body=[judging, improve])

by_tokens = until((score >= 1) | (tokens > 4500))
by_cost = until((score >= 1) | (cost > 0.7))
"""


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDRAFT_STORE", "sqlite:///store.db")
    (tmp_path / "paid.py").write_text(PAID)


def told(*arguments: str) -> Any:
    return json.loads(call(*arguments, "--json").out)


def test_tokens_end_a_loop_and_failed_attempts_count():
    end = told("run", "paid.py:by_tokens", "Tides")
    assert (end["outcome"], end["iterations"]) == ("over_budget", 2)
    assert "tokens 6000 > 4500" in end["reason"]
    assert end["usage"] == {
        "seconds": 0.0,
        "tokens": 6000,
        "cost": 1.5,
        "calls": 6,
        "input_tokens": 5400,
        "output_tokens": 600,
        "model": "openai:gpt",
        "prompt": "5f",
        "currency": "USD",
    }


def test_money_ends_a_loop_and_is_shown():
    said = call("run", "paid.py:by_cost", "Tides")
    assert said.code == 3
    assert "over budget, score 0.10, 1 iteration, 3 calls, 3,000 tokens, 0.7500 USD, run" in said.err
    shown = call("show", "last").out
    assert "3 calls, 3,000 tokens, 0.7500 USD" in shown
    assert "2 attempts, 2 calls, 2,000 tokens, 0.5000 USD" in shown
    assert "tokens" in call("list").out
    (line,) = told("list")
    assert (line["calls"], line["tokens"], line["cost"], line["currency"]) == (3, 3000, 0.75, "USD")
    assert told("show", "last")["usage"]["tokens"] == 3000


def test_a_run_that_used_nothing_says_nothing_of_it():
    assert call("run", "The sea is calm.").code == 0
    assert "usage" not in call("show", "last", "--json").out or told("show", "last")["usage"] == {}
    assert "tokens" not in call("list").out
