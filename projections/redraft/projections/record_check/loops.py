"""Loops: how many passes, when one ends, and which draft leaves it."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from redraft.events.content import DraftRef
from redraft.events.domain_events import ChoicesCredited, IterationStarted, LoopClosing, LoopEnded, Outcome, RunEnded
from redraft.events.envelope import Recorded
from redraft.events.plan import Approve, Repeat
from redraft.projections.record_check.barred import barred, beyond_people, finished, is_withheld, kept, of_failed
from redraft.projections.record_check.endings import held_back
from redraft.projections.record_check.findings import Deviates
from redraft.projections.record_check.nodes import note, work
from redraft.projections.record_check.people import people
from redraft.projections.record_check.ratings import Rated, asks_people, critics_of, publishes
from redraft.projections.record_check.swings import Swings
from redraft.projections.record_check.terms import Measured, ending
from redraft.projections.record_check.walk import Broken, Edited, Frame, Over, Unclear, Walk


def node_at(walk: Walk, frame: Frame) -> None:
    """Goes through the node at the frame's index, or past it."""
    node = frame.body[frame.index]
    if isinstance(node, Repeat):
        loop(walk, frame, node)
    elif walk.rules >= 2 and publishes(node) and frame.loop is not None and is_withheld(walk, frame):
        frame.index += 1
    elif not isinstance(node, Approve):
        work(walk, frame)
    elif _is_passed_by(walk, frame):
        frame.index += 1
    else:
        people(walk, frame, node)


def loop(walk: Walk, outer: Frame, node: Repeat) -> None:
    """All passes of a loop, and its end. A failure goes on to what is around it, as the loop has ended by then."""
    frame, depth = _entered(walk, outer, node), len(walk.frames)
    walk.frames.append(frame)
    try:
        ended, chosen = _passes(walk, frame)
    except Broken as broken:
        walk.open = {}
        del walk.frames[depth + 1 :]
        ended, chosen = _broken_off(walk, frame, broken)
        _left(walk, frame, outer, ended, chosen)
        raise
    _left(walk, frame, outer, ended, chosen)


def _entered(walk: Walk, outer: Frame, node: Repeat) -> Frame:
    path = f"{outer.prefix}{node.name}"
    _expect_pass(walk, path, 1)
    outer.due = ""
    place = f"{outer.place}/{node.name}" if outer.place else node.name
    rated = walk.current if walk.current and walk.current.rating else None
    swings = Swings() if node.on_oscillation != "ignore" else None
    frame = Frame(node.body, path, place, node, iteration=1, swings=swings)
    if walk.rules < 2:
        frame.best = frame.last = rated
    else:
        frame.entry = rated
        outer.judged = () if outer.loop is None else outer.judged
    if walk.current:
        note(frame, walk.current.ref, 0)
    return frame


def _expect_pass(walk: Walk, path: str, iteration: int) -> None:
    event = walk.peek()
    if event.data != IterationStarted(path, iteration):
        raise Deviates("pass", event, f"pass {iteration} of {path} was to begin here")
    walk.take()
    walk.iterations += "/" not in path


def _passes(walk: Walk, frame: Frame) -> tuple[LoopEnded, Rated | None]:
    while True:
        try:
            if (ended := _decided(walk, frame)) is not None:
                return ended
            if frame.index < len(frame.body):
                node_at(walk, frame)
            elif (ended := _after_body(walk, frame)) is not None:
                return ended
        except Edited as edited:
            walk.current = Rated(edited.ref)
            frame.index, frame.due, frame.exit = len(frame.body), "", False


