"""The drafts of a run that were judged: which is the best so far, and what a loop remembers of each. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from redraft.actors.barred import barred, bars_any
from redraft.actors.judgement import Judgement, reach
from redraft.actors.run_state import Candidate, Frame, RunState, failed_a_gate
from redraft.events.content import DraftRef


def judgement_of_draft(state: RunState, ref: DraftRef) -> Judgement | None:
    """Returns the judgement of a draft that is kept in the state; None for any other."""
    kept = (each for frame in state.frames for each in (frame.best, frame.last, *frame.judged, frame.entry))
    return next((each.judgement for each in (state.current, *kept) if each and each.ref == ref), None)


def judged_as(state: RunState, ref: DraftRef, judgement: Judgement) -> Candidate:
    """A draft that people rejected stays so, whatever its critics say."""
    if state.rejected and ref.sha256 in state.rejected:
        judgement = replace(judgement, score=0.0, approved=False)
    return Candidate(ref, judgement)


def remember(state: RunState, frame: Frame, judged: Candidate) -> Frame:
    """The loop with this draft among those that it judged; scores before the first that nothing bars go."""
    if judged.judgement is None:
        return frame
    if state.rules >= 2:
        before = frame.judged
        frame = replace(frame, judged=(*[each for each in before if each.ref != judged.ref], judged))
        counts = not barred(state, judged)
        spoiled = all(barred(state, each) for each in before) if bars_any(state) else not before
        return _noted(frame, judged, anew=spoiled and counts, counts=spoiled or counts)
    if frame.node is None:
        return frame
    anew = failed_a_gate(frame.best) and not failed_a_gate(judged)
    return _noted(replace(frame, best=better(state, frame.best, judged), last=judged), judged, anew=anew, counts=True)


def _noted(frame: Frame, judged: Candidate, *, anew: bool, counts: bool) -> Frame:
    """The loop with what its condition looks back on: the running best scores, if this one counts, and the hashes."""
    if frame.node is None or judged.judgement is None:
        return frame
    peaks, window = reach(frame.node.until)
    before = () if anew else frame.peaks
    peak = max(judged.judgement.score if counts else 0.0, before[-1] if before else 0.0)
    return replace(frame, peaks=(*before, peak)[-peaks:], seen=(*frame.seen, judged.ref.sha256)[-window - 1 :])


def better(state: RunState, best: Candidate | None, judged: Candidate) -> Candidate:
    """The one that nothing bars, or has the higher score; the earlier of two that are equal, as it needed less."""
    if best is None or best.judgement is None or judged.judgement is None or best.ref == judged.ref:
        return judged
    return judged if _rank(state, judged) > _rank(state, best) else best


def best_of(state: RunState, drafts: Iterable[Candidate]) -> Candidate | None:
    """The best of these, by what bars them first and then by score; the earlier of two that are equal."""
    judged = [each for each in drafts if each.judgement is not None]
    if len(judged) < 2:
        return judged[0] if judged else None
    return max(judged, key=lambda each: (_rank(state, each), -each.ref.version))


def _rank(state: RunState, draft: Candidate) -> tuple[bool, tuple[bool, float]]:
    return not barred(state, draft), draft.judgement.rank if draft.judgement else (False, 0.0)
