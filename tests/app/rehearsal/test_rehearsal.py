"""`redraft simulate`: a plan rehearsed by guesses, held against numbers worked out by hand and against real runs."""

from __future__ import annotations

import re
import shlex
from itertools import count
from pathlib import Path

import pytest
from tests.app.cli_calls import call, document, one_line

from redraft.actors import Critique, Workflow, critic, generator, read_plan, refiner, score
from redraft.app import Settings, refine

CLI = Path(__file__).parents[3] / "docs" / "cli.md"
SECTION = CLI.read_text(encoding="utf-8").split("## `redraft simulate WORKFLOW`")[1].split("\n## ")[0]
PLAN, TOLD = re.findall(r"```(?:yaml|text)\n(.*?)```", SECTION, re.DOTALL)

SURE = ("--critic", "noisy(0)", "--generator", "starts(0.5)", "--refiner", "gains(0.5)", "--takes", "0")
"""Qualities 0.5, 0.75, 0.875, …, and scores that are the same."""

PRICED = "with: {model: 'openai:of-my-own', max_tokens: 1000, price_input: 1, price_output: 10}"

LOOP = f"""
name: priced
steps:
  - generate: {{actor: llm, name: write, {PRICED}}}
  - repeat:
      until: score >= 0.8
      max_iterations: 5
      body:
        - critique: {{actor: llm, name: judge, {PRICED}}}
        - refine: {{actor: llm, name: improve, {PRICED}}}
  - publish: {{actor: stdout}}
"""

ONCE = "name: once\nsteps:\n  - generate: {actor: write}\n  - critique: {actor: judge}\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("REDRAFT_MODEL", "REDRAFT_MODEL_URL", "REDRAFT_MODEL_PRICES"):
        monkeypatch.delenv(name, raising=False)
    Path("tides.yaml").write_text(PLAN)
    Path("plan.yaml").write_text(LOOP)
    return tmp_path


def plan(text: str) -> str:
    Path("other.yaml").write_text(text)
    return "other.yaml"


def test_what_the_guide_shows_is_what_is_printed():
    (line,) = re.findall(r"^    redraft (simulate .*)$", SECTION, re.MULTILINE)
    assert call(*shlex.split(line)).out == TOLD


def test_numbers_are_those_that_one_works_out():
    """A draft of 1,000 tokens; a brief of 400 characters is 101 tokens, and a prompt 1,000."""
    found = document("simulate", "plan.yaml", *SURE, "--runs", "20")
    assert found["outcomes"] == {"accepted": 20}
    assert found["iterations"] == {"3": 20}
    given, written, calls = 1101 + 5 * 2101, 6 * 1000, 6
    expected = {"score": 0.875, "quality": 0.875, "calls": calls, "steps": 7, "seconds": 0, "tokens": given + written}
    for name, number in expected.items():
        assert {found["spreads"][name][each] for each in ("min", "p50", "max")} == {number}
    assert found["spreads"]["cost"]["p95"] == pytest.approx((given * 1 + written * 10) / 1_000_000)
    assert (found["unpriced"], found["free"]) == (0, [])


async def test_it_ends_as_a_real_run_with_the_same_scores_does():
    given = iter(scores := [0.3, 0.6, 0.5, 0.95])

    @generator
    async def write(brief):
        return "once"

    @critic
    async def judge(draft):
        return Critique(next(given))

    @refiner
    async def improve(draft):
        return draft.text + " more"

    loop = Workflow("w").start_with(write).repeat_until(score >= 0.9, max_iterations=4, body=[judge, improve])
    real = await refine(loop, "Tides", settings=Settings(store="memory:"))
    text = "name: w\nsteps:\n- generate: {actor: write}\n- repeat:\n    until: score >= 0.9\n    max_iterations: 4\n"
    text += "    body:\n    - critique: {actor: judge}\n    - refine: {actor: improve}\n"
    guess = f"scores({', '.join(map(str, scores))})"
    found = document("simulate", plan(text), "--critic", guess, "--runs", "3")
    assert found["outcomes"] == {real.outcome: 3} == {"accepted": 3}
    assert found["iterations"] == {str(real.iterations): 3} == {"4": 3}
    assert found["spreads"]["score"]["max"] == real.score == 0.95
    assert found["spreads"]["steps"]["max"] == 1 + len(real.critiques) + len(real.attempts)
    assert found["free"] == ["write", "judge", "improve"]


