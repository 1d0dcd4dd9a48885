"""Validates the settings of single nodes: approvals, budgets, choices, parallels."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from keyword import kwlist
from typing import Final, get_args

from redraft.actors.conditions.terms import reserved
from redraft.actors.plans.paths import check_actor, check_name, path_of
from redraft.actors.values import VERSION_FORM, is_number, is_one_of, is_version, is_whole, shown
from redraft.events.errors import PlanError, suggest
from redraft.events.messages.plan import (
    Arm,
    Budget,
    Combine,
    Criterion,
    Parallel,
    Retry,
    Role,
    Step,
    measure_name,
    members,
)
from redraft.events.messages.scales import scale_fault

MAX_SECONDS: Final = 24 * 60 * 60.0
"""The longest timeout of a step and the longest wait before a retry: 24 hours, in seconds."""

MAX_ATTEMPTS: Final = 100
"""The highest number of attempts."""

MAX_FACTOR: Final = 1_000
"""The highest factor between two waits; with `MAX_ATTEMPTS` it keeps the longest wait a finite float."""

_MIN_INT: Final = -(2**63)
_MAX_INT: Final = 2**63 - 1


def check_choice(path: str, setting: str, value: object, choices: tuple[str, ...]) -> None:
    """Raises PlanError unless the value of this setting is one of the choices."""
    if not is_one_of(value, choices):
        remedy = suggest(str(value), choices, f"write {' or '.join(choices)}", cutoff=0.7)
        raise PlanError(path, f"{setting} is {shown(value)}; {remedy}")


def check_whole(path: str, setting: str, value: object, highest: int) -> None:
    """Raises PlanError unless the value is an int, 1 to `highest`."""
    if not is_whole(value, 1, highest):
        raise PlanError(path, f"{setting} is {shown(value)}; write a whole number, 1 to {highest:,}")


def check_seconds(path: str, setting: str, value: object, *, zero: bool) -> None:
    """Raises PlanError unless the value is a number of seconds above 0 (or from 0), 24 hours at most."""
    if not (is_number(value) and isinstance(value, int | float) and 0 <= value <= MAX_SECONDS and (zero or value > 0)):
        start = "from" if zero else "above"
        raise PlanError(path, f"{setting} is {shown(value)}; write seconds, {start} 0 and at most 24 hours (86400)")


def check_retry(path: str, retry: object) -> None:
    """Raises PlanError unless this is a Retry whose every number is in range."""
    if not isinstance(retry, Retry):
        raise PlanError(path, f"retry is {shown(retry)}; write Retry(attempts=3)")
    check_whole(path, "retry.attempts", retry.attempts, MAX_ATTEMPTS)
    check_seconds(path, "retry.initial", retry.initial, zero=True)
    check_seconds(path, "retry.maximum", retry.maximum, zero=True)
    if not (is_number(retry.factor) and 1 <= retry.factor <= MAX_FACTOR):
        raise PlanError(path, f"retry.factor is {shown(retry.factor)}; write a number, 1 to {MAX_FACTOR:,}")


def check_options(path: str, options: object) -> None:
    """Raises PlanError unless these are options that can be stored and sent to an actor."""
    if not isinstance(options, dict):
        raise PlanError(path, f"with is {shown(options)}; give names with values")
    for key, value in options.items():
        if not (_is_text(key) and key):
            raise PlanError(path, f"with has the name {shown(key)}; an option's name is text")
        if not _is_option(value):
            remedy = "give text, a finite number, true, false, a list of texts and whole numbers, or a mapping of those"
            raise PlanError(path, f"with.{shown(key)[1:-1]} is {shown(value)}; {remedy}")


def check_version(path: str, version: object) -> None:
    """Raises PlanError unless this is the version of an actor's code, or empty."""
    if not (isinstance(version, str) and not version) and not is_version(version):
        raise PlanError(path, f"version is {shown(version)}; write {VERSION_FORM}")


def _is_option(value: object) -> bool:
    match value:
        case bool():
            return True
        case int():
            return is_whole(value, _MIN_INT, _MAX_INT)
        case float():
            return math.isfinite(value)
        case list():
            return all(_is_text(each) or is_whole(each, _MIN_INT, _MAX_INT) for each in value)
        case dict():
            return all(
                _is_text(key) and _is_option(each) and not isinstance(each, list | dict | bool)
                for key, each in value.items()
            )
        case _:
            return _is_text(value)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)


