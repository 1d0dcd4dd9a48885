"""Begins loops, and their next iterations."""

from __future__ import annotations

from msgspec.structs import replace

from redraft.actors.deciding.policy import looks_for_oscillation, with_made_draft
from redraft.actors.deciding.run_values import current_version
from redraft.actors.deciding.state import Frame, RunState, frame_at, with_top
from redraft.actors.plans.endings import with_questions
from redraft.events.messages.domain_events import IterationStarted
from redraft.events.messages.plan import Repeat


def begin_iteration(state: RunState, event: IterationStarted) -> RunState:
    """Returns the state in which an iteration of a loop has begun; with its first one, the loop."""
    outermost = event.path.count("/") == 0
    state = replace(state, iterations=state.iterations + outermost)
    top = state.frames[-1]
    if event.iteration > 1:
        return with_top(state, replace(top, iteration=event.iteration, index=0, due="nothing"))
    top = frame_at(top, event.path)
    node = top.body[top.index]
    assert isinstance(node, Repeat)  # noqa: S101 - only a loop's event names a loop
    loop = _enter_loop(state, Frame(with_questions(node.body), event.path, node, iteration=1))
    if looks_for_oscillation(loop) and state.current:
        loop = with_made_draft(loop, state.current.ref, 0)
    top = replace(top, due="nothing", judged=() if top.node is None else top.judged)
    return replace(state, frames=(*state.frames[:-1], top, loop))


def _enter_loop(state: RunState, loop: Frame) -> Frame:
    """Returns the loop as it begins with the current draft."""
    judged = state.current if state.current and state.current.judgement else None
    if state.rules < 2:
        return replace(loop, best=judged, last=judged)
    return replace(loop, entry=judged, began=current_version(state))
