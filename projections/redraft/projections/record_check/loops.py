"""Walks loops: the number of iterations, when a loop ends, and which draft leaves it."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from msgspec.structs import replace

from redraft.events.messages.content import DraftRef
from redraft.events.messages.domain_events import (
    ChoicesCredited,
    IterationStarted,
    LoopClosing,
    LoopEnded,
    Outcome,
    RunEnded,
)
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import Approve, Each, Node, Repeat
from redraft.projections.record_check.chain import Deviates
from redraft.projections.record_check.drafts import (
    draft_of_failed_loop,
    draft_to_keep,
    finished_drafts,
    is_barred,
    is_beyond_people,
    is_held_back,
    is_withheld,
    keep_inner_result,
)
from redraft.projections.record_check.excused import excuses, go_on
from redraft.projections.record_check.items import walk_each
from redraft.projections.record_check.loop_conditions import (
    Measured,
    asks_critics,
    judging_steps,
    looks_at_state,
    loop_outcome,
    stands_against,
)
from redraft.projections.record_check.nodes import note_draft, walk_work
from redraft.projections.record_check.outdated import current_values, is_to_be_made, last_lookers, pass_on_values
from redraft.projections.record_check.people import walk_approval, walk_question
from redraft.projections.record_check.ratings import (
    Rated,
    Rating,
    Swings,
    asks_people,
    publishes,
)
from redraft.projections.record_check.unmet import unmet_by
from redraft.projections.record_check.walk import Broken, Edited, Frame, Over, Unclear, Walk

_UNJUDGED: Final = Rating(0.0, 0, None, (), scored=False)
"""Stands for the rating of a draft that no critic judges."""


def walk_node(walk: Walk, frame: Frame) -> None:
    """Walks the node at the frame's index, or skips it."""
    node = frame.body[frame.index]
    if isinstance(node, Repeat):
        outcome = walk_loop(walk, frame, node)
        walk_question(walk, frame, node, outcome)
    elif isinstance(node, Each):
        walk_each(walk, frame, node)
    elif walk.rules >= 2 and publishes(node) and frame.loop is not None and is_withheld(walk, frame):
        frame.index += 1
    elif not isinstance(node, Approve):
        walk_work(walk, frame)
    elif _skips_people(walk, frame):
        frame.index += 1
    else:
        walk_approval(walk, frame, node)


def walk_loop(walk: Walk, outer: Frame, node: Repeat) -> Outcome:
    """Walks all iterations of a loop and its end, and returns its outcome.

    After a failure the loop is ended, and Broken is raised again.
    """
    frame, depth = _enter_loop(walk, outer, node), len(walk.frames)
    walk.frames.append(frame)
    try:
        ended, chosen = _walk_iterations(walk, frame)
    except Broken as broken:
        walk.open = {}
        del walk.frames[depth + 1 :]
        ended, chosen = _end_broken(walk, frame, broken)
        _close_frame(walk, frame, outer, ended, chosen)
        raise
    _close_frame(walk, frame, outer, ended, chosen)
    return ended.outcome


def _enter_loop(walk: Walk, outer: Frame, node: Repeat) -> Frame:
    path = f"{outer.prefix}{node.name}"
    _expect_iteration(walk, path, 1)
    outer.due = ""
    place = f"{outer.place}/{node.name}" if outer.place else node.name
    rated = walk.current if walk.current and walk.current.rating else None
    swings = Swings() if node.on_oscillation != "ignore" else None
    first = walk.current.ref.version if walk.current else 0
    frame = Frame(node.body, path, place, node, iteration=1, swings=swings, first=first)
    if walk.rules < 2:
        frame.best = frame.last = rated
    else:
        frame.entry = rated
        outer.judged = () if outer.loop is None else outer.judged
    if walk.current:
        note_draft(frame, walk.current.ref, 0)
    return frame


def _expect_iteration(walk: Walk, path: str, iteration: int) -> None:
    event = walk.peek()
    if event.data != IterationStarted(path, iteration):
        raise Deviates("iteration", event, f"iteration {iteration} of {path} should begin here")
    walk.take()
    walk.iterations += "/" not in path


def _walk_iterations(walk: Walk, frame: Frame) -> tuple[LoopEnded, Rated | None]:
    while True:
        try:
            if (ended := _check_end(walk, frame)) is not None:
                return ended
            if frame.index < len(frame.body):
                _walk_next(walk, frame)
            elif (ended := _finish_body(walk, frame)) is not None:
                return ended
        except Edited as edited:
            walk.current, walk.untold = Rated(edited.ref), ()
            frame.index, frame.due, frame.exit, frame.heard, frame.unmet = len(frame.body), "", False, (), None