BEST_OF = """
name: best
steps:
  - parallel:
      name: Drafts
      steps: [generate: {actor: write, name: one}, generate: {actor: write, name: two}]
      judge: {actor: judge}
  - repeat:
      until: score >= 0.7
      max_iterations: 4
      body: [critique: {actor: strict}, refine: {actor: improve}]
"""


async def test_drafts_get_their_scores_in_order_whichever_critic_sees_them_first():
    """Of two drafts the judge takes the second; the critic of the loop judges that one, and those made from it."""
    scores, known = [0.1, 0.3, 0.3, 0.5, 0.65, 0.9], dict[str, float]()
    number = count(1)

    def scored(draft):
        if draft.text not in known:
            known[draft.text] = scores[len(known)]
        return Critique(known[draft.text])

    actors = [
        generator(name="write")(lambda brief: f"draft {next(number)}"),
        critic(name="judge")(scored),
        critic(name="strict")(scored),
        refiner(name="improve")(lambda draft: f"draft {next(number)}"),
    ]
    real = await refine(Workflow.of(read_plan(BEST_OF), actors), "Tides", settings=Settings(store="memory:"))
    found = document("simulate", plan(BEST_OF), "--critic", f"scores({', '.join(map(str, scores))})", "--runs", "3")
    assert found["outcomes"] == {real.outcome: 3} == {"accepted": 3}
    assert found["iterations"] == {str(real.iterations): 3}
    assert found["spreads"]["score"]["max"] == real.score == 0.9


def test_a_step_with_scores_of_its_own_gives_them_to_the_drafts_that_it_judges():
    body = "body: [critique: {actor: judge, name: strict}"
    one_actor = plan(BEST_OF.replace("body: [critique: {actor: strict}", body))
    own = ("--critic", "judge=scores(0.1, 0.2)", "--critic", "strict=scores(0.3, 0.4, 0.9)")
    found = document("simulate", one_actor, *own, "--runs", "3")
    assert found["iterations"] == {"3": 3}
    assert found["spreads"]["score"]["max"] == 0.9


def test_a_seed_is_the_same_numbers():
    first, again, other = (document("simulate", "plan.yaml", "--runs", "50", "--seed", seed) for seed in "001")
    assert first == again
    assert first["spreads"] != other["spreads"]
    assert sum(first["outcomes"].values()) == sum(first["iterations"].values()) == 50


@pytest.mark.check
def test_a_noisy_critic_takes_drafts_for_better_than_they_are():
    def gap(sd: str) -> float:
        spreads = document("simulate", "plan.yaml", "--critic", f"noisy({sd})", "--runs", "300")["spreads"]
        return float(spreads["score"]["mean"] - spreads["quality"]["mean"])

    assert gap("0") == pytest.approx(0)
    assert 0 < gap("0.05") < gap("0.2")


@pytest.mark.check
def test_chance_has_the_mean_and_the_spread_that_were_guessed():
    spreads = document(
        "simulate", plan(ONCE), "--generator", "starts(0.5, 0.1)", "--critic", "noisy(0)", "--runs", "4000"
    )["spreads"]
    assert spreads["quality"]["mean"] == pytest.approx(0.5, abs=0.01)
    assert spreads["quality"]["p95"] - spreads["quality"]["p05"] == pytest.approx(2 * 1.645 * 0.1, abs=0.02)
    assert spreads["seconds"]["mean"] == pytest.approx(20, abs=1)
    biased = document("simulate", plan(ONCE), "--critic", "noisy(0.1, bias=-0.2)", "--runs", "2000")["spreads"]
    assert biased["score"]["mean"] == pytest.approx(biased["quality"]["mean"] - 0.2, abs=0.01)


GATED = LOOP.replace("        - critique:", "        - critique: {actor: prose, gate: true}\n        - critique:")
ASKED = LOOP.replace("  - publish", "  - approve: {name: Editor, deadline: 1h}\n  - publish")
PANEL = """
name: panel
steps:
  - generate: {actor: write}
  - parallel: {name: Panel, wait: first, deadline: 5s, steps: [critique: {actor: a}, critique: {actor: b}]}
"""


