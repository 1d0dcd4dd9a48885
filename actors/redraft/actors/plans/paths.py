"""The nodes of a plan: their kinds, names, changes, and paths made of names, such as `Chapters/Refinement/judge`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, cast

from msgspec.structs import replace

from redraft.actors.values import shown
from redraft.events.bus.port import LONGEST_NAME, encode_name, topic_key, work_queue
from redraft.events.errors import PlanError
from redraft.events.messages.event_names import EVENT_NAMES
from redraft.events.messages.plan import (
    Approve,
    Arm,
    Each,
    Node,
    Parallel,
    Plan,
    Repeat,
    Role,
    Step,
    loops_of,
    members,
    steps_of,
)


def is_critic(node: Node) -> bool:
    """Returns whether a node judges the current draft itself."""
    return role_of(node) == "critic"


def critics_in_row(body: Sequence[Node], index: int) -> tuple[Step, ...]:
    """Returns the critics, of panels too, that stand before `index` with nothing but free steps between them."""
    start = index
    while start and role_of(body[start - 1]) in ("critic", "step"):
        start -= 1
    row: list[Step] = []
    for node in body[start:index]:
        if not is_critic(node):
            continue
        if isinstance(node, Step):
            row.append(node)
        elif isinstance(node, Parallel):
            row += node.steps
    return tuple(row)


def steps_right_before(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Returns the free steps at the end of these nodes, with nothing but critics between them."""
    start = len(nodes)
    while start and role_of(nodes[start - 1]) in ("critic", "step"):
        start -= 1
    return tuple(node for node in nodes[start:] if role_of(node) == "step")


def critics_before(body: Sequence[Node], index: int) -> tuple[Step, ...]:
    """Returns the critics that are asked before the one at `index` with a condition, or before those of its panel."""
    node = body[index]
    inside = node.steps if isinstance(node, Parallel) else ()
    return (*critics_in_row(body, index), *(step for step in inside if step.when is None))


def gates_of(node: Parallel) -> int:
    """Returns how many of the steps are gates; they come first, and answer before the others are requested."""
    return sum(step.gate for step in node.steps)


def is_gate(node: Node) -> bool:
    return isinstance(node, Step) and node.gate


def asks_people(loop: Repeat | None) -> bool:
    """Returns whether people decide which draft leaves this loop."""
    if loop is not None:
        for node in loop.body:
            if type(node) is Approve:
                return True
    return False


def required_answers(node: Parallel) -> int:
    """Returns how many answers a Parallel node waits for."""
    match node.wait:
        case "all":
            return len(node.steps)
        case "first":
            return 1
        case count:
            return count


def closing_body(loop: Repeat) -> tuple[Node, ...]:
    """Returns the critics and free steps of a loop's own body that look at a last draft."""
    return tuple(node for node in loop.body if role_of(node) in ("critic", "step") and not is_about_run(node))


def is_about_run(node: Node) -> bool:
    """Returns whether a step, or each of a parallel's steps, looks at no draft."""
    steps = node.steps if isinstance(node, Parallel) else (node,)
    return all(isinstance(each, Step) and each.about_run for each in steps)


def judges_itself(loop: Repeat) -> bool:
    """Returns whether drafts are judged in a loop's own body, by critics or in choosing the best of several."""
    return any(is_critic(node) or (isinstance(node, Parallel) and node.judge is not None) for node in loop.body)


def has_critics(loop: Repeat) -> bool:
    """Returns whether critics stand in a loop's own body, beside a judge that chooses the best of several drafts."""
    return any(is_critic(node) for node in loop.body)


def role_of(node: Node) -> Role | None:
    """Returns the role of a step, or of a parallel's steps; None for a loop and an approval."""
    match node:
        case Step(role=role):
            return role
        case Parallel(steps=steps):
            return steps[0].role
        case Repeat() | Approve() | Each():
            return None


MAX_NAME: Final = 100
"""The longest name of a workflow, node or actor, in characters."""


def path_of(parent: str, name: object) -> str:
    """Returns a node's path in its plan: the names of the loops and parallels around it, and its own."""
    known = str(name) if is_name(name) else shown(name)
    return f"{parent}/{known}" if parent else known


def steps_in(nodes: Iterable[Node]) -> Iterator[tuple[str, Step]]:
    """Yields every step with its path, in the order of the plan; one that chooses once for each arm, as it does it."""
    for path, step in steps_of(nodes):
        if step.choose:
            yield from ((path, as_done_by(step, arm)) for arm in step.choose)
        else:
            yield path, step


