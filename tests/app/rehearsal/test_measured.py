"""`redraft simulate` of plans with measures and confidence: what is guessed, and how people say what to guess."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.app.cli_calls import call, document, one_line, said

SURE = ("--critic", "noisy(0)", "--generator", "starts(0.5)", "--refiner", "gains(0.5)", "--takes", "0")
"""Qualities 0.5, 0.75, 0.875, …, and scores that are the same."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def plan(until: str, critics: str = "- critique: {actor: judge, measures: [words, failing]}") -> str:
    Path("plan.yaml").write_text(f"""
name: counted
steps:
  - generate: {{actor: write}}
  - repeat:
      until: {until}
      max_iterations: 9
      body:
        {critics}
        - refine: {{actor: improve}}
""")
    return "plan.yaml"


def test_a_measure_meets_its_condition_as_often_as_drafts_are_good() -> None:
    found = document("simulate", plan("words >= 300 and failing == 0"), *SURE, "--runs", "200")
    assert found["outcomes"]["accepted"] > 150
    assert len(found["iterations"]) > 3


def test_a_guess_says_how_many_there_are_in_the_worst_draft_and_the_best() -> None:
    guess = ("--measure", "failing=counts(8, 0)", "--measure", "judge.words=counts(100, 500)")
    found = document("simulate", plan("failing <= 1 and words >= 430"), *SURE, *guess, "--runs", "3")
    assert found["iterations"] == {"3": 3}, "failing 4, 2, 1 and words 300, 400, 450"
    assert found["guesses"]["measures"] == ["failing=counts(8, 0)", "judge.words=counts(100, 500)"]
    assert "measures failing=counts(8, 0)" in said("simulate", "plan.yaml", *SURE, *guess[:2], "--runs", "3")


def test_a_guess_may_vary() -> None:
    guess = ("--measure", "failing=counts(8, 0, 2)")
    found = document("simulate", plan("failing == 0"), *SURE, *guess, "--runs", "200")
    assert len(found["iterations"]) > 2


@pytest.mark.parametrize("until", ["change(words) < 0.1", "words >= 5000 and change(words) < 0.1"])
def test_changes_become_smaller_as_drafts_become_better(until: str) -> None:
    found = document("simulate", plan(until), *SURE, "--runs", "200")
    assert found["outcomes"] == {"accepted": 200}
    assert "1" not in found["iterations"]
    assert found["spreads"]["iterations"]["mean"] > 3, "half, a sixth, a fourteenth"


def test_a_late_critic_is_asked_by_what_was_counted() -> None:
    critics = """- critique: {actor: count, measures: [words]}
        - critique: {actor: judge, when: words >= 300}"""
    critic = ("--critic", "count=scores(0)", "--critic", "judge=scores(1)", "--measure", "words=counts(0, 400)")
    found = document("simulate", plan("judge.score >= 0.9", critics), *SURE, *critic, "--runs", "3")
    assert found["iterations"] == {"2": 3}, "200 words, then 300"


def test_how_sure_a_critic_is_can_be_guessed() -> None:
    until = plan("score >= 0.7 and confidence >= 0.7")
    assert document("simulate", until, *SURE, "--runs", "3")["iterations"] == {"2": 3}
    unsure = ("--critic", "noisy(0, confidence=0.5)")
    assert document("simulate", until, *SURE, *unsure, "--runs", "3")["outcomes"] == {"exhausted": 3}


def test_a_gate_passes_by_what_is_counted() -> None:
    critics = """- critique: {actor: tests, gate: failing == 0, measures: [failing]}
        - critique: {actor: judge}"""
    guess = ("--measure", "failing=counts(8, 0)")
    found = document("simulate", plan("score >= 0.1", critics), *SURE, *guess, "--gate", "passes(0)", "--runs", "3")
    assert found["iterations"] == {"4": 3}, "4, 2, 1 and 0.5, which is rounded to 0"


@pytest.mark.parametrize(
    ("guess", "told"),
    [
        ("wrds=counts(1, 2)", "--measure wrds=…: the plan has no such measure; did you mean 'words'?"),
        ("counts(1, 2)", "--measure counts(1, 2): say whose guess it is, such as words=counts(1, 2)"),
        ("words=counts(1)", "--measure 'words=counts(1)': it needs best; write counts(10, 0, 1), "),
        ("words=counts(1, 2, -1)", "--measure 'words=counts(1, 2, -1)': sd is below 0; write "),
        ("words=noisy(0)", "--measure 'words=noisy(0)': there is no 'noisy'; write counts(10, 0, 1), "),
    ],
)
def test_what_cannot_be_understood_is_told_in_one_line(guess: str, told: str) -> None:
    refused = call("simulate", plan("words >= 300"), "--measure", guess)
    assert (refused.code, refused.out) == (2, "")
    assert one_line(refused).startswith(told)


def test_a_plan_without_measures_says_so() -> None:
    refused = call("simulate", plan("score >= 1", "- critique: {actor: judge}"), "--measure", "words=counts(1, 2)")
    assert one_line(refused) == "--measure words=…: the plan has no such measure; its critics declare none"


def test_what_a_function_declares_is_read_from_its_file_and_else_asked_for() -> None:
    made = plan("words >= 430", "- critique: {actor: judge}")
    refused = call("simulate", made)
    assert (refused.code, refused.out) == (2, "")
    assert one_line(refused).startswith("Refinement: until: words is no criterion or measure that a critic here")
    assert one_line(refused).endswith("what functions declare is read from their file: --actors FILE.py")
    Path("actors.py").write_text(
        "from redraft.actors import critic\n@critic(measures=('words',))\ndef judge(draft): return 1\n"
    )
    guess = ("--actors", "actors.py", "--measure", "words=counts(100, 500)")
    assert document("simulate", made, *SURE, *guess, "--runs", "3")["iterations"] == {"3": 3}
