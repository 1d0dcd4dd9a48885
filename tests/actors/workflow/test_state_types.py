"""What a plan says of its state: from types of every kind, in YAML, and what cannot be said."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec
import pytest
from pydantic import BaseModel, Field

from redraft.actors import Workflow, print_plan, read_plan
from redraft.actors.plans.check import check_ready
from redraft.actors.workflow.state_types import state_spec
from redraft.events.errors import PlanError
from redraft.events.messages.plan import StateField, StateSpec


class Place(BaseModel):
    line: int = 1


class Pydantic(BaseModel):
    audience: str
    done: bool = False
    share: float | None = None
    limit: Annotated[int, Field(ge=0)] = 3
    tags: list[str] = Field(default_factory=lambda: ["a"])
    place: Place = Place()
    mode: Literal["plain", "strict"] = "plain"
    anything: Any = None
    either: int | str = 0


class Struct(msgspec.Struct):
    audience: str
    done: bool = False
    share: float | None = None
    limit: int = 3
    tags: list[str] = msgspec.field(default_factory=lambda: ["a"])
    place: dict[str, int] = msgspec.field(default_factory=lambda: {"line": 1})
    mode: Literal["plain", "strict"] = "plain"
    anything: Any = None
    either: int | str = 0


@dataclass
class Data:
    audience: str
    done: bool = False
    share: float | None = None
    limit: int = 3
    tags: list[str] = field(default_factory=lambda: ["a"])
    place: dict[str, int] = field(default_factory=lambda: {"line": 1})
    mode: Literal["plain", "strict"] = "plain"
    anything: Any = None
    either: int | str = 0


WHOLE = StateSpec(
    (
        StateField("audience", "str"),
        StateField("done", "bool"),
        StateField("share", "float", optional=True),
        StateField("limit", "int"),
        StateField("tags", "list"),
        StateField("place", "dict"),
        StateField("mode", "str"),
        StateField("anything"),
        StateField("either"),
    ),
    {
        "done": False,
        "share": None,
        "limit": 3,
        "tags": ["a"],
        "place": {"line": 1},
        "mode": "plain",
        "anything": None,
        "either": 0,
    },
)


@pytest.mark.parametrize("kind", [Pydantic, Struct, Data])
def test_the_fields_and_defaults_of_a_type_are_the_plans(kind: type):
    assert state_spec(kind) == WHOLE


def test_values_alone_are_defaults_beside_which_there_may_be_others():
    assert state_spec({"audience": "adults"}) == StateSpec((), {"audience": "adults"})


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        (int, "give a pydantic model, a msgspec struct, a dataclass, or values by name"),
        ({"not a word": 1}, "'not a word' cannot name a value"),
        ({"class": 1}, "'class' cannot name a value"),
        ({"when": object()}, "when is a object; use JSON"),
        ({"share": float("nan")}, "share is nan, which JSON does not have"),
        ({"big": "x" * 300_000}, "more than 262,144"),
        ({"half": "\ud800"}, "half has half a character"),
        ({"many": 2**64}, "many is a number of more than 64 bits"),
    ],
)
def test_what_cannot_be_a_state_is_refused_in_one_line(given: Any, fault: str):
    with pytest.raises(PlanError, match=fault):
        Workflow("w", state=given)


YAML = """\
name: article
state:
  audience: adults
  done: false
  limit: 3
  share:
  tags: [a, 2, true]
  place: {line: 1}
state_types:
  audience: str
  done: bool
  limit: int
  share: float?
  tags: list
  place: dict
  notes: any
steps:
- step: {actor: research}
- generate: {actor: write}
- repeat:
    name: Refinement
    until: good_enough and state.done
    max_iterations: 5
    body:
    - critique: {actor: judge}
    - condition: {actor: good_enough}
    - step:
        actor: test
        writes: [done]
    - refine: {actor: improve}
"""


def test_the_yaml_form_says_the_same():
    plan = read_plan(YAML)
    assert plan.state is not None
    assert plan.state.defaults["tags"] == ["a", 2, True]
    assert plan.state.fields[3] == StateField("share", "float", optional=True)
    assert read_plan(print_plan(plan)) == plan


@pytest.mark.parametrize(
    ("line", "wrong", "fault"),
    [
        (
            "  audience: str",
            "  audience: text",
            "plan:10: state_types.audience: text is no type; there are",
        ),
        ("  done: bool", "  don: bool", "done is no value of the plan's state; did you mean don?"),
        ("  limit: 3", "  limit: x", "limit is 'x'; the plan's state has int there"),
        ("        writes: [done]", "        writes: [fertig]", "writes: fertig is no value of the plan's state"),
        ("state.done", "state.fertig", "state.fertig is no value of the plan's state"),
    ],
)
def test_yaml_that_is_wrong_is_refused_with_its_place(line: str, wrong: str, fault: str):
    with pytest.raises(PlanError, match=fault):
        read_plan(YAML.replace(line, wrong), check=check_ready)
