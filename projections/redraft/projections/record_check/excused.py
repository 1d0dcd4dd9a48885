"""Checks that a loop goes on after a failure only as its plan says, and tells the next refinement of the error."""

from __future__ import annotations

from msgspec.structs import replace

from redraft.events.messages.domain_events import DraftCritiqued, StepFailed
from redraft.events.messages.plan import Node, Parallel, Repeat
from redraft.projections.record_check.ratings import Rated, Rating, role_of
from redraft.projections.record_check.walk import Frame, Walk

_NOTHING = Rating(0.0, 1, None, (), scored=False, broken=True)
"""The rating of a draft after a step failed that was to look at it: none."""


def excuses(walk: Walk, frame: Frame, node: Node) -> bool:
    """Returns whether the loop goes on after the failure that was read last, of a step of this node."""
    failed, loop = walk.events[walk.next - 1].data, frame.loop
    if loop is None or loop.on_failure != "refine" or not isinstance(failed, StepFailed) or failed.kind == "unserved":
        return False
    if frame.closing or walk.current is None or role_of(node) not in ("critic", "step"):
        return False
    if isinstance(node, Parallel) and node.judge is not None:
        return False
    return frame.excused < loop.max_failures and (
        _next_drafting(frame) < len(frame.body) or frame.iteration < walk.max_iterations(frame)
    )


def go_on(walk: Walk, frame: Frame) -> None:
    """Goes on with the next refinement, which is told of what critics said before the failure, and of the failure."""
    assert walk.current is not None  # noqa: S101 - `excuses` saw to it
    ref, before = walk.current.ref, walk.current.rating.critiques if walk.current.rating else ()
    said = [
        each.version
        for each in walk.events[: walk.next]
        if isinstance(each.data, DraftCritiqued) and each.data.draft == ref and _is_own(frame, each.data.path)
    ]
    told = (*before, *(version for version in said if version not in before))
    walk.current = Rated(ref, replace(_NOTHING, critiques=told))
    walk.untold += (walk.events[walk.next - 1].version,)
    walk.open, frame.unmet = {}, None
    frame.index, frame.due, frame.heard, frame.excused = _next_drafting(frame), "", (), frame.excused + 1


def _is_own(frame: Frame, path: str) -> bool:
    """Returns whether the step at this path is one of this iteration itself, and of no loop within it."""
    return path.startswith(frame.prefix) and "[" not in path.removeprefix(frame.prefix)


def _next_drafting(frame: Frame) -> int:
    """Returns the index of the next node that makes drafts, from the frame's on; the length of the body without one."""
    for index, node in enumerate(frame.body):
        if index >= frame.index and (isinstance(node, Repeat) or role_of(node) in ("generator", "refiner")):
            return index
    return len(frame.body)
