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
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, cast, get_args

from redraft.actors.conditions.text import parse_condition, read_margin
from redraft.actors.formats.yaml_source import (
    SourceNode,
    compose,
    entries,
    is_kind,
    mapping,
    read_number,
    read_seconds,
    read_text,
    read_truth,
    read_whole,
    read_word,
    sequence,
)
from redraft.actors.formats.yaml_writer import CONDITION, FIELDS, KEYS, VERBS, print_plan
from redraft.actors.plans.arms import NAMES
from redraft.actors.plans.check import check_plan
from redraft.actors.plans.items import list_name
from redraft.actors.plans.paths import path_of
from redraft.events.errors import ConditionError, PlanError, suggest
from redraft.events.messages.conditions import Condition, Points
from redraft.events.messages.plan import (
    Approve,
    Arm,
    Budget,
    Criterion,
    Each,
    LessonsSpec,
    Node,
    Option,
    Parallel,
    Plan,
    Repeat,
    Retry,
    StateField,
    StateSpec,
    Step,
    ValueKind,
)
from redraft.events.messages.run_state import Value

__all__ = ["print_plan", "read_plan"]


Lines: TypeAlias = dict[str, dict[str, int]]
"""For each path of a plan, the lines of its settings; under the empty name, where the node begins."""


def read_plan(text: str, source: str = "plan", check: Callable[[Plan], Plan] = check_plan) -> Plan:
    """The plan that a YAML text says, as `check` returns it; `source` names the text in faults, such as its file.

    Raises PlanError whose path is `file:line: place`, where the place is that in the text (`steps[1].repeat.until`) or
    that in the plan (`Refinement/judge`).
    """
    root = compose(text, source)
    lines: Lines = {}
    plan = _plan(root, lines)
    try:
        return check(plan)
    except PlanError as error:
        raise _with_line(error, source, lines) from None


def _with_line(error: PlanError, source: str, lines: Lines) -> PlanError:
    """Returns the fault of a plan with its line in the text: faults begin with the name of their setting."""
    settings = lines.get(error.path, {"": 1})
    setting = re.split(r"[ :]", error.fault, maxsplit=1)[0]
    line = settings.get(setting) or settings.get(setting.split(".")[0]) or settings[""]
    place = f"{source}:{line}"
    return PlanError(f"{place}: {error.path}" if error.path else place, error.fault)


def _plan(root: SourceNode, lines: Lines) -> Plan:
    found = mapping(root, KEYS["plan"], ("name", "steps"))
    lines[""] = _lines(root, found)
    steps = tuple(_node(item, "", lines) for item in sequence(found["steps"]))
    return Plan(**_settings(found), steps=steps, state=_state(found))


def _state(found: Mapping[str, SourceNode]) -> StateSpec | None:
    """Returns the state of a plan: the values that runs begin with, and the types of all that there are."""
    if "state" not in found and "state_types" not in found:
        return None
    defaults = {name: _json(value) for name, value in entries(found["state"])} if "state" in found else {}
    types = entries(found["state_types"]) if "state_types" in found else ()
    return StateSpec(tuple(_field(name, value) for name, value in types), defaults)


def _field(name: str, spot: SourceNode) -> StateField:
    """Returns the name and the type of a value: `bool`, or `bool?` of one that may be null."""
    written = read_text(spot)
    kind = written.removesuffix("?")
    if kind not in get_args(ValueKind):
        raise spot.fault(f"{written} is no type; {suggest(kind, get_args(ValueKind))}")
    return StateField(name, cast("ValueKind", kind), optional=written.endswith("?"))


def _json(spot: SourceNode) -> Value:
    """Returns a value of the state, as YAML writes JSON."""
    if is_kind(spot, "null"):
        return None
    if is_kind(spot, "seq"):
        return [_json(item) for item in sequence(spot)]
    if is_kind(spot, "map"):
        return {name: _json(value) for name, value in entries(spot)}
    return read_truth(spot) if is_kind(spot, "bool") else _value(spot)


def _settings(found: Mapping[str, SourceNode], **defaults: object) -> dict[str, Any]:
    """Returns what these settings say, by the names of their fields; the nodes among them are left out."""
    given = {FIELDS.get(key, key): _READERS[key](value) for key, value in found.items() if key in _READERS}
    return {**defaults, **given}