def _walk_next(walk: Walk, frame: Frame) -> None:
    """Walks the next node of an iteration. Raises Broken for a failure after which the plan does not let it go on."""
    node = frame.body[frame.index]
    try:
        walk_node(walk, frame)
    except Broken:
        if isinstance(node, Repeat) or not excuses(walk, frame, node):
            raise
        go_on(walk, frame)


def _check_end(walk: Walk, frame: Frame) -> tuple[LoopEnded, Rated | None] | None:
    """Returns the end of the loop if it ends here; checked after a verdict, and when an inner loop has ended."""
    assert frame.loop is not None  # noqa: S101 - only loops are decided on
    swung = frame.swings is not None and frame.swings.swung and _ends_swinging(frame.loop)
    if frame.heard or not (frame.due or frame.exit or swung):
        return None
    event = walk.peek()
    if not walk.repeats(event) and not (frame.exit or swung) and _is_others_word(walk, frame):
        return None
    if walk.repeats(event):
        if isinstance(event.data, ChoicesCredited | RunEnded):
            raise Unclear  # its parent ended here
        frame.unmet = (None if _is_others_word(walk, frame) else unmet_by(walk.current, None)) or frame.unmet
        return _take_recorded_end(walk, frame, event)
    if frame.exit:
        return _leave(walk, frame, "plateaued" if walk.rules < 3 else "exhausted")
    if swung:
        return _leave(walk, frame, "oscillating")
    own_word = frame.due == "judged" and not asks_people(frame.loop)
    waits = (frame.due == "state" or (frame.due == "output" and walk.rules >= 9)) and is_to_be_made(walk, frame)
    outcome = None if waits else _measure(walk, frame, event.time, own_word=own_word)
    if outcome is not None:
        return _end(walk, frame, outcome)
    coming = [node for node in frame.body[frame.index :] if not (isinstance(node, Approve) or publishes(node))]
    if isinstance(event.data, LoopEnded | LoopClosing) and coming:
        raise Deviates("loop", event, "the loop should continue: its condition does not hold, and no limit is reached")
    frame.unmet = (None if waits else unmet_by(walk.current, walk.until(frame))) or frame.unmet
    return None


def _finish_body(walk: Walk, frame: Frame) -> tuple[LoopEnded, Rated | None] | None:
    event = walk.peek()
    if walk.repeats(event) and not isinstance(event.data, IterationStarted):
        return _take_parents_end(walk, frame, event)
    if not walk.repeats(event) and frame.iteration >= walk.max_iterations(frame):
        return _leave(walk, frame, "exhausted")
    _expect_iteration(walk, frame.path, frame.iteration + 1)
    walk.note_unmet(event)
    frame.iteration, frame.index, frame.due, frame.unmet = frame.iteration + 1, 0, "", None
    return None


def _leave(walk: Walk, frame: Frame, outcome: Outcome) -> tuple[LoopEnded, Rated | None]:
    """Ends a loop that no draft has satisfied, once its critics and free steps have looked at its last draft."""
    if not _who_looks_last(walk, frame):
        return _end_left(walk, frame) if frame.exit and walk.rules >= 3 else _end(walk, frame, outcome)
    event = walk.peek()
    if not isinstance(event.data, LoopClosing) or (event.data.path, event.data.outcome) != (frame.path, outcome):
        raise Deviates("loop", event, f"{frame.path} should end here as {outcome}, once its last draft is judged")
    return _walk_closing(walk, frame, outcome)


def _who_looks_last(walk: Walk, frame: Frame) -> tuple[Node, ...]:
    """Returns the nodes of a loop that look at its last draft before it ends: none if all have."""
    assert frame.loop is not None  # noqa: S101 - only loops are left
    rating = walk.current.rating if walk.current is not None else None
    rated = rating is not None and not rating.broken
    unrated = walk.needs_rating(frame) and (not rated or _is_others_word(walk, frame))
    return last_lookers(walk, frame, frame.loop, critics=unrated)


def _is_others_word(walk: Walk, frame: Frame) -> bool:
    """Returns whether this loop has critics of its own that have not judged the current draft (rules 6)."""
    judged = any(walk.current is not None and each.ref == walk.current.ref for each in frame.judged)
    waits = frame.due == "output" or (frame.due == "state" and not judged)
    return walk.rules >= 6 and waits and walk.needs_rating(frame)


