"""Measures from the command line: what is said while a run goes on, and what is shown, compared and asked of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.app.cli_calls import call, said

ACTORS = """\
from redraft.actors import critic, generator, publisher, refiner


@generator
def write(brief):
    return "one two"


@critic(measures=("words", "jokes?"))
def judge(draft):
    words = len(draft.text.split())
    return {"score": 0.5, "measures": {"words": words, **({"jokes": 1} if words > 2 else {})}}


@refiner
def improve(draft, critique, history):
    assert critique.measures == history.rounds[-1].measures
    assert critique.measures["words"] == len(draft.text.split())
    return draft.text + " more"


@publisher
def save(draft):
    return "here"
"""
PLAN = """\
name: kids
steps:
  - generate: {actor: write}
  - repeat:
      until: words >= 4 and jokes == 1
      max_iterations: 5
      body:
        - critique: {actor: judge}
        - refine: {actor: improve}
  - publish: {actor: save}
"""


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDRAFT_STORE", f"sqlite:///{tmp_path / 'log.db'}")
    Path("actors.py").write_text(ACTORS)
    Path("rain.txt").write_text("rain")
    return tmp_path


def run(plan: str = PLAN) -> str:
    Path("plan.yaml").write_text(plan)
    spoken = call("run", "plan.yaml", "rain.txt", "--actors", "actors.py")
    assert spoken.code == 0, spoken.err
    return spoken.err


def test_a_run_tells_what_was_counted() -> None:
    told = run()
    assert "scored draft 1 at 0.50 (words 2)" in told
    assert "scored draft 3 at 0.50 (words 4, jokes 1)" in told
    assert "the condition holds: words 4 >= 4, jokes 1 == 1" in told


def test_every_view_shows_what_was_counted(folder: Path) -> None:
    run()
    assert "judge  score 0.50, words 2, draft 1" in said("show", "last")
    assert "words 4, jokes 1" in said("stats", "critics", "last")
    lines = [line.split() for line in said("stats", "measures").splitlines()]
    assert ["judge", "words", "3", "1", "3", "2", "4"] in lines
    assert ["judge", "jokes", "2", "1", "1", "1", "1"] in lines
    assert ["6", "judge", "words", "1", "2", "Refinement[1]/judge"] in [
        line.split() for line in said("stats", "measures", "last").splitlines()
    ]
    said("audit", "last", "--export", "run.html")
    assert "words 4, jokes 1" in (folder / "run.html").read_text()
    assert "events verified" in said("audit", "last", "--verify")


def test_a_diff_shows_the_numbers_of_both_drafts() -> None:
    run()
    told = said("diff", "last", "1", "3")
    assert told.splitlines()[0] == "judge: score 0.50, words 2 → 4, jokes none → 1"
    document = json.loads(said("diff", "last", "1", "3", "--json"))
    assert {
        "critic": "judge",
        "name": "words",
        "before": 2,
        "after": 4,
        "scale": None,
        "counted": True,
        "compared": False,
        "unasked": "",
    } in document["scores"]


def test_what_if_decides_again_by_what_was_counted() -> None:
    run()
    told = said("whatif", "last", "--until", "words >= 3", "--until", "change(words) < 0.4")
    assert "recorded: accepted, score 0.50, 7 steps, words 4, jokes 1" in told
    assert "instead:  accepted, score 0.50, 5 steps, words 3, jokes 1" in told
    assert "instead:  accepted, score 0.50, 7 steps, words 4, jokes 1" in told
    lines = said("whatif", "--workflow", "kids", "--until", "words >= 3").splitlines()
    assert " ".join(lines[0].split()) == "policy runs iterations steps score words jokes accepted ended early"
    assert any(line.split()[-5:-2] == ["0.50", "3", "1"] for line in lines), lines
    wrong = call("whatif", "last", "--until", "wrods >= 3")
    assert wrong.code == 2
    assert "did you mean words?" in wrong.err


def test_a_stated_choice_of_measures_is_recorded_alone() -> None:
    told = run(PLAN.replace("{actor: judge}", "{actor: judge, measures: [words]}").replace(" and jokes == 1", ""))
    assert "scored draft 3 at 0.50 (words 4)" in told


@pytest.mark.parametrize(
    ("was", "wrong", "fault"),
    [
        ("words >= 4", "wrods >= 4", "plan.yaml:5: Refinement: until: wrods is no criterion or measure that a critic"),
        (
            "words >= 4",
            "change(score) < 4",
            "until: condition, column 1: change is of a measure, and score is none",
        ),
        ("{actor: judge}", "{actor: judge, measures: [wrods]}", "measures: wrods is none that judge declares; did you"),
        ("{actor: judge}", "{actor: judge, measures: words}", "write a list"),
        ("{actor: improve}", "{actor: improve, measures: [words]}", "scale, criteria and measures are for critics"),
    ],
)
def test_a_wrong_name_is_refused_before_the_run_starts(was: str, wrong: str, fault: str) -> None:
    Path("plan.yaml").write_text(PLAN.replace(was, wrong))
    spoken = call("run", "plan.yaml", "rain.txt", "--actors", "actors.py")
    assert spoken.code == 2
    assert fault in spoken.err
    assert spoken.err.count("\n") == 1
    assert not Path("log.db").exists()


def test_a_shipped_critic_counts_only_what_it_counts() -> None:
    text = "name: p\nsteps:\n  - generate: {actor: source}\n  - critique: {actor: structure, measures: [words]}\n"
    Path("plan.yaml").write_text(text)
    spoken = call("run", "plan.yaml", "rain.txt")
    assert spoken.code == 2
    assert "structure counts nothing; remove measures" in spoken.err


def test_a_critic_that_does_not_give_what_it_declares_fails_its_run() -> None:
    Path("actors.py").write_text(ACTORS.replace('"words": words, ', ""))
    Path("plan.yaml").write_text(PLAN)
    spoken = call("run", "plan.yaml", "rain.txt", "--actors", "actors.py")
    assert spoken.code == 1
    assert "judge gave no number for words, a measure that it declares" in spoken.err


def test_a_shipped_critic_ends_a_loop_by_what_it_counts(folder: Path) -> None:
    Path("plan.yaml").write_text(
        "name: p\nsteps:\n  - generate: {actor: source}\n  - repeat:\n      until: findings == 0 and words >= 3\n"
        "      max_iterations: 3\n      body: [{critique: {actor: prose}}, {refine: {actor: prose-fix}}]\n"
    )
    Path("rain.txt").write_text("The the rain falls on the house.\n")
    spoken = call("run", "plan.yaml", "rain.txt")
    assert spoken.code == 0, spoken.err
    assert "the condition holds: findings 0 == 0, words 6 >= 3" in spoken.err


def test_a_rehearsal_guesses_what_conditions_ask_for() -> None:
    Path("plan.yaml").write_text(PLAN.replace("{actor: judge}", "{actor: judge, measures: [words, jokes]}"))
    outcomes = json.loads(said("simulate", "plan.yaml", "--runs", "40", "--json"))["outcomes"]
    assert outcomes["accepted"] > 0, outcomes
