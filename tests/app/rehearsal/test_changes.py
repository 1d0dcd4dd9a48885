"""`redraft simulate` of plans with a state: free steps change nothing unless a guess says what."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.app.cli_calls import call, document, one_line

PLAN = """
name: tested
state: {tries: 0}
steps:
  - step: {actor: research}
  - generate: {actor: write}
  - repeat:
      until: state.tests_pass and score >= 0
      max_iterations: 5
      body:
        - step: {actor: run_tests, writes: [tests_pass]}
        - critique: {actor: judge}
        - refine: {actor: improve}
"""
NO = 'run_tests={"tests_pass": false}'
YES = 'run_tests={"tests_pass": true}'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("plan.yaml").write_text(PLAN)


def rehearsed(*options: str, text: str = "") -> dict[str, int]:
    if text:
        Path("plan.yaml").write_text(text)
    found = document("simulate", "plan.yaml", "--runs", "10", *options)
    assert len(found["iterations"]) == 1
    return {outcome: int(next(iter(found["iterations"]))) for outcome in found["outcomes"]}


def test_a_step_changes_what_its_guesses_say_one_after_another_and_the_last_again() -> None:
    assert rehearsed("--state", YES) == {"accepted": 1}
    assert rehearsed("--state", NO, "--state", NO, "--state", YES) == {"accepted": 3}
    assert rehearsed("--state", NO) == {"exhausted": 5}


def test_what_is_not_guessed_is_said_and_what_is_guessed_too() -> None:
    said = call("simulate", "plan.yaml", "--runs", "5", "--state", YES)
    assert (said.code, said.err) == (0, "")
    told = " ".join(said.out.split())
    assert f"; state {YES}; fails 0" in told
    assert "guessed as no change of the state: what research may change; say what it does with --state" in told
    assert document("simulate", "plan.yaml", "--runs", "5", "--state", YES)["guesses"]["state"] == [YES]


def test_a_value_with_which_runs_begin_is_there_and_may_be_given() -> None:
    text = PLAN.replace("state.tests_pass and", "state.tries >= 3 and").replace("[tests_pass]", "[tests]")
    assert rehearsed(text=text) == {"exhausted": 5}
    assert rehearsed("--set", "state.tries=3") == {"accepted": 1}


def test_other_actors_change_the_state_beside_their_result() -> None:
    assert rehearsed("--state", NO, "--state", 'improve={"tests_pass": true}') == {"exhausted": 5}, (
        "the tests come later"
    )
    text = PLAN.replace("state.tests_pass", "state.done")
    assert rehearsed("--state", 'improve={"done": true}', text=text) == {"accepted": 2}


def test_a_loop_without_critics_has_no_score() -> None:
    text = PLAN.replace(" and score >= 0", "").replace("        - critique: {actor: judge}\n", "")
    assert rehearsed("--state", NO, "--state", YES, text=text) == {"accepted": 2}
    found = document("simulate", "plan.yaml", "--runs", "5", "--state", YES)
    assert "score" not in found["spreads"]
    assert found["spreads"]["quality"]["runs"] == 5


def test_a_condition_of_ones_own_holds_as_often_as_drafts_are_good() -> None:
    text = PLAN.replace("state.tests_pass and score >= 0", "good_enough")
    text = text.replace("        - refine:", "        - condition: {actor: good_enough}\n        - refine:")
    Path("plan.yaml").write_text(text)
    good = document("simulate", "plan.yaml", "--generator", "starts(1)", "--runs", "20")
    assert (good["outcomes"], good["iterations"]) == ({"accepted": 20}, {"1": 20})
    some = document("simulate", "plan.yaml", "--generator", "starts(0.5)", "--refiner", "gains(0)", "--runs", "400")
    assert some["iterations"]["1"] == pytest.approx(200, abs=50)
    assert some["spreads"]["score"]["mean"] == pytest.approx(0.5, abs=0.05), "its verdict is no score"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            (),
            f"a condition reads state.tests_pass, and nobody sets it here; say what run_tests changes: --state '{YES}'",
        ),
        (("--state", "run_tests"), "--state 'run_tests' is not a guess; write a step and the values that it changes"),
        (("--state", "run_tests={"), "--state 'run_tests={' is not a guess"),
        (("--state", "run_tests=[1]"), "--state 'run_tests=[1]' is not a guess"),
        (("--state", 'tests={"a": 1}'), "--state tests=…: the plan has no such step or actor; "),
        (("--state", 'run_tests={"other": 1}'), "--state run_tests=…: it does not write other; it writes tests_pass"),
        (("--state", 'research={"two words": 1}'), "--state research=…: 'two words' cannot name a value"),
        (("--state", YES, "--set", "judge.x=1"), "write state.NAME=VALUE"),
    ],
)
def test_what_cannot_be_rehearsed_is_told_in_one_line(options: tuple[str, ...], said: str) -> None:
    done = call("simulate", "plan.yaml", *options)
    assert (done.code, done.out) == (2, "")
    assert said in one_line(done)


def test_a_value_that_a_free_step_may_set_is_asked_of_it() -> None:
    Path("plan.yaml").write_text(PLAN.replace("state.tests_pass", "state.done"))
    assert "say what research changes: --state 'research={\"done\": true}'" in one_line(call("simulate", "plan.yaml"))
    Path("plan.yaml").write_text(PLAN.replace("  - step: {actor: research}\n", "").replace("state.tests", "state.all"))
    assert "say with what it begins: --set state.all_pass=true" in one_line(call("simulate", "plan.yaml"))
