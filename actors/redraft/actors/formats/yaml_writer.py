"""The keywords of the YAML form, and plans written in it. Settings with their default value are left out."""

from __future__ import annotations

from typing import Final, TypeAlias, cast

import msgspec
import yaml

from redraft.actors.conditions.printing import print_condition, print_points
from redraft.actors.plans.arms import NAMES
from redraft.events.messages.conditions import Condition
from redraft.events.messages.plan import (
    Approve,
    Arm,
    Budget,
    Criterion,
    Each,
    LessonsSpec,
    Parallel,
    Plan,
    Repeat,
    Retry,
    Role,
    Step,
)

CONDITION: Final = "condition"
"""The verb of a condition of one's own, which is a critic that says only whether it holds."""

VERBS: Final[dict[str, Role]] = {
    "generate": "generator",
    "critique": "critic",
    "refine": "refiner",
    "publish": "publisher",
    "step": "step",
    CONDITION: "critic",
}
"""The role of each verb, which is the first word of its steps."""

KEYS: Final[dict[str, tuple[str, ...]]] = {
    "plan": ("name", "state", "state_types", "steps", "on_failure", "budget", "daily_budget", "lessons"),
    "lessons": ("workflow", "limit"),
    "budget": ("tokens", "cost", "calls", "seconds"),
    "step": (
        "actor",
        "choose",
        "name",
        "gate",
        "only_issues",
        "history",
        "when",
        "reuse",
        "version",
        "timeout",
        "queue_wait",
        "retry",
        "with",
        "scale",
        "criteria",
        "measures",
        "writes",
        "about_run",
        "success",
    ),
    "criterion": ("says", "scale", "weight"),
    "arm": ("actor", "name", "version", "with"),
    "retry": ("attempts", "initial", "factor", "maximum"),
    "repeat": (
        *("name", "until", "max_iterations", "keep", "rollback_margin", "rollback_of"),
        *("on_exhausted", "on_plateau", "on_oscillation", "ask", "on_failure", "max_failures", "body"),
    ),
    "each": ("name", "over", "concurrency", "body"),
    "approve": ("name", "approvers", "quorum", "deadline", "on_deadline"),
    "parallel": ("name", "wait", "deadline", "combine", "weights", "judge", "steps"),
}
"""The keys of each mapping, in the order in which they are written."""

FIELDS: Final = {"with": "options", "daily_budget": "daily"}
"""The fields of a plan's structs whose keys have other names."""

_WIDTH: Final = 110
_OF_STATE: Final = ("state", "state_types")
_TIMES: Final = frozenset({"timeout", "queue_wait", "initial", "maximum", "deadline", "seconds"})
_VERB_OF: Final = {role: verb for verb, role in VERBS.items() if verb != CONDITION}

Document: TypeAlias = dict[str, object]


def print_plan(plan: Plan) -> str:
    """Returns the YAML text of a plan that passes `check_plan`; `read_plan` reads it as an equal plan."""
    document = _with_state(plan, _settings("plan", plan))
    written = yaml.dump(
        document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=None, width=_WIDTH
    )
    return str(written)


def _with_state(plan: Plan, document: Document) -> Document:
    """Returns the plan's settings with its state: the values that runs begin with, and the types of all."""
    if plan.state is None:
        return document
    types = {each.name: f"{each.kind}{'?' * each.optional}" for each in plan.state.fields}
    said = {"state": plan.state.defaults, **({"state_types": types} if types else {})}
    return {"name": document.pop("name"), **said, **document}


class _Dumper(yaml.SafeDumper):
    """Holds representers, as the library requires."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Returns several lines as a block, and signs that would not come back unchanged in double quotes."""
    lines = text.split("\n")
    block = len(lines) > 1 and text[0].isalnum() and all(line.isprintable() and line == line.rstrip() for line in lines)
    style = "|" if block else None if text.isprintable() else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _text)


def _settings(kind: str, struct: msgspec.Struct) -> Document:
    """Returns the settings that differ from their defaults, in the order in which they are written."""
    defaults = {each.name: each.default for each in msgspec.structs.fields(struct)}
    given = ((key, FIELDS.get(key, key)) for key in KEYS[kind] if key not in _OF_STATE)
    found = ((key, getattr(struct, name), defaults[name]) for key, name in given)
    return {key: _plain(key, value) for key, value, default in found if value not in (default, {})}


def _plain(key: str, value: object) -> object:
    match value:
        case int() | float() if key in _TIMES:
            return _time(value)
        case tuple() if key == "criteria":
            return {each.name: _criterion(each) for each in value}
        case tuple():
            return [_plain(key, each) for each in value]
        case Retry():
            return _settings("retry", value)
        case Budget():
            return _settings("budget", value)
        case LessonsSpec():
            return _settings("lessons", value)
        case Arm():
            return _arm(value)
        case Step() if key == "judge":
            return _step(value)
        case Step():
            return {CONDITION if value.condition else _VERB_OF[value.role]: _step(value)}
        case Approve() if key == "ask":
            return {each: said for each, said in _settings("approve", value).items() if (each, said) != ("name", "ask")}
        case str() if key == "over":
            return f"state.{value}"
        case Repeat() | Parallel() | Approve() | Each():
            kind = type(value).__name__.lower()
            document = _settings(kind, value)
            if isinstance(value, Repeat) and value.rollback_top is not None:
                document["rollback_margin"] = print_points(value.rollback_margin, value.rollback_top)
            return {kind: document}
        case _:
            return print_condition(cast("Condition", value)) if key in ("until", "success", "when") else value


def _criterion(criterion: Criterion) -> object:
    """Returns a criterion: what is meant, if it has no other settings."""
    document = _settings("criterion", criterion)
    return criterion.says if not document.keys() - {"says"} else document


def _step(step: Step) -> Document:
    document = _settings("step", step)
    if step.passes is not None:
        document["gate"] = print_condition(step.passes)
    if step.condition:
        del document["measures"]
    if step.choose:
        del document["actor"]
    if step.name == (NAMES.get(step.role) if step.choose else step.actor):
        del document["name"]
    return document


def _arm(arm: Arm) -> object:
    """Returns an actor that can be chosen: its name, if it has no settings."""
    document = _settings("arm", arm)
    if arm.name == arm.actor:
        del document["name"]
    return document if len(document) > 1 else arm.actor


def _time(seconds: float) -> str | float:
    """Returns `2m` rather than 120 for a whole number of hours, minutes or seconds."""
    for unit, length in (("h", 3600), ("m", 60), ("s", 1)):
        if seconds and seconds % length == 0:
            return f"{int(seconds // length)}{unit}"
    return seconds
