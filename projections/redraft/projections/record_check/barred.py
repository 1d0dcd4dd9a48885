"""Drafts that may not be published, from rules 2 on, and what may leave a loop or be saved of a failed run then.

A gate that did not pass a draft, a critic's veto and a person's rejection bar the very text, by its hash. A person's
approval of that hash overrules a veto, and never a gate.
"""

from __future__ import annotations

from collections.abc import Iterable

from redraft.events.content import DraftRef
from redraft.events.plan import Approve, Node, Repeat
from redraft.projections.record_check.ratings import Rated, Rating, asks_people
from redraft.projections.record_check.walk import Frame, Walk


def hear(walk: Walk, ref: DraftRef, rating: Rating) -> None:
    """Takes in what one critic said."""
    if walk.rules >= 2 and rating.approved is False:
        (walk.failed if rating.gate == "failed" else walk.vetoed).add(ref.sha256)


def barred(walk: Walk, ref: DraftRef) -> bool:
    """Whether the draft may not be published."""
    return beyond_people(walk, ref) or (
        walk.rules >= 2 and ref.sha256 in walk.vetoed and ref.sha256 not in walk.overruled
    )


def beyond_people(walk: Walk, ref: DraftRef) -> bool:
    """Whether it may not be published even if the people who are asked now approved it."""
    return walk.rules >= 2 and ref.sha256 in walk.rejected | walk.failed


def finished(walk: Walk, *frames: Frame) -> tuple[DraftRef, ...]:
    """The finished drafts of these loops, without those that are barred."""
    return tuple(ref for frame in frames for ref in frame.outputs if not barred(walk, ref))


def better(walk: Walk, best: Rated | None, other: Rated) -> Rated:
    """The better of two: the earlier where they are equal."""
    if best is None or best.rating is None or other.rating is None or best.ref == other.ref:
        return other
    return other if _rank(walk, other) > _rank(walk, best) else best


def best_of(walk: Walk, drafts: Iterable[Rated]) -> Rated | None:
    """The best of these drafts: the earlier of two that are equal."""
    rated = [each for each in drafts if each.rating is not None]
    return max(rated, key=lambda each: (_rank(walk, each), -each.ref.version), default=None)


def _rank(walk: Walk, draft: Rated) -> tuple[bool, bool, float]:
    passed = draft.rating is not None and draft.rating.gate != "failed"
    return not barred(walk, draft.ref), passed, draft.rating.score if draft.rating else 0.0


def kept(walk: Walk, frame: Frame) -> Rated | None:
    """The draft that leaves a loop that none has satisfied: None where it judged none."""
    last = frame.loop is not None and frame.loop.keep == "last"
    if walk.rules < 2:
        return frame.last if last else frame.best
    if not frame.judged:
        return None
    if last and not barred(walk, frame.judged[-1].ref):
        return frame.judged[-1]
    return best_of(walk, at_hand(frame))


def at_hand(frame: Frame) -> tuple[Rated, ...]:
    """The rated draft that a loop began with, and those that it judged."""
    return (*((frame.entry,) if frame.entry else ()), *frame.judged)


def fallback(walk: Walk, frame: Frame) -> Rated | None:
    """The draft that refining goes back to when a score has fallen."""
    if walk.rules < 2:
        return frame.best
    if walk.current is not None and walk.current.ref.sha256 in walk.rejected:
        return None
    return best_of(walk, (each for each in at_hand(frame) if each.ref.sha256 not in walk.rejected))


def is_withheld(walk: Walk, frame: Frame) -> bool:
    """Whether the current draft may not go to the publisher that the frame stands at."""
    if walk.current is None or barred(walk, walk.current.ref):
        return walk.current is not None
    passed = [node for each in walk.frames for node in each.body[: each.index]]
    return any(map(_asks, passed)) and not _is_approved(walk, walk.current)


def salvaged(walk: Walk) -> Rated | None:
    """Returns the draft that may be published of a run that cannot go on; None where none may."""
    depth = len(walk.frames) - 1
    coming = [node for n, each in enumerate(walk.frames) for node in each.body[each.index + (n < depth) :]]
    if walk.rules < 2 or any(map(_asks, coming)):
        return None
    left = (of_failed(walk, frame) for frame in reversed(walk.frames))
    return next((each for each in left if each is not None), None)


def of_failed(walk: Walk, frame: Frame) -> Rated | None:
    """Returns the draft that leaves a loop when the run cannot go on: its best, or that of a loop inside it."""
    own = best_of(walk, (each for each in frame.judged if _is_fit(walk, each)))
    return own or (frame.inner if frame.inner and _is_fit(walk, frame.inner) else None)


def _is_fit(walk: Walk, draft: Rated) -> bool:
    decide = walk.approved is not None or any(asks_people(frame.loop) for frame in walk.frames)
    return not barred(walk, draft.ref) and (not decide or _is_approved(walk, draft))


def _is_approved(walk: Walk, draft: Rated) -> bool:
    return walk.approved is not None and walk.approved.sha256 == draft.ref.sha256


def _asks(node: Node) -> bool:
    return isinstance(node, Approve) or (isinstance(node, Repeat) and any(map(_asks, node.body)))
