"""Which draft leaves a loop that no draft has satisfied, and what may still be published. Pure.

By rules 1 it is the best judged draft, by rules 2 the best that nothing bars, and of this very loop.
"""

from __future__ import annotations

from redraft.actors.barred import barred, bars_any
from redraft.actors.candidates import best_of
from redraft.actors.run_state import Candidate, Frame, RunState, asks_people, failed_a_gate, is_publisher
from redraft.events.content import DraftRef
from redraft.events.plan import Approve, Node, Repeat


def kept(state: RunState, loop: Frame) -> Candidate | None:
    """The draft that leaves by `keep`; None when the loop judged none: then it is the current one."""
    last = loop.node is not None and loop.node.keep == "last"
    if state.rules < 2:
        return loop.last if last else loop.best
    if not loop.judged:
        return None
    if last and not barred(state, loop.judged[-1]):
        return loop.judged[-1]
    return best_of(state, _at_hand(loop))


def nothing_is_left(state: RunState, loop: Frame) -> str:
    """Why nothing may leave a loop: all that it judged, or the draft that it has, is barred. Empty when one may."""
    if not loop.judged:
        reason = barred(state, state.current)
        return f"the draft of {loop.path} may not be published: {reason}" if reason else ""
    reason = barred(state, kept(state, loop))
    return f"no draft that {loop.path} judged may be published: {reason}" if reason else ""


def refined_again(state: RunState, loop: Frame) -> Candidate | None:
    """The draft that refining goes back to when the score has fallen: the best one that people did not reject."""
    if state.rules < 2:
        return loop.best
    if state.current is not None and state.current.ref.sha256 in state.rejected:
        return None
    return best_of(state, (each for each in _at_hand(loop) if each.ref.sha256 not in state.rejected))


def withheld(state: RunState, top: Frame, place: int) -> str:
    """Why the current draft does not go to the publisher at this place in the body; empty when it does."""
    current = state.current
    if state.rules < 2:
        return not_passed(current) if _failed_outside(current, top, place) else ""
    passed = [node for frame in state.frames[:-1] for node in frame.body[: frame.index]]
    if not any(map(_asks, (*passed, *top.body[:place]))) or _is_approved(state, current):
        return barred(state, current)
    return barred(state, current) or f"people did not approve draft {current.ref.version if current else 0}"


def not_passed(draft: Candidate | None) -> str:
    return f"a gate did not pass draft {draft.ref.version if draft else 0}"


def _failed_outside(draft: Candidate | None, top: Frame, place: int) -> bool:
    """By rules 1: whether a gate outside of a loop did not pass the draft. What a loop ends with is its own word."""
    if top.node is not None or not failed_a_gate(draft):
        return False
    judges = (node for node in reversed(top.body[:place]) if not (isinstance(node, Approve) or is_publisher(node)))
    return not isinstance(next(judges, None), Repeat)


def finished(state: RunState, *frames: Frame) -> tuple[DraftRef, ...]:
    """The finished drafts of these loops that nothing bars."""
    made = tuple([ref for frame in frames for ref in frame.outputs])
    return tuple([ref for ref in made if not barred(state, Candidate(ref))]) if bars_any(state) else made


def salvaged(state: RunState) -> Candidate | None:
    """Returns the draft that may be published of a run that cannot go on; None when none may.

    By rules 2 that is the best of the loop in which it failed, or else of the next one around; nothing of before the
    loops. Where people decide it is what they approved, and nothing while they would have to be asked once more.
    """
    if state.rules < 2:
        return None if _is_held_back(state) else state.best
    if any(map(_asks, _coming(state))):
        return None
    left = (left_on_failure(state, frame) for frame in reversed(state.frames))
    return next((each for each in left if each is not None), None)


def left_on_failure(state: RunState, frame: Frame) -> Candidate | None:
    """Returns the draft a loop ends with when the run cannot go on: its own best, or the last of a loop inside it."""
    if state.rules < 2:
        return state.best
    own = best_of(state, (each for each in frame.judged if _is_fit(state, each)))
    return own or (frame.inner if frame.inner and _is_fit(state, frame.inner) else None)


def _is_fit(state: RunState, draft: Candidate) -> bool:
    decide = state.approved is not None or any(asks_people(frame.node) for frame in state.frames)
    return not barred(state, draft) and (not decide or _is_approved(state, draft))


def _is_approved(state: RunState, draft: Candidate | None) -> bool:
    return draft is not None and state.approved is not None and state.approved.sha256 == draft.ref.sha256


def _coming(state: RunState) -> tuple[Node, ...]:
    """Returns the nodes of the plan that have not begun; loops in progress are not among them."""
    above = (*state.frames[1:], Frame(()))
    places = [frame.index + (over.node is not None) for frame, over in zip(state.frames, above, strict=True)]
    return tuple(node for frame, place in zip(state.frames, places, strict=True) for node in frame.body[place:])


def _asks(node: Node) -> bool:
    """Whether people decide in it, at whatever depth."""
    return isinstance(node, Approve) or (isinstance(node, Repeat) and any(map(_asks, node.body)))


def _is_held_back(state: RunState) -> bool:
    """By rules 1: whether people would still have had to decide, or a gate outside of loops said no."""
    if state.frames[-1].node is None and state.loop is None and failed_a_gate(state.best):
        return True
    coming = (node for frame in state.frames for node in frame.body[frame.index :])
    return any(asks_people(frame.node) for frame in state.frames) or any(
        isinstance(node, Approve) or (isinstance(node, Repeat) and asks_people(node)) for node in coming
    )


def _at_hand(loop: Frame) -> tuple[Candidate, ...]:
    """Returns the drafts a loop may end with: the judged one that it began with, and those that it judged itself."""
    return (*((loop.entry,) if loop.entry else ()), *loop.judged)