def _decided(walk: Walk, frame: Frame) -> tuple[LoopEnded, Rated | None] | None:
    """The end of the loop, if it is to end here; looked at when somebody has spoken, or a loop inside ended."""
    assert frame.loop is not None  # noqa: S101 - only loops are decided on
    swung = frame.swings is not None and frame.swings.swung and frame.loop.on_oscillation == "stop"
    if not (frame.due or frame.exit or swung):
        return None
    event = walk.peek()
    if walk.repeats(event):
        if isinstance(event.data, ChoicesCredited | RunEnded):
            raise Unclear  # its parent ended here
        return _as_recorded(walk, frame, event)
    if frame.exit:
        return _leave(walk, frame, "plateaued")
    if swung:
        return _leave(walk, frame, "oscillating")
    own_word = frame.due == "judged" and not asks_people(frame.loop)
    outcome = _measure(walk, frame, event.time, own_word=own_word)
    if outcome is not None:
        return _end(walk, frame, outcome)
    coming = [node for node in frame.body[frame.index :] if not (isinstance(node, Approve) or publishes(node))]
    if isinstance(event.data, LoopEnded | LoopClosing) and coming:
        raise Deviates("loop", event, "the loop was to go on: its condition does not hold, and no limit is reached")
    return None


def _after_body(walk: Walk, frame: Frame) -> tuple[LoopEnded, Rated | None] | None:
    event = walk.peek()
    if walk.repeats(event) and not isinstance(event.data, IterationStarted):
        if (ended := _as_recorded(walk, frame, event)) is None:
            raise Unclear  # its parent ended here
        return ended
    if not walk.repeats(event) and frame.iteration >= walk.most(frame):
        return _leave(walk, frame, "exhausted")
    _expect_pass(walk, frame.path, frame.iteration + 1)
    frame.iteration, frame.index, frame.due = frame.iteration + 1, 0, ""
    return None


def _leave(walk: Walk, frame: Frame, outcome: Outcome) -> tuple[LoopEnded, Rated | None]:
    """The end of a loop that no draft has satisfied. A last draft that nobody judged is judged first."""
    assert frame.loop is not None  # noqa: S101 - only loops are left
    critics = critics_of(frame.loop)
    if not critics or (walk.current is not None and walk.current.rating is not None):
        return _end(walk, frame, outcome)
    event = walk.peek()
    if not isinstance(event.data, LoopClosing) or (event.data.path, event.data.outcome) != (frame.path, outcome):
        raise Deviates("loop", event, f"{frame.path} was to end here as {outcome}, once its last draft is judged")
    return _closing(walk, frame, outcome)


def _closing(walk: Walk, frame: Frame, outcome: Outcome) -> tuple[LoopEnded, Rated | None]:
    assert frame.loop is not None  # noqa: S101 - only loops are left
    walk.take()
    frame.body, frame.index, frame.closing = critics_of(frame.loop), 0, True
    frame.due, frame.exit = "", False
    while frame.index < len(frame.body):
        work(walk, frame)
    event = walk.peek()
    if walk.repeats(event):
        if (ended := _as_recorded(walk, frame, event)) is None:
            raise Unclear  # its parent ended here
        return ended
    met = _measure(walk, frame, event.time, own_word=not asks_people(frame.loop))
    return _end(walk, frame, "accepted" if met == "accepted" else outcome)


def _end(walk: Walk, frame: Frame, outcome: Outcome) -> tuple[LoopEnded, Rated | None]:
    best = kept(walk, frame)
    leaving = best if frame.judged else walk.current
    if outcome != "accepted" and leaving and barred(walk, leaving.ref):
        raise Over("rejected", best)
    if outcome != "accepted" and asks_people(frame.loop):
        raise Over(outcome, walk.best_or_current())
    event = walk.peek()
    chosen = walk.current if outcome == "accepted" or best is None else best
    ref = chosen.ref if chosen else DraftRef(0, "")
    score = chosen.rating.score if chosen and chosen.rating else None
    data = event.data
    if not isinstance(data, LoopEnded) or data.path != frame.path:
        raise Deviates("loop", event, f"{frame.path} was to end here as {outcome}")
    if (data.outcome, data.iterations) != (outcome, frame.iteration):
        raise Deviates("loop", event, f"{frame.path} ends as {outcome} after pass {frame.iteration}")
    if data.draft != ref:
        raise Deviates("kept", event, f"draft {ref.version} is to leave the loop, not draft {data.draft.version}")
    if data.score != score:
        raise Deviates("score", event, f"draft {ref.version} was scored {score}, not {data.score}")
    walk.take()
    return data, chosen


