"""The drafts of a run that were judged: which is the best so far, and what a loop remembers of each. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from redraft.actors.judgement import Judgement, reach
from redraft.actors.run_state import Candidate, Frame, RunState, failed_a_gate
from redraft.events.content import DraftRef


def judgement_of_draft(state: RunState, ref: DraftRef) -> Judgement | None:
    """What was said of a draft that is still at hand."""
    at_hand = (state.current, *(each for frame in state.frames for each in (frame.best, frame.last)))
    return next((each.judgement for each in at_hand if each and each.ref == ref), None)


def judged_as(state: RunState, ref: DraftRef, judgement: Judgement) -> Candidate:
    """A draft that people rejected stays so, whatever its critics say."""
    if state.rejected and ref.sha256 in state.rejected:
        judgement = replace(judgement, score=0.0, approved=False)
    return Candidate(ref, judgement)


def remember(frame: Frame, judged: Candidate) -> Frame:
    """The loop with this draft as its last, and as its best if it is; scores before the first that passed a gate go."""
    if frame.node is None or judged.judgement is None:
        return frame
    peaks, window = reach(frame.node.until)
    best = better(frame.best, judged)
    anew = failed_a_gate(frame.best) and not failed_a_gate(judged)
    before = () if anew else frame.peaks
    peak = max(judged.judgement.score, before[-1] if before else 0.0)
    return replace(
        frame,
        best=best,
        last=judged,
        peaks=(*before, peak)[-peaks:],
        seen=(*frame.seen, judged.ref.sha256)[-window - 1 :],
    )


def better(best: Candidate | None, judged: Candidate) -> Candidate:
    """The higher score; the earlier draft of two that are equal, as it needed less."""
    if best is None or best.judgement is None or judged.judgement is None or best.ref == judged.ref:
        return judged
    return judged if judged.judgement.rank > best.judgement.rank else best
