"""Gates: critics that speak first, and whose no overrides any score."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from redraft.actors import Critique, Workflow, critic, generator, parallel, publisher, refiner, score, step
from redraft.actors.deciding.declared import judgement_of
from redraft.actors.deciding.judgement import join
from redraft.actors.formats.mermaid import print_mermaid
from redraft.actors.formats.yaml_reader import print_plan, read_plan
from redraft.actors.plans.check import check_ready
from redraft.actors.workflow.builders import StepSpec
from redraft.app import refine
from redraft.app.client.result import Result
from redraft.app.settings.settings import Settings
from redraft.events.errors import PermanentError, PlanError
from redraft.events.messages.plan import Repeat


class Desk:
    """A workflow's actors, and how often each was called. The gate wants an X; the judge is content with anything."""

    def __init__(self, gate: float = 0.4) -> None:
        self.calls: Counter[str] = Counter()

        @generator
        def write(brief):
            return brief.text

        @critic
        def wants_x(draft):
            self.calls["wants_x"] += 1
            return Critique(1.0) if "X" in draft.text else Critique(gate, errors=("there is no X",))

        @critic
        def wants_y(draft):
            self.calls["wants_y"] += 1
            return Critique(1.0) if "Y" in draft.text else Critique(0.6, errors=("there is no Y",))

        @critic
        def judge(draft):
            self.calls["judge"] += 1
            return Critique(0.95, suggestions=("fine",))

        @refiner
        def improve(draft, critique):
            self.calls["improve"] += 1
            return draft.text + "".join(f" {error[-1]}" for error in critique.errors)

        @publisher
        def save(draft):
            self.calls["save"] += 1
            return "out"

        self.save = save
        self.write, self.wants_x, self.wants_y, self.judge, self.improve = write, wants_x, wants_y, judge, improve

    def loop(self, *body: StepSpec, passes: int = 3) -> Workflow:
        started = Workflow("gated").start_with(self.write)
        return started.repeat_until(score >= 0.9, max_iterations=passes, body=[*body, self.improve])


async def end_of(workflow: Workflow, brief: str = "draft") -> Result:
    return await refine(workflow, brief, settings=Settings(store="memory:"))


def scores(result: Result) -> list[tuple[str, float]]:
    return [(each.path, each.critique.score) for each in result.critiques]


async def test_a_failed_gate_saves_the_other_critics_and_overrides_their_scores():
    desk = Desk()
    result = await end_of(desk.loop(step(desk.wants_x, gate=True), step(desk.judge)))
    assert (result.outcome, result.score, result.text) == ("accepted", 0.95, "draft X")
    assert desk.calls == {"wants_x": 2, "judge": 1, "improve": 1}


async def test_without_the_gate_the_same_draft_passes():
    desk = Desk()
    result = await end_of(desk.loop(step(desk.judge)))
    assert (result.outcome, result.text) == ("accepted", "draft")


@pytest.mark.parametrize("side_by_side", [True, False])
async def test_all_gates_are_heard_before_anybody_else_is_asked(side_by_side: bool):
    desk = Desk()
    gates = (step(desk.wants_x, gate=True), step(desk.wants_y, gate=True), step(desk.judge))
    result = await end_of(desk.loop(*([parallel("checks", *gates)] if side_by_side else gates)))
    assert (result.outcome, result.score, result.text) == ("accepted", 0.95, "draft X Y")
    assert desk.calls == {"wants_x": 2, "wants_y": 2, "judge": 1, "improve": 1}


async def test_a_gate_that_never_passes_is_never_accepted_even_with_a_high_score():
    desk = Desk(gate=0.99)

    @refiner
    def stubborn(draft):
        return draft.text + "."

    loop = Workflow("w").start_with(desk.write)
    body = [step(desk.wants_x, gate=True), step(desk.judge), stubborn]
    result = await end_of(loop.repeat_until(score >= 0.9, max_iterations=3, body=body))
    assert (result.outcome, result.score) == ("rejected", 0.99)
    assert "gate wants_x did not pass draft 4" in result.reason
    assert desk.calls["judge"] == 0


async def test_a_draft_that_passed_is_better_than_one_with_a_higher_score_that_did_not():
    desk = Desk(gate=0.8)

    @critic
    def strict(draft):
        return Critique(0.5, errors=("more",))

    @refiner
    def breaks(draft):
        return draft.text.replace(" X", "") + "."

    body = [step(desk.wants_x, gate=True), step(strict), breaks]
    workflow = Workflow("w").start_with(desk.write).repeat_until(score >= 0.9, max_iterations=2, body=body)
    result = await end_of(workflow, "draft X")
    assert (result.outcome, result.text, result.score) == ("exhausted", "draft X", 0.5)
    assert [each.before.version for each in result.attempts] == [1, 1]


@pytest.mark.parametrize("after_a_loop", [False, True])
async def test_a_run_whose_last_draft_a_gate_outside_a_loop_did_not_pass_is_not_accepted(after_a_loop: bool):
    desk = Desk()
    started = Workflow("straight").start_with(desk.write)
    if after_a_loop:
        started = started.repeat_until(score >= 0.9, max_iterations=1, body=[desk.judge, desk.improve])
    straight = started.then(step(desk.wants_x, gate=True))
    ended = await end_of(straight)
    assert (ended.outcome, ended.reason) == ("rejected", "gate wants_x did not pass draft 1")
    assert (await end_of(straight, "an X")).outcome == "accepted"