def _walk_closing(walk: Walk, frame: Frame, outcome: Outcome) -> tuple[LoopEnded, Rated | None]:
    assert frame.loop is not None  # noqa: S101 - only loops are left
    left = frame.exit and walk.rules >= 3
    frame.body, frame.index, frame.closing = _who_looks_last(walk, frame), 0, True
    walk.take()
    frame.due, frame.exit = "", False
    while frame.index < len(frame.body):
        walk_work(walk, frame)
    event = walk.peek()
    if walk.repeats(event):
        return _take_parents_end(walk, frame, event)
    if left:
        return _end_left(walk, frame)
    met = _measure(walk, frame, event.time, own_word=not asks_people(frame.loop))
    return _end(walk, frame, "accepted" if met == "accepted" else outcome)


def _end_left(walk: Walk, frame: Frame) -> tuple[LoopEnded, Rated | None]:
    """Ends a loop that its refiner left (rules 3): with that very draft, accepted unless something objects to it."""
    current, people = walk.current, asks_people(frame.loop)
    event = walk.peek()
    if _measure(walk, frame, event.time, own_word=not people) == "accepted":
        return _take_end(walk, frame, "accepted", current)
    if current is not None and is_barred(walk, current.ref):
        raise Over("exhausted", current)
    if people and (current is None or walk.approved != current.ref):
        raise Over("exhausted", current)
    objects = stands_against(walk.until(frame), _measured(walk, frame, event.time))
    if objects and frame.loop is not None and frame.loop.on_exhausted == "fail":
        raise Over("exhausted", current)
    return _take_end(walk, frame, "exhausted" if objects else "accepted", current)


def _end(walk: Walk, frame: Frame, outcome: Outcome) -> tuple[LoopEnded, Rated | None]:
    best = draft_to_keep(walk, frame)
    leaving = best if frame.judged else walk.current
    if outcome != "accepted" and leaving and is_barred(walk, leaving.ref):
        raise Over("rejected", best)
    if outcome != "accepted" and asks_people(frame.loop):
        raise Over(outcome, walk.best_or_current())
    leaving = walk.current if outcome == "accepted" or best is None else best
    if frame.loop is not None and _fails(frame.loop, outcome):
        raise Over(outcome, leaving)
    return _take_end(walk, frame, outcome, leaving)


def _fails(loop: Repeat, outcome: Outcome) -> bool:
    """Returns whether the run ends with a loop that ends so, and nothing is published."""
    if outcome == "plateaued":
        return loop.on_plateau == "fail"
    return (outcome in ("exhausted", "over_budget", "timed_out") and loop.on_exhausted == "fail") or (
        outcome == "oscillating" and loop.on_oscillation == "fail"
    )


def _ends_swinging(loop: Repeat) -> bool:
    return loop.on_oscillation not in ("ignore", "tell", "raise_temperature")


def _take_end(walk: Walk, frame: Frame, outcome: Outcome, chosen: Rated | None) -> tuple[LoopEnded, Rated | None]:
    event = walk.peek()
    ref = chosen.ref if chosen else DraftRef(0, "")
    score, scale = chosen.shown if chosen else (None, None)
    data = event.data
    if not isinstance(data, LoopEnded) or data.path != frame.path:
        raise Deviates("loop", event, f"{frame.path} should end here as {outcome}")
    if (data.outcome, data.iterations) != (outcome, frame.iteration):
        raise Deviates("loop", event, f"{frame.path} ends as {outcome} after iteration {frame.iteration}")
    if data.draft != ref:
        raise Deviates("kept", event, f"the loop should pass on draft {ref.version}, not draft {data.draft.version}")
    if (data.score, data.scale) != (score, scale):
        raise Deviates("score", event, f"draft {ref.version} was scored {score}, not {data.score}")
    walk.take()
    return data, chosen


def _end_broken(walk: Walk, frame: Frame, broken: Broken) -> tuple[LoopEnded, Rated | None]:
    """Ends a loop in which a step failed for good. Raises Over when nothing may be published."""
    walk.breaking = broken
    if is_held_back(walk, frame, broken):
        raise Over(broken.outcome, walk.best_or_current())
    best = walk.best if walk.rules < 2 else draft_of_failed_loop(walk, frame)
    event = walk.peek()
    ref = best.ref if best else DraftRef(0, "")
    score, scale = best.shown if best else (None, None)
    wanted = LoopEnded(frame.path, broken.outcome, "", frame.iteration, ref, score, scale)
    if not isinstance(event.data, LoopEnded) or replace(event.data, reason="") != wanted:
        raise Deviates("loop", event, f"{frame.path} should end as {broken.outcome}, with draft {ref.version}")
    walk.take()
    return event.data, best


