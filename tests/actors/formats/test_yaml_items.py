"""`each` in YAML, in Python and as a diagram."""

from __future__ import annotations

import pytest

from redraft.actors import Workflow, each, print_mermaid, print_plan, read_plan, repeat, score, state, step
from redraft.actors.plans.check import check_ready
from redraft.actors.plans.paths import find_loop
from redraft.events.errors import PlanError
from redraft.events.messages.plan import Each, Plan

BOOK = """\
name: book
steps:
- step:
    actor: outline
    writes: [chapters]
- each:
    name: Chapters
    over: state.chapters
    concurrency: 5
    body:
    - generate: {actor: write}
    - repeat:
        name: Refinement
        until: score >= 0.9
        max_iterations: 5
        body:
        - critique: {actor: judge}
        - refine: {actor: improve}
- generate: {actor: bind}
- critique: {actor: complete}
"""
CHAPTER = [
    step("write", role="generator"),
    repeat(
        "Refinement",
        until=score >= 0.9,
        max_iterations=5,
        body=[step("judge", role="critic"), step("improve", role="refiner")],
    ),
]


def test_an_each_is_the_same_in_yaml_and_in_python_and_comes_back_from_its_text():
    plan = read_plan(BOOK)
    assert print_plan(plan) == BOOK
    start = Workflow("book").then(step("outline", role="step", writes=["chapters"]))
    rest = (step("bind", role="generator"), step("complete", role="critic"))
    chapters = {"name": "Chapters", "body": CHAPTER, "concurrency": 5}
    assert start.for_each(state.chapters, **chapters).then(*rest).plan == plan
    assert start.for_each("state.chapters", **chapters).then(*rest).plan == plan
    assert start.then(each("Chapters", over="chapters", body=CHAPTER, concurrency=5), *rest).plan == plan


def test_a_list_in_a_mapping_keeps_its_dots():
    plan = read_plan(BOOK.replace("state.chapters", "state.item.sections"))
    node = plan.steps[1]
    assert isinstance(node, Each)
    assert node.over == "item.sections"
    assert "over: state.item.sections" in print_plan(plan)


@pytest.mark.parametrize(
    ("given", "instead", "fault"),
    [
        ("    over: state.chapters\n", "", "over"),
        ("state.chapters", "[chapters]", "plan:8: steps[1].each.over"),
        ("state.chapters", "the chapters", "plan:8: Chapters: over is 'the chapters'; name a list"),
        ("state.chapters", "state", "plan:8: Chapters: over is ''; name a list"),
        ("concurrency: 5", "concurrency: 0", "plan:9: Chapters: concurrency is 0; write a whole number, 1 to 100"),
        ("concurrency: 5", "atonce: 5", "plan:9: steps[1].each"),
        ("    - generate: {actor: write}\n", "", "plan:16: Chapters/Refinement/judge: nothing has written a draft yet"),
    ],
)
def test_a_fault_has_its_line_and_place(given: str, instead: str, fault: str):
    assert given in BOOK
    with pytest.raises(PlanError) as refused:
        read_plan(BOOK.replace(given, instead, 1))
    assert fault in str(refused.value)


def test_the_names_of_the_workflow_and_the_list_fit_together():
    def named(count: int) -> Plan:
        return read_plan(BOOK.replace("name: Chapters", f"name: {'C' * count}"))

    check_ready(named(95))
    with pytest.raises(PlanError, match="which has 101 characters; shorten either name: together they have at most 99"):
        check_ready(named(96))


def test_a_diagram_has_the_body_in_a_frame_of_its_own():
    drawn = print_mermaid(read_plan(BOOK))
    assert "Chapters: for each of state.chapters, 5 at a time" in drawn
    assert drawn.count("subgraph") == 2


def test_a_loop_in_a_body_is_named_by_its_path():
    plan = read_plan(BOOK)
    assert find_loop(plan, "Refinement") == find_loop(plan, "Chapters/Refinement") == "Chapters/Refinement"
    with pytest.raises(PlanError, match=r"which loop is meant\? Name one with its path: Chapters/Refinement"):
        find_loop(plan)
