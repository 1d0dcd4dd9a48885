"""Validates plans. The same rules hold for plans from Python, from YAML or from elsewhere.

The order of steps is checked too: a draft is written before it is judged, and judged before it is published. That check
walks the plan once in order and keeps the state of the draft. A loop whose iterations leave the draft worse judged than
the first one found it is walked a second time from there.

Each fault is a PlanError with the path of the node, such as `Refinement/judge`. A fault of one setting begins with the
setting's name, as it is written in YAML.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Final, assert_never, get_args

import msgspec

from redraft.actors.conditions.holding import check_reading
from redraft.actors.conditions.printing import print_condition
from redraft.actors.conditions.reading import SCORE, check_gain, check_name_declared, critics_of
from redraft.actors.conditions.text import check_printable, is_reference, terms
from redraft.actors.conditions.values import check_values
from redraft.actors.plans.check_begin import check_gate_rows, check_names, check_questions
from redraft.actors.plans.check_flow import check_approvals, check_flow
from redraft.actors.plans.check_items import check_each
from redraft.actors.plans.check_lessons import check_lessons
from redraft.actors.plans.check_nodes import (
    check_budget,
    check_choice,
    check_parallel,
    check_whole,
)
from redraft.actors.plans.check_people import check_approve, check_endings
from redraft.actors.plans.check_state import check_state, check_writers
from redraft.actors.plans.check_steps import check_late_critics, check_late_in_panel, check_step, late_critics
from redraft.actors.plans.items import item_plan
from redraft.actors.plans.paths import MAX_NAME, asks_people, check_name, check_workflow, is_critic, path_of, role_of
from redraft.actors.values import is_number, shown
from redraft.events.errors import ConditionError, PlanError
from redraft.events.messages.conditions import Approved, Compare, Condition
from redraft.events.messages.plan import (
    DEFAULT_ROLLBACK_MARGIN,
    Approve,
    Each,
    Keep,
    Node,
    OnFailure,
    OnStepFailure,
    Parallel,
    Plan,
    Repeat,
    Step,
    eaches_of,
    members,
    nodes_of,
    steps_of,
)

MAX_NODES: Final = 200
"""The number of steps, loops and parallels that a plan may have, at all depths together."""

MAX_DEPTH: Final = 8
"""The depth to which loops and parallels may nest."""

MAX_ITERATIONS: Final = 1_000_000
"""The highest `max_iterations`."""

_CONTAINERS: Final = (Parallel, Repeat, Each)


def check_plan(plan: Plan) -> Plan:
    """Returns the plan itself if it can be run; else raises PlanError with the first fault's path and its remedy."""
    if not isinstance(plan, Plan):
        raise PlanError("", f"{shown(plan)} is not a plan; build one with Workflow, or read it from YAML")
    check_name("", plan.name, "workflow")
    check_workflow(plan.name)
    check_choice("", "on_failure", plan.on_failure, get_args(OnFailure))
    if not plan.steps:
        raise PlanError("", f"the workflow {plan.name!r} has no steps; begin with one that generates a draft")
    check_nodes(plan.steps, "")
    check_late_critics(plan.steps, "")
    check_budget("budget", plan.budget)
    check_budget("daily_budget", plan.daily, a_day=True)
    check_state(plan.state)
    check_lessons(plan.lessons)
    check_writers(plan.steps, plan.state)
    if check_flow(plan.steps) == "none":
        raise PlanError("", f"nothing in the workflow {plan.name!r} writes a draft; add a generator")
    check_approvals(plan.steps)
    _check_storable(plan)
    return plan


_POLICY: Final = frozenset({"until", "rollback_margin"})


def check_ready(plan: Plan, path: str | None = None, changed: Set[str] = _POLICY, *, begun: bool = False) -> Plan:
    """Returns the plan itself if a run of it can begin: it is right, and its conditions fit what its critics declare.

    With a `path`, only the node there is looked at, and of a loop only the settings that were `changed`. What is asked
    of new runs alone is asked neither then nor of a plan that a run has `begun` with, as that of its items.
    Raises PlanError: a criterion that no critic of the loop declares, a number on no scale of theirs, or on two.
    """
    for place, node in nodes_of(check_plan(plan).steps, own=True):
        if path is not None and place != path:
            continue
        try:
            _check_declared(plan, node, changed)
        except ConditionError as error:
            raise PlanError(place, str(error)) from None
    for place, step, before in late_critics(plan.steps) if path is None else ():
        _check_late(place, step, before)
    if path is None and not begun:
        check_names(plan.steps)
        check_gate_rows(plan.steps)
        check_questions(plan.steps)
    for place, each in eaches_of(plan.steps):
        _check_items(plan, place, each, path, changed, begun=begun)
    return plan


