"""Criteria and measures over RabbitMQ: declared in the plan, judged by workers of their own, and recorded."""

from __future__ import annotations

from pathlib import Path

from tests.app.deployments import deployment

from redraft.events.messages.domain_events import DraftCritiqued, RunEnded

KIDS = """
from redraft.actors import Workflow, change, critic, criterion, measure, generator, publisher, refiner

@generator
def write(brief):
    return "one"

@critic(scale=(1, 10), criteria={"accuracy": "every claim is right", "tone": "for children"}, weights={"accuracy": 2},
        measures=("words",))
def judge(draft):
    words = len(draft.text.split())
    marks = {"accuracy": min(10, 4 + 2 * words), "tone": {"score": 6, "confidence": 0.8}}
    return {"criteria": marks, "measures": {"words": words}}

@refiner
def improve(draft, critique, history):
    assert critique.shown_criteria.startswith("accuracy 6 of 10, tone 6 of 10")
    assert (critique.score, critique.shown_score) == (6, "6 of 10")
    assert {each.name: each.score for each in critique.criteria} == {"accuracy": 6, "tone": 6}
    assert (history.rounds[0].score, history.rounds[0].criteria) == (6, {"accuracy": 6, "tone": 6})
    assert critique.measures == history.rounds[0].measures == {"words": 1}
    return draft.text + " more"

@publisher
def save(draft):
    return "here"

kids = Workflow("kids").start_with(write)
counted = (measure.words == 2) & (change(measure.words) >= 1)
kids = kids.repeat_until(
    (criterion.accuracy >= 8) & (criterion.judge.tone >= 6) & counted, max_iterations=3, body=[judge, improve]
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
    met = "accuracy 8 of 10 >= 8, judge.tone 6 of 10 >= 6, words 2 == 2, change(words) 1 >= 1"
    assert ended.reason == f"the condition holds: {met}"
    assert "score 7.333 of 10" in shown.out
    assert checked.code == 0, checked.err
