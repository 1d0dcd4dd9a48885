"""Criteria over RabbitMQ: declared in the plan, judged by workers of their own, and recorded."""

from __future__ import annotations

from pathlib import Path

from tests.app.deployments import deployment

from redraft.events.messages.domain_events import DraftCritiqued, RunEnded

KIDS = """
from redraft.actors import Workflow, critic, criterion, generator, publisher, refiner

@generator
def write(brief):
    return "one"

@critic(scale=(1, 10), criteria={"accuracy": "every claim is right", "tone": "for children"}, weights={"accuracy": 2})
def judge(draft):
    words = len(draft.text.split())
    return {"criteria": {"accuracy": min(10, 4 + 2 * words), "tone": {"score": 6, "confidence": 0.8}}}

@refiner
def improve(draft, critique):
    assert critique.shown_criteria.startswith("accuracy 6 of 10, tone 6 of 10")
    return draft.text + " more"

@publisher
def save(draft):
    return "here"

kids = Workflow("kids").start_with(write)
kids = kids.repeat_until(
    (criterion.accuracy >= 8) & (criterion.judge.tone >= 6), max_iterations=3, body=[judge, improve]
).finally_(save)
"""


def test_workers_judge_by_criteria_and_the_coordinator_decides_by_them(tmp_path: Path):
    with deployment(tmp_path) as deployed:
        (tmp_path / "kids.py").write_text(KIDS)
        deployed.start("coordinator", "coordinator")
        deployed.start("worker", "worker", "kids.py")
        submitted = deployed.call("submit", "kids.py:kids", "rain")
        assert submitted.code == 0, submitted.err
        run = submitted.out.strip()
        deployed.ended(run)
        events = [event.data for event in deployed.history(run)]
        shown = deployed.call("show", run)
        checked = deployed.call("audit", run, "--verify")
    said = [event.critique.shown_criteria for event in events if isinstance(event, DraftCritiqued)]
    assert said == [f"accuracy {points} of 10, tone 6 of 10, confidence 0.80" for points in (6, 8)]
    ended = next(event for event in events if isinstance(event, RunEnded))
    assert (ended.outcome, ended.scale) == ("accepted", (1, 10))
    assert ended.reason == "the condition holds: accuracy 8 of 10 >= 8, tone 6 of 10 >= 6".replace("tone", "judge.tone")
    assert "score 7.333 of 10" in shown.out
    assert checked.code == 0, checked.err
