"""Measures in YAML: read, written, and checked, as in Python."""

from __future__ import annotations

import pytest

from redraft.actors import Workflow, change, measure, print_plan, read_plan, step
from redraft.actors.plans.check import check_ready
from redraft.events.errors import PlanError

PLAN = """\
name: counted
steps:
- generate: {actor: write}
- repeat:
    until: words >= 300 and failing == 0 or change(words) < 0.1
    max_iterations: 3
    body:
    - critique:
        actor: tests
        gate: failing == 0
        measures: [failing, "coverage?"]
    - critique:
        actor: judge
        measures: [words]
    - refine: {actor: improve}
"""


def test_a_plan_reads_alike_in_yaml_and_in_python() -> None:
    tests = step("tests", role="critic", gate="failing == 0", measures=["failing", "coverage?"])
    judge = step("judge", role="critic", measures=("words",))
    counted = (
        Workflow("counted")
        .start_with(step("write", role="generator"))
        .repeat_until(
            (measure.words >= 300) & (measure.failing == 0) | (change(measure.words) < 0.1),
            max_iterations=3,
            body=[tests, judge, step("improve", role="refiner")],
        )
    )
    assert read_plan(PLAN, check=check_ready) == counted.plan
    assert read_plan(print_plan(counted.plan)) == counted.plan


@pytest.mark.parametrize(
    ("right", "wrong", "fault"),
    [
        ("[words]", "[word s]", "plan:14: Refinement/judge: measures: 'word s' cannot be used in a condition"),
        ("[words]", "[scores]", "measures: scores is nearly score, a word of conditions"),
        ("[words]", "[words, 'words?']", "measures: words comes twice, or is a criterion too; keep one"),
        ("until: words", "until: wrods", "plan:5: Refinement: until: wrods is no criterion or measure"),
        ("gate: failing", "gate: change(failing)", "is no word about one draft"),
    ],
)
def test_a_wrong_setting_is_named_with_its_line(right: str, wrong: str, fault: str) -> None:
    with pytest.raises(PlanError) as refused:
        read_plan(PLAN.replace(right, wrong), check=check_ready)
    assert fault in str(refused.value)
