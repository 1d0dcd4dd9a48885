"""Validates a plan's state: its fields and defaults, the values that steps say they write, and values of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, get_args

from redraft.actors.plans.paths import path_of
from redraft.actors.values import is_one_of, shown
from redraft.events.errors import PlanError, suggest
from redraft.events.messages.plan import Node, Parallel, StateField, StateSpec, Step, ValueKind, members, nodes_of
from redraft.events.messages.run_state import Value, Values, is_value_name, size_fault, values_fault

MAX_FIELDS: Final = 200
"""How many values a plan may declare."""

_KINDS: Final[Mapping[ValueKind, tuple[type, ...]]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "str": (str,),
    "list": (list,),
    "dict": (dict,),
}


def values_misfit(spec: StateSpec | None, values: Values) -> str:
    """Returns why these values cannot be in the state of a run of this plan, and the remedy; empty when they can."""
    if fault := values_fault(values):
        return fault
    if spec is None or not spec.fields:
        return ""
    fields = {field.name: field for field in spec.fields}
    for name, value in values.items():
        if name not in fields:
            return f"{name} is no value of the plan's state; {suggest(name, tuple(fields))}"
        if not _fits(fields[name], value):
            wanted = fields[name].kind + (" or null" if fields[name].optional else "")
            return f"{name} is {shown(value)}; the plan's state has {wanted} there"
    return ""


def _fits(field: StateField, value: Value) -> bool:
    if value is None:
        return field.optional or field.kind == "any"
    if field.kind == "any":
        return True
    return isinstance(value, _KINDS[field.kind]) and (field.kind == "bool" or not isinstance(value, bool))


def check_state(spec: object) -> None:
    """Raises PlanError unless this is None, or fields with defaults that fit them."""
    if spec is None:
        return
    if not isinstance(spec, StateSpec):
        raise PlanError("", f"state is {shown(spec)}; write StateSpec(fields, defaults)")
    fields: object = spec.fields
    if not isinstance(fields, tuple) or not all(isinstance(each, StateField) for each in fields):
        raise PlanError("", f"state_types: {shown(fields)} is given; give names with types")
    if len(spec.fields) > MAX_FIELDS:
        raise PlanError("", f"state_types: {len(spec.fields)} values are given; a plan has at most {MAX_FIELDS}")
    seen: set[str] = set()
    for field in spec.fields:
        if not is_value_name(field.name):
            fault = f"state_types: {shown(field.name)} cannot name a value"
            raise PlanError("", f"{fault}; write letters, digits and _, no word of Python")
        if field.name in seen:
            raise PlanError("", f"state_types: {field.name} comes twice; keep one")
        if not is_one_of(field.kind, get_args(ValueKind)) or not isinstance(field.optional, bool):
            kinds = f"{' or '.join(get_args(ValueKind))}, with ? if it may be null"
            raise PlanError("", f"state_types: {field.name} is {shown(field.kind)}; write {kinds}")
        seen.add(field.name)
    if fault := values_misfit(spec, spec.defaults) or size_fault(spec.defaults):
        raise PlanError("", f"state: {fault}")


def check_writes(step: Step, path: str) -> None:
    """Raises PlanError unless these are names of values that a step may write."""
    given: object = step.writes
    if not isinstance(given, tuple) or not all(map(is_value_name, given)):
        raise PlanError(
            path, f"writes is {shown(step.writes)}; give names of values of the state, such as [tests_pass]"
        )
    if len(set(step.writes)) < len(step.writes):
        raise PlanError(path, f"writes is {shown(step.writes)}; name each value once")


def check_writers(nodes: Sequence[Node], spec: StateSpec | None) -> None:
    """Raises PlanError where a step writes a value that the plan's state has not, or two in parallel write one."""
    known = tuple(field.name for field in spec.fields) if spec is not None else ()
    for path, node in nodes_of(nodes):
        if isinstance(node, Step) and known:
            for name in node.writes:
                if name not in known:
                    fault = f"writes: {name} is no value of the plan's state; {suggest(name, known)}"
                    raise PlanError(path, fault)
        elif isinstance(node, Parallel):
            _check_together(node, path)


def _check_together(node: Parallel, path: str) -> None:
    written: dict[str, str] = {}
    for step in members(node):
        for name in step.writes:
            if step is node.judge:
                fault = "writes: a judge is asked about several drafts at once; let a step after it write"
                raise PlanError(path_of(path, step.name), f"{fault} {name}")
            if name in written:
                fault = f"writes: {written[name]} writes {name} at the same time; let one of them write it"
                raise PlanError(path_of(path, step.name), fault)
            written[name] = step.name