@pytest.mark.parametrize(
    ("text", "options", "outcomes"),
    [
        (GATED, ("--gate", "passes(0)"), {"rejected": 30}),
        (GATED, ("--gate", "prose=passes(1)", "--gate", "passes(0)"), {"accepted": 30}),
        (ASKED, ("--people", "approve(0)"), {"rejected": 30}),
        (ASKED, ("--people", "Editor=approve(1, after=60)"), {"accepted": 30}),
        (LOOP, ("--fails", "1"), {"failed": 30}),
        (LOOP, ("--takes", "1e8"), {"failed": 30}),
        (LOOP, ("--budget", "calls=3"), {"over_budget": 30}),
        (LOOP, ("--budget", "seconds=20", "--takes", "250"), {"over_budget": 30}),
        (LOOP, ("--max-iterations", "1"), {"exhausted": 30}),
        (LOOP, ("--until", "score >= 0.5"), {"accepted": 30}),
        (LOOP.replace("score >= 0.8", "approved"), ("--critic", "noisy(0, approves=0.8)"), {"accepted": 30}),
        (LOOP.replace("score >= 0.8", "errors <= 2"), (), {"accepted": 30}),
        (PANEL, (), {"accepted": 30}),
    ],
)
def test_every_part_of_a_plan_is_rehearsed(text: str, options: tuple[str, ...], outcomes: dict[str, int]):
    assert document("simulate", plan(text), *SURE, *options, "--runs", "30")["outcomes"] == outcomes


def test_attempts_that_fail_are_tried_again_and_paid():
    sound, failing = (
        document("simulate", "plan.yaml", *SURE, "--fails", share, "--runs", "200") for share in ("0", "0.2")
    )
    assert failing["spreads"]["calls"]["mean"] > sound["spreads"]["calls"]["mean"] + 0.5
    assert failing["outcomes"]["accepted"] > 150


@pytest.mark.parametrize("name", ["article", "chain-of-verification", "code", "prose", "self-consistency"])
def test_shipped_workflows_are_rehearsed_without_a_model(name: str):
    found = document("simulate", name, "--runs", "20")
    assert sum(found["outcomes"].values()) == 20
    assert found["free"] == []


def test_calls_without_a_price_and_actors_of_the_users_own_are_told():
    lines = call("simulate", "article", "--runs", "10").out.splitlines()
    assert any(re.fullmatch(r"the cost leaves out \d+ calls whose price is not known: .*", line) for line in lines)
    assert not any(line.startswith("cost") for line in lines)
    last = call("simulate", plan(ONCE), "--runs", "10").out.splitlines()[-1]
    assert last.startswith("not counted: what write, judge may ask of models; ")
    said = ONCE.replace("judge}", "judge, with: {reserve_cost: 0.25, reserve_calls: 2}}").replace(
        "write}", "write, with: {reserve_tokens: 100}}"
    )
    found = document("simulate", plan(said), "--runs", "10")
    assert (found["spreads"]["cost"]["max"], found["spreads"]["calls"]["max"], found["free"]) == (0.25, 2, [])


CHOICE = """
name: choice
steps:
  - generate:
      name: write
      choose:
        - {actor: llm, name: cheap, with: {reserve_cost: 0.25, reserve_calls: 1}}
        - {actor: llm, name: dear, with: {reserve_cost: 4, reserve_calls: 1}}
"""


def test_an_arm_costs_what_it_says_itself_though_another_has_the_same_actor():
    cost = document("simulate", plan(CHOICE), "--runs", "40")["spreads"]["cost"]
    assert (cost["min"], cost["max"]) == (0.25, 4)


@pytest.mark.parametrize("budget", [(), ("--budget", "cost=100")])
@pytest.mark.parametrize(
    ("reserved", "cost", "tokens", "calls"),
    [
        ("reserve_cost: 0.25", 0.25, 2101, 1),
        ("reserve_tokens: 500", 0.0111, 500, 1),
        ("reserve_calls: 3", 0.0111, 2101, 3),
    ],
)
def test_what_a_step_reserves_stands_for_that_quantity_alone(
    budget: tuple[str, ...], reserved: str, cost: float, tokens: int, calls: int
):
    text = f"name: once\nsteps:\n  - generate: {{actor: llm, {PRICED.replace('}', f', {reserved}}}')}}}\n"
    spreads = document("simulate", plan(text), *budget, "--runs", "5")["spreads"]
    assert spreads["cost"]["max"] == pytest.approx(cost, abs=0.0001)
    assert (spreads["tokens"]["max"], spreads["calls"]["max"]) == (tokens, calls)


