"""What docs/workflows.md shows is what happens."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from redraft.actors.condition_text import parse_condition
from redraft.actors.mermaid import print_mermaid
from redraft.actors.plan_yaml import read_plan
from redraft.actors.workflow import Workflow
from redraft.events import conditions as words
from redraft.events.errors import InputError
from redraft.events.plan import Plan

GUIDE = (Path(__file__).parents[2] / "docs" / "workflows.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", GUIDE, re.DOTALL)
ROWS = re.findall(r"^\| `(.+)` \| `(.+)` \| [a-z]", GUIDE.split("## Conditions")[1].split("##")[0], re.MULTILINE)


def blocks(language: str) -> list[str]:
    return [text for kind, text in BLOCKS if kind == language]


def python_plans() -> dict[str, Plan]:
    plans = {}
    for source in blocks("python"):
        names: dict[str, Any] = {}
        exec(source, names)  # noqa: S102 - the guide's own examples
        plans |= {each.name: each.plan for each in names.values() if isinstance(each, Workflow)}
    return plans


def test_each_example_gives_the_same_plan_in_both_forms() -> None:
    in_yaml = {plan.name: plan for plan in map(read_plan, blocks("yaml"))}
    assert len(in_yaml) == 4
    assert in_yaml == python_plans()


def test_the_diagram_is_that_of_the_first_example() -> None:
    assert blocks("mermaid") == [print_mermaid(read_plan(blocks("yaml")[0]))]


@pytest.mark.parametrize(("text", "python"), [row for row in ROWS if " A" not in f" {row[0]}"])
def test_each_condition_in_the_table_is_the_same_in_text_and_python(text: str, python: str) -> None:
    for written, built in zip(text.split("`, `"), python.split("`, `"), strict=True):
        assert parse_condition(written) == eval(built, vars(words).copy())  # noqa: S307 - the guide's own


WRONG = {
    "condition, column 1: 'scor'": "scor >= 0.9",
    "condition, column 1: scores are 0..1": "score >= 9",
    "condition, column 10: '|'": "score >= 0.9 | plateau()",
    "Refinement/judge: name": ("improve}", "judge}"),
    "save: nothing judges": ("- repeat:", "- refine: {actor: improve}\n  - publish: {actor: save}\n  - repeat:"),
    "article.yaml:7: steps[1].repeat.max_iteration:": ("max_iterations", "max_iteration"),
    "article.yaml:7: Refinement: max_iterations": ("max_iterations: 5", "max_iterations: 0"),
}


@pytest.mark.parametrize("line", [line for text in blocks("text") for line in text.splitlines()])
def test_each_fault_is_quoted_as_it_is_said(line: str) -> None:
    (wrong,) = (change for start, change in WRONG.items() if line.startswith(start))
    with pytest.raises(InputError) as refusal:
        if isinstance(wrong, str):
            parse_condition(wrong)
        else:
            read_plan(blocks("yaml")[0].replace(*wrong), "article.yaml")
    assert str(refusal.value).endswith(line)