def as_done_by(step: Step, arm: Arm) -> Step:
    """Returns a step that chooses, as one of its arms does it."""
    return replace(step, actor=arm.actor, options={**step.options, **arm.options}, version=arm.version, choose=())


def step_at(nodes: Iterable[Node], key: str) -> Step:
    """Returns the step at this path in a plan; raises LookupError when there is none."""
    step = next((step for path, step in steps_of(nodes) if path == key), None)
    if step is None:
        raise LookupError(f"there is no step {key}")
    return step


def find_loop(plan: Plan, name: str = "") -> str:
    """Returns the path of the loop of this name or path; without one, that of the only outermost loop.

    Raises PlanError, which lists the loops, when none or several fit.
    """
    paths = [path for path, _ in loops_of(plan.steps)]
    fit = [path for path in paths if (name in (path, path.rpartition("/")[2]) if name else "/" not in path)]
    match [name] if name in paths else fit:
        case [one]:
            return one
        case [] if paths and not name:
            raise PlanError(plan.name, f"which loop is meant? Name one with its path: {', '.join(paths)}")
        case []:
            there = f"it has {', '.join(paths)}" if paths else "it has no loop"
            raise PlanError(plan.name, f"there is no loop {name!r}; {there}" if name else there)
        case several:
            raise PlanError(plan.name, f"which loop is meant? Name one with its path: {', '.join(several)}")


def map_nodes(nodes: Iterable[Node], change: Callable[[str, Node], Node], parent: str = "") -> tuple[Node, ...]:
    """Returns these nodes with each node, at every depth, changed, inner ones first; `change` gets its path."""
    return tuple(_map_node(node, change, path_of(parent, node.name)) for node in nodes)


def _map_node(node: Node, change: Callable[[str, Node], Node], path: str) -> Node:
    if isinstance(node, Repeat | Each):
        node = replace(node, body=map_nodes(node.body, change, path))
    elif isinstance(node, Parallel):
        changed = cast("tuple[Step, ...]", map_nodes(members(node), change, path))
        count = len(node.steps)
        node = replace(node, steps=changed[:count], judge=changed[count] if node.judge else None)
    return change(path, node)


def map_steps(nodes: Iterable[Node], change: Callable[[str, Step], Step]) -> tuple[Node, ...]:
    """Returns these nodes with each step, at every depth and judges included, changed; `change` gets its path."""
    return map_nodes(nodes, lambda path, node: change(path, node) if isinstance(node, Step) else node)


@lru_cache(maxsize=4096)
def step_key(path: str) -> str:
    """Returns a path without its iterations: `Refinement[2]/judge` is the step `Refinement/judge`."""
    return "/".join(part.partition("[")[0] for part in path.split("/"))


def is_name(name: object) -> bool:
    """Returns whether this is 1 to 100 letters, digits, `_` and `-`, letters of any script included."""
    if not isinstance(name, str) or not 1 <= len(name) <= MAX_NAME:
        return False
    return f"_{name.replace('-', '_')}".isidentifier()


def check_actor(path: str, role: Role, actor: object, longest: int = LONGEST_NAME) -> None:
    """Raises PlanError unless this can be the name of an actor, whose queue has a name of at most so many bytes."""
    check_name(path, actor, "actor")
    if str(actor).isascii():
        return  # at most `MAX_NAME` letters, each of which is spelled as it is
    size = len(encode_name(work_queue(role, str(actor))))
    if size > longest:
        fault = f"actor {shown(actor)} makes a queue's name of {size} bytes, in which each letter that is not ASCII"
        raise PlanError(path, f"{fault} counts for up to 12; shorten it, {longest} are allowed")


def check_workflow(name: str) -> None:
    """Raises PlanError when the routing keys of a workflow of this name would be too long."""
    size = len(topic_key(max(EVENT_NAMES.values(), key=len), name))
    if size > LONGEST_NAME:
        fault = f"name {shown(name)} makes a routing key of {size} bytes, in which each letter that is not ASCII"
        raise PlanError("", f"{fault} counts for up to 12; shorten it, {LONGEST_NAME} are allowed")


def check_name(path: str, name: object, what: str) -> None:
    """Raises PlanError unless this is a name; `what` is the kind of thing named: a workflow, node or actor."""
    if is_name(name):
        return
    setting = "actor" if what == "actor" else "name"
    if name is None or (isinstance(name, str) and not name):
        raise PlanError(path, f"{setting} is empty; give the {what} a name")
    if isinstance(name, str) and len(name) > MAX_NAME:
        raise PlanError(path, f"{setting} has {len(name):,} characters; shorten it to {MAX_NAME}")
    raise PlanError(path, f"{setting} {shown(name)} cannot be used; write only letters, digits, _ and -")
