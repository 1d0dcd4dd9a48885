"""What makes a plan no plan. Whether it is written in Python, in YAML or comes from elsewhere, the same rules hold.

Each fault is a PlanError with the path of the node, such as `Refinement/judge`. A fault of one setting begins with the
setting's name, as it is written in YAML.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, assert_never, get_args

import msgspec

from redraft.actors.condition_check import terms
from redraft.actors.condition_text import check_printable
from redraft.actors.plan_approve import check_approve
from redraft.actors.plan_budget import check_budget, check_reserves
from redraft.actors.plan_choose import check_choose
from redraft.actors.plan_flow import check_approvals, check_flow
from redraft.actors.plan_parallel import check_parallel, members
from redraft.actors.plan_paths import check_actor, check_name, check_workflow, path_of
from redraft.actors.plan_settings import (
    check_choice,
    check_options,
    check_retry,
    check_seconds,
    check_version,
    check_whole,
)
from redraft.actors.run_state import asks_people
from redraft.actors.values import is_number, shown
from redraft.events.conditions import Approved, Compare, Condition
from redraft.events.errors import ConditionError, PlanError
from redraft.events.plan import Approve, Keep, Node, OnFailure, OnOscillation, Parallel, Plan, Repeat, Role, Step

MAX_NODES: Final = 200
"""How many steps, loops and parallels a plan may have, at every depth together."""

MAX_DEPTH: Final = 8
"""How deep loops and parallels may nest."""

MAX_ITERATIONS: Final = 1_000_000
"""The highest `max_iterations`."""

_CONTAINERS: Final = (Parallel, Repeat)


def check_plan(plan: Plan) -> Plan:
    """The plan itself, if it can be run; else PlanError with the first fault's path, what it is, and the remedy."""
    if not isinstance(plan, Plan):
        raise PlanError("", f"{shown(plan)} is no plan; build one with Workflow, or read it from YAML")
    check_name("", plan.name, "workflow")
    check_workflow(plan.name)
    check_choice("", "on_failure", plan.on_failure, get_args(OnFailure))
    if not plan.steps:
        raise PlanError("", f"the workflow {plan.name!r} has no steps; begin with one that generates a draft")
    check_nodes(plan.steps, "")
    check_budget("budget", plan.budget)
    check_budget("daily_budget", plan.daily, a_day=True)
    check_flow(plan.steps)
    check_approvals(plan.steps)
    _check_storable(plan)
    return plan


def check_nodes(nodes: tuple[Node, ...], parent: str) -> None:
    """Raises PlanError when one of these siblings is wrong in itself, or when two have one name."""
    _check_size(nodes, parent)
    _check_siblings(nodes, parent)


def _check_size(nodes: object, parent: str) -> None:
    """Keeps what follows, which goes into each node, within bounds."""
    waiting = [(node, parent, 0) for node in _tuple(nodes, parent)]
    for count, (node, around, depth) in enumerate(waiting, 1):
        path = path_of(around, getattr(node, "name", node))
        if not isinstance(node, (Step, Approve, *_CONTAINERS)):
            raise PlanError(path, "this is no node of a plan; give a Step, a Parallel, a Repeat or an Approve")
        if count > MAX_NODES:
            raise PlanError(path, f"the plan has more than {MAX_NODES} nodes; split it into several workflows")
        if isinstance(node, _CONTAINERS) and depth == MAX_DEPTH:
            raise PlanError(path, f"loops and parallels nest more than {MAX_DEPTH} deep; make the plan flatter")
        waiting += [(inner, path, depth + 1) for inner in _inner(node, path)]


def _inner(node: Node, path: str) -> tuple[object, ...]:
    match node:
        case Step() | Approve():
            return ()
        case Parallel():
            return (*_tuple(node.steps, path), *(() if node.judge is None else (node.judge,)))
        case Repeat():
            return _tuple(node.body, path)
        case _:
            assert_never(node)


def _tuple(nodes: object, path: str) -> tuple[object, ...]:
    if not isinstance(nodes, tuple):
        raise PlanError(path, f"{shown(nodes)} is no tuple of nodes; write (first, second)")
    return nodes


