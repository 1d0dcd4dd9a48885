"""The draft of a run that cannot go on, as a step failed for good or its budget is used up. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from redraft.actors.deciding.candidates import asks_inside, best_of, is_approved, why_barred
from redraft.actors.deciding.closing import question_due
from redraft.actors.deciding.state import CRITICS_DECIDE, Candidate, Frame, RunState, failed_a_gate
from redraft.actors.plans.paths import asks_people, is_gate, judges_itself
from redraft.events.messages.plan import Approve, Node, Repeat, nodes_of


def draft_to_salvage(state: RunState) -> Candidate | None:
    """Returns the draft of a run that cannot go on which may be published; None when there is none.

    By rules 2 that is the best of the loop in which the run failed, or else of the next one around, but no draft from
    before the loops. If people decide, it is the one that they approved, and none while they would have to be asked
    once more, or are to decide at a loop's end. By rules 8 a draft that a gate is still to see is left out.
    """
    if state.rules < 2:
        return None if _is_held_back(state) else state.best
    if any(map(asks_inside, _nodes_to_come(state))) or any(map(question_due, state.frames)):
        return None
    for depth in reversed(range(len(state.frames))):
        draft = left_on_failure(state, state.frames[depth])
        if draft is not None and not (
            state.rules >= CRITICS_DECIDE and any(map(_loop_awaits_gate, state.frames[:depth]))
        ):
            return draft
    return None


def left_on_failure(state: RunState, frame: Frame) -> Candidate | None:
    """Returns the draft a loop ends with when the run cannot go on: its own best, or the last of a loop inside it."""
    if state.rules < 2:
        return state.best
    seen = state.rules < CRITICS_DECIDE or not _inner_awaits_gate(frame)
    own = best_of(state, (each for each in frame.judged if _is_fit(state, each)))
    if not seen and not (frame.node is not None and judges_itself(frame.node)):
        return None
    return own or (frame.inner if frame.inner and seen and _is_fit(state, frame.inner) else None)


def _inner_awaits_gate(frame: Frame) -> bool:
    """Returns whether a gate is still to see the draft of a finished loop inside this frame.

    In a loop those of its own body are, as the next iteration comes to them, and those from the node in progress on,
    unless the finished loop is of an earlier iteration.
    """
    if frame.node is not None and not any(isinstance(node, Repeat) for node in frame.body[: frame.index]):
        return _has_own_gate(frame)
    return _has_own_gate(frame) or _has_gate(frame.body[frame.index :])


def _loop_awaits_gate(frame: Frame) -> bool:
    """Returns whether a gate is still to see what leaves the loop in progress inside this frame."""
    return _has_own_gate(frame) or _has_gate(frame.body[frame.index + 1 :])


def _has_own_gate(frame: Frame) -> bool:
    """Returns whether a gate stands in a loop's own body."""
    return frame.node is not None and _has_gate([node for node in frame.node.body if not isinstance(node, Repeat)])


def _has_gate(nodes: Sequence[Node]) -> bool:
    """Returns whether one of these nodes, at any depth, is a gate."""
    return any(is_gate(each) for _, each in nodes_of(nodes, own=True))


def _is_fit(state: RunState, draft: Candidate) -> bool:
    decide = state.approved is not None or any(asks_people(frame.node) for frame in state.frames)
    return not why_barred(state, draft) and (not decide or is_approved(state, draft))


def _nodes_to_come(state: RunState) -> tuple[Node, ...]:
    """Returns the nodes of the plan that have not begun; loops in progress are not among them."""
    above = (*state.frames[1:], Frame(()))
    places = [frame.index + (over.node is not None) for frame, over in zip(state.frames, above, strict=True)]
    return tuple(node for frame, place in zip(state.frames, places, strict=True) for node in frame.body[place:])


def _is_held_back(state: RunState) -> bool:
    """Returns whether, by rules 1, people still had to decide, or a gate outside of loops failed the best draft."""
    if state.frames[-1].node is None and state.loop is None and failed_a_gate(state.best):
        return True
    coming = (node for frame in state.frames for node in frame.body[frame.index :])
    return any(asks_people(frame.node) for frame in state.frames) or any(
        isinstance(node, Approve) or (isinstance(node, Repeat) and asks_people(node)) for node in coming
    )
