"""Refiners that may only change what issues quote, in YAML and in Python."""

from __future__ import annotations

import pytest

from redraft.actors.formats.yaml_reader import print_plan, read_plan
from redraft.actors.plans.check import check_ready
from redraft.actors.workflow.workflow import declare, step
from redraft.events.errors import PlanError
from redraft.events.messages.plan import Step, steps_of

PLAN = """\
name: mend
steps:
  - generate: {actor: write}
  - repeat:
      until: errors == 0
      max_iterations: 3
      body:
        - critique: {actor: judge}
        - refine: {actor: improve, only_issues: true}
"""


def test_a_plan_holds_a_refiner_to_what_issues_quote() -> None:
    plan = read_plan(PLAN, check=check_ready)
    improve = dict(steps_of(plan.steps))["Refinement/improve"]
    assert improve.only_issues
    assert step("improve", role="refiner", only_issues=True).node == improve
    assert "only_issues: true" in print_plan(plan)
    assert read_plan(print_plan(plan)) == plan


def test_the_option_of_a_model_is_a_setting_of_its_step() -> None:
    text = PLAN.replace("{actor: improve, only_issues: true}", "{actor: llm, with: {patch: true, only_issues: true}}")
    plan = declare(read_plan(text), ())
    assert dict(steps_of(plan.steps))["Refinement/llm"].only_issues
    assert declare(read_plan(print_plan(plan)), ()) == plan
    made = step("llm", role="refiner", options={"only_issues": True}).node
    assert isinstance(made, Step)
    assert made.only_issues
    other = step("mine", role="refiner", options={"only_issues": True}).node
    assert isinstance(other, Step)
    assert not other.only_issues


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        ("only_issues: 1", "only_issues: .*write true or false"),
        ("only_issue: true", "only_issue: no such key; did you mean only_issues"),
    ],
)
def test_a_wrong_setting_is_refused(wrong: str, fault: str) -> None:
    with pytest.raises(PlanError, match=fault):
        read_plan(PLAN.replace("only_issues: true", wrong), check=check_ready)


def test_it_is_for_refiners() -> None:
    with pytest.raises(PlanError, match="judge: only_issues is for refiners, and this is a critic; remove it"):
        read_plan(PLAN.replace("{actor: judge}", "{actor: judge, only_issues: true}"), check=check_ready)
