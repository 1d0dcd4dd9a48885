"""Checks drafts: numbers, hashes, references, and judgement before publication; selects the best draft."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from redraft.events.messages import domain_events as events
from redraft.events.messages.content import Draft, DraftRef, digest
from redraft.events.messages.domain_events import DomainEvent
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import Approve, Node, Repeat, loops_of, steps_of
from redraft.events.messages.redaction import ERASED
from redraft.projections.record_check.chain import Finding, finding_at
from redraft.projections.record_check.loop_conditions import (
    Trail,
    asks_critics,
    is_left_open,
    judging_steps,
    memorable,
    memory_needed,
)
from redraft.projections.record_check.ratings import (
    Rated,
    Rating,
    asks_people,
    critics_of,
    failed_gate,
    judges_itself,
    publishes,
)
from redraft.projections.record_check.run_state import place_of
from redraft.projections.record_check.walk import Broken, Frame, Walk


def note_veto(walk: Walk, ref: DraftRef, rating: Rating) -> None:
    """Stores a critic's refusal of a draft."""
    if walk.rules >= 2 and rating.approved is False:
        (walk.failed if rating.gate == "failed" else walk.vetoed).add(ref.sha256)


def is_barred(walk: Walk, ref: DraftRef) -> bool:
    """Returns whether the draft may not be published."""
    return is_beyond_people(walk, ref) or (
        walk.rules >= 2 and ref.sha256 in walk.vetoed and ref.sha256 not in walk.overruled
    )


def is_beyond_people(walk: Walk, ref: DraftRef) -> bool:
    """Returns whether it may not be published even if the people who are asked now approved it."""
    return walk.rules >= 2 and (ref.sha256 in walk.rejected or ref.sha256 in walk.failed)


def finished_drafts(walk: Walk, *frames: Frame) -> tuple[DraftRef, ...]:
    """Returns the finished drafts of these loops, without those that are barred."""
    return tuple(ref for frame in frames for ref in frame.outputs if not is_barred(walk, ref))


def better_of(walk: Walk, best: Rated | None, other: Rated) -> Rated:
    """Returns the better of two: the later one if they are equal, or, by rules 2, the earlier one."""
    if best is None or best.rating is None or other.rating is None or best.ref == other.ref:
        return other
    if _rank(walk, other) == _rank(walk, best):
        return other if walk.rules >= 3 else best
    return other if _rank(walk, other) > _rank(walk, best) else best


def best_of(walk: Walk, drafts: Iterable[Rated], of: str = "") -> Rated | None:
    """Returns the best of these drafts: the later of two that are equal, or, by rules 2, the earlier one.

    `of` is a criterion that counts instead of the score.
    """
    ranked = [(_rank(walk, each, of), each) for each in drafts if each.rating is not None]
    foremost = max((rank for rank, _ in ranked), default=None)
    equal = sorted((each for rank, each in ranked if rank == foremost), key=lambda each: each.ref.version)
    return None if not equal else equal[-1] if walk.rules >= 3 else equal[0]


def _rank(walk: Walk, draft: Rated, of: str = "") -> tuple[bool, bool, float]:
    passed = draft.rating is not None and draft.rating.gate != "failed"
    return not is_barred(walk, draft.ref), passed, draft.rating.named(of) if draft.rating else 0.0


def draft_to_keep(walk: Walk, frame: Frame) -> Rated | None:
    """Returns the draft that leaves a loop that none has satisfied; None if it judged none."""
    last = frame.loop is not None and frame.loop.keep == "last"
    if walk.rules < 2:
        return frame.last if last else frame.best
    if not frame.judged:
        return None
    if last and not is_barred(walk, frame.judged[-1].ref):
        return frame.judged[-1]
    return best_of(walk, rated_drafts(frame))


def rated_drafts(frame: Frame) -> tuple[Rated, ...]:
    """Returns the rated draft that a loop began with, and those that it judged."""
    return (*((frame.entry,) if frame.entry else ()), *frame.judged)


