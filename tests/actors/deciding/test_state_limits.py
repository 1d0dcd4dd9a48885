"""What a loop without critics may not let out, and on which scale a score is read beside a condition of one's own."""

from __future__ import annotations

from datetime import timedelta

from tests.projections.random_runs import as_recorded
from tests.properties.test_deciding_properties import Run

from redraft.actors.plans.check import check_ready
from redraft.events.messages.commands import Completed
from redraft.events.messages.conditions import Compare, score, state
from redraft.events.messages.domain_events import DraftPublished, IterationStarted
from redraft.events.messages.plan import Plan, Repeat, Step
from redraft.projections.record_check import check_events

WRITE, SAVE = Step("generator", "write", "write"), Step("publisher", "save", "save")
IMPROVE, LOOK = Step("refiner", "improve", "improve"), Step("step", "look", "look")


def test_a_draft_that_a_gate_refused_does_not_leave_a_loop_without_critics():
    gate = Step("critic", "gate", "gate", gate=True)
    judged = Repeat("Judged", score >= 0.9, 3, (gate, IMPROVE))
    run = Run(check_ready(Plan("p", (WRITE, judged, Repeat("Bare", state.ok.condition, 3, (IMPROVE, LOOK)), SAVE))))

    def answer(path: str, *, value: float = 0.0, text: str = "") -> None:
        run.now += timedelta(seconds=1)
        run.answer(path, value=value, text=text)

    answer("write", text="bad")
    answer("Judged[1]/gate", value=0.1)
    answer("Judged[1]/improve", text="good")
    answer("Judged[2]/gate", value=1.0)
    answer("Bare[1]/improve", text="bad")
    run.send(Completed("r", "Bare[1]/look", 1, {"ok": True}))
    assert IterationStarted("Bare", 2) in run.events
    answer("Bare[2]/improve", text="better")
    run.send(Completed("r", "Bare[2]/look", 1, {"ok": True}))
    answer("save")
    assert any(isinstance(event, DraftPublished) for event in run.events)
    assert check_events(as_recorded(run.events, run.times)) == ()


def test_a_condition_of_ones_own_leaves_the_scale_of_the_critics_beside_it_alone():
    judge = Step("critic", "judge", "judge", scale=(1.0, 10.0))
    good = Step("critic", "good", "good", condition=True, measures=("good",))
    until = (score >= 8) & Compare("criterion", ">=", 1.0, "good")
    check_ready(Plan("p", (WRITE, Repeat("L", until, 3, (judge, good, IMPROVE)), SAVE)))