def _broken_off(walk: Walk, frame: Frame, broken: Broken) -> tuple[LoopEnded, Rated | None]:
    """The end of a loop in which a step failed for good. Raises Over when nothing may be published."""
    walk.breaking = broken
    if held_back(walk, frame, broken):
        raise Over(broken.outcome, walk.best_or_current())
    best = walk.best if walk.rules < 2 else of_failed(walk, frame)
    event = walk.peek()
    ref = best.ref if best else DraftRef(0, "")
    score = best.rating.score if best and best.rating else None
    wanted = LoopEnded(frame.path, broken.outcome, "", frame.iteration, ref, score)
    if not isinstance(event.data, LoopEnded) or replace(event.data, reason="") != wanted:
        raise Deviates("loop", event, f"{frame.path} was to end as {broken.outcome}, with draft {ref.version}")
    walk.take()
    return event.data, best


def _left(walk: Walk, frame: Frame, outer: Frame, ended: LoopEnded, chosen: Rated | None) -> None:
    walk.frames.pop()
    of_loop = (frame.best, frame.last, *frame.judged, frame.entry, frame.inner)
    known = (each for each in (walk.current, *of_loop, walk.best) if each and each.ref == ended.draft)
    left = next(known, Rated(ended.draft)) if ended.draft.version or walk.rules < 2 else None
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
    outer.index += 1
    outer.due = "output" if outer.loop else ""
    walk.open = {}
    if outer.loop is None:
        walk.ended = ended.outcome


def _as_recorded(walk: Walk, frame: Frame, event: Recorded) -> tuple[LoopEnded, Rated | None] | None:
    """Takes the end of a loop that a fork repeats as it stands: its parent's plan decided it. None for other events."""
    data = event.data
    if isinstance(data, LoopClosing) and data.path == frame.path:
        return _closing(walk, frame, data.outcome)
    if not isinstance(data, LoopEnded) or data.path != frame.path:
        return None
    walk.take()
    return data, None


def _measure(walk: Walk, frame: Frame, now: datetime, *, own_word: bool, granted: bool = False) -> Outcome | None:
    """How the condition says that the loop ends, with the current draft; None when it does not, or nobody spoke."""
    current = walk.current
    if current is None or current.rating is None:
        return None
    no = current.rating.approved is False if walk.rules < 2 else barred(walk, current.ref)
    approved = False if no else current.rating.approved or None
    if asks_people(frame.loop) and not no:
        approved = True if walk.approved == current.ref else None
    rating = replace(current.rating, approved=True if granted else approved)
    elapsed = (now - walk.started).total_seconds()
    used = walk.usage
    measured = Measured(
        rating,
        current.ref.sha256,
        len(finished(walk, frame)),
        elapsed,
        used.tokens,
        used.cost,
        frame.peaks,
        frame.seen[:-1],
    )
    return ending(walk.until(frame), measured, own_word=own_word)


def _is_passed_by(walk: Walk, frame: Frame) -> bool:
    """Whether people need not be asked, as the loop would go on even if they approved."""
    event = walk.peek()
    if walk.repeats(event):
        path = f"{frame.prefix}{frame.body[frame.index].name}"
        return getattr(event.data, "path", "") != path
    current = walk.current
    if frame.loop is None or current is None or current.rating is None:
        return False
    if beyond_people(walk, current.ref) or (walk.rules < 2 and current.rating.approved is False):
        return True
    return _measure(walk, frame, event.time, own_word=False, granted=True) != "accepted"