def _check_items(plan: Plan, place: str, each: Each, path: str | None, changed: Set[str], *, begun: bool) -> None:
    """Raises PlanError unless runs of the items can begin, as `check_ready` does of a plan."""
    if path is not None and not path.startswith(f"{place}/"):
        return
    made = item_plan(plan, each)
    if len(made.name) > MAX_NAME:
        both = f"the workflow of its items is {plan.name}-{each.name}, which has {len(made.name):,} characters"
        raise PlanError(place, f"{both}; shorten either name: together they have at most {MAX_NAME - 1}")
    try:
        check_ready(made, path and path.removeprefix(f"{place}/"), changed, begun=begun)
    except PlanError as error:
        raise PlanError(f"{place}/{error.path}" if error.path else place, error.fault) from None


def _check_late(path: str, step: Step, before: tuple[Step, ...]) -> None:
    assert step.when is not None  # noqa: S101 - only such are yielded
    try:
        check_reading(step.when, before)
    except ConditionError as error:
        fault = str(error)
        if _reads(step.when, (*before, step)):
            own = "is about what this critic says itself, and it is asked only if that holds"
            fault = f"{print_condition(step.when)} {own}; name what those before it say"
        raise PlanError(path, f"when: {fault}") from None


def _reads(condition: Condition, critics: Sequence[Step]) -> bool:
    try:
        check_reading(condition, critics)
    except ConditionError:
        return False
    return True


def _check_declared(plan: Plan, node: Node, changed: Set[str]) -> None:
    match node:
        case Repeat():
            critics = critics_of(node.body)
            if "until" in changed:
                _named("until", lambda: check_reading(node.until, critics))
                _named("until", lambda: _check_changes(node))
                _named("until", lambda: check_values(node.until, plan.state))
            if changed & {"rollback_margin", "rollback_of"}:
                _check_rollback(node, critics)
        case Step(passes=passes, success=success):
            if passes is not None:
                _named("gate", lambda: check_reading(passes, (node,)))
            if success is not None:
                _named("success", lambda: check_reading(success, critics_of(plan.steps)))
            if (when := node.when) is not None:
                _named("when", lambda: check_values(when, plan.state))
        case _:
            pass


def _check_rollback(loop: Repeat, critics: Sequence[Step]) -> None:
    if loop.rollback_of:
        _named("rollback_of", lambda: check_name_declared(loop.rollback_of, critics))
    margin, top, name = loop.rollback_margin, loop.rollback_top, loop.rollback_of or SCORE
    check_gain("rollback_margin", "rollback_margin: ", margin, top, DEFAULT_ROLLBACK_MARGIN, name, critics)


def _check_changes(loop: Repeat) -> None:
    """Raises ConditionError when no critic of the loop's own judges the drafts whose change its condition looks at."""
    changes = [term for term in terms(loop.until) if isinstance(term, Compare) and term.quantity == "change"]
    if changes and not any(is_critic(node) for node in loop.body):
        raise ConditionError(
            f"{print_condition(changes[0])}: critics of an inner loop measure that; put it into theirs"
        )


def _named(setting: str, check: Callable[[], object]) -> None:
    try:
        check()
    except ConditionError as error:
        raise ConditionError(f"{setting}: {error}") from None


def check_nodes(nodes: tuple[Node, ...], parent: str) -> None:
    """Raises PlanError when one of these siblings is wrong in itself, or when two have one name."""
    _check_size(nodes, parent)
    _check_siblings(nodes, parent)


def _check_size(nodes: object, parent: str) -> None:
    """Bounds the number and depth of nodes, before the checks that visit each node."""
    waiting = [(node, parent, 0) for node in _tuple(nodes, parent)]
    for count, (node, around, depth) in enumerate(waiting, 1):
        path = path_of(around, getattr(node, "name", node))
        if not isinstance(node, (Step, Approve, *_CONTAINERS)):
            raise PlanError(path, "this is not a node of a plan; give a Step, Parallel, Repeat, Each or Approve")
        if count > MAX_NODES:
            raise PlanError(path, f"the plan has more than {MAX_NODES} nodes; split it into several workflows")
        if isinstance(node, _CONTAINERS) and depth == MAX_DEPTH:
            raise PlanError(path, f"loops and parallels nest more than {MAX_DEPTH} deep; make the plan flatter")
        waiting += [(inner, path, depth + 1) for inner in _inner(node, path)]