def rollback_draft(walk: Walk, frame: Frame) -> Rated | None:
    """Returns the draft that refining goes back to when a score has fallen."""
    if walk.rules < 2:
        return frame.best
    if walk.current is not None and walk.current.ref.sha256 in walk.rejected:
        return None
    of = frame.loop.rollback_of if frame.loop is not None else ""
    return best_of(walk, (each for each in rated_drafts(frame) if each.ref.sha256 not in walk.rejected), of)


def is_withheld(walk: Walk, frame: Frame) -> bool:
    """Returns whether the current draft may not go to the publisher at the frame's index."""
    if walk.current is None or is_barred(walk, walk.current.ref):
        return walk.current is not None
    passed = [node for each in walk.frames for node in each.body[: each.index]]
    return any(map(_asks_people, passed)) and not _is_approved(walk, walk.current)


def is_held_back(walk: Walk, frame: Frame, broken: Broken) -> bool:
    """Returns whether nothing may be published after a failure: because of the plan, of people, or of a gate."""
    if broken.publishing or walk.plan.on_failure == "fail":
        return True
    if walk.rules >= 2:
        return publishable_draft(walk) is None
    if walk.best is None:
        return True
    if frame.loop is None and walk.ended is None and failed_gate(walk.best):
        return True
    coming = [node for each in walk.frames for node in each.body[each.index :]]
    asked = any(isinstance(node, Approve) or (isinstance(node, Repeat) and asks_people(node)) for node in coming)
    return asked or any(asks_people(each.loop) for each in walk.frames)


def is_refused(walk: Walk, frame: Frame) -> bool:
    """Returns whether a gate outside a loop refused the draft that would be published."""
    if walk.rules >= 2:
        return is_withheld(walk, frame)
    if frame.loop is not None or not failed_gate(walk.current):
        return False
    judges = [node for node in frame.body[: frame.index] if not (isinstance(node, Approve) or publishes(node))]
    return not (judges and isinstance(judges[-1], Repeat))


def publishable_draft(walk: Walk) -> Rated | None:
    """Returns the draft that may be published of a run that cannot go on; None if none may."""
    depth = len(walk.frames) - 1
    coming = [node for n, each in enumerate(walk.frames) for node in each.body[each.index + (n < depth) :]]
    asks = any(each.questioned for each in walk.frames) or any(map(_asks_people, coming))
    if walk.rules < 2 or asks:
        return None
    while depth >= 0:
        left = draft_of_failed_loop(walk, walk.frames[depth])
        if left is not None and not any(_awaits_gate(walk, each, 1) for each in walk.frames[:depth]):
            return left
        depth -= 1
    return None


def draft_of_failed_loop(walk: Walk, frame: Frame) -> Rated | None:
    """Returns the draft that leaves a loop when the run cannot go on: its best, or that of an inner loop.

    By rules 8 none that a gate, in this loop or behind the loops, has still to see.
    """
    own = best_of(walk, (each for each in frame.judged if _is_fit(walk, each)))
    inner = frame.inner if frame.inner and _is_fit(walk, frame.inner) else None
    if _awaits_gate(walk, frame, 0):
        return own if judges_itself(frame.loop) else None
    return own or inner


def _awaits_gate(walk: Walk, frame: Frame, behind: int) -> bool:
    """Returns whether a gate sees, later on, what the node in progress leaves (`behind` is 1), or an inner loop left.

    A loop comes to all gates of its own body again. What an inner loop left in an earlier iteration has passed those of
    the loops beside it.
    """
    if walk.rules < 8:
        return False
    own = frame.loop.body if frame.loop is not None else ()
    if any(step.gate for _, step in steps_of([node for node in own if not isinstance(node, Repeat)], own=True)):
        return True
    done = [node for node in frame.body[: frame.index] if isinstance(node, Repeat)]
    if frame.loop is not None and not behind and not done:
        return False
    return any(step.gate for _, step in steps_of(frame.body[frame.index + behind :], own=True))


def _is_fit(walk: Walk, draft: Rated) -> bool:
    decide = walk.approved is not None or any(asks_people(frame.loop) for frame in walk.frames)
    return not is_barred(walk, draft.ref) and (not decide or _is_approved(walk, draft))


def _is_approved(walk: Walk, draft: Rated) -> bool:
    return walk.approved is not None and walk.approved.sha256 == draft.ref.sha256