@pytest.mark.parametrize("between", ["nothing", "a critic", "more gates", "a loop before"])
@pytest.mark.parametrize("side_by_side", [True, False])
async def test_what_a_gate_outside_a_loop_did_not_pass_is_not_published(between: str, side_by_side: bool):
    desk = Desk()
    started = Workflow("straight").start_with(desk.write)
    if between == "a loop before":
        started = started.repeat_until(score >= 0.9, max_iterations=1, body=[desk.judge, desk.improve])
    started = started.then(step(desk.wants_x, gate=True))
    if between == "a critic":
        started = started.then(step(desk.judge))
    if between == "more gates":
        started = started.then(step(desk.wants_y, gate=True))
    publishers = (step(desk.save), step(desk.save, name="copy"))
    straight = started.finally_(parallel("out", *publishers)) if side_by_side else started.finally_(*publishers)
    ended = await end_of(straight, "a Y")
    assert (ended.outcome, ended.reason, ended.text) == ("rejected", "gate wants_x did not pass draft 1", "a Y")
    assert desk.calls["save"] == 0
    passed = await end_of(straight, "an X and a Y")
    assert (passed.outcome, desk.calls["save"]) == ("accepted", 2)


async def test_a_draft_that_is_judged_anew_after_it_was_mended_is_published():
    desk = Desk()
    mended = Workflow("mended").start_with(desk.write, step(desk.wants_x, gate=True), desk.improve)
    ended = await end_of(mended.then(step(desk.wants_x, name="again", gate=True)).finally_(desk.save))
    assert (ended.outcome, ended.text, desk.calls["save"]) == ("accepted", "draft X", 1)


async def test_what_a_gate_in_a_loop_or_after_it_refuses_is_not_published():
    desk = Desk()

    @refiner
    def stubborn(draft):
        return draft.text + "."

    body = [step(desk.wants_x, gate=True), stubborn]
    loop = Workflow("w").start_with(desk.write).repeat_until(score >= 0.9, max_iterations=2, body=body)
    ended = await end_of(loop.finally_(desk.save))
    reason = "no draft that Refinement judged may be published: gate wants_x did not pass draft 3"
    assert (ended.outcome, ended.reason, desk.calls["save"]) == ("rejected", reason, 0)
    refused = await end_of(loop.then(step(desk.wants_y, gate=True)).finally_(desk.save), "an X")
    assert (refused.outcome, refused.reason) == ("rejected", "gate wants_y did not pass draft 1")
    assert desk.calls["save"] == 0


async def test_when_a_step_fails_the_best_draft_is_not_published_if_a_gate_did_not_pass_it():
    desk = Desk()

    @refiner
    def broken(draft):
        raise PermanentError("no")

    failing = (
        Workflow("w").start_with(desk.write, step(desk.wants_x, gate=True), broken, desk.judge).finally_(desk.save)
    )
    ended = await end_of(failing.on_failure("publish_best"))
    assert (ended.outcome, desk.calls["save"]) == ("failed", 0)
    ended = await end_of(failing.on_failure("publish_best"), "an X")
    assert (ended.outcome, desk.calls["save"]) == ("failed", 1)


def test_a_gate_passes_a_draft_that_it_approves_or_gives_the_full_score_without_errors():
    for said in (Critique(1.0), Critique(0.2, approved=True)):
        assert judgement_of(1, said, gate=True).gate == "passed"
    for said in (Critique(0.99), Critique(1.0, errors=("one",)), Critique(1.0, approved=False)):
        judged = judgement_of(1, said, gate=True)
        assert (judged.gate, judged.approved) == ("failed", False)


def test_a_gate_that_passed_lends_its_score_and_verdict_to_nobody():
    gate = judgement_of(1, Critique(1.0, approved=True), gate=True)
    judge = judgement_of(2, Critique(0.4))
    joined = join([gate, judge], "mean")
    assert (joined.score, joined.approved, joined.critiques, joined.gate) == (0.4, None, (1, 2), "")
    assert join([gate, judge, judgement_of(3, Critique(0.8))], "weights", (5, 1, 3)).score == pytest.approx(0.7)


FAULTS = {
    "steps: [{generate: {actor: w}}, {critique: {actor: a}}, {critique: {actor: b, gate: true}}]": "put it before a",
    "steps: [{generate: {actor: w, gate: true}}]": "gate is for critics, and this is a generator",
    "steps: [{generate: {actor: w}}, {parallel: {name: P, wait: first, steps: ["
    "{critique: {actor: a, gate: true}}, {critique: {actor: b}}]}}]": "every gate must answer",
    "steps: [{generate: {actor: w}}, {parallel: {name: P, steps: ["
    "{critique: {actor: a}}, {critique: {actor: b, gate: true}}]}}]": "put it before a",
    "steps: [{parallel: {name: P, steps: [{generate: {actor: a}}, {generate: {actor: b}}], "
    "judge: {actor: j, gate: true}}}]": "a judge compares drafts",
    "steps: [{generate: {actor: w}}, {critique: {actor: a, gate: maybe}}]": "gate: maybe is no criterion or measure",
}


@pytest.mark.parametrize(("text", "fault"), FAULTS.items())
def test_a_gate_in_the_wrong_place_is_refused(text: str, fault: str):
    with pytest.raises(PlanError, match=fault):
        read_plan(f"name: p\n{text}", check=check_ready)


def test_gates_are_written_as_they_are_read(tmp_path: Path):
    plan = read_plan(
        "name: p\nsteps: [{generate: {actor: w}}, {repeat: {until: score >= 1, max_iterations: 2, "
        "body: [{critique: {actor: a, gate: true}}, {critique: {actor: b}}, {refine: {actor: r}}]}}]"
    )
    loop = plan.steps[1]
    assert isinstance(loop, Repeat)
    assert [getattr(node, "gate", None) for node in loop.body] == [True, False, False]
    assert read_plan(print_plan(plan)) == plan
    assert "a, a gate" in print_mermaid(plan)
