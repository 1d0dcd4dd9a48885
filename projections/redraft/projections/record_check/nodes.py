"""The nodes of a plan one by one: what each leaves behind for the next."""

from __future__ import annotations

from redraft.events.content import Draft, DraftRef
from redraft.events.domain_events import DraftCritiqued, DraftGenerated, DraftRefined
from redraft.events.plan import Node, Parallel, Step
from redraft.projections.record_check.asking import Made, ask, heed, only_answer
from redraft.projections.record_check.barred import barred, best_of, better, hear
from redraft.projections.record_check.panels import candidates, panel, publishers
from redraft.projections.record_check.ratings import (
    Rated,
    Rating,
    failed_gate,
    is_critic,
    joined,
    rating_of,
)
from redraft.projections.record_check.terms import looks_back
from redraft.projections.record_check.walk import Frame, Walk


def work(walk: Walk, frame: Frame) -> None:
    """Goes through the step or parallel at the frame's index, or through a row of critics."""
    node = frame.body[frame.index]
    if is_critic(node):
        _row(walk, frame)
    elif isinstance(node, Parallel):
        _side_by_side(walk, frame, node)
    elif isinstance(node, Step):
        _alone(walk, frame, node)


def _alone(walk: Walk, frame: Frame, step: Step) -> None:
    ask(walk, step, f"{frame.prefix}{step.name}")
    _, asked, data = only_answer(walk)
    if isinstance(data, DraftGenerated | DraftRefined):
        heed(walk, asked)
        _made(walk, frame, data)
    frame.index += 1


def _made(walk: Walk, frame: Frame, data: Made) -> None:
    """A new draft is the current one; one with the same text keeps what was said of it."""
    before = data.before if isinstance(data, DraftRefined) else None
    same = before is not None and before.sha256 == data.draft.sha256
    rating = _rating_of(walk, before) if before is not None and same else None
    walk.drafts = data.draft.version
    walk.current = Rated(data.draft.ref, rating)
    frame.exit = isinstance(data, DraftRefined) and data.exit
    note(frame, data.draft, before.version if before else 0)


def note(frame: Frame, draft: Draft | DraftRef, before: int) -> None:
    """The loop remembers the draft, if it looks for oscillation."""
    if frame.swings is not None:
        frame.swings.note(draft, before)


def _rating_of(walk: Walk, ref: DraftRef) -> Rating | None:
    of_loops = (each for frame in walk.frames for each in (frame.best, frame.last, *frame.judged, frame.entry))
    return next((each.rating for each in (walk.current, *of_loops) if each and each.ref == ref), None)


def _side_by_side(walk: Walk, frame: Frame, node: Parallel) -> None:
    if node.steps[0].role == "publisher":
        publishers(walk, frame, node)
        frame.index += 1
        return
    before = walk.current
    chosen, rating = candidates(walk, frame, node)
    refines = node.steps[0].role == "refiner" and before is not None
    note(frame, chosen, before.ref.version if refines and before else 0)
    _judged(walk, frame, chosen, rating)
    frame.due = "judged"
    frame.index += 1


def _row(walk: Walk, frame: Frame) -> None:
    """Critics one after the other: what they said together is the draft's rating."""
    heard: list[Rating] = []
    while frame.index < len(frame.body) and is_critic(frame.body[frame.index]):
        heard.append(_critic(walk, frame, frame.body[frame.index]))
        frame.index = _after(frame.body, frame.index, joined(heard))
    if walk.current is None:
        return
    reviewed = walk.frames[-2] if frame.review is not None else frame
    _judged(walk, reviewed, walk.current.ref, joined(heard))
    if frame.review is None:
        frame.due = "judged"


def _critic(walk: Walk, frame: Frame, node: Node) -> Rating:
    suffix = frame.review or ""
    if isinstance(node, Parallel):
        return panel(walk, frame, node)
    assert isinstance(node, Step)  # noqa: S101 - only steps and parallels judge
    ask(walk, node, f"{frame.prefix}{node.name}{suffix}")
    event, asked, data = only_answer(walk)
    assert isinstance(data, DraftCritiqued)  # noqa: S101 - a critic's answer, `answer` saw to it
    rating = rating_of(event.version, data.critique, gate=asked.step.gate)
    hear(walk, data.draft, rating)
    return rating


def _after(body: tuple[Node, ...], index: int, rating: Rating) -> int:
    """Once a gate has failed, the next gate, or what comes after the critics."""
    index += 1
    while rating.gate == "failed" and index < len(body) and is_critic(body[index]):
        node = body[index]
        if isinstance(node, Step) and node.gate:
            break
        index += 1
    return index


def _judged(walk: Walk, frame: Frame, ref: DraftRef, rating: Rating) -> None:
    """The draft has this rating now; what people rejected stays so."""
    if ref.sha256 in walk.rejected:
        rating = Rating(0.0, rating.errors, False, rating.critiques, rating.gate)
    judged = Rated(ref, rating)
    walk.current, walk.best = judged, better(walk, walk.best, judged)
    if walk.rules < 2:
        anew, counts = failed_gate(frame.best) and rating.gate != "failed", True
        if frame.loop is not None:
            frame.best, frame.last = better(walk, frame.best, judged), judged
    else:
        foremost = best_of(walk, frame.judged)
        spoiled = foremost is None or barred(walk, foremost.ref)
        anew = spoiled and not barred(walk, ref)
        counts = spoiled or not barred(walk, ref)
        frame.judged = (*(each for each in frame.judged if each.ref != ref), judged)
    if frame.loop is not None:
        scores, hashes = looks_back(walk.until(frame))
        before = () if anew else frame.peaks
        frame.peaks = (*before, max(rating.score if counts else 0.0, before[-1] if before else 0.0))[-scores:]
        frame.seen = (*frame.seen, ref.sha256)[-hashes:]
