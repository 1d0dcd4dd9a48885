"""The ends of loops: policies, limits changed during a run, and the detection of oscillation. Pure."""

from __future__ import annotations

from sys import getsizeof
from typing import Final

import msgspec
from msgspec.structs import asdict, astuple, replace

from redraft.actors.conditions.printing import print_condition, print_points
from redraft.actors.deciding.state import Frame, Made, RunState
from redraft.actors.plans.check import check_ready
from redraft.actors.plans.endings import may_ask, with_questions
from redraft.actors.plans.paths import closing_body, find_loop, map_nodes
from redraft.events.errors import PlanError
from redraft.events.messages.conditions import Condition, Points
from redraft.events.messages.content import Draft, DraftRef
from redraft.events.messages.plan import Ending, Keep, Node, Plan, Repeat


def with_plan(state: RunState, plan: Plan) -> RunState:
    """Returns the state of a run whose plan has other limits now, also in the loops that are in progress."""
    frames: list[Frame] = []
    body = plan.steps
    for frame in state.frames:
        if frame.review is not None and state.rules >= 2:
            frames.append(frame)
            continue
        if frame.node is None:
            frames.append(replace(frame, body=with_questions(body)))
            continue
        loop = next(node for node in body if isinstance(node, Repeat) and node.name == frame.node.name)
        frames.append(replace(frame, node=loop, body=_body_of(frame, loop)))
        body = loop.body
    return replace(state, plan=plan, frames=tuple(frames))


def _body_of(frame: Frame, loop: Repeat) -> tuple[Node, ...]:
    """Returns the body of a loop in progress that has other settings now; of one that is closing, the same part."""
    if not frame.closing:
        return with_questions(loop.body)
    there = {node.name for node in frame.body}
    return tuple(node for node in closing_body(loop) if node.name in there)


class Policy(msgspec.Struct, frozen=True):
    """The settings of a loop that are to be different. None leaves a setting as its plan has it.

    A margin may say its scale: `Points(1, 10)`. `rollback_of` is the criterion that it is about, "" for the score.
    """

    until: Condition | None = None
    max_iterations: int | None = None
    keep: Keep | None = None
    rollback_margin: float | Points | None = None
    rollback_of: str | None = None
    on_exhausted: Ending | None = None
    on_plateau: Ending | None = None

    @property
    def changes_nothing(self) -> bool:
        return self == Policy()

    def __str__(self) -> str:
        said = asdict(self)
        if self.until is not None:
            said["until"] = print_condition(self.until)
        if isinstance(self.rollback_margin, Points):
            said["rollback_margin"] = print_points(*astuple(self.rollback_margin))
        return ", ".join(f"{name} {value}" for name, value in said.items() if value is not None)


def with_policy(plan: Plan, policy: Policy, loop: str = "") -> Plan:
    """Returns the plan with another policy for the loop of this name or path. Raises PlanError.

    What is given is checked, and no condition that the plan had before: its run began with that.
    """
    path = find_loop(plan, loop)
    given = {name: value for name, value in asdict(policy).items() if value is not None}
    if isinstance(margin := policy.rollback_margin, Points):
        given |= {"rollback_margin": margin.value, "rollback_top": margin.of}
    elif margin is not None:
        given["rollback_top"] = None

    def changed(place: str, node: Node) -> Node:
        if place != path or not isinstance(node, Repeat):
            return node
        made = replace(node, **given)
        return made if may_ask(made) else replace(made, ask=None)

    found = replace(plan, steps=map_nodes(plan.steps, changed))
    return check_ready(found, path, given.keys())


def with_limits(plan: Plan, loop: str, until: Condition | None, max_iterations: int | None) -> Plan:
    """Returns the plan with another condition or number of iterations for a loop, checked; None changes nothing.

    Raises PlanError when there is no such loop, nothing is changed, or the plan is wrong then.
    """
    policy = Policy(until, max_iterations)
    if policy.changes_nothing:
        raise PlanError(find_loop(plan, loop), "nothing is changed; give another condition or number of iterations")
    return with_policy(plan, policy, loop)


REMEMBERED: Final = 32
"""The number of a loop's latest drafts that a new one is compared with."""

MAX_SWINGS: Final = 5
"""The number of latest oscillations that a refiner is told about."""

LONGEST: Final = 20_000
"""The number of lines above which drafts are compared only as a whole."""


def looks_for_oscillation(frame: Frame) -> bool:
    """Returns whether the loop of this frame looks for oscillation at all."""
    return frame.node is not None and frame.node.on_oscillation != "ignore"


def with_made_draft(frame: Frame, draft: Draft | DraftRef, before: int) -> Frame:
    """Returns the frame with a draft made from the version `before`, and what it repeats or undoes, if anything.

    A new draft (`before` is 0) repeats nothing, even if it has the text of another.
    """
    lines = _lines(draft)
    made = Made(draft.version, before, draft.sha256, lines, sum(map(getsizeof, lines or ())))
    swing = _describe_swing(frame.made, made) if before else ""
    swings = (*frame.swings, swing)[-MAX_SWINGS:] if swing else frame.swings
    known = (*frame.made, made)[-REMEMBERED:]
    return replace(frame, made=known, swung=swing, swings=swings, heat=frame.heat + bool(swing))


def _describe_swing(known: tuple[Made, ...], made: Made) -> str:
    by_version = {each.version: each for each in known}
    parent = by_version.get(made.before)
    if parent is not None and parent.sha256 == made.sha256:
        return ""  # nothing was changed, and nothing repeated
    for each in reversed(known):
        if each.sha256 == made.sha256:
            return f"draft {made.version} has the text of draft {each.version} again"
    grandparent = by_version.get(parent.before) if parent else None
    if parent and grandparent and _is_undone(grandparent, parent, made):
        return f"draft {made.version} undid a change of draft {parent.version}, back to draft {grandparent.version}"
    return ""


def _is_undone(first: Made, second: Made, third: Made) -> bool:
    """Returns whether the third draft restores lines that the second had replaced."""
    if first.lines is None or second.lines is None or third.lines is None:
        return False
    added, removed = second.lines - first.lines, first.lines - second.lines
    return bool(added - third.lines) and bool(removed & third.lines)


def _lines(draft: Draft | DraftRef) -> frozenset[str] | None:
    if isinstance(draft, DraftRef):
        return None
    lines = draft.text.splitlines()
    return frozenset(line for each in lines if (line := each.strip())) if len(lines) <= LONGEST else None
