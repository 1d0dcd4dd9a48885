"""Plans as YAML, for people who do not write Python.

name: article
steps:
  - generate: {actor: write}
  - repeat:
      until: score >= 0.9 or plateau(gain=0.01, over=2)
      max_iterations: 5
      body:
        - critique: {actor: judge, timeout: 2m, retry: {attempts: 3}}
        - refine: {actor: improve}
  - publish: {actor: save}
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Literal, TypeAlias, TypeVar, cast

from redraft.actors.arms import NAMES
from redraft.actors.condition_text import parse_condition
from redraft.actors.plan_check import check_plan
from redraft.actors.plan_paths import path_of
from redraft.actors.plan_yaml_text import KEYS, VERBS, print_plan
from redraft.actors.yaml_spots import Spot, compose
from redraft.actors.yaml_values import (
    entries,
    is_kind,
    mapping,
    read_number,
    read_seconds,
    read_text,
    read_truth,
    read_whole,
    sequence,
)
from redraft.events.conditions import Condition
from redraft.events.errors import ConditionError, PlanError
from redraft.events.plan import (
    Approve,
    Arm,
    Budget,
    Combine,
    Keep,
    Node,
    OnDeadline,
    OnFailure,
    OnOscillation,
    Option,
    Parallel,
    Plan,
    Repeat,
    Retry,
    Role,
    Step,
)

__all__ = ["print_plan", "read_plan"]

T = TypeVar("T")
D = TypeVar("D")
Lines: TypeAlias = dict[str, dict[str, int]]
"""For each path of a plan, the lines of its settings; under the empty name, where the node begins."""

_RETRY: Final = Retry()


def read_plan(text: str, source: str = "plan") -> Plan:
    """The plan that a YAML text says; `source` names the text in faults, such as its file.

    Raises PlanError whose path is `file:line: place`, where the place is that in the text (`steps[1].repeat.until`) or
    that in the plan (`Refinement/judge`).
    """
    root = compose(text, source)
    lines: Lines = {}
    plan = _plan(root, lines)
    try:
        return check_plan(plan)
    except PlanError as error:
        raise _placed(error, source, lines) from None


def _placed(error: PlanError, source: str, lines: Lines) -> PlanError:
    """The fault of a plan, found again in its text: faults begin with the setting that they are about."""
    settings = lines.get(error.path, {"": 1})
    setting = re.split(r"[ :]", error.fault, maxsplit=1)[0]
    line = settings.get(setting) or settings.get(setting.split(".")[0]) or settings[""]
    place = f"{source}:{line}"
    return PlanError(f"{place}: {error.path}" if error.path else place, error.fault)


def _plan(root: Spot, lines: Lines) -> Plan:
    found = mapping(root, KEYS["plan"], ("name", "steps"))
    lines[""] = _lines(root, found)
    name = read_text(found["name"])
    steps = tuple(_node(item, "", lines) for item in sequence(found["steps"]))
    return Plan(
        name,
        steps,
        cast("OnFailure", _given(found, "on_failure", read_text, "fail")),
        _given(found, "budget", _budget, None),
        _given(found, "daily_budget", _budget, None),
    )


def _budget(spot: Spot) -> Budget | None:
    found = mapping(spot, KEYS["budget"])
    return Budget(
        _given(found, "tokens", read_whole, None),
        _given(found, "cost", read_number, None),
        _given(found, "calls", read_whole, None),
        _given(found, "seconds", read_seconds, None),
    )


def _node(item: Spot, parent: str, lines: Lines) -> Node:
    verb, spot = _only(item, (*VERBS, "repeat", "parallel", "approve"))
    match verb:
        case "repeat":
            return _repeat(spot, item, parent, lines)
        case "parallel":
            return _parallel(spot, item, parent, lines)
        case "approve":
            return _approve(spot, item, parent, lines)
        case _:
            return _step(spot, VERBS[verb], item, parent, lines)


def _only(item: Spot, verbs: tuple[str, ...]) -> tuple[str, Spot]:
    found = list(entries(item, verbs))
    if len(found) != 1:
        raise item.fault(f"{len(found)} steps in one item; begin each with '- ' and one of {', '.join(verbs)}")
    return found[0]


def _step(spot: Spot, role: Role, item: Spot, parent: str, lines: Lines) -> Step:
    found = mapping(spot, KEYS["step"], ("actor",) if "choose" not in dict(entries(spot, KEYS["step"])) else ())
    actor = _given(found, "actor", read_text, "")
    name = _given(found, "name", read_text, actor or NAMES.get(role, "choice"))
    lines[path_of(parent, name)] = _lines(item, found)
    return Step(
        role,
        actor,
        name,
        _given(found, "timeout", read_seconds, 300.0),
        _given(found, "retry", _retry, _RETRY),
        _given(found, "with", _options, {}),
        _given(found, "version", read_text, ""),
        _given(found, "gate", read_truth, False),
        _given(found, "choose", _arms, ()),
        _given(found, "queue_wait", read_seconds, None),
    )


def _arms(spot: Spot) -> tuple[Arm, ...]:
    arms = tuple(map(_arm, sequence(spot)))
    if not arms:
        raise spot.fault("no actor is here; name at least two")
    return arms


def _arm(spot: Spot) -> Arm:
    """An actor that can be chosen, by its name alone or with settings."""
    if not is_kind(spot, "map"):
        actor = read_text(spot)
        return Arm(actor, actor)
    found = mapping(spot, KEYS["arm"], ("actor",))
    actor = read_text(found["actor"])
    return Arm(
        actor,
        _given(found, "name", read_text, actor),
        _given(found, "with", _options, {}),
        _given(found, "version", read_text, ""),
    )


def _retry(spot: Spot) -> Retry:
    found = mapping(spot, KEYS["retry"])
    return Retry(
        _given(found, "attempts", read_whole, _RETRY.attempts),
        _given(found, "initial", read_seconds, _RETRY.initial),
        _given(found, "factor", read_number, _RETRY.factor),
        _given(found, "maximum", read_seconds, _RETRY.maximum),
    )


def _repeat(spot: Spot, item: Spot, parent: str, lines: Lines) -> Repeat:
    found = mapping(spot, KEYS["repeat"], ("until", "max_iterations", "body"))
    name = _given(found, "name", read_text, "Refinement")
    path = path_of(parent, name)
    lines[path] = _lines(item, found)
    return Repeat(
        name,
        _condition(found["until"]),
        read_whole(found["max_iterations"]),
        tuple(_node(each, path, lines) for each in sequence(found["body"])),
        cast("Keep", _given(found, "keep", read_text, "best")),
        _given(found, "rollback_margin", read_number, 0.1),
        cast("OnOscillation", _given(found, "on_oscillation", read_text, "ignore")),
    )


def _parallel(spot: Spot, item: Spot, parent: str, lines: Lines) -> Parallel:
    found = mapping(spot, KEYS["parallel"], ("name", "steps"))
    name = read_text(found["name"])
    path = path_of(parent, name)
    lines[path] = _lines(item, found)
    steps = []
    for each in sequence(found["steps"]):
        verb, value = _only(each, tuple(VERBS))
        steps.append(_step(value, VERBS[verb], each, path, lines))
    judge = found.get("judge")
    return Parallel(
        name,
        tuple(steps),
        _given(found, "wait", _wait, "all"),
        cast("Combine", _given(found, "combine", read_text, "min")),
        tuple(map(read_number, sequence(found["weights"]))) if "weights" in found else (),
        None if judge is None else _step(judge, "critic", judge, path, lines),
        _given(found, "deadline", read_seconds, None),
    )


def _approve(spot: Spot, item: Spot, parent: str, lines: Lines) -> Approve:
    found = mapping(spot, KEYS["approve"])
    name = _given(found, "name", read_text, "approve")
    lines[path_of(parent, name)] = _lines(item, found)
    return Approve(
        name,
        tuple(map(read_text, sequence(found["approvers"]))) if "approvers" in found else (),
        _given(found, "quorum", read_whole, 1),
        _given(found, "deadline", read_seconds, 86400.0),
        cast("OnDeadline", _given(found, "on_deadline", read_text, "reject")),
    )


def _condition(spot: Spot) -> Condition:
    try:
        return parse_condition(read_text(spot))
    except ConditionError as error:
        raise spot.fault(str(error)) from None


def _wait(spot: Spot) -> int | Literal["all", "first"]:
    return read_whole(spot) if is_kind(spot, "int") else cast("Literal['all', 'first']", read_text(spot))


def _options(spot: Spot) -> dict[str, Option]:
    return {key: _option(value) for key, value in entries(spot)}


def _option(spot: Spot) -> Option:
    if is_kind(spot, "bool"):
        return read_truth(spot)
    if is_kind(spot, "int"):
        return read_whole(spot)
    if is_kind(spot, "float"):
        return read_number(spot)
    if is_kind(spot, "seq"):
        return [read_whole(item) if is_kind(item, "int") else read_text(item) for item in sequence(spot)]
    if is_kind(spot, "map"):
        return {key: read_text(value) for key, value in entries(spot)}
    return read_text(spot)


def _given(found: dict[str, Spot], key: str, read: Callable[[Spot], T], default: D) -> T | D:
    return read(found[key]) if key in found else default


def _lines(item: Spot, found: dict[str, Spot]) -> dict[str, int]:
    return {"": item.line, **{key: value.line for key, value in found.items()}}
