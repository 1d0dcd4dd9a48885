"""Loops whose drafts were judged elsewhere too, and gates, late verdicts and declined issues, from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.app.cli_calls import call, said

ACTORS = """\
import asyncio
from pathlib import Path

from redraft.actors import (
    Edit, Refusal, Revision, Workflow, critic, criterion, generator, parallel, publisher, refiner, repeat, score, step,
)


@generator
def write(brief):
    return brief.text


@critic
def before(draft):
    return 0.9


@critic(scale=(1, 10), criteria={"accuracy": "right"})
def marks(draft):
    return {"accuracy": [5, 6, 7, 4, 8][draft.version - 1]}


@critic(scale=(0, 100))
def strict(draft):
    return 20


@critic(criteria={"form": "well formed"})
def formed(draft):
    return {"form": 1}


HERE = Path(__file__).parent


@critic
async def slow(draft):
    while not (HERE / "go").exists():
        await asyncio.sleep(0.01)
    (HERE / "gone").touch()
    return 0.4


@refiner
async def patient(draft):
    (HERE / "go").touch()
    while not (HERE / "gone").exists():
        await asyncio.sleep(0.01)
    return draft.text + "!"


@critic
def misspelled(draft):
    return {"score": 0.5, "issues": [{"text": "misspelled", "quote": "teh"}] if "teh" in draft.text else []}


@refiner
def improve(draft):
    return draft.text + "!"


@refiner
def correct(draft, critique):
    refused = [Refusal(each.id, "it is a name") for each in critique.issues]
    return Revision(edits=[Edit("teh", "the")], refusals=refused)


@refiner
def rewrite(draft, critique):
    return Revision(draft.text.replace("teh", "the"), refusals=[Refusal(critique.issues[0].id, "it is a name")])


@publisher
def publish(draft):
    return f"draft {draft.version}"


begun = Workflow("w").start_with(write)
body = [marks, improve]
again = begun.then(before).repeat_until("score >= 0.95", max_iterations=2, body=body).finally_(publish)
back = begun.repeat_until(
    criterion.accuracy >= 10, max_iterations=4, rollback_margin="2 of 10", rollback_of="accuracy", body=body
)
inside = repeat("Inner", until="score >= 5", max_iterations=2, body=body)
outside = begun.repeat_until("score >= 60", max_iterations=2, body=[inside, strict, step(improve, name="again")])
gate = step(formed, gate=True)
gated = begun.repeat_until("formed.form >= 0.5 and accuracy >= 5", max_iterations=2, body=[gate, *body])
panel = parallel("Panel", formed, slow, wait=1)
late = begun.repeat_until("score >= 0.95 and errors > 0", max_iterations=2, body=[panel, patient])
declined = begun.repeat_until(score >= 0.9, max_iterations=1, body=[misspelled, correct])
rewritten = begun.repeat_until(score >= 0.9, max_iterations=1, body=[misspelled, rewrite])
"""


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDRAFT_STORE", f"sqlite:///{tmp_path / 'log.db'}")
    Path("actors.py").write_text(ACTORS)
    return tmp_path


def run(name: str, code: int, text: str = "teh cat") -> str:
    spoken = call("run", f"actors.py:{name}", "--text", text)
    assert spoken.code == code, spoken.err
    said("audit", "--all", "--verify")
    return spoken.err


def test_a_loop_goes_by_its_own_word_on_the_draft_that_it_began_with() -> None:
    told = run("again", 3)
    assert "made draft 3 from draft 2" in told
    assert "draft 3 leaves it, scored at 7 of 10" in told
    assert "published draft 3" in said("audit", "last")


def test_a_loop_waits_for_its_own_critics() -> None:
    assert "score 20 of 100, 2 iterations" in run("outside", 3)


def test_what_a_passed_gate_said_is_known() -> None:
    assert "the condition holds: formed.form 1.00 >= 0.5, accuracy 5 of 10 >= 5" in run("gated", 0)


def test_it_is_told_why_a_refinement_goes_back() -> None:
    run("back", 3)
    told = said("audit", "last")
    assert told.count("it goes back to") == 1
    assert "it goes back to draft 3 from draft 4: accuracy may fall by 2 of 10 at most" in told


def test_a_verdict_that_came_too_late_is_marked() -> None:
    run("late", 3)
    assert said("events", "--run", "last", "--type", "verdict.late").count("\n") >= 1
    first = said("show", "last").partition("iteration 2")[0]
    assert "slow  score 0.40, draft 1" in first
    assert "too late to count" in first


def test_what_is_declined_is_not_answered() -> None:
    assert "declined the issue" in (told := run("declined", 1))
    assert "and changed what it quotes; do one of them, or name the issue that the edit answers" in told
    run("rewritten", 3)
    assert "answers" not in said("diff", "last", "1", "2")
    assert "[-teh-]" in said("diff", "last", "1", "2")