def _close_frame(walk: Walk, frame: Frame, outer: Frame, ended: LoopEnded, chosen: Rated | None) -> None:
    walk.frames.pop()
    of_loop = (frame.best, frame.last, *frame.judged, frame.entry, frame.inner)
    known = (each for each in (walk.current, *of_loop, walk.best) if each and each.ref == ended.draft)
    left = next(known, Rated(ended.draft)) if ended.draft.version or walk.rules < 2 else None
    walk.untold = walk.untold if left and walk.current and left.ref == walk.current.ref else ()
    walk.current = left
    made = frame.outputs if outer.loop is None and frame.outputs else (ended.draft,)
    if walk.rules >= 2:
        before = outer.outputs if walk.breaking or outer.loop is None else ()
        made = tuple(each for each in made if each.version and each not in before)
        if outer.loop is None:
            outer.judged = (left,) if left and left.rating else ()
        else:
            outer.inner = left or outer.inner
    outer.outputs += made
    keep_inner_result(walk, outer, left)
    pass_on_values(walk, outer, frame.first)
    outer.index += 1
    outer.due = "output" if outer.loop else ""
    walk.open = {}
    if outer.loop is None:
        walk.ended = ended.outcome


def _take_recorded_end(walk: Walk, frame: Frame, event: Recorded) -> tuple[LoopEnded, Rated | None] | None:
    """Takes the end of a loop that a fork repeats, as its parent's plan decided it. None for other events."""
    data = event.data
    if isinstance(data, LoopClosing) and data.path == frame.path:
        return _walk_closing(walk, frame, data.outcome)
    if not isinstance(data, LoopEnded) or data.path != frame.path:
        return None
    walk.take()
    return data, None


def _take_parents_end(walk: Walk, frame: Frame, event: Recorded) -> tuple[LoopEnded, Rated | None]:
    if (ended := _take_recorded_end(walk, frame, event)) is None:
        raise Unclear  # its parent ended here
    return ended


def _measure(walk: Walk, frame: Frame, now: datetime, *, own_word: bool) -> Outcome | None:
    """Returns the outcome of the loop's condition for the current draft; None when it goes on or without a rating."""
    measured = _measured(walk, frame, now)
    return loop_outcome(walk.until(frame), measured, own_word=own_word) if measured else None


def _measured(walk: Walk, frame: Frame, now: datetime, *, granted: bool = False) -> Measured | None:
    """Returns what the condition may test about the current draft; None where it needs a rating, and there is none."""
    until, current = walk.until(frame), walk.current
    rating = current.rating if current else None
    rating = None if rating is not None and rating.broken else rating
    if rating is None and (walk.needs_rating(frame) or asks_critics(until)):
        return None
    rating, ref = rating or _UNJUDGED, current.ref if current else DraftRef(0, "")
    no = rating.approved is False if walk.rules < 2 else is_barred(walk, ref)
    approved = False if no else rating.approved or None
    if asks_people(frame.loop) and not no:
        approved = True if walk.approved == ref else None
    rating = replace(rating, approved=True if granted else approved)
    used = walk.usage
    return Measured(
        rating,
        ref.sha256,
        len(finished_drafts(walk, frame)),
        walk.elapsed(now),
        used.tokens,
        used.cost,
        frame.peaks,
        frame.seen[:-1],
        frame.trails,
        judging_steps(frame.loop.body if frame.loop is not None else frame.body),
        next((each.rating for each in frame.judged[::-1] if each.ref != ref), None),
        walk.rules,
        current_values(walk, frame) if looks_at_state(until) else {},
    )


def _skips_people(walk: Walk, frame: Frame) -> bool:
    """Returns whether people need not be asked, as the loop would go on even if they approved."""
    event = walk.peek()
    if walk.repeats(event):
        path = f"{frame.prefix}{frame.body[frame.index].name}"
        return getattr(event.data, "path", "") != path
    current = walk.current
    measured = _measured(walk, frame, event.time, granted=True) if frame.loop is not None else None
    if current is None or measured is None:
        return False
    refused = current.rating is not None and current.rating.approved is False
    if is_beyond_people(walk, current.ref) or (walk.rules < 2 and refused):
        return True
    return loop_outcome(walk.until(frame), measured, own_word=False) != "accepted"