MAX_CRITERIA: Final = 50
"""How many criteria a critic may declare."""

_CRITERION: Final = re.compile(r"[A-Za-z_]\w{0,99}", re.ASCII)
_TAKEN: Final = frozenset({"criteria", "min", "max", "mean", "of", "confidence", *kwlist})
"""Words of conditions, and those of Python, in whose form they are read: and, or, not, class, …"""


def check_scale(path: str, what: str, scale: object) -> None:
    """Raises PlanError unless this is None, or two rising numbers that make a scale."""
    if scale is None:
        return
    pair = isinstance(scale, tuple) and len(scale) == 2 and all(map(_is_end, scale))
    if not (isinstance(scale, tuple) and pair and scale[0] < scale[1]):
        raise PlanError(path, f"{what} is {shown(scale)}; write two rising numbers, such as [1, 10]")
    if not scale[1] > 0:
        raise PlanError(
            path, f"{what} is {shown(scale)}; scores are shown “of” its end, so let that be above 0: [1, 10]"
        )
    if fault := scale_fault(*scale):
        raise PlanError(path, f"{what} is {shown(scale)}, and {fault}; write such as [1, 10]")


def _is_end(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -math.inf < value < math.inf


def check_criteria(path: str, criteria: object) -> None:
    """Raises PlanError unless these are criteria whose names conditions can use, with weights that make a mean."""
    if not isinstance(criteria, tuple) or not all(isinstance(each, Criterion) for each in criteria):
        raise PlanError(path, f"criteria are {shown(criteria)}; give names, each with a sentence")
    if len(criteria) > MAX_CRITERIA:
        raise PlanError(path, f"criteria: {len(criteria)} are given; a critic has at most {MAX_CRITERIA}")
    seen: set[str] = set()
    for each in criteria:
        if not isinstance(each.name, str) or not _CRITERION.fullmatch(each.name) or each.name in _TAKEN:
            remedy = "write letters, digits and _, a letter first, and no word of conditions"
            raise PlanError(path, f"criteria: {shown(each.name)} cannot be used in a condition; {remedy}")
        if near := reserved(each.name):
            raise PlanError(path, f"criteria: {_near(each.name, near)}; use another")
        if each.name in seen:
            raise PlanError(path, f"criteria: {each.name} comes twice; keep one")
        seen.add(each.name)
        if not _is_text(each.says):
            raise PlanError(
                path, f"criteria.{each.name} is {shown(each.says)}; write a sentence that says what is meant"
            )
        check_scale(path, f"criteria.{each.name}.scale", each.scale)
        if not (is_number(each.weight) and 0 <= each.weight <= _MAX_WEIGHT):
            raise PlanError(path, f"criteria.{each.name}.weight is {shown(each.weight)}; write a number from 0")
    if criteria and not sum(each.weight for each in criteria) > 0:
        raise PlanError(path, "criteria: all have the weight 0; give at least one a weight above 0")


def _near(name: str, word: str) -> str:
    return f"{name} is a word of conditions" if name == word else f"{name} is nearly {word}, a word of conditions"


MAX_MEASURES: Final = 50
"""How many measures a critic may declare."""


def check_measures(path: str, measures: object, criteria: tuple[Criterion, ...] = ()) -> None:
    """Raises PlanError unless these are names that conditions can use, of no criterion, each once."""
    if not isinstance(measures, tuple) or not all(isinstance(each, str) for each in measures):
        raise PlanError(path, f"measures are {shown(measures)}; give names, such as [words]")
    if len(measures) > MAX_MEASURES:
        raise PlanError(path, f"measures: {len(measures)} are given; a critic has at most {MAX_MEASURES}")
    seen = {each.name for each in criteria}
    for name in map(measure_name, measures):
        if not _CRITERION.fullmatch(name) or name in _TAKEN:
            remedy = "write letters, digits and _, a letter first, and no word of conditions"
            raise PlanError(path, f"measures: {shown(name)} cannot be used in a condition; {remedy}")
        if near := reserved(name):
            raise PlanError(path, f"measures: {_near(name, near)}; use another")
        if name in seen:
            raise PlanError(path, f"measures: {name} comes twice, or is a criterion too; keep one")
        seen.add(name)


MAX_HISTORY: Final = 20
"""The highest number of earlier drafts whose texts come with a request."""


def check_history(path: str, history: object) -> None:
    """Raises PlanError unless this is how many texts of earlier drafts come with a request, or None."""
    if history is not None and not is_whole(history, 0, MAX_HISTORY):
        remedy = f"write how many texts of earlier drafts come along, 0 to {MAX_HISTORY}"
        raise PlanError(path, f"history is {shown(history)}; {remedy}")


MAX_COUNT: Final = 10**12
"""The highest number of tokens and of calls."""

MAX_COST: Final = 1e9
"""The highest cost."""

MAX_WALL: Final = 90 * 86_400.0
"""The longest wall time: 90 days, in seconds."""

RESERVES: Final = ("reserve_tokens", "reserve_calls", "reserve_cost", "max_tokens", "samples")
"""The options of a step that say how much is set aside for it."""


def check_reserves(path: str, options: Mapping[str, object]) -> None:
    """Raises PlanError when one of the options that reserve usage is a number that cannot be counted with."""
    for name in RESERVES:
        value = options.get(name)
        if isinstance(value, (int, float)) and not (is_number(value) and 0 <= value <= MAX_COUNT):
            raise PlanError(path, f"with.{name} is {shown(value)}; write a number, 0 to {MAX_COUNT:,}")


def check_budget(name: str, budget: object, *, a_day: bool = False) -> None:
    """Raises PlanError unless this is None, or a budget with at least one limit. One of `a_day` has no wall time."""
    if budget is None:
        return
    if not isinstance(budget, Budget):
        raise PlanError("", f"{name} is {shown(budget)}; write Budget(cost=2.0)")
    for quantity in ("tokens", "calls"):
        value = getattr(budget, quantity)
        if value is not None and not is_whole(value, 1, MAX_COUNT):
            raise PlanError("", f"{name}.{quantity} is {shown(value)}; write a whole number, 1 to {MAX_COUNT:,}")
    for quantity, highest in (("cost", MAX_COST), ("seconds", MAX_WALL)):
        value = getattr(budget, quantity)
        if value is not None and not (is_number(value) and 0 < value <= highest):
            raise PlanError("", f"{name}.{quantity} is {shown(value)}; write a number above 0, at most {highest:,.0f}")
    if a_day and budget.seconds is not None:
        raise PlanError("", f"{name}.seconds is given; a wall time is for one run, put it into budget")
    if budget == Budget():
        raise PlanError("", f"{name} has no limit; give tokens, cost, calls{'' if a_day else ', seconds'}")


MAX_ARMS: Final = 20
"""How many actors a step may choose among."""


def check_choose(step: Step, path: str) -> None:
    """Raises PlanError unless this step chooses among two actors or more, all of them different."""
    given: object = step.choose
    if not isinstance(given, tuple) or not all(isinstance(arm, Arm) for arm in given):
        raise PlanError(path, f"choose is {shown(given)}; give actors: choose=[first, second]")
    if step.actor:
        raise PlanError(path, f"choose: the step names the actor {step.actor!r} too; keep one of the two")
    if step.role in ("publisher", "step"):
        raise PlanError(path, "choose is for generators, critics and refiners; name the one actor of this step")
    if step.gate:
        raise PlanError(path, "choose: a gate asks the same of every draft; name one actor, or remove gate")
    if step.version:
        raise PlanError(path, "each actor has its own version; give it within choose")
    if len(step.choose) < 2:
        raise PlanError(path, "choose names one actor; give at least two, or name it as the step's actor")
    if len(step.choose) > MAX_ARMS:
        raise PlanError(path, f"choose names {len(step.choose)} actors; {MAX_ARMS} can be told apart at most")
    _check_arms(step, path)


def _check_arms(step: Step, path: str) -> None:
    seen: dict[str, Arm] = {}
    for arm in step.choose:
        try:
            check_actor(path, step.role, arm.actor)
            check_name(path, arm.name, "arm")
            check_options(path, arm.options)
            check_reserves(path, arm.options)
            check_version(path, arm.version)
        except PlanError as error:
            raise PlanError(path, f"choose: {error.fault}") from None
        if arm.name in seen:
            raise PlanError(path, f"choose names {arm.name!r} twice; remove one, or give one another name")
        same = next((each for each in seen.values() if _does(each) == _does(arm)), None)
        if same is not None:
            raise PlanError(path, f"choose: {same.name!r} and {arm.name!r} do the same; remove one")
        seen[arm.name] = arm


def _does(arm: Arm) -> tuple[object, ...]:
    return arm.actor, arm.options, arm.version


_MAX_WEIGHT = 1e9


def check_parallel(parallel: Parallel, path: str) -> None:
    """Raises PlanError unless these are two steps or more, of one role, with settings that fit that role."""
    for node in members(parallel):
        if not isinstance(node, Step):
            raise PlanError(path_of(path, node.name), "only steps can be in parallel; move the loop or parallel out")
    if len(parallel.steps) < 2:
        raise PlanError(path, f"steps: {len(parallel.steps)} given; give at least two, or remove the parallel")
    role = parallel.steps[0].role
    for step in parallel.steps:
        if step.role != role:
            raise PlanError(
                path_of(path, step.name), f"role {step.role} beside {role}; steps in parallel have one role"
            )
    for node in members(parallel):
        if node.condition:
            raise PlanError(path_of(path, node.name), "a condition looks at what the critics said; put it after them")
    _check_wait(parallel, path)
    _check_combine(parallel, role, path)
    _check_deadline(parallel, role, path)
    _check_judge(parallel.judge, role, path)


def _check_wait(parallel: Parallel, path: str) -> None:
    steps = len(parallel.steps)
    if not is_one_of(parallel.wait, ("all", "first")) and not is_whole(parallel.wait, 1, steps):
        raise PlanError(path, f"wait is {shown(parallel.wait)}; write all, first, or a whole number 1 to {steps}")
    if parallel.wait != "all" and any(step.gate for step in parallel.steps):
        raise PlanError(path, f"wait is {shown(parallel.wait)}, but every gate must answer; write all")


def _check_combine(parallel: Parallel, role: Role, path: str) -> None:
    check_choice(path, "combine", parallel.combine, get_args(Combine))
    if parallel.combine != "min" and role != "critic":
        raise PlanError(path, f"combine joins the scores of critics, and these are {role}s; remove combine")
    if parallel.combine == "weights":
        _check_weights(parallel.weights, len(parallel.steps), path)
    elif parallel.weights:
        raise PlanError(path, f"weights need combine: weights, and combine is {parallel.combine}; change one of them")


def _check_deadline(parallel: Parallel, role: Role, path: str) -> None:
    if parallel.deadline is None:
        return
    check_seconds(path, "deadline", parallel.deadline, zero=False)
    if role != "critic":
        raise PlanError(path, f"deadline is for critics, and these are {role}s; remove deadline")
    if parallel.wait == "all":
        raise PlanError(path, "deadline needs wait: how many critics must answer in any case; write a number or first")


def _check_weights(weights: object, steps: int, path: str) -> None:
    if not isinstance(weights, tuple) or len(weights) != steps:
        raise PlanError(path, f"weights are {shown(weights)}; give {steps} numbers, one for each step")
    if not all(is_number(each) and 0 <= each <= _MAX_WEIGHT for each in weights) or sum(weights) <= 0:
        raise PlanError(path, f"weights are {shown(weights)}; write numbers from 0, at least one above 0")


def _check_judge(judge: Step | None, role: Role, path: str) -> None:
    match role, judge:
        case (("critic" | "publisher" | "step"), Step()):
            raise PlanError(path, f"judge is for generators and refiners, and these are {role}s; remove judge")
        case (("generator" | "refiner"), Step()) if judge.reuse is not None:
            raise PlanError(path_of(path, judge.name), "reuse: a judge compares drafts; remove it")
        case (("generator" | "refiner"), None):
            raise PlanError(path, f"judge is missing: a critic must say which {role}'s draft is best; add one")
        case (("generator" | "refiner"), Step()) if judge.gate:
            raise PlanError(
                path_of(path, judge.name), "gate: a judge compares drafts and cannot be a gate; remove gate"
            )
        case (("generator" | "refiner"), Step()) if judge.role != "critic":
            raise PlanError(
                path_of(path, judge.name), f"role is {judge.role}, but a judge must be a critic; give a critic"
            )
        case _:
            return