def _node(item: SourceNode, parent: str, lines: Lines) -> Node:
    verb, spot = _only(item, (*VERBS, "repeat", "each", "parallel", "approve"))
    match verb:
        case "repeat":
            return _repeat(spot, item, parent, lines)
        case "each":
            return _each(spot, item, parent, lines)
        case "parallel":
            return _parallel(spot, item, parent, lines)
        case "approve":
            return _approve(spot, item, parent, lines)
        case _:
            return _step(spot, verb, item, parent, lines)


def _only(item: SourceNode, verbs: tuple[str, ...]) -> tuple[str, SourceNode]:
    found = list(entries(item, verbs))
    if len(found) != 1:
        raise item.fault(f"{len(found)} steps in one item; begin each with '- ' and one of {', '.join(verbs)}")
    return found[0]


def _step(spot: SourceNode, verb: str, item: SourceNode, parent: str, lines: Lines) -> Step:
    role = VERBS[verb]
    found = mapping(spot, KEYS["step"], ("actor",) if "choose" not in dict(entries(spot, KEYS["step"])) else ())
    given = _settings(found, actor="")
    given.setdefault("name", given["actor"] or NAMES.get(role, "choice"))
    lines[path_of(parent, given["name"])] = _lines(item, found)
    if not isinstance(given.get("gate", False), bool):
        given |= {"gate": True, "passes": given["gate"]}
    if verb == CONDITION:
        given |= {"condition": True, "measures": (given["actor"],)}
    return Step(role, **given)


def _repeat(spot: SourceNode, item: SourceNode, parent: str, lines: Lines) -> Repeat:
    found = mapping(spot, KEYS["repeat"], ("until", "max_iterations", "body"))
    given = _settings(found, name="Refinement")
    if isinstance(margin := given.get("rollback_margin"), Points):
        given |= {"rollback_margin": margin.value, "rollback_top": margin.of}
    path = path_of(parent, given["name"])
    lines[path] = _lines(item, found)
    return Repeat(**given, body=tuple(_node(each, path, lines) for each in sequence(found["body"])))


def _each(spot: SourceNode, item: SourceNode, parent: str, lines: Lines) -> Each:
    found = mapping(spot, KEYS["each"], ("name", "over", "body"))
    given = _settings(found)
    path = path_of(parent, given["name"])
    lines[path] = _lines(item, found)
    return Each(**given, body=tuple(_node(each, path, lines) for each in sequence(found["body"])))


def _parallel(spot: SourceNode, item: SourceNode, parent: str, lines: Lines) -> Parallel:
    found = mapping(spot, KEYS["parallel"], ("name", "steps"))
    given = _settings(found)
    path = path_of(parent, given["name"])
    lines[path] = _lines(item, found)
    steps = []
    for each in sequence(found["steps"]):
        verb, value = _only(each, tuple(VERBS))
        steps.append(_step(value, verb, each, path, lines))
    judge = found.get("judge")
    judging = None if judge is None else _step(judge, "critique", judge, path, lines)
    return Parallel(**given, steps=tuple(steps), judge=judging)


def _approve(spot: SourceNode, item: SourceNode, parent: str, lines: Lines) -> Approve:
    found = mapping(spot, KEYS["approve"])
    given = _settings(found, name="approve")
    lines[path_of(parent, given["name"])] = _lines(item, found)
    return Approve(**given)


def _budget(spot: SourceNode) -> Budget:
    return Budget(**_settings(mapping(spot, KEYS["budget"])))


def _arms(spot: SourceNode) -> tuple[Arm, ...]:
    arms = tuple(map(_arm, sequence(spot)))
    if not arms:
        raise spot.fault("no actor is here; name at least two")
    return arms


def _arm(spot: SourceNode) -> Arm:
    """Returns an actor that can be chosen, given by its name alone or with settings."""
    if not is_kind(spot, "map"):
        actor = read_text(spot)
        return Arm(actor, actor)
    given = _settings(mapping(spot, KEYS["arm"], ("actor",)))
    given.setdefault("name", given["actor"])
    return Arm(**given)