def _asks_people(node: Node) -> bool:
    return isinstance(node, Approve) or (isinstance(node, Repeat) and any(map(_asks_people, node.body)))


def draft_faults(stream: Sequence[Recorded]) -> list[Finding]:
    """Returns the faults of drafts, of references to them, and of critiques and advice that requests name."""
    begun = stream[0].data if stream else None
    check = _Drafts(begun if isinstance(begun, events.RunStarted) else None)
    for event in stream:
        check.take(event, event.data)
    return check.findings


class _Drafts:
    def __init__(self, begun: events.RunStarted | None) -> None:
        self._rules = begun.rules if begun else 1
        self._loops = dict(loops_of(begun.plan.steps)) if begun else {}
        self.findings: list[Finding] = []
        self._known: dict[int, str] = {}
        self._critiques: dict[int, DraftRef] = {}
        self._asked: dict[str, DraftRef | None] = {}
        self._advice: set[int] = set()
        self._judged: set[str] = set()
        self._rejected: set[str] = set()

    def take(self, event: Recorded, data: DomainEvent) -> None:
        for ref in _referenced_drafts(data):
            if self._known.get(ref.version) != ref.sha256 and ref.version:
                self._flag("draft-unknown", event, f"there was no draft {ref.version} with that hash before it")
        match data:
            case events.DraftEdited(draft=draft):
                self._note_draft(event, draft)
                self._judged.add(draft.sha256)  # by the person who wrote it
            case events.DraftGenerated(draft=draft) | events.DraftRefined(draft=draft):
                self._note_draft(event, draft)
            case events.DraftCritiqued(draft=ref):
                self._critiques[event.version] = ref
                self._judged.add(ref.sha256)
            case events.LimitsChanged(path=path, until=until) if until is not None and path in self._loops:
                self._loops[path] = msgspec.structs.replace(self._loops[path], until=until)
            case events.LoopEnded(path=path, draft=ref) if _is_unjudged(self._loops.get(place_of(path))):
                self._judged.add(ref.sha256)  # by the loop's own condition
            case events.StepRequested():
                self._check_request(event, data)
                self._asked[data.path] = data.draft
            case events.StepFailed(path=path, retry_at=None) if (about := self._asked.get(path)) is not None:
                self._critiques[event.version] = about  # its error may be told to the next refinement
            case events.RunGuided():
                self._advice.add(event.version)
            case events.DraftRejected(draft=ref):
                self._advice.add(event.version)
                self._rejected.add(ref.sha256)
            case events.DraftApproved(draft=ref):
                self._rejected.discard(ref.sha256)
            case events.DraftPublished(draft=ref):
                self._check_publication(event, ref)
            case _:
                pass

    def _note_draft(self, event: Recorded, draft: Draft) -> None:
        if draft.version != len(self._known) + 1:
            self._flag("draft-number", event, f"draft {draft.version} follows {len(self._known)} drafts")
        if draft.text != ERASED and draft.sha256 not in (ERASED, digest(draft.text)):
            self._flag("draft-hash", event, f"the hash of draft {draft.version} is not that of its text")
        self._known[draft.version] = draft.sha256

    def _check_request(self, event: Recorded, data: events.StepRequested) -> None:
        about = self._critiques.get(data.critiques[0]) if data.role == "generator" and data.critiques else data.draft
        for version in data.critiques:
            judged = self._critiques.get(version)
            if judged is None or about is None or judged.sha256 != about.sha256:
                self._flag("critiques", event, f"event {version} is not a critique of its draft")
        for version in data.advice:
            if version not in self._advice:
                self._flag("advice", event, f"event {version} holds no advice")

    def _check_publication(self, event: Recorded, ref: DraftRef) -> None:
        if ref.sha256 not in self._judged:
            self._flag("published", event, f"draft {ref.version} was not judged")
        if self._rules > 1 and ref.sha256 in self._rejected and ref.sha256 != ERASED:
            self._flag("published", event, f"people had rejected draft {ref.version}")

    def _flag(self, code: str, event: Recorded, message: str) -> None:
        self.findings.append(finding_at(code, event, message))


