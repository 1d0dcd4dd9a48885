"""The drafts of a run: which is judged best, which may not be published, and which one leaves a loop. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from redraft.actors.conditions.reading import critics_of
from redraft.actors.conditions.values import asks_critics
from redraft.actors.deciding.credit import review_acceptance
from redraft.actors.deciding.facts import Track, is_known, reach, tracked
from redraft.actors.deciding.judgement import Judgement
from redraft.actors.deciding.state import CRITICS_DECIDE, Candidate, Frame, RunState, failed_a_gate, is_publisher
from redraft.actors.plans.endings import is_question
from redraft.actors.plans.paths import judges_itself, step_key
from redraft.events.messages.content import DraftRef
from redraft.events.messages.domain_events import DraftCritiqued, LoopEnded
from redraft.events.messages.plan import Approve, Node, Repeat, nodes_of


def judgement_of_draft(state: RunState, ref: DraftRef) -> Judgement | None:
    """Returns the judgement of a draft that is kept in the state; None for any other."""
    others = (each for frame in state.frames for each in (frame.best, frame.last, *frame.judged, frame.entry))
    known = next((each.judgement for each in (state.current, *others) if each and each.ref == ref), None)
    return None if known is None or known.failed else known


def with_judgement(state: RunState, ref: DraftRef, judgement: Judgement) -> Candidate:
    """Returns the draft with its judgement. A draft that people rejected stays rejected."""
    if state.rejected and ref.sha256 in state.rejected:
        judgement = rejected(judgement, state.rules)
    return Candidate(ref, judgement)


_SCORES_STAY: Final = 7
"""The rules from which on a draft that people rejected keeps the scores that critics gave it."""


def rejected(judgement: Judgement, rules: int) -> Judgement:
    """Returns the judgement of a draft that people rejected; before rules 7 its scores were 0."""
    if rules >= _SCORES_STAY:
        return replace(judgement, approved=False)
    return replace(judgement, score=0.0, approved=False, marks={}, own={})


_OWN_WORD: Final = 6
"""The rules from which on the judgement of a loop's own critics replaces the one that its first draft came with."""


def remember(state: RunState, frame: Frame, judged: Candidate) -> Frame:
    """Returns the loop with this draft among those that it judged.

    The peak scores restart with the first draft that nothing bars.
    """
    if judged.judgement is None:
        return frame
    if state.rules >= 2:
        before, counts, spoiled = frame.judged, True, not frame.judged
        others = tuple([each for each in before if each.ref != judged.ref])
        if state.rules >= _OWN_WORD and frame.entry is not None and frame.entry.ref == judged.ref:
            frame = replace(frame, entry=None)
        frame = replace(frame, judged=(*others, judged), best=_best_so_far(state, frame, others, judged))
        if bars_any(state):
            counts = not why_barred(state, judged)
            spoiled = all(why_barred(state, each) for each in before)
        return _with_scores(frame, judged, state.rules, anew=spoiled and counts, counts=spoiled or counts)
    if frame.node is None:
        return frame
    anew = failed_a_gate(frame.best) and not failed_a_gate(judged)
    frame = replace(frame, best=better_of(state, frame.best, judged), last=judged)
    return _with_scores(frame, judged, state.rules, anew=anew, counts=True)


def _best_so_far(state: RunState, frame: Frame, others: tuple[Candidate, ...], judged: Candidate) -> Candidate | None:
    """Returns the best of a loop's drafts, with one more that is judged, and without looking at all `others` if no
    draft is judged again. None once any draft is barred, as that changes which is best.
    """
    if frame.node is None or bars_any(state):
        return None
    known = (frame.best,) if frame.best and len(others) == len(frame.judged) else others
    return best_of(state, (*known, judged))