def _inner(node: Node, path: str) -> tuple[object, ...]:
    if isinstance(node, Repeat | Each):
        return _tuple(node.body, path)
    if isinstance(node, Parallel):
        return (*_tuple(node.steps, path), *(() if node.judge is None else (node.judge,)))
    return ()


def _tuple(nodes: object, path: str) -> tuple[object, ...]:
    if not isinstance(nodes, tuple):
        raise PlanError(path, f"{shown(nodes)} is not a tuple of nodes; write (first, second)")
    return nodes


def _check_siblings(nodes: Sequence[Node], parent: str) -> None:
    """Checks all names first: a path identifies a node only if the names differ."""
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
            check_step(node, path)
        case Parallel():
            _check_siblings(members(node), path)
            check_parallel(node, path)
            check_late_in_panel(node, path)
        case Repeat():
            _check_repeat(node, path)
        case Approve():
            check_approve(node, path)
        case Each():
            check_each(node, path)
            _check_siblings(node.body, path)
            check_late_critics(node.body, path)
        case _:
            assert_never(node)


def _check_gates(nodes: Sequence[Node], parent: str) -> None:
    """Raises PlanError unless gates come before other critics: they save those the work."""
    before = ""
    for node in nodes:
        steps = node.steps if isinstance(node, Parallel) else (node,)
        critics = [step for step in steps if isinstance(step, Step) and step.role == "critic"]
        if before and any(step.gate for step in critics):
            raise PlanError(
                path_of(parent, node.name), f"gate: gates are asked before other critics; put it before {before}"
            )
        if not critics:
            before = before if role_of(node) == "step" else ""
        elif not all(step.gate for step in critics):
            before = node.name


def _check_repeat(repeat: Repeat, path: str) -> None:
    check_whole(path, "max_iterations", repeat.max_iterations, MAX_ITERATIONS)
    check_choice(path, "keep", repeat.keep, get_args(Keep))
    if not (is_number(repeat.rollback_margin) and repeat.rollback_margin >= 0):
        raise PlanError(path, f"rollback_margin is {shown(repeat.rollback_margin)}; write 0.1, or 1 of 10")
    if repeat.rollback_top is not None and not (is_number(repeat.rollback_top) and repeat.rollback_top > 0):
        raise PlanError(path, f"rollback_margin: of {shown(repeat.rollback_top)} names no scale; write 1 of 10")
    if repeat.rollback_of and not is_reference(repeat.rollback_of):
        raise PlanError(path, f"rollback_of is {shown(repeat.rollback_of)}; write a criterion, such as accuracy")
    check_endings(repeat, path)
    check_choice(path, "on_failure", repeat.on_failure, get_args(OnStepFailure))
    check_whole(path, "max_failures", repeat.max_failures, MAX_ITERATIONS)
    if repeat.on_failure == "refine" and not any(role_of(node) == "refiner" for node in repeat.body):
        raise PlanError(path, "on_failure is refine, and no refiner is in the body to mend the draft; add one")
    if repeat.on_failure == "refine" and any(each.only_issues for _, each in steps_of(repeat.body, own=True)):
        raise PlanError(path, "on_failure is refine, and its refiner mends only_issues; remove one of the two")
    try:
        check_printable(repeat.until)
    except ConditionError as error:
        raise PlanError(path, f"until: {error}") from None
    if not repeat.body:
        raise PlanError(path, "body is empty; give it at least a critic and a refiner")
    _check_siblings(repeat.body, path)
    check_late_critics(repeat.body, path)
    if asks_people(repeat) and not any(isinstance(term, Approved) for term in terms(repeat.until)):
        remedy = "write until: approved, or put the approve after the loop"
        raise PlanError(
            path, f"until does not mention approved, so the decision of people would have no effect; {remedy}"
        )
    counts = any(isinstance(term, Compare) and term.quantity == "outputs" for term in terms(repeat.until))
    if counts and not any(isinstance(node, Repeat | Each) for node in repeat.body):
        raise PlanError(
            path, "until uses outputs, the drafts of loops in this body, but the body has no loop; add a repeat or each"
        )


def _check_storable(plan: Plan) -> None:
    """Raises PlanError when the plan would not come back as it was stored; catches values that no other check knows."""
    try:
        same = msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan
    except (msgspec.MsgspecError, UnicodeEncodeError, OverflowError, TypeError) as error:
        raise PlanError("", f"the plan cannot be stored: {error}; use the types that Plan declares") from None
    if not same:
        raise PlanError("", "the plan cannot be stored as it is; use the types that Plan declares, such as tuples")
