"""A run's record against its plan: what is recorded is what the plan calls for, event by event."""

from __future__ import annotations

from collections.abc import Sequence

from redraft.events.domain_events import Outcome, RunStarted
from redraft.events.envelope import Recorded
from redraft.projections.record_check.barred import barred, salvaged
from redraft.projections.record_check.endings import expect_end, held_back, refused
from redraft.projections.record_check.findings import Deviates, Finding
from redraft.projections.record_check.loops import node_at
from redraft.projections.record_check.ratings import Rated, failed_gate, publishes
from redraft.projections.record_check.walk import Broken, Edited, Frame, Over, RecordEnds, Unclear, Walk


def against_plan(events: Sequence[Recorded]) -> Finding | None:
    """The first event of a run that its plan and what was recorded before it do not call for; None when all fit."""
    begun = events[0].data if events else None
    if not isinstance(begun, RunStarted):
        return None
    walk = Walk(events, begun)
    try:
        expect_end(walk, *_end_of(walk))
    except Deviates as deviates:
        return deviates.finding
    except (RecordEnds, Unclear):
        return None
    return None


def _end_of(walk: Walk) -> tuple[Outcome, Rated | None]:
    frame = walk.top
    try:
        return _through(walk, frame)
    except Over as over:
        return over.outcome, over.draft
    except Edited:
        raise Unclear from None


def _through(walk: Walk, frame: Frame) -> tuple[Outcome, Rated | None]:
    """Goes through the plan; gives the outcome, and the draft that it ends with."""
    try:
        while frame.index < len(frame.body):
            if publishes(frame.body[frame.index]) and refused(walk, frame):
                return "rejected", walk.current
            node_at(walk, frame)
    except Broken as broken:
        return _publish_best(walk, frame, broken)
    outcome = walk.ended or "accepted"
    if walk.current and barred(walk, walk.current.ref):
        return "rejected", walk.current
    if outcome == "accepted" and failed_gate(walk.current):
        return "rejected", walk.current
    return outcome, walk.current


def _publish_best(walk: Walk, frame: Frame, broken: Broken) -> tuple[Outcome, Rated | None]:
    """After a failure the best draft so far goes to what publishers the plan still has, if it may."""
    walk.breaking = broken
    del walk.frames[1:]
    walk.open = {}
    try:
        while not held_back(walk, frame, broken):
            while frame.index < len(frame.body) and not publishes(frame.body[frame.index]):
                frame.index += 1
            if frame.index == len(frame.body):
                if walk.rules >= 2:
                    return broken.outcome, salvaged(walk)
                return "exhausted" if broken.outcome == "failed" else broken.outcome, walk.best
            node_at(walk, frame)
    except Broken as again:
        walk.open = {}
        broken = Broken(broken.outcome if not again.publishing else again.outcome, publishing=True)
    return broken.outcome, walk.best_or_current()
