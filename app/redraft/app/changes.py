"""`--set KEY=VALUE`: what a fork does otherwise than its parent, as people write it.

until, max_iterations, keep, rollback_margin    of the only loop; LOOP.until where there are several
on_failure                                      of the plan
STEP.timeout, STEP.queue_wait, STEP.actor       of a step, by its name or path
STEP.OPTION                                     an option that its actor takes
OPTION                                          the same, of every step that has it
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final, get_args

import msgspec
from msgspec.structs import replace

from redraft.actors.condition_text import parse_condition
from redraft.actors.plan_check import check_plan
from redraft.actors.plan_paths import mapped, steps_in
from redraft.actors.policy import Policy, under
from redraft.actors.run_state import RunState
from redraft.events.errors import InputError
from redraft.events.plan import Keep, OnFailure, Option, Plan, Step, loops_of

LOOP_KEYS: Final = ("until", "max_iterations", "keep", "rollback_margin")

PRICES: Final = ("price_input", "price_output")
"""The options that say what the model before costs: they go with it."""

_WHOLE: Final = re.compile(r"-?\d{1,18}")
_NUMBER: Final = re.compile(r"-?\d+\.\d*(?:[eE][+-]?\d+)?")
_SECONDS: Final = re.compile(r"(\d+(?:\.\d+)?)\s?([smh]?)")
_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600}


class Changed(msgspec.Struct, frozen=True):
    """A plan with changes, and the names of its outermost nodes that hold one."""

    plan: Plan
    nodes: frozenset[str]


def changed(plan: Plan, settings: Sequence[str]) -> Changed:
    """The plan with these settings, each `KEY=VALUE`, one after the other, checked. Raises InputError (PlanError)."""
    nodes: set[str] = set()
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            raise InputError(f"--set {setting!r}: write KEY=VALUE, such as max_iterations=8")
        try:
            plan, touched = _set(plan, key.strip(), value.strip())
        except InputError as error:
            raise InputError(f"--set {key.strip()}: {error}") from None
        nodes |= touched
    return Changed(check_plan(plan), frozenset(nodes))


def refuse_vain(state: RunState, change: Changed) -> None:
    """Raises InputError when a change is of something that a run standing here has left behind."""
    here = state.frames[0].index if state.frames else 0
    passed = [node.name for node in state.plan.steps[:here] if node.name in change.nodes]
    if passed:
        raise InputError(f"--set: {passed[0]} is done by event {state.version}; fork at an earlier one")


def _set(plan: Plan, key: str, value: str) -> tuple[Plan, set[str]]:
    of, _, name = key.rpartition(".")
    if name in LOOP_KEYS and (not of or any(of in (path, path.split("/")[-1]) for path, _ in loops_of(plan.steps))):
        made = under(plan, _policy(name, value), of)
        return made, {new.name for new, old in zip(made.steps, plan.steps, strict=True) if new != old}
    if key == "on_failure":
        kept = next((each for each in get_args(OnFailure) if each == value), None)
        if kept is None:
            raise InputError(f"it is {value!r}; write {' or '.join(get_args(OnFailure))}")
        return replace(plan, on_failure=kept), set()
    return _set_steps(plan, of, name, value)


def _policy(name: str, value: str) -> Policy:
    match name:
        case "until":
            return Policy(until=parse_condition(value))
        case "keep":
            kept = next((each for each in get_args(Keep) if each == value), None)
            if kept is None:
                raise InputError(f"it is {value!r}; write {' or '.join(get_args(Keep))}")
            return Policy(keep=kept)
        case "max_iterations" if _WHOLE.fullmatch(value):
            return Policy(max_iterations=int(value))
        case "rollback_margin" if _WHOLE.fullmatch(value) or _NUMBER.fullmatch(value):
            return Policy(rollback_margin=float(value))
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

    steps = mapped(plan.steps, change)
    if not done and of:
        raise InputError(f"there is no step or loop {of!r}; {_nearest(of, known)}")
    if not done:
        given = sorted({key for _, step in steps_in(plan.steps) for key in step.options})
        raise InputError(f"no step has this; it is one of {', '.join((*LOOP_KEYS, 'on_failure', *given))}, or STEP.KEY")
    if of and len(done) > 1:
        raise InputError(f"which step is meant? Name one with its path: {', '.join(done)}")
    return replace(plan, steps=steps), {path.split("/")[0] for path in done}


def _with(step: Step, name: str, value: str) -> Step:
    if name in ("timeout", "queue_wait"):
        found = _SECONDS.fullmatch(value)
        if found is None:
            raise InputError(f"it is {value!r}; write seconds, or 90s, 2m, 1h")
        return replace(step, **{name: float(found[1]) * _UNITS[found[2]]})
    differing = [arm.name for arm in step.choose if name == "actor" or name in arm.options]
    if differing:
        raise InputError(f"{step.name} chooses among {', '.join(differing)}, each with its own; begin another workflow")
    if name == "actor":
        return replace(step, actor=value)
    kept = {key: said for key, said in step.options.items() if name != "model" or key not in PRICES}
    return replace(step, options={**kept, name: _option(value)})


def _option(value: str) -> Option:
    if _WHOLE.fullmatch(value):
        return int(value)
    if _NUMBER.fullmatch(value):
        return float(value)
    return {"true": True, "false": False}.get(value, value)


def _nearest(text: str, known: Sequence[str]) -> str:
    names = {path.rpartition("/")[2]: path for path in known}
    close = get_close_matches(text, [*known, *names], n=1)
    return f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
