"""Names in a plan, and the paths that they make: `Chapters/Refinement/judge`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Final, assert_never

import msgspec

from redraft.actors.values import shown
from redraft.events.bus import LONGEST_NAME, spelled, topic_key, work_queue
from redraft.events.domain_events import EVENT_NAMES
from redraft.events.errors import PlanError
from redraft.events.plan import Approve, Arm, Node, Parallel, Repeat, Role, Step

MAX_NAME: Final = 100
"""The longest name of a workflow, node or actor, in characters."""


def path_of(parent: str, name: object) -> str:
    """A node's path in its plan: the names of the loops and parallels around it, and its own."""
    known = str(name) if is_name(name) else shown(name)
    return f"{parent}/{known}" if parent else known


def steps_in(nodes: Iterable[Node], parent: str = "") -> Iterator[tuple[str, Step]]:
    """Every step with its path, in the order of the plan; a parallel's judge comes after its steps.

    One that chooses comes as often as it has arms, each time as one of them does it.
    """
    for node in nodes:
        path = path_of(parent, node.name)
        match node:
            case Step(choose=()):
                yield path, node
            case Step():
                yield from ((path, as_done_by(node, arm)) for arm in node.choose)
            case Parallel():
                yield from steps_in(node.steps if node.judge is None else (*node.steps, node.judge), path)
            case Repeat():
                yield from steps_in(node.body, path)
            case Approve():
                pass
            case _:
                assert_never(node)


def as_done_by(step: Step, arm: Arm) -> Step:
    """A step that chooses, as one of its arms does it."""
    return msgspec.structs.replace(
        step, actor=arm.actor, options={**step.options, **arm.options}, version=arm.version, choose=()
    )


def step_at(nodes: Iterable[Node], key: str) -> Step:
    """The step at this path in a plan; raises LookupError when there is none."""
    name, _, rest = key.partition("/")
    node = next((each for each in nodes if each.name == name), None)
    match node:
        case Step() if not rest:
            return node
        case Parallel():
            return step_at(node.steps if node.judge is None else (*node.steps, node.judge), rest)
        case Repeat():
            return step_at(node.body, rest)
        case Step() | Approve() | None:
            raise LookupError(f"there is no step {key}")
        case _:
            assert_never(node)


def mapped(nodes: Iterable[Node], change: Callable[[str, Step], Step], parent: str = "") -> tuple[Node, ...]:
    """Returns these nodes with each step, at every depth and judges included, changed; `change` is told its path."""
    return tuple(_mapped(node, change, path_of(parent, node.name)) for node in nodes)


def _mapped(node: Node, change: Callable[[str, Step], Step], path: str) -> Node:
    match node:
        case Step():
            return change(path, node)
        case Parallel():
            judge = None if node.judge is None else change(path_of(path, node.judge.name), node.judge)
            steps = tuple(change(path_of(path, step.name), step) for step in node.steps)
            return msgspec.structs.replace(node, steps=steps, judge=judge)
        case Repeat():
            return msgspec.structs.replace(node, body=mapped(node.body, change, path))
        case Approve():
            return node
        case _:
            assert_never(node)


@lru_cache(maxsize=4096)
def step_key(path: str) -> str:
    """A path without its iterations: `Refinement[2]/judge` is the step `Refinement/judge`."""
    return "/".join(part.partition("[")[0] for part in path.split("/"))


def is_name(name: object) -> bool:
    """Whether this is 1 to 100 letters, digits, `_` and `-`, letters of any script included."""
    if not isinstance(name, str) or not 1 <= len(name) <= MAX_NAME:
        return False
    return f"_{name.replace('-', '_')}".isidentifier()


def check_actor(path: str, role: Role, actor: object) -> None:
    """Raises PlanError unless this can be the name of an actor, whose queue has a name that a broker takes."""
    check_name(path, actor, "actor")
    if str(actor).isascii():
        return  # at most `MAX_NAME` letters, each of which is spelled as it is
    size = len(spelled(work_queue(role, str(actor))))
    if size > LONGEST_NAME:
        fault = f"actor {shown(actor)} makes a queue's name of {size} bytes, in which each letter that is not ASCII"
        raise PlanError(path, f"{fault} counts for up to 12; shorten it, {LONGEST_NAME} are allowed")


def check_workflow(name: str) -> None:
    """Raises PlanError when the events of a workflow of this name could not be made known."""
    size = len(topic_key(max(EVENT_NAMES.values(), key=len), name))
    if size > LONGEST_NAME:
        fault = f"name {shown(name)} makes a routing key of {size} bytes, in which each letter that is not ASCII"
        raise PlanError("", f"{fault} counts for up to 12; shorten it, {LONGEST_NAME} are allowed")


def check_name(path: str, name: object, what: str) -> None:
    """Raises PlanError unless this is a name; `what` says whose: a workflow, node or actor."""
    if is_name(name):
        return
    setting = "actor" if what == "actor" else "name"
    if name is None or (isinstance(name, str) and not name):
        raise PlanError(path, f"{setting} is empty; give the {what} a name")
    if isinstance(name, str) and len(name) > MAX_NAME:
        raise PlanError(path, f"{setting} has {len(name):,} characters; shorten it to {MAX_NAME}")
    raise PlanError(path, f"{setting} {shown(name)} cannot be used; write only letters, digits, _ and -")
