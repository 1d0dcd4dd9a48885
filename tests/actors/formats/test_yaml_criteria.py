"""Criteria, scales, gates of one criterion, margins and successes in YAML."""

from __future__ import annotations

import pytest

from redraft.actors.formats.yaml_reader import print_plan, read_plan
from redraft.actors.plans.check import check_ready
from redraft.actors.workflow.workflow import declare
from redraft.events.errors import PlanError
from redraft.events.messages.plan import Criterion, steps_of

PLAN = """\
name: kids
steps:
  - generate: {actor: write}
  - repeat:
      until: accuracy >= 8 and judge.tone >= 60 and confidence >= 0.7
      max_iterations: 5
      rollback_margin: 1 of 10
      rollback_of: accuracy
      body:
        - critique:
            actor: facts
            gate: accuracy >= 6
            scale: [1, 10]
            criteria: {accuracy: every claim is right}
        - critique:
            actor: judge
            scale: [1, 10]
            criteria:
              accuracy: {says: every claim is right, weight: 2}
              tone: {says: for children, scale: [0, 100]}
        - refine:
            choose: [improve, rewrite]
            success: min(criteria) >= 0.6
  - publish: {actor: save}
"""


def test_a_plan_with_criteria_is_read_and_written() -> None:
    plan = read_plan(PLAN, check=check_ready)
    judge = dict(steps_of(plan.steps))["Refinement/judge"]
    accuracy = Criterion("accuracy", "every claim is right", weight=2.0)
    assert (judge.scale, judge.criteria) == ((1, 10), (accuracy, Criterion("tone", "for children", (0, 100))))
    assert read_plan(print_plan(plan)) == plan


def test_a_model_declares_what_its_options_say() -> None:
    options = "{criteria: {accuracy: every claim is right, tone: for children}, weights: {accuracy: 2}}"
    text = f"name: a\nsteps:\n  - generate: {{actor: w}}\n  - critique: {{actor: llm, with: {options}}}\n"
    plan = declare(read_plan(text), ())
    judge = dict(steps_of(plan.steps))["llm"]
    assert judge.scale == (1, 10)
    assert [(each.name, each.weight) for each in judge.criteria] == [("accuracy", 2), ("tone", 1)]
    assert declare(read_plan(print_plan(plan)), ()) == plan


@pytest.mark.parametrize(
    ("right", "wrong", "fault"),
    [
        ("until: accuracy", "until: acuracy", "plan:5: Refinement: until: acuracy is no criterion"),
        ("rollback_margin: 1 of 10", "rollback_margin: 1", "rollback_margin: 1 of 10, or rollback_margin: 100 of 100"),
        ("rollback_margin: 1 of 10", "rollback_margin: one of 10", "'one of 10' is no margin; write a number"),
        ("rollback_of: accuracy", "rollback_of: acuracy", "plan:8: Refinement: rollback_of: acuracy is no criterion"),
        ("gate: accuracy >= 6", "gate: tone >= 6", "gate: tone is no criterion or measure that a critic here declares"),
        ("gate: accuracy >= 6", "gate: tokens > 6", "gate: tokens > 6 is no word about one draft"),
        ("[0, 100]", "[100, 0]", "criteria.tone.scale is (100.0, 0.0); write two rising numbers"),
        ("weight: 2", "weight: -1", "criteria.accuracy.weight is -1"),
        ("min(criteria) >= 0.6", "min(criteria) >= 6", "the scales of min(criteria) differ"),
        ("choose: [improve, rewrite]", "actor: improve", "success is for steps that choose"),
    ],
)
def test_a_wrong_setting_is_named_with_its_line(right: str, wrong: str, fault: str) -> None:
    assert right in PLAN
    with pytest.raises(PlanError) as refused:
        read_plan(PLAN.replace(right, wrong), check=check_ready)
    assert fault in str(refused.value)
