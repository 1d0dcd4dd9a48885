"""Budgets as users meet them: in a plan, with `--budget`, for a day."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.app.cli_calls import call, one_line

from redraft.actors import Context, Critique, Draft, Workflow, critic, generator, refiner, score
from redraft.app import open_local, read_settings, refine
from redraft.events.messages.usage import Usage
from redraft.projections.read_models.runs_query import spent_on

LOOP = """
from redraft.actors import Critique, Workflow, critic, generator, refiner, score
from redraft.events.messages.usage import Usage

@generator
def write(brief):
    return brief.text

@critic
def judge(draft, context):
    context.used(Usage(tokens=100, cost=0.5, calls=1))
    return Critique(0.5 + draft.version / 100)

@refiner
def improve(draft, context):
    context.used(Usage(tokens=200, cost=1.0, calls=1))
    return draft.text + "!"

loop = Workflow("dear").start_with(write).repeat_until(score >= 1, max_iterations=9, body=[judge, improve])
"""


@pytest.fixture(autouse=True)
def folder(home: Path) -> Path:
    (home / "loop.py").write_text(LOOP)
    return home


@pytest.mark.parametrize(
    ("budget", "reason"),
    [
        ("tokens=500", "the budget of the run is 500 tokens: 400 are used, and 200 more would be needed"),
        ("cost=2", "the budget of the run is 2 cost: 2 are used, and 1 more would be needed"),
        ("calls=3", "the budget of the run is 3 calls: 3 are used, and 1 more would be needed"),
        ("tokens=9000, calls=3", "the budget of the run is 3 calls: 3 are used, and 1 more would be needed"),
    ],
)
def test_a_run_with_a_budget_ends_over_it_with_exit_code_3(budget: str, reason: str) -> None:
    said = call("run", "loop.py:loop", "Tides", "--budget", budget, "--json")
    assert said.code == 3, said.err
    told = json.loads(said.out)
    assert (told["outcome"], told["reason"]) == ("over_budget", reason)
    assert told["draft"]["version"] == 2


def test_a_wall_time_ends_a_call_under_way(folder: Path) -> None:
    (folder / "slow.py").write_text(
        LOOP.replace("def judge(draft, context):", "async def judge(draft, context):\n    await forever(draft)")
        + "\nimport asyncio\nasync def forever(draft):\n"
        + "    try:\n        await asyncio.Event().wait()\n"
        + "    except asyncio.CancelledError:\n        open('stopped', 'w').close()\n        raise\n"
    )
    said = call("run", "slow.py:loop", "Tides", "--budget", "seconds=0.2", "--json")
    assert json.loads(said.out)["reason"] == "the wall time of the run, 0.2 s, is over"
    assert (folder / "stopped").exists()


@pytest.mark.parametrize(
    ("budget", "fault"),
    [
        ("tokens", "'tokens' is not a limit"),
        ("money=3", "'money=3' is not a limit"),
        ("tokens=5,tokens=6", "--budget: tokens is given twice; write tokens="),
        ("tokens=many", "'many' is not a number for tokens"),
        ("tokens=0", "budget.tokens is 0"),
        ("cost=nan", "budget.cost is nan"),
        (",", "budget has no limit"),
        ("", "--budget is empty: give limits, such as cost=2, or leave it out"),
    ],
)
def test_a_budget_that_is_none_is_refused_before_anything_is_recorded(folder: Path, budget: str, fault: str) -> None:
    said = call("run", "loop.py:loop", "Tides", "--budget", budget)
    assert said.code == 2
    assert fault in one_line(said)
    assert not (folder / "store.db").exists()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_the_runs_of_a_day_share_their_budget(folder: Path, kind: str, request: pytest.FixtureRequest) -> None:
    store = request.getfixturevalue("postgres_url") if kind == "postgresql" else f"sqlite:///{folder / 'day.db'}"
    settings = read_settings(store=store)

    @generator
    def write(brief):
        return brief.text

    @critic
    def judge(draft: Draft, context: Context) -> Critique:
        context.used(Usage(tokens=60, cost=0.25, calls=2))
        return Critique(1.0)

    @refiner
    def improve(draft):
        return draft.text + "!"

    loop = Workflow("daily").start_with(write).repeat_until(score >= 1, max_iterations=3, body=[judge, improve])
    loop = loop.daily_budget(tokens=100)
    assert (await refine(loop, "one", settings=settings)).outcome == "accepted"
    second = await refine(loop, "two", settings=settings)
    assert second.outcome == "accepted", "60 of 100 were used when it was asked"
    third = await refine(loop, "three", settings=settings)
    assert third.outcome == "over_budget"
    assert "the workflow's runs that began today is 100 tokens: 120 are used" in third.reason
    other = Workflow("other").start_with(write).repeat_until(score >= 1, max_iterations=3, body=[judge, improve])
    assert (await refine(other.daily_budget(tokens=100), "four", settings=settings)).outcome == "accepted"
    async with open_local(settings, ()) as runtime:
        started = (await runtime.client.history(second.run))[0].time
        assert await spent_on(runtime.views, "daily", started) == Usage(120, 0.5, 4)
        assert await spent_on(runtime.views, "daily", started, second.run) == Usage(60, 0.25, 2)
        assert await spent_on(runtime.views, "nothing", started) == Usage()


def test_a_fork_counts_what_it_repeats_once_against_the_budget_of_the_day(folder: Path) -> None:
    short = LOOP.replace("max_iterations=9", "max_iterations=3")
    (folder / "day.py").write_text(f"{short}loop = loop.daily_budget(calls=12)\n")
    run = json.loads(call("run", "day.py:loop", "Tides", "--json").out)
    fork = json.loads(call("fork", run["run"], "--at", "9", "--json").out)
    assert [each["outcome"] for each in (run, fork)] == ["exhausted", "exhausted"], fork["reason"]
    last = json.loads(call("run", "day.py:loop", "Sand", "--json").out)
    assert last["outcome"] == "over_budget"
    assert "the budget of the workflow's runs that began today is 12 calls: 12 are used" in last["reason"]


def test_a_budget_stands_in_yaml_and_is_printed(folder: Path) -> None:
    text = (
        "name: dear\nsteps:\n- generate: {actor: write}\n"
        "budget: {tokens: 500, cost: 2.5, calls: 9, seconds: 10m}\ndaily_budget: {cost: 20.0}\n"
    )
    (folder / "plan.yaml").write_text(text)
    assert call("plan", "plan.yaml").out == text
    (folder / "plan.yaml").write_text(text.replace("calls: 9", "calls: 0"))
    told = one_line(call("plan", "plan.yaml"))
    assert told == "plan.yaml:4: budget.calls is 0; write a whole number, 1 to 1,000,000,000,000"
