"""Models whose price nobody knows: said before anything runs, refused where money is limited, and stated by people."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from model_server import Json, ModelServer, read_script
from tests.app.cli_calls import Said, call, one_line

TIDES = Path(__file__).parents[3] / "examples" / "answers" / "tides.jsonl"
UNKNOWN = "openai:my-own"
PRICES = json.dumps({UNKNOWN: {"input": 100, "output": 400}})
COSTLY = """
name: costly
steps:
  - generate: {actor: llm, name: write}
  - repeat:
      until: score >= 1 or not (cost <= 0.05)
      max_iterations: 9
      body: [{critique: {actor: llm, name: judge}}, {refine: {actor: llm, name: improve}}]
"""


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDRAFT_STORE", "sqlite:///store.db")
    monkeypatch.setenv("REDRAFT_BUS", "amqp://127.0.0.1:9/")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-scripted-0123456789abcdef")
    monkeypatch.delenv("REDRAFT_MODEL", raising=False)
    (tmp_path / "costly.yaml").write_text(COSTLY)


def asked(script: list[Json], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Said:
    with ModelServer(script) as server:
        monkeypatch.setenv("REDRAFT_MODEL_URL", server.url)
        return call("run", *arguments)


def endless() -> list[Json]:
    judged = {"for": "You judge", "reply": {"score": 5, "suggestions": ["shorter"]}, "always": True}
    better = [
        {"for": "You improve", "reply": {"text": f"Tides, said {n} times.", "changes": ["other"]}} for n in range(9)
    ]
    return [{"for": "You write", "text": "The Moon pulls."}, judged, *better]


@pytest.mark.parametrize("verb", [("run",), ("submit", "article")], ids=["run", "submit"])
@pytest.mark.parametrize("model", [UNKNOWN, "ollama:llama3.3"])
def test_a_budget_of_money_is_refused_for_a_model_without_a_price(
    model: str, verb: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OLLAMA_BASE_URL", "http://127.0.0.1:9/v1")
    more = ("--workflow", "article") if verb == ("run",) else ()
    said = call(*verb, "Why tides exist", *more, "--model", model, "--budget", "cost=2")
    assert said.code == 2
    assert one_line(said).startswith(f"the budget of cost cannot be kept: the price of {model} is not known; state it")
    assert f'REDRAFT_MODEL_PRICES=\'{{"{model}": {{"input": 1, "output": 4}}}}\'' in said.err
    assert not Path("store.db").exists()


def test_a_price_that_is_stated_counts_and_the_budget_is_kept_by_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("REDRAFT_MODEL_PRICES", PRICES)
    words = ("Why tides exist", "--workflow", "article", "--model", UNKNOWN, "--json")
    end = json.loads(asked(read_script(TIDES), monkeypatch, *words, "--budget", "cost=20").out)
    used = end["usage"]
    assert end["outcome"] == "accepted"
    assert used["cost"] == pytest.approx((used["input_tokens"] * 100 + used["output_tokens"] * 400) / 1e6)
    assert "unpriced" not in used
    stored = call("audit", "last", "--json").out
    assert '"price_input": 100' in stored or '"price_input":100' in stored


def test_redraft_toml_may_state_prices_and_a_wrong_one_is_refused(monkeypatch: pytest.MonkeyPatch):
    Path("redraft.toml").write_text(f'[model_prices."{UNKNOWN}"]\ninput = 0\noutput = 0\n')
    words = ("Why tides exist", "--workflow", "article", "--model", UNKNOWN, "--budget", "cost=2", "--json")
    end = json.loads(asked(read_script(TIDES), monkeypatch, *words).out)
    assert (end["outcome"], end["usage"].get("cost", 0)) == ("accepted", 0)
    Path("redraft.toml").write_text(f'[model_prices."{UNKNOWN}"]\ninput = -1\n')
    said = call("run", *words)
    assert said.code == 2
    assert "model_prices" in one_line(said)


@pytest.mark.check
def test_a_condition_on_cost_that_cannot_hold_is_said_at_the_start_and_a_stated_price_makes_it_hold(
    monkeypatch: pytest.MonkeyPatch,
):
    words = ("costly.yaml", "Tides", "--model", UNKNOWN)
    said = asked(endless(), monkeypatch, *words)
    first = said.err.splitlines()[0]
    assert first.startswith(
        f"redraft: conditions on cost leave out calls without a price: the price of {UNKNOWN} is not known"
    )
    assert said.code == 3
    assert "9 iterations" in said.err
    monkeypatch.setenv("REDRAFT_MODEL_PRICES", PRICES)
    said = asked(endless(), monkeypatch, *words, "--json")
    assert "leave out" not in said.err
    end = json.loads(said.out)
    assert end["iterations"] < 9
    assert end["usage"]["cost"] > 0.05


def test_nothing_is_said_where_money_does_not_count_or_the_price_is_known(monkeypatch: pytest.MonkeyPatch):
    article = ("Why tides exist", "--workflow", "article", "--quiet", "--model")
    assert asked(read_script(TIDES), monkeypatch, *article, UNKNOWN).err == ""
    assert asked(read_script(TIDES), monkeypatch, *article, "openai:gpt-4o", "--budget", "cost=2").err == ""


def test_a_call_without_a_price_ends_a_run_whose_money_is_limited(monkeypatch: pytest.MonkeyPatch):
    """As where a worker of a deployment asks a model of its own, of which nobody knew when the run was submitted."""
    Path("mine.py").write_text(
        "from redraft.actors import Critique, Workflow, critic, generator, refiner, score\n"
        "from redraft.events.messages.usage import Usage\n"
        "@generator\ndef write(brief):\n    return brief.text\n"
        "@critic\ndef judge(draft, context):\n"
        "    context.used(Usage(tokens=9, calls=1, unpriced=1))\n    return Critique(0.5)\n"
        "@refiner\ndef improve(draft):\n    return draft.text + '!'\n"
        "mine = Workflow('mine').start_with(write).repeat_until(score >= 1, max_iterations=9, body=[judge, improve])\n"
    )
    said = call("run", "mine.py:mine", "Tides", "--budget", "cost=2", "--json")
    end = json.loads(said.out)
    assert (said.code, end["outcome"], end["usage"]["calls"]) == (3, "over_budget", 1)
    assert "the budget of the run is 2 cost, and cannot be kept: nobody knows the price of a call" in end["reason"]
    assert "cannot be kept: a call has no known price" in call("audit", "last").out


def test_doctor_tells_of_a_price_that_nobody_knows(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("REDRAFT_BUS")
    monkeypatch.setenv("REDRAFT_MODEL", UNKNOWN)
    assert "its price is not known (set REDRAFT_MODEL_PRICES)" in call("doctor").out
    monkeypatch.setenv("REDRAFT_MODEL_PRICES", PRICES)
    assert "its price is not known" not in call("doctor").out
