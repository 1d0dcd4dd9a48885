"""Criteria from the command line: what is said while a run goes on, and what is shown, compared and asked of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.app.cli_calls import call, said

ACTORS = """\
from redraft.actors import critic, generator, publisher, refiner


@generator
def write(brief):
    return "one"


@critic(scale=(1, 10), criteria={"accuracy": "every claim is right", "tone": "for children"}, weights={"accuracy": 2})
def judge(draft):
    words = len(draft.text.split())
    return {"criteria": {"accuracy": min(10, 4 + 2 * words), "tone": {"score": 6, "confidence": 0.8}}}


@refiner
def improve(draft):
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
      until: accuracy >= 8 and tone >= 6
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
    Path("plan.yaml").write_text(PLAN)
    Path("rain.txt").write_text("rain")
    return tmp_path


def run(plan: str = PLAN) -> str:
    Path("plan.yaml").write_text(plan)
    spoken = call("run", "plan.yaml", "rain.txt", "--actors", "actors.py")
    assert spoken.code == 0, spoken.err
    return spoken.err


def test_a_run_tells_scores_on_the_scale():
    told = run()
    assert "scored draft 1 at 6 of 10 (accuracy 6 of 10, tone 6 of 10, confidence 0.80)" in told
    assert "accepted, score 7.333 of 10, 2 iterations" in told
    assert "the condition holds: accuracy 8 of 10 >= 8, tone 6 of 10 >= 6" in told


def test_every_view_shows_scores_on_the_scale(folder: Path):
    run()
    assert "judge  score 6 of 10, accuracy 6 of 10, tone 6 of 10, confidence 0.80, draft 1" in said("show", "last")
    assert "7.333 of 10" in said("list")
    assert "6.667 of 10 (0.629)" in said("stats", "critics")
    assert "accuracy 8 of 10, tone 6 of 10" in said("stats", "critics", "last")
    assert "6.667 of 10 (0.629)" in said("stats", "drift")
    assert "7 of 10 (0.667)" in said("stats", "criteria")
    assert "6 of 10" in said("stats", "criteria", "last")
    assert "7.333 of 10" in said("stats", "scores", "last")
    assert "7.333 of 10" in said("stats", "tree", "last")
    said("audit", "last", "--export", "run.html")
    page = (folder / "run.html").read_text()
    assert "7.333 of 10" in page
    assert "accuracy 8 of 10" in page


def test_the_audit_says_where_a_share_is_meant():
    run(PLAN.replace("accuracy >= 8 and tone >= 6", "score >= 0.7"))
    assert "goes on until score >= 0.7 of 1, for 5 iterations at most" in said("audit", "last")


def test_the_record_is_checked_with_its_criteria():
    run()
    assert "15 events verified" in said("audit", "last", "--verify")


def test_what_if_decides_again_by_a_criterion():
    run(PLAN.replace("accuracy >= 8 and tone >= 6", "accuracy >= 10"))
    told = said("whatif", "last", "--until", "accuracy >= 8", "--until", "min(criteria) >= 6")
    assert "instead:  accepted, score 7.333 of 10" in told
    assert "instead:  accepted, score 6 of 10" in told
    assert "7.333 of 10 (0.704)" in said("whatif", "--workflow", "kids", "--until", "accuracy >= 8")
    wrong = call("whatif", "last", "--until", "acuracy >= 8")
    assert wrong.code == 2
    assert "did you mean accuracy?" in wrong.err


def test_a_margin_on_the_scale_is_taken_by_what_if_and_by_a_fork():
    run(PLAN.replace("accuracy >= 8 and tone >= 6", "accuracy >= 10"))
    told = said("whatif", "last", "--rollback-margin", "1 of 10")
    assert "under the policy: rollback_margin 1 of 10" in told
    assert "both make the same decisions" in told
    wrong = call("whatif", "last", "--rollback-margin", "1")
    assert (wrong.code, "write rollback_margin: 1 of 10, or" in wrong.err) == (2, True)
    wrong = call("whatif", "last", "--rollback-margin", "much")
    assert (wrong.code, "--rollback-margin: 'much' is no margin; write a number" in wrong.err) == (2, True)
    spoken = call("fork", "last", "--at", "6", "--set", "rollback_margin=1 of 10", "--actors", "actors.py")
    assert "accepted, score 8.667 of 10" in spoken.err, spoken.err