def _check_siblings(nodes: Sequence[Node], parent: str) -> None:
    """All the names first: until they are known to differ, a path does not say which node is meant."""
    seen: set[str] = set()
    for node in nodes:
        path = path_of(parent, node.name)
        check_name(path, node.name, "node")
        if node.name in seen:
            raise PlanError(path, f"name {node.name!r} is already that of a node beside it; give this one another name")
        seen.add(node.name)
    for node in nodes:
        _check_node(node, path_of(parent, node.name))
    _check_gates(nodes, parent)


def _check_node(node: Node, path: str) -> None:
    match node:
        case Step():
            _check_step(node, path)
        case Parallel():
            _check_parallel(node, path)
        case Repeat():
            _check_repeat(node, path)
        case Approve():
            check_approve(node, path)
        case _:
            assert_never(node)


def _check_step(step: Step, path: str) -> None:
    check_choice(path, "role", step.role, get_args(Role))
    if step.choose:
        check_choose(step, path)
    else:
        check_actor(path, step.role, step.actor)
    check_seconds(path, "timeout", step.timeout, zero=False)
    check_retry(path, step.retry)
    if step.queue_wait is not None:
        check_seconds(path, "queue_wait", step.queue_wait, zero=False)
    check_options(path, step.options)
    check_reserves(path, step.options)
    check_version(path, step.version)
    if not isinstance(step.gate, bool):
        raise PlanError(path, f"gate is {shown(step.gate)}; write true or false")
    if step.gate and step.role != "critic":
        raise PlanError(path, f"gate is for critics, and this is a {step.role}; take it away")


def _check_gates(nodes: Sequence[Node], parent: str) -> None:
    """Gates save the work of the critics after them, so they stand before these."""
    before = ""
    for node in nodes:
        steps = node.steps if isinstance(node, Parallel) else (node,)
        critics = [step for step in steps if isinstance(step, Step) and step.role == "critic"]
        if before and any(step.gate for step in critics):
            raise PlanError(path_of(parent, node.name), f"gate: it speaks first; put it before {before}")
        if not critics:
            before = ""
        elif not all(step.gate for step in critics):
            before = node.name


def _check_repeat(repeat: Repeat, path: str) -> None:
    check_whole(path, "max_iterations", repeat.max_iterations, MAX_ITERATIONS)
    check_choice(path, "keep", repeat.keep, get_args(Keep))
    if not (is_number(repeat.rollback_margin) and 0 <= repeat.rollback_margin <= 1):
        raise PlanError(path, f"rollback_margin is {shown(repeat.rollback_margin)}; write a number 0 to 1")
    check_choice(path, "on_oscillation", repeat.on_oscillation, get_args(OnOscillation))
    _check_until(path, repeat.until)
    if not repeat.body:
        raise PlanError(path, "body is empty; give it at least a critic and a refiner")
    _check_siblings(repeat.body, path)
    if asks_people(repeat) and not any(isinstance(term, Approved) for term in terms(repeat.until)):
        remedy = "write until: approved, or put the approve after the loop"
        raise PlanError(path, f"until says nothing of approved, so it does not matter what people say; {remedy}")
    if _asks_outputs(repeat.until) and not any(isinstance(node, Repeat) for node in repeat.body):
        raise PlanError(
            path, "until counts outputs, the drafts of loops in this body, and there are none; add a repeat"
        )


def _check_until(path: str, until: Condition) -> None:
    try:
        check_printable(until)
    except ConditionError as error:
        raise PlanError(path, f"until: {error}") from None


def _asks_outputs(until: Condition) -> bool:
    return any(isinstance(term, Compare) and term.quantity == "outputs" for term in terms(until))


def _check_parallel(parallel: Parallel, path: str) -> None:
    _check_siblings(members(parallel), path)
    check_parallel(parallel, path)


def _check_storable(plan: Plan) -> None:
    """The last resort against values that no setting's own check knows: a plan must come back as it was stored."""
    try:
        same = msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan
    except (msgspec.MsgspecError, UnicodeEncodeError, OverflowError, TypeError) as error:
        raise PlanError("", f"the plan cannot be stored: {error}; use the types that Plan declares") from None
    if not same:
        raise PlanError("", "the plan cannot be stored as it is; use the types that Plan declares, such as tuples")
