"""What docs/workflows.md shows is what happens."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from tests.pages import ROOT, blocks

from redraft.actors.conditions.text import parse_condition
from redraft.actors.formats.mermaid import print_mermaid
from redraft.actors.formats.yaml_reader import read_plan
from redraft.actors.workflow.counting import shipped_critics
from redraft.actors.workflow.workflow import Workflow, declare
from redraft.events.errors import InputError
from redraft.events.messages import conditions as words
from redraft.events.messages.plan import Plan

GUIDE = ROOT / "docs" / "workflows.md"
CONDITIONS = GUIDE.read_text(encoding="utf-8").split("## Conditions")[1].split("##")[0]
ROWS = re.findall(r"^\| `(.+)` \| `(.+)` \| [a-z]", CONDITIONS, re.MULTILINE)


def python_plans() -> dict[str, Plan]:
    plans: dict[str, Plan] = {}
    for source in blocks(GUIDE, "python"):
        names: dict[str, Any] = {}
        exec(source, names)  # noqa: S102 - the guide's own examples
        plans |= {each.name: each.plan for each in names.values() if isinstance(each, Workflow)}
    return plans


def test_each_example_gives_the_same_plan_in_both_forms() -> None:
    read = [declare(read_plan(each), shipped_critics(())) for each in blocks(GUIDE, "yaml")]
    in_yaml = {plan.name: plan for plan in read}
    assert len(in_yaml) == 12
    assert in_yaml == python_plans()


def test_the_diagram_is_that_of_the_first_example() -> None:
    assert blocks(GUIDE, "mermaid") == [print_mermaid(read_plan(blocks(GUIDE, "yaml")[0]))]


@pytest.mark.parametrize(("text", "python"), [row for row in ROWS if " A" not in f" {row[0]}"])
def test_each_condition_in_the_table_is_the_same_in_text_and_python(text: str, python: str) -> None:
    for written, built in zip(text.split("`, `"), python.split("`, `"), strict=True):
        made = eval(built, vars(words).copy())  # noqa: S307 - the guide's own
        assert parse_condition(written) == (made.condition if isinstance(made, words.StateValue) else made)


WRONG_CONDITIONS = ("scor >= 0.9", "errors < 0", "score >= 0.9 | plateau()")
WRONG_PLANS = (
    ("improve}", "judge}"),
    ("- publish:", "- refine: {actor: again}\n  - publish:"),
    ("max_iterations", "max_iteration"),
    ("max_iterations: 5", "max_iterations: 0"),
)


def test_each_fault_is_quoted_as_it_is_said() -> None:
    said = [_refusal(parse_condition, text) for text in WRONG_CONDITIONS]
    article = blocks(GUIDE, "yaml")[0]
    for right, wrong in WRONG_PLANS:
        said.append(_refusal(lambda text: read_plan(text, "article.yaml"), article.replace(right, wrong)))
    quoted = [line for text in blocks(GUIDE, "text") for line in text.splitlines()]
    assert len(quoted) == len(said)
    assert all(full.endswith(line) for full, line in zip(said, quoted, strict=True))


def _refusal(read: Callable[[str], object], text: str) -> str:
    with pytest.raises(InputError) as refusal:
        read(text)
    return str(refusal.value)