def test_a_fork_may_ask_for_another_criterion():
    run()
    spoken = call("fork", "last", "--at", "6", "--set", "until=tone >= 7", "--actors", "actors.py")
    assert "exhausted, score 8.667 of 10, 5 iterations" in spoken.err


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        (
            "acuracy >= 8",
            "plan.yaml:5: Refinement: until: acuracy is no criterion or measure that a critic here declares",
        ),
        ("score >= 1", "write score >= 1 of 10, or score >= 100 of 100"),
        ("score >= 80", "scores are 1..10, so score >= 80 is out of range"),
    ],
)
def test_a_condition_that_nobody_can_meet_is_refused_before_the_run_starts(wrong: str, fault: str):
    Path("plan.yaml").write_text(PLAN.replace("accuracy >= 8 and tone >= 6", wrong))
    spoken = call("run", "plan.yaml", "rain.txt", "--actors", "actors.py")
    assert spoken.code == 2
    assert fault in spoken.err
    assert spoken.err.count("\n") == 1
    assert not Path("log.db").exists()


def test_a_plan_that_declares_what_its_critic_gives_needs_no_actors():
    declared = "{actor: judge, scale: [1, 10], criteria: {accuracy: {says: every claim is right, weight: 2}, tone: x}}"
    Path("plan.yaml").write_text(PLAN.replace("{actor: judge}", declared))
    assert "score at the end" in said("simulate", "plan.yaml", "--runs", "20")


def test_a_shipped_critic_that_scores_by_itself_takes_no_scale():
    text = "name: p\nsteps:\n  - generate: {actor: source}\n  - critique: {actor: prose, scale: [1, 10]}\n"
    Path("plan.yaml").write_text(text)
    spoken = call("run", "plan.yaml", "rain.txt")
    assert spoken.code == 2
    assert "prose scores from 0 to 1, by no criteria" in spoken.err


def test_a_plan_with_what_its_functions_declare_is_no_changed_one():
    run()
    forked = call("fork", "last", "--at", "3")
    assert (forked.code, "the plan was changed" in forked.err) == (0, False), forked.err
    Path("plan.yaml").write_text(PLAN.replace("max_iterations: 5", "max_iterations: 6"))
    assert "plan.yaml: the plan was changed since the run began" in call("fork", "last", "--at", "3").err


def test_a_run_goes_on_as_it_began_when_its_functions_declare_what_its_plan_contradicts_since():
    run()
    Path("plan.yaml").write_text(PLAN.replace("judge}", "judge, scale: [1, 5]}"))
    forked = call("fork", "last", "--at", "3")
    assert forked.code == 0, forked.err
    assert "plan.yaml: the plan was changed since the run began" in forked.err


@pytest.mark.parametrize(
    ("setting", "fault"),
    [
        ("scale: [0, 5]", "plan.yaml:8: Refinement/judge: scale differ from those that judge declares"),
        ("history: 2", "plan.yaml:8: Refinement/judge: history is 2, but judge does not take 'history'"),
    ],
)
def test_what_an_actor_declares_otherwise_is_named_with_its_line_and_place(setting: str, fault: str) -> None:
    Path("plan.yaml").write_text(PLAN.replace("{actor: judge}", f"{{actor: judge, {setting}}}"))
    for command in (("run", "plan.yaml", "rain.txt"), ("simulate", "plan.yaml")):
        spoken = call(*command, "--actors", "actors.py")
        assert (spoken.code, fault in spoken.err) == (2, True), spoken.err


def test_a_plan_for_a_deployment_says_itself_what_its_critics_declare_and_is_told_where_it_does_not() -> None:
    spoken = call("submit", "plan.yaml", "rain.txt", "--bus", "amqp://nobody.invalid/")
    assert spoken.code == 2
    assert "plan.yaml:5: Refinement: until: accuracy is no criterion" in spoken.err, spoken.err


def test_a_critic_that_is_asked_late_cannot_be_asked_by_what_it_says_itself() -> None:
    late = "{actor: judge}\n        - critique: {actor: judge, name: late, when: late.tone >= 6}"
    Path("plan.yaml").write_text(PLAN.replace("{actor: judge}", late))
    spoken = call("run", "plan.yaml", "rain.txt", "--actors", "actors.py")
    assert "when: late.tone >= 6 is about what this critic says itself" in spoken.err, spoken.err
