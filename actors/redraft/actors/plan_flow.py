"""Whether a plan's steps can follow each other: nothing is judged, refined or published before it is written, and
nothing is published that was not judged.

The check walks the plan once in order and keeps how the draft stands. A loop whose passes leave the draft worse judged
than the first pass found it is walked a second time from there.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, assert_never

from redraft.actors.plan_paths import path_of, steps_in
from redraft.actors.run_state import asks_people
from redraft.events.errors import PlanError
from redraft.events.plan import Approve, Node, Parallel, Repeat, Role, Step

Standing: TypeAlias = Literal["none", "unjudged", "judged"]


def check_flow(nodes: tuple[Node, ...], standing: Standing = "none", parent: str = "") -> Standing:
    """How the draft stands after these nodes, if it stood so before; raises PlanError where a step has no fit draft."""
    for node in nodes:
        standing = _after(node, standing, path_of(parent, node.name))
    return standing


def check_approvals(
    nodes: tuple[Node, ...], parent: str = "", *, approved: bool = False, changed: bool = False
) -> None:
    """Raises PlanError where a draft is published that was changed after people had approved one."""
    for node in nodes:
        path = path_of(parent, node.name)
        role = _role(node)
        if role == "publisher" and approved and changed:
            raise PlanError(path, "what people approved is changed before this step; put the approve after the change")
        if isinstance(node, Repeat):
            check_approvals(node.body, path, approved=approved, changed=changed)
        if isinstance(node, Approve) or (isinstance(node, Repeat) and asks_people(node)):
            approved, changed = True, False
        elif role in ("generator", "refiner") or (isinstance(node, Repeat) and _changes(node)):
            changed = True


def _changes(loop: Repeat) -> bool:
    return any(step.role in ("generator", "refiner") for _, step in steps_in(loop.body))


def _after(node: Node, standing: Standing, path: str) -> Standing:
    match node:
        case Step():
            return _after_role(node.role, standing, path)
        case Parallel():
            after = _after_role(node.steps[0].role, standing, path)
            return after if node.judge is None else "judged"
        case Repeat():
            return _after_repeat(node, standing, path)
        case Approve():
            if standing != "judged":
                raise PlanError(path, "nothing judges the draft before people decide on it; add a critic before this")
            return standing
        case _:
            assert_never(node)


def _after_role(role: Role, standing: Standing, path: str) -> Standing:
    if standing == "none" and role != "generator":
        raise PlanError(path, f"nothing has written a draft yet for this {role}; put a generator before it")
    match role:
        case "generator" | "refiner":
            return "unjudged"
        case "critic":
            return "judged"
        case "publisher":
            if standing != "judged":
                raise PlanError(path, "nothing judges the draft before it is published; add a critic before this step")
            return "judged"
        case _:
            assert_never(role)


def _after_repeat(repeat: Repeat, standing: Standing, path: str) -> Standing:
    end = check_flow(repeat.body, standing, path)
    if not any(_role(node) == "critic" for node in repeat.body):
        _check_without_critic(repeat, end, path)
    if standing == "judged" and end == "unjudged":
        check_flow(repeat.body, end, path)
    return "judged"


def _check_without_critic(repeat: Repeat, end: Standing, path: str) -> None:
    """Such a body is fit when an inner loop or a parallel's judge leaves every draft judged, however the pass ends."""
    if end != "judged" or not any(_judges_inside(node) for node in repeat.body):
        raise PlanError(path, "nothing in the body judges what a pass ends with; add a critic to the body")
    if any(isinstance(node, Step) and node.role == "refiner" for node in repeat.body):
        raise PlanError(path, "its refiner may end the loop with a draft that nothing judges; add a critic to the body")


def _judges_inside(node: Node) -> bool:
    return isinstance(node, Repeat) or (isinstance(node, Parallel) and node.judge is not None)


def _role(node: Node) -> Role | None:
    match node:
        case Step():
            return node.role
        case Parallel():
            return node.steps[0].role
        case Repeat() | Approve():
            return None
        case _:
            assert_never(node)
