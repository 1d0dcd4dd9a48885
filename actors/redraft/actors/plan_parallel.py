"""What makes a Parallel no Parallel, its steps' own settings aside. Each fault is a PlanError with the path."""

from __future__ import annotations

from typing import get_args

from redraft.actors.plan_paths import path_of
from redraft.actors.plan_settings import check_choice, check_seconds
from redraft.actors.values import is_number, is_one_of, is_whole, shown
from redraft.events.errors import PlanError
from redraft.events.plan import Combine, Parallel, Role, Step

_MAX_WEIGHT = 1e9


def check_parallel(parallel: Parallel, path: str) -> None:
    """Raises PlanError unless these are two steps or more, of one role, with settings that fit that role."""
    for node in members(parallel):
        if not isinstance(node, Step):
            raise PlanError(path_of(path, node.name), "only steps go in parallel; take the loop or parallel out")
    if len(parallel.steps) < 2:
        raise PlanError(path, f"steps: {len(parallel.steps)} given; give at least two, or take away the parallel")
    role = parallel.steps[0].role
    for step in parallel.steps:
        if step.role != role:
            raise PlanError(
                path_of(path, step.name), f"role {step.role} beside {role}; steps in parallel have one role"
            )
    _check_wait(parallel, path)
    _check_combine(parallel, role, path)
    _check_deadline(parallel, role, path)
    _check_judge(parallel.judge, role, path)


def members(parallel: Parallel) -> tuple[Step, ...]:
    """The steps and the judge, if there is one."""
    return parallel.steps if parallel.judge is None else (*parallel.steps, parallel.judge)


def _check_wait(parallel: Parallel, path: str) -> None:
    steps = len(parallel.steps)
    if parallel.wait != "all" and any(step.gate for step in parallel.steps):
        raise PlanError(path, f"wait is {shown(parallel.wait)}, but every gate has to be heard; write all")
    if not is_one_of(parallel.wait, ("all", "first")) and not is_whole(parallel.wait, 1, steps):
        raise PlanError(path, f"wait is {shown(parallel.wait)}; write all, first, or a whole number 1 to {steps}")


def _check_combine(parallel: Parallel, role: Role, path: str) -> None:
    check_choice(path, "combine", parallel.combine, get_args(Combine))
    if parallel.combine != "min" and role != "critic":
        raise PlanError(path, f"combine joins the scores of critics, and these are {role}s; take it away")
    if parallel.combine == "weights":
        _check_weights(parallel.weights, len(parallel.steps), path)
    elif parallel.weights:
        raise PlanError(path, f"weights need combine: weights, and combine is {parallel.combine}; change one of them")


def _check_deadline(parallel: Parallel, role: Role, path: str) -> None:
    if parallel.deadline is None:
        return
    check_seconds(path, "deadline", parallel.deadline, zero=False)
    if role != "critic":
        raise PlanError(path, f"deadline is for critics, and these are {role}s; take it away")
    if parallel.wait == "all":
        raise PlanError(path, "deadline needs wait: how many critics must answer in any case; write a number or first")


def _check_weights(weights: object, steps: int, path: str) -> None:
    if not isinstance(weights, tuple) or len(weights) != steps:
        raise PlanError(path, f"weights are {shown(weights)}; give {steps} numbers, one for each step")
    if not all(is_number(each) and 0 <= each <= _MAX_WEIGHT for each in weights) or sum(weights) <= 0:
        raise PlanError(path, f"weights are {shown(weights)}; write numbers from 0, at least one above 0")


def _check_judge(judge: Step | None, role: Role, path: str) -> None:
    match role, judge:
        case (("critic" | "publisher"), Step()):
            raise PlanError(path, f"judge is for generators and refiners, and these are {role}s; take it away")
        case (("generator" | "refiner"), None):
            raise PlanError(path, f"judge is missing: a critic must say which {role}'s draft is best; add one")
        case (("generator" | "refiner"), Step()) if judge.gate:
            raise PlanError(path_of(path, judge.name), "gate: a judge compares drafts, and is no gate; take it away")
        case (("generator" | "refiner"), Step()) if judge.role != "critic":
            raise PlanError(
                path_of(path, judge.name), f"role is {judge.role}, but a judge must be a critic; give a critic"
            )
        case _:
            return
