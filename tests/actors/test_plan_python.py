from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from tests.actors.strategies_plans import conditions, plans, steady

from redraft.actors.plan_python import print_python, print_python_condition
from redraft.actors.workflow import Workflow, parallel, repeat, step
from redraft.events import conditions as words
from redraft.events.conditions import AnyOf, Condition, Not, approved, errors, outputs, plateau, score
from redraft.events.plan import Plan, Retry

ARTICLE = """\
from redraft.actors import Workflow, plateau, score, step

article = (
    Workflow("article")
    .start_with(step("write", role="generator"))
    .repeat_until(
        (score >= 0.9) | plateau(gain=0.01, over=2),
        max_iterations=5,
        name="Refinement",
        body=[step("judge", role="critic", timeout=120), step("improve", role="refiner")],
    )
    .finally_(step("save", role="publisher"))
    .on_failure("publish_best")
)
"""


def run(source: str) -> Workflow:
    """The workflow that a printed module defines."""
    names: dict[str, Any] = {}
    exec(source, names)  # noqa: S102 - the test of what is printed is that Python runs it
    found = [each for each in names.values() if isinstance(each, Workflow)]
    assert len(found) == 1
    return found[0]


def test_a_plan_is_printed_as_people_build_it() -> None:
    built = run(ARTICLE)
    assert len(built.plan.steps) == 3
    assert print_python(built.plan) == ARTICLE


@steady
@given(plans())
def test_running_what_is_printed_gives_an_equal_plan(plan: Plan) -> None:
    built = run(print_python(plan))
    assert built.plan == plan


@pytest.mark.parametrize("name", ["my-article", "2x", "class", "score", "Workflow", "AnyOf", "é"])
def test_a_name_that_python_cannot_use_still_gives_a_module(name: str) -> None:
    plan = Workflow(name).start_with(step("write", role="generator")).plan
    assert run(print_python(plan)).plan == plan


def test_nested_parts_and_their_settings_are_spelt_out() -> None:
    panel = parallel("Panel", step("a", role="critic"), step("b", role="critic"), combine="weights", weights=[1, 2.5])
    best = parallel(
        "Drafts",
        step("write", role="generator", options={"style": 'it\'s "odd"\n\u2028', "words": 800, "rules": ["E", 501]}),
        step("write", role="generator", name="again", retry=Retry(5, 0.5, 3, 90)),
        wait="first",
        judge=step("rate", role="critic", timeout=0.5),
    )
    inner = repeat("Refinement", until=score >= 0.9, max_iterations=2, body=[panel], keep="last", rollback_margin=0.25)
    book = Workflow("book").repeat_until(outputs >= 5, max_iterations=5, name="Chapters", body=[best, inner])
    assert repr(run(print_python(book.plan)).plan) == repr(book.plan)


@steady
@given(conditions)
def test_running_a_printed_condition_gives_an_equal_one(condition: Condition) -> None:
    printed = print_python_condition(condition)
    assert eval(printed, vars(words).copy()) == condition  # noqa: S307 - as above


@pytest.mark.parametrize(
    ("condition", "printed"),
    [
        (
            (score >= 0.8) & (errors == 0) | plateau(0.02),
            "((score >= 0.8) & (errors == 0)) | plateau(gain=0.02, over=2)",
        ),
        (~(approved | (score > 0.5)), "~(approved | (score > 0.5))"),
        (Not(Not(approved)), "~~approved"),
        (AnyOf((AnyOf((approved, approved)), approved)), "AnyOf((approved | approved, approved))"),
    ],
)
def test_a_condition_is_printed_with_the_operators(condition: Condition, printed: str) -> None:
    assert print_python_condition(condition) == printed