def _is_unjudged(loop: Repeat | None) -> bool:
    """Returns whether no critic judges what leaves a loop: its own condition does.

    By all rules, also where a judge stands in the body: a refiner may leave the loop with a draft that is not judged.
    """
    return loop is not None and not critics_of(loop) and not asks_critics(loop.until)


def _referenced_drafts(data: DomainEvent) -> Iterator[DraftRef]:
    """Yields the drafts that an event refers to as known."""
    match data:
        case events.StepRequested(draft=draft, outputs=outputs, beside=beside):
            yield from (*((draft,) if draft else ()), *outputs, *beside)
        case events.DraftRefined(before=before) | events.DraftEdited(before=before):
            yield before
        case (
            events.DraftCritiqued(draft=ref)
            | events.DraftPublished(draft=ref)
            | events.VerdictLate(draft=ref)
            | events.LoopEnded(draft=ref)
        ):
            yield ref
        case events.ApprovalRequested(draft=ref) | events.DraftApproved(draft=ref) | events.DraftRejected(draft=ref):
            yield ref
        case events.RunEnded(draft=ref) if ref is not None:
            yield ref
        case _:
            pass


def rate_draft(walk: Walk, frame: Frame, ref: DraftRef, rating: Rating, *, is_final: bool = True) -> None:
    """Stores the draft's rating; a draft that people rejected stays rejected.

    The loop's own critics have not judged one whose rating is not `is_final`.
    """
    if ref.sha256 in walk.rejected and walk.rules >= 7:
        rating = msgspec.structs.replace(rating, approved=False)
    elif ref.sha256 in walk.rejected:
        counted = rating.counts
        rating = Rating(0.0, rating.errors, False, rating.critiques, rating.gate, rating.scored, rating.scale)
        rating = msgspec.structs.replace(rating, counts=counted)
    judged = Rated(ref, rating)
    walk.current, walk.best = judged, better_of(walk, walk.best, judged)
    if is_final:
        _keep_rated(walk, frame, judged, rating)


def keep_inner_result(walk: Walk, outer: Frame, left: Rated | None) -> None:
    """Stores the draft of an inner loop as a rated one of the loop around it, by rules 8.

    It is one if no critic and no judge stands in that loop's body, and its condition looks at ratings.
    """
    if walk.rules < 8 or walk.breaking or outer.loop is None or judges_itself(outer.loop):
        return
    if left is not None and left.rating is not None and not left.rating.broken and asks_critics(walk.until(outer)):
        _keep_rated(walk, outer, left, left.rating)


def _keep_rated(walk: Walk, frame: Frame, judged: Rated, rating: Rating) -> None:
    """Stores a rated draft among those of a loop, with what its condition looks back on."""
    ref = judged.ref
    if walk.rules < 2:
        anew, counts = failed_gate(frame.best) and rating.gate != "failed", True
        if frame.loop is not None:
            frame.best, frame.last = better_of(walk, frame.best, judged), judged
    else:
        foremost = best_of(walk, frame.judged)
        spoiled = foremost is None or is_barred(walk, foremost.ref)
        anew = spoiled and not is_barred(walk, ref)
        counts = spoiled or not is_barred(walk, ref)
        frame.judged = (*(each for each in frame.judged if each.ref != ref), judged)
        if walk.rules >= 6 and frame.entry is not None and frame.entry.ref == ref:
            frame.entry = None  # its word from before the loop is outdated
    if frame.loop is not None:
        scores, hashes = memory_needed(walk.until(frame))
        before = () if anew else frame.peaks
        frame.peaks = (*before, max(rating.score if counts else 0.0, before[-1] if before else 0.0))[-scores:]
        frame.seen = (*frame.seen, ref.sha256)[-hashes:]
        trails: dict[str, Trail] = {}
        for name in memorable(walk.until(frame)):
            trail, share = frame.trails.get(name, Trail()), rating.named(name)
            if is_left_open(name, rating, judging_steps(frame.loop.body), walk.rules):
                trails[name] = trail
                continue
            so_far = () if anew else trail.peaks
            highest = max(share if counts else 0.0, so_far[-1] if so_far else 0.0)
            trails[name] = Trail((*so_far, highest)[-scores:], (*trail.latest, share)[-hashes:])
        frame.trails = trails