def test_functions_of_a_file_are_not_called():
    Path("mine.py").write_text(
        "from redraft.actors import Critique, Workflow, critic, generator\n"
        "@generator\ndef write(brief): raise SystemExit('called')\n"
        "@critic\ndef judge(draft): raise SystemExit('called')\n"
        "mine = Workflow('mine').start_with(write).then(judge)\n"
    )
    assert document("simulate", "mine.py:mine", "--runs", "5")["outcomes"] == {"accepted": 5}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--critic", "noisey(0.1)"), "--critic 'noisey(0.1)': there is no 'noisey'; write noisy(0.1) or scores("),
        (("--critic", "noisy"), "--critic 'noisy' is not a guess; write noisy(0.1) or "),
        (("--critic", "noisy()"), "--critic 'noisy()': it needs sd; write "),
        (("--critic", "noisy(2)"), "--critic 'noisy(2)': sd is above 1; write "),
        (
            ("--critic", "noisy(0,1)"),
            "--critic 'noisy(0,1)': what follows sd is named, as in bias=1, and a decimal number has a point; write ",
        ),
        (
            ("--critic", "noisy(0, bias=0, 1)"),
            "--critic 'noisy(0, bias=0, 1)': what follows sd is named, as in approves=1, and ",
        ),
        (("--critic", "noisy(0,0,0,0,0)"), "--critic 'noisy(0,0,0,0,0)': what follows sd is named, as in bias=0, and "),
        (
            ("--generator", "starts(0, 0, 0)"),
            "--generator 'starts(0, 0, 0)': it takes 2 numbers at most: quality, sd; ",
        ),
        *(
            (
                (option, f"{guess}({comma})"),
                f"{option} '{guess}({comma})': {comma} may be one number or two: a decimal number has a point ({point}",
            )
            for option, guess, comma, point in (
                ("--people", "approve", "0,5", "0.5"),
                ("--generator", "starts", "0,5", "0.5"),
                ("--generator", "starts", "0,1", "0.1"),
                ("--refiner", "gains", "0,3", "0.3"),
                ("--gate", "passes", "0,9", "0.9"),
            )
        ),
        (("--critic", "noisy(x)"), "--critic 'noisy(x)': 'x' is not a number; "),
        (("--critic", "noisy(nan)"), "--critic 'noisy(nan)': 'nan' is not a finite number; "),
        (("--critic", "noisy(0, bas=0)"), "--critic 'noisy(0, bas=0)': there is no 'bas'; did you mean 'bias'?; "),
        (("--critic", "noisy(0, sd=1)"), "--critic 'noisy(0, sd=1)': sd is given twice; "),
        (("--critic", "scores()"), "--critic 'scores()': it needs at least one score; "),
        (("--critic", "scores(0.5, 7)"), "--critic 'scores(0.5, 7)': a score is above 1; "),
        (("--critic", "__import__('os')"), "--critic \"__import__('os')\" is not a guess; "),
        (("--critic", "judg=noisy(0)"), "--critic judg=…: the plan has no such step or actor; did you mean 'judge'?"),
        (("--gate", "judge=passes(1)"), "--gate judge=…: the plan has no such step or actor; it has none of this kind"),
        (("--generator", "gains(1)"), "--generator 'gains(1)': there is no 'gains'; write starts(0.5, 0.1), "),
        (("--runs", "0"), "--runs is 0; give 1 to 1,000,000"),
        (("--fails", "2"), "--fails is 2; give a share, 0 to 1"),
        (("--takes", "-1"), "--takes is -1; give seconds, 0 to 1,000,000,000"),
        (("--takes", "inf"), "--takes is inf; give seconds, 0 to 1,000,000,000"),
        (("--takes", "1e300"), "--takes is 1e+300; give seconds, 0 to 1,000,000,000"),
        (("--brief", ""), "--brief is empty: give a file or a text, or leave it out"),
        (("--until", ""), "--until is empty: give a condition, such as 'score >= 0.9', or leave it out"),
        (("--budget", " "), "--budget is empty: give limits, such as cost=2, or leave it out"),
        (("--brief", "none.md"), "none.md: there is no such file; correct the path"),
        (("--until", "scor > 1"), "--until: "),
    ],
)
def test_what_cannot_be_understood_is_told_in_one_line(options: tuple[str, ...], said: str):
    refused = call("simulate", "plan.yaml", *options)
    assert (refused.code, refused.out) == (2, "")
    assert one_line(refused).startswith(said)
    assert "--text" not in refused.err


