"""What docs/workflows.md shows is what happens."""

from __future__ import annotations

import re
from collections.abc import Callable
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
    plans: dict[str, Plan] = {}
    for source in blocks("python"):
        names: dict[str, Any] = {}
        exec(source, names)  # noqa: S102 - the guide's own examples
        plans |= {each.name: each.plan for each in names.values() if isinstance(each, Workflow)}
    return plans


def test_each_example_gives_the_same_plan_in_both_forms() -> None:
    in_yaml = {plan.name: plan for plan in map(read_plan, blocks("yaml"))}
    assert len(in_yaml) == 8
    assert in_yaml == python_plans()


def test_the_diagram_is_that_of_the_first_example() -> None:
    assert blocks("mermaid") == [print_mermaid(read_plan(blocks("yaml")[0]))]


@pytest.mark.parametrize(("text", "python"), [row for row in ROWS if " A" not in f" {row[0]}"])
def test_each_condition_in_the_table_is_the_same_in_text_and_python(text: str, python: str) -> None:
    for written, built in zip(text.split("`, `"), python.split("`, `"), strict=True):
        assert parse_condition(written) == eval(built, vars(words).copy())  # noqa: S307 - the guide's own


WRONG_CONDITIONS = ("scor >= 0.9", "score >= 9", "score >= 0.9 | plateau()")
WRONG_PLANS = (
    ("improve}", "judge}"),
    ("- publish:", "- refine: {actor: again}\n  - publish:"),
    ("max_iterations", "max_iteration"),
    ("max_iterations: 5", "max_iterations: 0"),
)


def test_each_fault_is_quoted_as_it_is_said() -> None:
    said = [_refusal(parse_condition, text) for text in WRONG_CONDITIONS]
    article = blocks("yaml")[0]
    for right, wrong in WRONG_PLANS:
        said.append(_refusal(lambda text: read_plan(text, "article.yaml"), article.replace(right, wrong)))
    quoted = [line for text in blocks("text") for line in text.splitlines()]
    assert len(quoted) == len(said)
    assert all(full.endswith(line) for full, line in zip(said, quoted, strict=True))


def _refusal(read: Callable[[str], object], text: str) -> str:
    with pytest.raises(InputError) as refusal:
        read(text)
    return str(refusal.value)