def _with_scores(frame: Frame, judged: Candidate, rules: int, *, anew: bool, counts: bool) -> Frame:
    """Returns the loop with the data that its condition looks back on: the best scores so far, and the hashes."""
    if frame.node is None or judged.judgement is None:
        return frame
    peaks, window = reach(frame.node.until)
    before = () if anew else frame.peaks
    peak = max(judged.judgement.score if counts else 0.0, before[-1] if before else 0.0)
    names, tracks = tracked(frame.node.until), {}
    critics = critics_of(frame.node.body) if names else ()
    for name in names:
        track = tracks[name] = frame.tracks.get(name, Track())
        if is_known(name, judged.judgement, critics, rules):
            tracks[name] = _with_mark(track, judged.judgement.mark(name), peaks, window, anew, counts)
    seen = (*frame.seen, judged.ref.sha256)[-window - 1 :]
    return replace(frame, peaks=(*before, peak)[-peaks:], seen=seen, tracks=tracks)


def _with_mark(track: Track, mark: float, peaks: int, window: int, anew: bool, counts: bool) -> Track:
    before = () if anew else track.peaks
    peak = max(mark if counts else 0.0, before[-1] if before else 0.0)
    return Track((*before, peak)[-peaks:], (*track.latest, mark)[-window - 1 :])


def judged_before(frame: Frame, current: Candidate) -> Judgement | None:
    """Returns the judgement of the draft that the loop judged before this one; None if this is its first."""
    return next((each.judgement for each in reversed(frame.judged) if each.ref != current.ref), None)


def better_of(state: RunState, best: Candidate | None, judged: Candidate) -> Candidate:
    """Returns the better draft: one that is not barred, then the higher score, then the later one (by rules 3)."""
    if best is None or best.judgement is None or judged.judgement is None or best.ref == judged.ref:
        return judged
    return judged if (_rank(state, judged), state.rules >= 3) > (_rank(state, best), False) else best


def best_of(state: RunState, drafts: Iterable[Candidate], of: str = "") -> Candidate | None:
    """Returns the best of these drafts: one that is not barred, then the highest score, then the latest.

    By rules 2, the earliest of equal ones. `of` is a criterion to go by, instead of the score.
    """
    judged = [each for each in drafts if each.judgement is not None]
    if len(judged) < 2:
        return judged[0] if judged else None
    if state.rules >= 3:  # of two judgements of one draft, the later one too
        return max(reversed(judged), key=lambda each: (_rank(state, each, of), each.ref.version))
    return max(judged, key=lambda each: (_rank(state, each, of), -each.ref.version))


def _rank(state: RunState, draft: Candidate, of: str = "") -> tuple[bool, tuple[bool, float]]:
    judged, bars = draft.judgement, state.bars
    may_leave = not (bars.gates or bars.vetoes or state.rejected) or not why_barred(state, draft)
    if judged is None:
        return may_leave, (False, 0.0)
    return may_leave, (judged.gate != "failed", judged.mark(of) if of else judged.score)


def add_bars(state: RunState, event: DraftCritiqued, judgement: Judgement) -> RunState:
    """Returns the state after a critique: a failed gate and a veto bar the draft, inside and outside of loops."""
    if state.rules < 2 or judgement.approved is not False:
        return state
    who = step_key(event.path).rpartition("/")[2]
    bars, sha256, number = state.bars, event.draft.sha256, event.draft.version
    if judgement.gate == "failed":
        reason = f"gate {who} did not pass draft {number}"
        return replace(state, bars=replace(bars, gates={sha256: reason, **bars.gates}))
    reason = f"critic {who} vetoed draft {number}"
    return replace(state, bars=replace(bars, vetoes={sha256: reason, **bars.vetoes}))


def overruled(state: RunState, draft: DraftRef) -> RunState:
    """Returns the state after people approved a draft: vetoes of it no longer count."""
    if state.rules < 2:
        return state
    return replace(state, bars=replace(state.bars, overruled=state.bars.overruled | {draft.sha256}))


def bars_any(state: RunState) -> bool:
    """Returns whether any draft may be barred."""
    return bool(state.bars.gates or state.bars.vetoes or state.rejected) and state.rules >= 2


