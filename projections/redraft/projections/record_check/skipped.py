"""Checks that critics with a condition were asked where it held, and left out where it did not."""

from __future__ import annotations

from collections.abc import Sequence

from redraft.events.messages.domain_events import CriticSkipped, StepRequested
from redraft.events.messages.plan import Parallel, Step, steps_of
from redraft.projections.record_check.chain import Deviates
from redraft.projections.record_check.loop_conditions import meets, note_silence
from redraft.projections.record_check.outdated import current_values
from redraft.projections.record_check.ratings import Rating, heed_gates, join_ratings, row_before
from redraft.projections.record_check.walk import Frame, Walk


def take_skipped(walk: Walk, frame: Frame, step: Step, path: str, said: Sequence[Rating]) -> bool:
    """Takes the event that this critic was left out, if that comes next; returns whether it did.

    `said` are the ratings of the critics before it. Raises Deviates when it was left out and should have been asked, or
    the reverse.
    """
    event = walk.peek()
    data = event.data
    if step.when is None or getattr(data, "path", "") != path:
        return False
    before = _before(frame)
    heard = note_silence(heed_gates(join_ratings(said), said, walk.rules), before)
    holds = meets(step.when, heard, before, walk.rules, current_values(walk, frame))
    if isinstance(data, StepRequested):
        if not holds and not walk.repeats(event):
            raise Deviates("skipped", event, f"the condition of {path} does not hold, and it was asked")
        return False
    if not isinstance(data, CriticSkipped):
        return False
    if holds and not walk.repeats(event):
        raise Deviates("skipped", event, f"the condition of {path} holds, and it was not asked")
    if walk.current is None or data.draft != walk.current.ref:
        raise Deviates("skipped", event, f"{path} was left out for another draft than the current one")
    walk.top.due = ""
    walk.take()
    return True


def _before(frame: Frame) -> tuple[Step, ...]:
    """Returns the critics that are asked before the one at the frame's index with a condition."""
    panel = frame.body[frame.index]
    beside = [step for step in panel.steps if step.when is None] if isinstance(panel, Parallel) else []
    row = (step for _, step in steps_of(row_before(frame.body, frame.index)) if step.role == "critic")
    return (*row, *beside)
