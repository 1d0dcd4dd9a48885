"""The ends of loops in YAML and in Python."""

from __future__ import annotations

import pytest
from tests.actors.workflow.test_workflow import improve, judge, save, write

from redraft.actors.formats.mermaid import print_mermaid
from redraft.actors.formats.yaml_reader import print_plan, read_plan
from redraft.actors.workflow.workflow import Workflow, approve
from redraft.events.errors import PlanError
from redraft.events.messages.conditions import score

ARTICLE = """\
name: article
steps:
  - generate: {actor: write}
  - repeat:
      name: Refinement
      until: score >= 0.9
      max_iterations: 5
      on_exhausted: ask
      on_plateau: fail
      on_oscillation: ask
      ask: {approvers: [ann, ben], quorum: 2, deadline: 2h}
      on_failure: refine
      max_failures: 2
      body:
        - critique: {actor: judge}
        - refine: {actor: improve}
  - publish: {actor: save}
"""


def test_the_python_form_and_the_yaml_form_of_endings_are_equal() -> None:
    article = (
        Workflow("article")
        .start_with(write)
        .repeat_until(
            score >= 0.9,
            max_iterations=5,
            body=[judge, improve],
            on_exhausted="ask",
            on_plateau="fail",
            on_oscillation="ask",
            ask=approve("ask", approvers=["ann", "ben"], quorum=2, deadline=7200),
            on_failure="refine",
            max_failures=2,
        )
        .finally_(save)
    )
    assert read_plan(ARTICLE) == article.plan
    assert read_plan(print_plan(article.plan)) == article.plan


def test_the_name_of_who_is_asked_is_written_where_it_is_another() -> None:
    plan = read_plan(ARTICLE.replace("ask: {", "ask: {name: editors, "))
    assert "name: editors" in print_plan(plan)
    assert read_plan(print_plan(plan)) == plan


def test_the_diagram_says_how_the_loop_ends() -> None:
    assert "exhausted: ask ann, ben, plateaued: fail, oscillating: ask ann, ben" in print_mermaid(read_plan(ARTICLE))


@pytest.mark.parametrize(
    ("written", "fault"),
    [
        ("on_exhausted: askk", "article.yaml:8: Refinement: on_exhausted is 'askk'; did you mean ask?"),
        ("on_exhausted: publish", "ask says who is asked, but no end of this loop asks; write on_exhausted: ask"),
    ],
)
def test_endings_that_do_not_fit_are_refused_with_their_line(written: str, fault: str) -> None:
    text = ARTICLE.replace("on_exhausted: ask", written).replace("on_oscillation: ask", "on_oscillation: stop")
    with pytest.raises(PlanError) as refused:
        read_plan(text, "article.yaml")
    assert fault in str(refused.value)


def test_who_is_asked_is_an_approval() -> None:
    with pytest.raises(PlanError, match="ask is judge, which is no approval; give approve"):
        Workflow("a").start_with(write).repeat_until(
            score >= 0.9, max_iterations=2, body=[judge, improve], on_exhausted="ask", ask=judge
        )
