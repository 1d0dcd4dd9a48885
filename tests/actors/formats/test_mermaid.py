from __future__ import annotations

import re
from collections import defaultdict

import pytest
from hypothesis import given
from tests.actors.strategies_plans import plans, steady

from redraft.actors.formats.mermaid import print_mermaid
from redraft.actors.plans.paths import steps_in
from redraft.actors.workflow.workflow import Workflow, parallel, repeat, step
from redraft.events.messages.conditions import approved, outputs, plateau, score, tokens
from redraft.events.messages.plan import Plan, Repeat, Step

LABEL = r'"(?:[^\W]|[ _.,:()=/-]|#\d+;)*"'
BOX = re.compile(rf" +(\w+)(?:\[{LABEL}\]|\(\[{LABEL}\]\))")
FRAME = re.compile(rf" +subgraph \w+\[{LABEL}\]")
ARROW = re.compile(rf" +(\w+) -->(?:\|({LABEL})\|)? (\w+)")


def test_a_loop_is_a_frame_that_is_left_where_its_condition_is_looked_at() -> None:
    article = (
        Workflow("article")
        .start_with(step("write", role="generator"))
        .repeat_until(
            (score >= 0.9) | plateau(),
            max_iterations=5,
            body=[step("judge", role="critic"), step("improve", role="refiner")],
        )
        .finally_(step("save", role="publisher"))
    )
    assert print_mermaid(article.plan) == (
        "---\n"
        'title: "article"\n'
        "---\n"
        "flowchart TD\n"
        '    start(["brief"])\n'
        '    n1["generator: write"]\n'
        '    subgraph f2["Refinement: at most 5 iterations"]\n'
        '        n3["critic: judge"]\n'
        '        n4["refiner: improve"]\n'
        "    end\n"
        '    n6["publisher: save"]\n'
        '    done(["end"])\n'
        "    n3 --> n4\n"
        '    n4 -->|"again"| n3\n'
        "    n1 --> n3\n"
        '    n3 -->|"score #62;= 0.9 or plateau(gain=0.01, over=2)"| n6\n'
        "    start --> n1\n"
        "    n6 --> done\n"
    )


def test_an_inner_loop_leads_to_the_next_pass_and_out_of_the_outer_one() -> None:
    inner = repeat("Refinement", until=approved, max_iterations=2, body=[step("judge", role="critic")])
    book = Workflow("book").repeat_until(
        outputs >= 5, max_iterations=5, name="Chapters", body=[step("write", role="generator"), inner]
    )
    arrows = _arrows(print_mermaid(book.plan))
    assert arrows["n4"] == {("again", "n4"), ("approved#59; again", "n2"), ("approved#59; outputs #62;= 5", "done")}


def test_a_single_pass_does_not_begin_again() -> None:
    once = Workflow("once").start_with(step("write", role="generator"))
    once = once.repeat_until("score < 0.5 or approved", max_iterations=1, body=[step("judge", role="critic")])
    text = print_mermaid(once.plan)
    assert "at most 1 iteration" in text
    assert "again" not in text


def test_what_a_single_pass_ends_with_is_judged_once_more() -> None:
    once = Workflow("once").start_with(step("write", role="generator"))
    body = [step("judge", role="critic"), step("improve", role="refiner")]
    arrows = _arrows(print_mermaid(once.repeat_until(approved, max_iterations=1, body=body).plan))
    assert arrows["n4"] == {("judged once more", "n3")}


def test_the_last_of_critics_in_a_row_is_where_a_loop_is_left() -> None:
    row = [step("a", role="critic"), step("b", role="critic"), step("improve", role="refiner")]
    plan = (
        Workflow("w")
        .start_with(step("write", role="generator"))
        .repeat_until(approved, max_iterations=2, body=row)
        .plan
    )
    arrows = _arrows(print_mermaid(plan))
    assert [box for box, ways in arrows.items() if ("approved", "done") in ways] == ["n4"]


def test_a_parallel_says_how_long_it_waits_and_how_it_is_joined() -> None:
    drafts = parallel(
        "Drafts",
        step("write", role="generator"),
        step("write", role="generator", name="again"),
        wait="first",
        judge=step("rate", role="critic"),
    )
    panel = parallel(
        "Panel", step("a", role="critic"), step("b", role="critic"), wait=1, combine="weights", weights=[1, 2.5]
    )
    text = print_mermaid(Workflow("w").start_with(drafts).then(panel).plan)
    for label in (
        "at the same time, wait for first",
        "generator: again (write)",
        "critic: rate, the best draft goes on",
        "at the same time, wait for 1 of 2",
        "scores joined by weights 1, 2.5",
    ):
        assert text.count(f'["{label}"]') == 1


def test_no_name_breaks_the_diagram_even_one_that_a_plan_may_not_have() -> None:
    name = '"] --> x; click y "javascript:alert(1)" %% <b>`end`</b> #quot; \n subgraph'
    loop = Repeat(name, tokens < 5, 2, (Step("critic", name, name),))
    _check_shape(print_mermaid(Plan("w", (Step("generator", name, name), loop))))


@pytest.mark.check
@steady
@given(plans())
def test_every_box_is_reached_and_leads_to_the_end(plan: Plan) -> None:
    text = print_mermaid(plan)
    boxes = _check_shape(text)
    arrows = _arrows(text)
    ways = {box: {to for _, to in arrows[box]} for box in boxes}
    back = {box: {each for each in boxes if box in ways[each]} for box in boxes}
    assert _reached("start", ways) == boxes
    assert _reached("done", back) == boxes


@pytest.mark.check
@steady
@given(plans())
def test_every_step_is_in_the_diagram(plan: Plan) -> None:
    text = print_mermaid(plan)
    for role in ("generator", "critic", "refiner", "publisher"):
        assert text.count(f'["{role}: ') == len({path for path, each in steps_in(plan.steps) if each.role == role})


def _check_shape(text: str) -> set[str]:
    """Fails unless every line is a box, a frame or an arrow with a label that holds nothing special; gives boxes."""
    lines = text.splitlines()[4:]
    boxes = [match[1] for line in lines if (match := BOX.fullmatch(line))]
    frames = [line for line in lines if FRAME.fullmatch(line)]
    ends = [line for line in lines if line.strip() == "end"]
    arrows = [match for line in lines if (match := ARROW.fullmatch(line))]
    assert len(boxes) + len(frames) + len(ends) + len(arrows) == len(lines)
    assert len(frames) == len(ends)
    assert len(set(boxes)) == len(boxes)
    assert {box for match in arrows for box in (match[1], match[3])} <= set(boxes)
    return set(boxes)


def _arrows(text: str) -> dict[str, set[tuple[str, str]]]:
    arrows: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for line in text.splitlines():
        if match := ARROW.fullmatch(line):
            arrows[match[1]].add(((match[2] or '""')[1:-1], match[3]))
    return arrows


def _reached(box: str, ways: dict[str, set[str]]) -> set[str]:
    reached, waiting = {box}, [box]
    while waiting:
        for following in ways[waiting.pop()] - reached:
            reached.add(following)
            waiting.append(following)
    return reached