def why_barred(state: RunState, draft: Candidate | None) -> str:
    """Returns why a draft may not be published, in a few words; empty when it may."""
    bars = state.bars
    if draft is None or not (bars.gates or bars.vetoes or state.rejected) or state.rules < 2:  # as `bars_any`
        return ""
    sha256 = draft.ref.sha256
    return beyond_people(state, draft) or (bars.vetoes.get(sha256, "") if sha256 not in bars.overruled else "")


def beyond_people(state: RunState, draft: Candidate) -> str:
    """Returns why a draft may not be published even if people approve it; empty when then it may be."""
    if state.rules < 2:
        return "a critic said no" if draft.judgement and draft.judgement.approved is False else ""
    if draft.ref.sha256 in state.rejected:
        return f"people rejected draft {draft.ref.version}"
    return state.bars.gates.get(draft.ref.sha256, "")


def forget_older_drafts(state: RunState) -> RunState:
    """Returns the state without drafts judged before the loops in progress.

    A generator writes a new draft, not a version of those.
    """
    outermost, *loops = state.frames
    return replace(state, frames=(replace(outermost, judged=()), *(replace(each, entry=None) for each in loops)))


def end_loop(state: RunState, event: LoopEnded) -> RunState:
    """Returns the state after a loop ended: the draft that left it is the current one."""
    leaving, outer = state.frames[-1], state.frames[-2]
    chosen = _draft_that_left(state, leaving, event)
    if state.picks and event.outcome == "accepted":
        state = review_acceptance(state, chosen)
    outer = replace(
        outer,
        index=outer.index + 1,
        outputs=_join_outputs(state, leaving, outer, event),
        due="output" if outer.node else "nothing",
        verdicts=(),
        ended=None if state.failure else event.outcome,  # a run that cannot go on asks nobody
    )
    if state.rules >= 2:
        outer = _with_result(outer, chosen)
    if chosen is not None and _counts_as_judged(state, outer, chosen):
        outer = remember(state, outer, chosen)
    loop = (event.outcome, event.reason) if outer.node is None else state.loop
    stays = chosen is not None and state.current is not None and chosen.ref == state.current.ref
    untold = state.untold if stays else ()
    return replace(state, frames=(*state.frames[:-2], outer), open={}, current=chosen, loop=loop, untold=untold)


def _counts_as_judged(state: RunState, outer: Frame, chosen: Candidate) -> bool:
    """Returns whether the draft of an inner loop is a judged one of the loop around it.

    By rules 8, where nobody in this loop's own body judges, and its condition asks what critics say.
    """
    if state.rules < CRITICS_DECIDE or state.failure or outer.node is None or judges_itself(outer.node):
        return False
    return chosen.judgement is not None and not chosen.judgement.failed and asks_critics(outer.node.until)


def _draft_that_left(state: RunState, leaving: Frame, event: LoopEnded) -> Candidate | None:
    """Returns the draft that left a loop; None, by rules 2, if none did."""
    if state.rules >= 2 and not event.draft.version:
        return None
    of_loop = (leaving.best, leaving.last, *leaving.judged, leaving.entry, leaving.inner)
    at_hand = (state.current, *of_loop, state.best)
    return next((each for each in at_hand if each and each.ref == event.draft), Candidate(event.draft))


def _join_outputs(state: RunState, leaving: Frame, outer: Frame, event: LoopEnded) -> tuple[DraftRef, ...]:
    """Returns the finished drafts, including those that a loop has left.

    By rules 2 none is listed twice outside of loops, as when a second loop leaves the draft of the first unchanged, nor
    when the run cannot go on.
    """
    made = leaving.outputs if outer.node is None and leaving.outputs else (event.draft,)
    if state.rules >= 2:
        known = outer.outputs if state.failure or outer.node is None else ()
        made = tuple(each for each in made if each.version and each not in known)
    return (*outer.outputs, *made)


def _with_result(outer: Frame, chosen: Candidate | None) -> Frame:
    """Returns the frame around a loop that has ended, with the draft that left it as all that is kept of the loop."""
    if outer.node is None:
        return replace(outer, judged=(chosen,) if chosen and chosen.judgement else ())
    return replace(outer, inner=chosen or outer.inner)


