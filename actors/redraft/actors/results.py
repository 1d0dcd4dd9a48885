"""What a loop begins with, and what it hands to what is around it when it ends. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from redraft.actors.run_state import Candidate, Frame, RunState
from redraft.events.content import DraftRef
from redraft.events.domain_events import LoopEnded


def entered(state: RunState, loop: Frame) -> Frame:
    """A loop that begins with the current draft."""
    judged = state.current if state.current and state.current.judgement else None
    return replace(loop, best=judged, last=judged) if state.rules < 2 else replace(loop, entry=judged)


def begun_anew(state: RunState) -> RunState:
    """Forgets drafts judged before the loops in progress: what a generator writes is no version of them."""
    outermost, *loops = state.frames
    return replace(state, frames=(replace(outermost, judged=()), *(replace(each, entry=None) for each in loops)))


def left(state: RunState, leaving: Frame, event: LoopEnded) -> Candidate | None:
    """The draft that left a loop; None, by rules 2, where nothing did."""
    if state.rules >= 2 and not event.draft.version:
        return None
    of_loop = (leaving.best, leaving.last, *leaving.judged, leaving.entry, leaving.inner)
    at_hand = (state.current, *of_loop, state.best)
    return next((each for each in at_hand if each and each.ref == event.draft), Candidate(event.draft))


def outputs(state: RunState, leaving: Frame, outer: Frame, event: LoopEnded) -> tuple[DraftRef, ...]:
    """The finished drafts with what a loop has left.

    By rules 2 nothing is among them twice outside of loops, as when a second loop leaves the draft of the first as it
    is, nor when the run cannot go on.
    """
    made = leaving.outputs if outer.node is None and leaving.outputs else (event.draft,)
    if state.rules >= 2:
        known = outer.outputs if state.failure or outer.node is None else ()
        made = tuple(each for each in made if each.version and each not in known)
    return (*outer.outputs, *made)


def with_result(outer: Frame, chosen: Candidate | None) -> Frame:
    """Returns the frame around a loop that has ended, with the draft that left it as all that is kept of the loop."""
    if outer.node is None:
        return replace(outer, judged=(chosen,) if chosen and chosen.judgement else ())
    return replace(outer, inner=chosen or outer.inner)
