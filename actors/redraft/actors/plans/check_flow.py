"""Validates the order of steps: a draft is written before it is judged, and judged before it is published."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, assert_never

from redraft.actors.conditions.values import asks_critics
from redraft.actors.plans.paths import asks_people, is_critic, path_of, role_of
from redraft.events.errors import PlanError
from redraft.events.messages.plan import Approve, Each, Node, Parallel, Repeat, Role, Step, steps_of

CHANGED: Final = "a step before this one changes what people approved; put the approve after the change"
"""The fault of a publisher that would publish another draft than people approved."""

DraftState: TypeAlias = Literal["none", "unjudged", "judged", "vouched"]
"""The states of a draft in a plan: one is `vouched` that left a loop without critics, by its condition."""


def check_flow(nodes: tuple[Node, ...], draft: DraftState = "none", parent: str = "") -> DraftState:
    """Returns the state of the draft after these nodes; raises PlanError if a step lacks a fit draft."""
    for node in nodes:
        draft = _after(node, draft, path_of(parent, node.name))
    return draft


def check_approvals(
    nodes: tuple[Node, ...], parent: str = "", *, approved: bool = False, changed: bool = False
) -> None:
    """Raises PlanError where a draft is published that was changed after people had approved one."""
    for node in nodes:
        path = path_of(parent, node.name)
        role = role_of(node)
        if role == "publisher" and approved and changed:
            raise PlanError(path, CHANGED)
        if isinstance(node, Repeat):
            check_approvals(node.body, path, approved=approved, changed=changed)
        if isinstance(node, Each):
            check_approvals(node.body, path)
        if isinstance(node, Approve) or (isinstance(node, Repeat) and asks_people(node)):
            approved, changed = True, False
        elif role in ("generator", "refiner") or _changes(node):
            changed = True


def _changes(node: Node) -> bool:
    """Returns whether drafts are made inside a loop, or by runs of items."""
    if not isinstance(node, Repeat | Each):
        return False
    return any(step.role in ("generator", "refiner") for _, step in steps_of(node.body))


def _after(node: Node, draft: DraftState, path: str) -> DraftState:
    match node:
        case Step():
            return _after_role(node.role, draft, path)
        case Parallel():
            after = _after_role(node.steps[0].role, draft, path)
            return after if node.judge is None else "judged"
        case Repeat():
            return _after_repeat(node, draft, path)
        case Approve():
            if draft not in ("judged", "vouched"):
                raise PlanError(path, "nothing judges the draft before people decide on it; add a critic before this")
            return draft
        case Each():
            return _after_each(node, path)
        case _:
            assert_never(node)


def _after_each(each: Each, path: str) -> DraftState:
    """Returns the state of the last item's draft: its own run may have judged it, and this one has not."""
    if check_flow(each.body, "none", path) == "none":
        raise PlanError(path, "nothing in the body writes a draft; begin it with a generator")
    return "unjudged"


def _after_role(role: Role, draft: DraftState, path: str) -> DraftState:
    if role in ("step", "run"):
        return draft
    if draft == "none" and role != "generator":
        raise PlanError(path, f"nothing has written a draft yet for this {role}; put a generator before it")
    match role:
        case "generator" | "refiner":
            return "unjudged"
        case "critic":
            return "judged"
        case "publisher":
            if draft not in ("judged", "vouched"):
                raise PlanError(path, "nothing judges the draft before it is published; add a critic before this step")
            return draft
        case "step" | "run":
            return draft
        case _:
            assert_never(role)


def _after_repeat(repeat: Repeat, draft: DraftState, path: str) -> DraftState:
    end = check_flow(repeat.body, draft, path)
    conditions = frozenset(node.actor for node in repeat.body if isinstance(node, Step) and node.condition)
    own = any(is_critic(node) and not getattr(node, "condition", False) for node in repeat.body)
    if not own and asks_critics(repeat.until, conditions):
        _check_without_critic(repeat, end, path)
    if draft in ("judged", "vouched") and end == "unjudged":
        check_flow(repeat.body, end, path)
    if end == "none" or own or end == "judged":
        return end if end == "none" else "judged"
    return "vouched"


def _check_without_critic(repeat: Repeat, end: DraftState, path: str) -> None:
    """Raises PlanError unless an inner loop or a parallel's judge leaves every draft of this body judged."""
    if end != "judged" or not any(_judges_inside(node) for node in repeat.body):
        remedy = "add a critic to the body, or let until read the state alone"
        raise PlanError(path, f"nothing in the body judges what an iteration ends with; {remedy}")
    if any(isinstance(node, Step) and node.role == "refiner" for node in repeat.body):
        raise PlanError(path, "its refiner may end the loop with a draft that nothing judges; add a critic to the body")


def _judges_inside(node: Node) -> bool:
    return isinstance(node, Repeat) or (isinstance(node, Parallel) and node.judge is not None)