UNNAMED = PRICED.replace("model: 'openai:of-my-own', ", "")


@pytest.mark.parametrize("name", ["foo", "gpt-5", "openai:", "nobody:gpt-5", "google-gla:gemini"])
def test_the_name_of_a_model_is_refused_as_by_a_run(name: str):
    """Though its price is stated, so that no number depends on it."""
    words = (plan(LOOP.replace(PRICED, UNNAMED)), "--model", name)
    refused = call("simulate", *words)
    assert (refused.code, refused.out) == (2, "")
    assert one_line(refused).startswith(f"model '{name}': ")
    assert one_line(refused) == one_line(call("run", words[0], "Tides", *words[1:]))


def test_a_model_needs_no_key_to_be_rehearsed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    found = document("simulate", plan(LOOP.replace(PRICED, UNNAMED)), "--model", "openai:gpt-5", "--runs", "5")
    assert found["unpriced"] == 0


def test_a_server_of_ones_own_has_models_of_any_name(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("REDRAFT_MODEL_URL", "http://127.0.0.1:9/v1")
    text = plan(LOOP.replace(PRICED, UNNAMED))
    assert document("simulate", text, "--model", "foo", "--runs", "5")["unpriced"] == 0


NO_LIST = """
name: sides
state: {parts: {}}
steps:
  - generate: {actor: write}
  - each: {over: state.parts, name: Parts, body: [{generate: {actor: part}}]}
"""


@pytest.mark.parametrize(
    ("text", "options", "reason"),
    [
        (NO_LIST, (), "Parts: the value parts is no list"),
        (LOOP, ("--takes", "1e9"), "write failed for good: took longer than 300 s"),
    ],
)
def test_it_is_told_why_runs_failed(text: str, options: tuple[str, ...], reason: str):
    words = ("simulate", plan(text), *SURE, *options, "--runs", "5")
    assert document(*words)["reason"] == reason
    assert f"\nthe commonest reason of failed runs: {reason}\n" in call(*words).out


def test_where_no_run_failed_no_reason_is_told():
    words = ("simulate", "plan.yaml", *SURE, "--runs", "5")
    assert document(*words)["reason"] == ""
    assert "reason of failed runs" not in call(*words).out


def test_a_plan_that_is_not_there_is_told():
    refused = call("simulate", "none.yaml")
    assert (refused.code, one_line(refused)) == (2, "none.yaml: there is no such file; correct the path of the plan")


ITEMS = """
name: book
state: {chapters: [a, b, c, d]}
budget: {calls: 40}
steps:
- each:
    name: Chapters
    over: state.chapters
    concurrency: 2
    body:
    - generate: {actor: write}
    - repeat:
        until: score >= 0.8
        max_iterations: 5
        body:
        - critique: {actor: judge}
        - refine: {actor: improve}
- generate: {actor: bind}
- critique: {actor: judge}
"""


@pytest.mark.check
def test_items_are_rehearsed_side_by_side_each_as_a_run_of_its_own():
    sure = (*SURE[:-2], "--takes", "10", "--runs", "400")
    at_once = document("simulate", plan(ITEMS), *sure)["spreads"]
    in_turn = document("simulate", plan(ITEMS.replace("concurrency: 2", "concurrency: 1")), *sure)["spreads"]
    assert at_once["steps"]["mean"] == in_turn["steps"]["mean"] == 4 * 6 + 2
    assert in_turn["seconds"]["mean"] == pytest.approx((4 * 6 + 2) * 10, rel=0.1)
    assert 0.45 < at_once["seconds"]["mean"] / in_turn["seconds"]["mean"] < 0.75
    assert at_once["quality"]["mean"] == 0.5
