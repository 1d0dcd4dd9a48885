"""What a plan says of lessons, in Python and YAML."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.actors.workflow.test_workflow import write

from redraft.actors.formats.yaml_reader import print_plan, read_plan
from redraft.actors.plans.check import check_plan
from redraft.actors.workflow.workflow import Workflow
from redraft.events.errors import PlanError
from redraft.events.messages.plan import LessonsSpec, Plan, Step

STEPS = (Step("generator", "write", "write"),)
TEXT = "name: p\nlessons: {workflow: article, limit: 3}\nsteps:\n  - generate: {actor: write}\n"


def test_python_and_yaml_say_the_same() -> None:
    plan = Workflow("p", lessons={"workflow": "article", "limit": 3}).start_with(write).plan
    assert plan.lessons == LessonsSpec("article", 3)
    assert read_plan(TEXT) == plan
    assert read_plan(print_plan(plan)) == plan
    own = Workflow("p", lessons=True).start_with(write).plan
    assert own.lessons == LessonsSpec()
    assert read_plan(print_plan(own)) == own


def test_a_plan_without_lessons_is_written_as_before() -> None:
    assert b"lessons" not in msgspec.json.encode(Plan("p", STEPS))
    assert "lessons" not in print_plan(Plan("p", STEPS))


@pytest.mark.parametrize("limit", [0, 51, True, 2.5, "ten"])
def test_a_limit_that_is_none_is_refused(limit: Any) -> None:
    with pytest.raises(PlanError, match=r"lessons.limit is .*; write a whole number, 1 to 50"):
        Workflow("p", lessons={"limit": limit})
    with pytest.raises(PlanError, match=r"lessons\.limit is"):
        check_plan(Plan("p", STEPS, lessons=LessonsSpec(limit=limit)))


@pytest.mark.parametrize("workflow", ["no name", "a/b", 5])
def test_a_workflow_that_has_no_name_is_refused(workflow: Any) -> None:
    with pytest.raises(PlanError, match=r"lessons\.workflow: name .* cannot be used"):
        Workflow("p", lessons={"workflow": workflow})


def test_what_is_no_setting_is_refused() -> None:
    with pytest.raises(PlanError, match="'most' is no setting"):
        Workflow("p", lessons={"most": 3})
    with pytest.raises(PlanError, match=r"plan:2"):
        read_plan(TEXT.replace("limit: 3", "limit: 0"))
    with pytest.raises(PlanError, match="lessons is 5; write"):
        Workflow("p", lessons=5)  # type: ignore[arg-type]