def _condition(spot: SourceNode) -> Condition:
    try:
        return parse_condition(read_text(spot))
    except ConditionError as error:
        raise spot.fault(str(error)) from None


def _margin(spot: SourceNode) -> float | Points:
    """Returns a margin, or with its scale: `1 of 10`."""
    if not is_kind(spot, "str"):
        return read_number(spot)
    try:
        return read_margin(read_text(spot))
    except ConditionError as error:
        raise spot.fault(str(error)) from None


def _gate(spot: SourceNode) -> bool | Condition:
    return _condition(spot) if is_kind(spot, "str") else read_truth(spot)


def _scale(spot: SourceNode) -> tuple[float, ...]:
    return tuple(map(read_number, sequence(spot)))


def _criteria(spot: SourceNode) -> tuple[Criterion, ...]:
    return tuple(_criterion(name, value) for name, value in entries(spot))


def _criterion(name: str, spot: SourceNode) -> Criterion:
    """Returns a criterion, given by what is meant alone or with settings."""
    if not is_kind(spot, "map"):
        return Criterion(name, read_text(spot))
    return Criterion(name, **_settings(mapping(spot, KEYS["criterion"])))


def _options(spot: SourceNode) -> dict[str, Option]:
    return {key: _option(value) for key, value in entries(spot)}


def _option(spot: SourceNode) -> Option:
    if is_kind(spot, "bool"):
        return read_truth(spot)
    if is_kind(spot, "int"):
        return read_whole(spot)
    if is_kind(spot, "float"):
        return read_number(spot)
    if is_kind(spot, "seq"):
        return [read_whole(item) if is_kind(item, "int") else read_text(item) for item in sequence(spot)]
    if is_kind(spot, "map"):
        return {key: _value(value) for key, value in entries(spot)}
    return read_text(spot)


def _value(spot: SourceNode) -> str | int | float:
    if is_kind(spot, "int"):
        return read_whole(spot)
    return read_number(spot) if is_kind(spot, "float") else read_text(spot)


def _lines(item: SourceNode, found: dict[str, SourceNode]) -> dict[str, int]:
    return {"": item.line, **{key: value.line for key, value in found.items()}}


_READERS: Final[Mapping[str, Callable[[SourceNode], object]]] = {
    **dict.fromkeys(("actor", "name", "version", "rollback_of", "says", "workflow"), read_text),
    **dict.fromkeys(("combine", "keep", "reuse", "on_failure", "on_deadline"), read_word),
    **dict.fromkeys(("on_exhausted", "on_plateau", "on_oscillation"), read_word),
    "ask": lambda spot: Approve(**_settings(mapping(spot, KEYS["approve"]), name="ask")),
    **dict.fromkeys(("timeout", "queue_wait", "initial", "maximum", "deadline", "seconds"), read_seconds),
    **dict.fromkeys(("max_iterations", "max_failures", "attempts", "quorum", "limit", "concurrency"), read_whole),
    **dict.fromkeys(("tokens", "calls", "history"), read_whole),
    **dict.fromkeys(("factor", "cost", "weight"), read_number),
    "rollback_margin": _margin,
    "over": lambda spot: list_name(read_text(spot)),
    "gate": _gate,
    **dict.fromkeys(("only_issues", "about_run"), read_truth),
    "scale": _scale,
    "criteria": _criteria,
    **dict.fromkeys(("measures", "writes"), lambda spot: tuple(map(read_text, sequence(spot)))),
    "until": _condition,
    "success": _condition,
    "when": _condition,
    "with": _options,
    "retry": lambda spot: Retry(**_settings(mapping(spot, KEYS["retry"]))),
    "choose": _arms,
    "wait": lambda spot: read_whole(spot) if is_kind(spot, "int") else read_text(spot),
    "weights": lambda spot: tuple(map(read_number, sequence(spot))),
    "approvers": lambda spot: tuple(map(read_text, sequence(spot))),
    "budget": _budget,
    "daily_budget": _budget,
    "lessons": lambda spot: LessonsSpec(**_settings(mapping(spot, KEYS["lessons"]))),
}
"""The reader of each setting that is no node; what the texts may be, `check_plan` knows."""
