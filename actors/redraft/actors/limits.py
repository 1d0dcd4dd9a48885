"""When the loops of a plan end, changed while a run goes on."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from redraft.actors.plan_check import check_plan
from redraft.actors.run_state import Frame, RunState, closing_body
from redraft.events.conditions import Condition
from redraft.events.errors import PlanError
from redraft.events.plan import Node, Plan, Repeat, loops_of


def loop_path(plan: Plan, path: str = "") -> str:
    """The path of the loop that is meant: the one outermost loop when none is named. Raises PlanError."""
    known = [each for each, _ in loops_of(plan.steps)]
    fit = [each for each in known if each == path or (not path and "/" not in each)]
    if len(fit) != 1:
        there = f"there are {', '.join(known)}" if known else "the plan has no loop"
        raise PlanError(path or plan.name, f"name one loop by its path; {there}")
    return fit[0]


def with_limits(plan: Plan, path: str, until: Condition | None, max_iterations: int | None) -> Plan:
    """The plan with another condition or number of passes (what is None stays) for the loop of this path, checked.

    Raises PlanError when there is no such loop, nothing is changed, or the plan is wrong then.
    """
    place = loop_path(plan, path)
    if until is None and max_iterations is None:
        raise PlanError(place, "nothing is changed; give another condition or number of passes")
    return with_loop(plan, place, {"until": until, "max_iterations": max_iterations})


def with_loop(plan: Plan, path: str, fields: Mapping[str, object]) -> Plan:
    """Returns the plan with these fields of one loop, checked; a field that is None stays. Raises PlanError."""
    given = {name: value for name, value in fields.items() if value is not None}
    return check_plan(replace(plan, steps=_changed(plan.steps, path.split("/"), given)))


def _changed(nodes: tuple[Node, ...], names: list[str], given: Mapping[str, object]) -> tuple[Node, ...]:
    return tuple(
        _changed_loop(node, names[1:], given) if isinstance(node, Repeat) and node.name == names[0] else node
        for node in nodes
    )


def _changed_loop(loop: Repeat, names: list[str], given: Mapping[str, object]) -> Repeat:
    return replace(loop, **({"body": _changed(loop.body, names, given)} if names else given))


def replanned(state: RunState, plan: Plan) -> RunState:
    """The state of a run whose plan has other limits now: the loops that it stands in have them too."""
    frames: list[Frame] = []
    body = plan.steps
    for frame in state.frames:
        if frame.review is not None and state.rules >= 2:
            frames.append(frame)
            continue
        if frame.node is None:
            frames.append(replace(frame, body=body))
            continue
        loop = next(node for node in body if isinstance(node, Repeat) and node.name == frame.node.name)
        frames.append(replace(frame, node=loop, body=closing_body(loop) if frame.closing else loop.body))
        body = loop.body
    return replace(state, plan=plan, frames=tuple(frames))