def draft_to_keep(state: RunState, loop: Frame) -> Candidate | None:
    """Returns the draft that leaves by `keep`; None when the loop judged none: then it is the current one."""
    last = loop.node is not None and loop.node.keep == "last"
    if state.rules < 2:
        return loop.last if last else loop.best
    if not loop.judged:
        return None
    if last and not why_barred(state, loop.judged[-1]):
        return loop.judged[-1]
    return best_of(state, _drafts_of(state, loop))


def why_nothing_leaves(state: RunState, loop: Frame) -> str:
    """Returns why no draft may leave a loop: all that it judged, or its current one, are barred; else empty."""
    if not loop.judged:
        reason = why_barred(state, state.current)
        return f"the draft of {loop.path} may not be published: {reason}" if reason else ""
    reason = why_barred(state, draft_to_keep(state, loop))
    return f"no draft that {loop.path} judged may be published: {reason}" if reason else ""


def draft_to_refine(state: RunState, loop: Frame) -> Candidate | None:
    """Returns the draft that refining returns to after the score fell: the best one that people did not reject."""
    if state.rules < 2:
        return loop.best
    if state.current is not None and state.current.ref.sha256 in state.rejected:
        return None
    of = loop.node.rollback_of if loop.node is not None else ""
    drafts = _drafts_of(state, loop, of)
    if state.rejected:
        drafts = tuple(each for each in drafts if each.ref.sha256 not in state.rejected)
    return best_of(state, drafts, of)


def why_withheld(state: RunState, top: Frame, place: int) -> str:
    """Returns why the current draft does not go to the publisher at this place in the body; empty when it does."""
    current = state.current
    if state.rules < 2:
        return describe_failed_gate(current) if _failed_outside(current, top, place) else ""
    passed = [node for frame in state.frames[:-1] for node in frame.body[: frame.index]]
    if not any(map(asks_inside, (*passed, *top.body[:place]))) or is_approved(state, current):
        return why_barred(state, current)
    return why_barred(state, current) or f"people did not approve draft {current.ref.version if current else 0}"


def describe_failed_gate(draft: Candidate | None) -> str:
    return f"a gate did not pass draft {draft.ref.version if draft else 0}"


def _failed_outside(draft: Candidate | None, top: Frame, place: int) -> bool:
    """Returns whether, by rules 1, a gate outside of a loop failed the draft. A loop's result is not looked at."""
    if top.node is not None or not failed_a_gate(draft):
        return False
    judges = (node for node in reversed(top.body[:place]) if not (isinstance(node, Approve) or is_publisher(node)))
    return not isinstance(next(judges, None), Repeat)


def finished_drafts(state: RunState, *frames: Frame) -> tuple[DraftRef, ...]:
    """Returns the finished drafts of these loops that are not barred."""
    made: tuple[DraftRef, ...] = ()
    for frame in frames:
        if frame.outputs:
            made += frame.outputs
    if not made or not bars_any(state):
        return made
    return tuple([ref for ref in made if not why_barred(state, Candidate(ref))])


def is_approved(state: RunState, draft: Candidate | None) -> bool:
    return draft is not None and state.approved is not None and state.approved.sha256 == draft.ref.sha256


def asks_inside(node: Node) -> bool:
    """Returns whether people decide in this node, at any depth; a question at a loop's end may not be asked at all."""
    return any(type(each) is Approve for _, each in nodes_of((node,), own=True)) and not is_question(node)


def _drafts_of(state: RunState, loop: Frame, of: str = "") -> tuple[Candidate, ...]:
    """Returns the drafts a loop may end with: the judged one that it began with, and those that it judged itself.

    Of these the best alone, if it is known: when nothing is barred, and drafts go by their scores and not `of` another.
    """
    best = None if loop.node is None or of or bars_any(state) else loop.best
    return (*((loop.entry,) if loop.entry else ()), *((best,) if best else loop.judged))
