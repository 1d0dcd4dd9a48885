"""Settings of one run as people type them: a budget, and what a fork does otherwise than its parent."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, TypeVar, get_args

import msgspec
from msgspec.structs import replace

from redraft.actors.conditions.text import parse_condition, read_margin
from redraft.actors.deciding.policy import Policy, with_policy
from redraft.actors.deciding.state import RunState
from redraft.actors.plans.check import check_plan
from redraft.actors.plans.paths import map_steps, steps_in
from redraft.actors.values import parse_duration
from redraft.events.errors import InputError, PlanError, suggest
from redraft.events.messages.conditions import Condition
from redraft.events.messages.plan import Budget, Ending, Keep, OnFailure, Option, Plan, Step, loops_of

_WHOLE_NUMBERS: Final = frozenset({"tokens", "calls"})
_FORM: Final = "write tokens=50000,cost=2,calls=40,seconds=600, or some of them"


def read_budget(text: str) -> Budget:
    """The budget that a text says. Raises InputError with the remedy."""
    limits: dict[str, int | float] = {}
    for part in text.replace(",", " ").split():
        name, sign, value = part.partition("=")
        if not sign or name not in Budget.__struct_fields__:
            raise InputError(f"--budget: {part!r} is not a limit; {_FORM}")
        if name in limits:
            raise InputError(f"--budget: {name} is given twice; {_FORM}")
        try:
            limits[name] = int(value) if name in _WHOLE_NUMBERS else float(value)
        except ValueError:
            raise InputError(f"--budget: {value!r} is not a number for {name}; {_FORM}") from None
    return msgspec.convert(limits, Budget)


ENDING_KEYS: Final = ("on_exhausted", "on_plateau")
LOOP_KEYS: Final = ("until", "max_iterations", "keep", "rollback_margin", "rollback_of", *ENDING_KEYS)

T = TypeVar("T")
"""The settings of loops that a fork may change."""

STEP_KEYS: Final = ("timeout", "queue_wait", "actor", "history", "only_issues", "when")
"""The settings of steps that a fork may change; `history` of a step that has no option of that name."""

PRICES: Final = ("price_input", "price_output")
"""The options that say what the model before costs: they go with it."""

_WHOLE: Final = re.compile(r"-?\d{1,18}")
_NUMBER: Final = re.compile(r"-?\d+\.\d*(?:[eE][+-]?\d+)?")


class Changed(msgspec.Struct, frozen=True):
    """A plan with changes, and the names of its outermost nodes that hold one."""

    plan: Plan
    nodes: frozenset[str]


def apply_settings(plan: Plan, settings: Sequence[str]) -> Changed:
    """The plan with these settings, each `KEY=VALUE`, one after the other, checked. Raises InputError (PlanError)."""
    nodes: set[str] = set()
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            raise InputError(f"--set {setting!r}: write KEY=VALUE, such as max_iterations=8")
        try:
            plan, touched = _set(plan, key.strip(), value.strip())
        except PlanError as error:  # which names the node, and the setting
            raise InputError(f"--set: {error}") from None
        except InputError as error:
            raise InputError(f"--set {key.strip()}: {error}") from None
        nodes |= touched
    return Changed(check_plan(plan), frozenset(nodes))


def refuse_vain(state: RunState, change: Changed) -> None:
    """Raises InputError when a change is of something that a run standing here has left behind."""
    here = state.frames[0].index if state.frames else 0
    passed = [node.name for node in state.plan.steps[:here] if node.name in change.nodes]
    if passed:
        raise InputError(f"--set: {passed[0]} is already done at event {state.version}; fork at an earlier one")


def _set(plan: Plan, key: str, value: str) -> tuple[Plan, set[str]]:
    of, _, name = key.rpartition(".")
    if name in LOOP_KEYS and (not of or any(of in (path, path.split("/")[-1]) for path, _ in loops_of(plan.steps))):
        made = with_policy(plan, _policy(name, value), of)
        return made, {new.name for new, old in zip(made.steps, plan.steps, strict=True) if new != old}
    if key == "on_failure":
        return replace(plan, on_failure=_one_of(value, get_args(OnFailure))), set()
    return _set_steps(plan, of, name, value)


def _one_of(value: str, choices: tuple[T, ...]) -> T:
    """Returns the choice that is meant. Raises InputError."""
    kept = next((each for each in choices if each == value), None)
    if kept is None:
        raise InputError(f"it is {value!r}; write {' or '.join(map(str, choices))}")
    return kept


def _policy(name: str, value: str) -> Policy:
    match name:
        case "until":
            return Policy(until=parse_condition(value))
        case "keep":
            return Policy(keep=_one_of(value, get_args(Keep)))
        case "on_exhausted":
            return Policy(on_exhausted=_one_of(value, get_args(Ending)))
        case "on_plateau":
            return Policy(on_plateau=_one_of(value, get_args(Ending)))
        case "max_iterations" if _WHOLE.fullmatch(value):
            return Policy(max_iterations=int(value))
        case "rollback_margin":
            return Policy(rollback_margin=read_margin(value))
        case "rollback_of":
            return Policy(rollback_of="" if value == "score" else value)
        case _:
            raise InputError(f"it is {value!r}; write a number")


def _set_steps(plan: Plan, of: str, name: str, value: str) -> tuple[Plan, set[str]]:
    """The plan with a setting for one step or, where none is named, an option for all that have it."""
    done: list[str] = []
    known: list[str] = []

    def change(path: str, step: Step) -> Step:
        known.append(path)
        fits = of in (path, step.name) if of else name in step.options
        if not fits:
            return step
        done.append(path)
        return _with(step, name, value)

    steps = map_steps(plan.steps, change)
    if not done and of:
        raise InputError(f"there is no step or loop {of!r}; {_nearest(of, known)}")
    if not done:
        known_options = sorted({key for _, step in steps_in(plan.steps) for key in step.options})
        raise InputError(
            f"no step has this; it is one of {', '.join((*LOOP_KEYS, 'on_failure', *known_options))}, STEP.KEY, or "
            "state.NAME for a value of the state"
        )
    if of and len(done) > 1:
        raise InputError(f"which step is meant? Name one with its path: {', '.join(done)}")
    return replace(plan, steps=steps), {path.split("/")[0] for path in done}


def _with(step: Step, name: str, value: str) -> Step:
    if name in ("timeout", "queue_wait"):
        seconds = parse_duration(value)
        if seconds is None:
            raise InputError(f"it is {value!r}; write seconds, or 90s, 2m, 1h")
        return replace(step, **{name: seconds})
    if name in ("history", "only_issues", "when") and name not in step.options:
        return replace(step, **{name: _step_setting(step, name, value)})
    differing = [arm.name for arm in step.choose if name == "actor" or name in arm.options]
    if differing:
        raise InputError(f"{step.name} chooses among {', '.join(differing)}, each with its own; begin another workflow")
    if name == "actor":
        return replace(step, actor=value)
    if name in step.__struct_fields__ and name not in step.options:
        raise InputError(f"a fork does not change the {name} of a step; it changes {', '.join(STEP_KEYS)} and options")
    kept = {key: said for key, said in step.options.items() if name != "model" or key not in PRICES}
    return replace(step, options={**kept, name: _option(value)})


def _step_setting(step: Step, name: str, value: str) -> int | bool | Condition:
    match name:
        case "history" if _WHOLE.fullmatch(value):
            return int(value)
        case "history":
            raise InputError(f"it is {value!r}; write how many texts of earlier drafts come along, such as 2")
        case "only_issues" if value in ("true", "false"):
            return value == "true"
        case "only_issues":
            raise InputError(f"it is {value!r}; write true or false")
        case _ if step.when is None:
            raise InputError(f"{step.name} is always asked: a fork changes no more than the condition of a late critic")
        case _:
            return parse_condition(value)


def _option(value: str) -> Option:
    if _WHOLE.fullmatch(value):
        return int(value)
    if _NUMBER.fullmatch(value):
        return float(value)
    return {"true": True, "false": False}.get(value, value)


def _nearest(text: str, known: Sequence[str]) -> str:
    names = {path.rpartition("/")[2]: path for path in known}
    return suggest(text, [*known, *names], f"there are {', '.join(known)}")
