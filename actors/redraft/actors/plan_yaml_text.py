"""The words of the YAML form, and plans written in it. Settings that have their default are left out."""

from __future__ import annotations

from typing import Final, TypeAlias, assert_never

import msgspec
import yaml

from redraft.actors.arms import NAMES
from redraft.actors.condition_text import print_condition
from redraft.events.plan import Approve, Arm, Budget, Node, Parallel, Plan, Repeat, Retry, Role, Step

VERBS: Final[dict[str, Role]] = {
    "generate": "generator",
    "critique": "critic",
    "refine": "refiner",
    "publish": "publisher",
}
"""What each role does, as the first word of a step."""

KEYS: Final[dict[str, tuple[str, ...]]] = {
    "plan": ("name", "steps", "on_failure", "budget", "daily_budget"),
    "budget": ("tokens", "cost", "calls", "seconds"),
    "step": ("actor", "choose", "name", "gate", "version", "timeout", "queue_wait", "retry", "with"),
    "arm": ("actor", "name", "version", "with"),
    "retry": ("attempts", "initial", "factor", "maximum"),
    "repeat": ("name", "until", "max_iterations", "keep", "rollback_margin", "on_oscillation", "body"),
    "approve": ("name", "approvers", "quorum", "deadline", "on_deadline"),
    "parallel": ("name", "wait", "deadline", "combine", "weights", "judge", "steps"),
}
"""The keys of each mapping, in the order in which they are written."""

_WIDTH: Final = 110
_VERB_OF: Final = {role: verb for verb, role in VERBS.items()}

Document: TypeAlias = dict[str, object]


def print_plan(plan: Plan) -> str:
    """The YAML text of a plan that passes `check_plan`; `read_plan` reads it as an equal plan."""
    document: Document = {"name": plan.name, "steps": [_node(node) for node in plan.steps]}
    if plan.on_failure != "fail":
        document["on_failure"] = plan.on_failure
    for name, budget in (("budget", plan.budget), ("daily_budget", plan.daily)):
        if budget is not None:
            document[name] = _budget(budget)
    written = yaml.dump(
        document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=None, width=_WIDTH
    )
    return str(written)


def _budget(budget: Budget) -> Document:
    document = _changed(budget)
    return document | {"seconds": _time(budget.seconds)} if budget.seconds else document


class _Dumper(yaml.SafeDumper):
    """Where representers are kept, as the library wants it."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Several lines as a block, and signs that would not come back as they are in double quotes."""
    lines = text.split("\n")
    block = len(lines) > 1 and text[0].isalnum() and all(line.isprintable() and line == line.rstrip() for line in lines)
    style = "|" if block else None if text.isprintable() else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _text)


def _node(node: Node) -> Document:
    match node:
        case Step():
            return {_VERB_OF[node.role]: _step(node)}
        case Repeat():
            return {"repeat": _ordered("repeat", _changed(node) | _repeat(node))}
        case Parallel():
            return {"parallel": _ordered("parallel", _changed(node) | _parallel(node))}
        case Approve():
            return {"approve": _ordered("approve", _changed(node) | _approve(node))}
        case _:
            assert_never(node)


def _step(step: Step) -> Document:
    document: Document = {"choose": [_arm(arm) for arm in step.choose]} if step.choose else {"actor": step.actor}
    if step.name != (NAMES.get(step.role) if step.choose else step.actor):
        document["name"] = step.name
    if step.gate:
        document["gate"] = True
    if step.version:
        document["version"] = step.version
    if step.timeout != 300:
        document["timeout"] = _time(step.timeout)
    if step.queue_wait is not None:
        document["queue_wait"] = _time(step.queue_wait)
    if step.retry != Retry():
        times = {key: _time(getattr(step.retry, key)) for key in ("initial", "maximum")}
        document["retry"] = {key: times.get(key, value) for key, value in _changed(step.retry).items()}
    if step.options:
        document["with"] = step.options
    return document


def _arm(arm: Arm) -> object:
    """An actor that can be chosen: its name, if that is all that there is of it."""
    document = {"name": arm.name if arm.name != arm.actor else "", "version": arm.version, "with": arm.options}
    given = {key: value for key, value in document.items() if value}
    return {"actor": arm.actor, **given} if given else arm.actor


def _repeat(repeat: Repeat) -> Document:
    return {"name": repeat.name, "until": print_condition(repeat.until), "body": [_node(node) for node in repeat.body]}


def _parallel(parallel: Parallel) -> Document:
    document: Document = {"name": parallel.name, "steps": [_node(step) for step in parallel.steps]}
    if parallel.deadline:
        document["deadline"] = _time(parallel.deadline)
    if parallel.weights:
        document["weights"] = list(parallel.weights)
    if parallel.judge is not None:
        document["judge"] = _step(parallel.judge)
    return document


def _approve(approve: Approve) -> Document:
    document: Document = {"name": approve.name}
    if approve.approvers:
        document["approvers"] = list(approve.approvers)
    if approve.deadline != 86400:
        document["deadline"] = _time(approve.deadline)
    return document


def _changed(struct: Repeat | Parallel | Approve | Retry | Budget) -> Document:
    """The settings that are not their defaults."""
    fields = msgspec.structs.fields(struct)
    return {each.name: value for each in fields if (value := getattr(struct, each.name)) != each.default}


def _ordered(kind: str, document: Document) -> Document:
    return {key: document[key] for key in KEYS[kind] if key in document}


def _time(seconds: float) -> str | float:
    """`2m` rather than 120, where the whole of it is hours, minutes or seconds."""
    for unit, length in (("h", 3600), ("m", 60), ("s", 1)):
        if seconds and seconds % length == 0:
            return f"{int(seconds // length)}{unit}"
    return seconds
