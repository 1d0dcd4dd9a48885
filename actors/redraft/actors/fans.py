"""What is asked of a Parallel node in progress. Pure."""

from __future__ import annotations

from redraft.actors.run_state import Fan, OpenStep, gates_of
from redraft.events.domain_events import DraftCritiqued


def candidate_of(fan: Fan, event: DraftCritiqued) -> int:
    """The number (from 0) of the candidate that its judge spoke of."""
    return fan.candidates.index(event.draft) if event.draft in fan.candidates else 0


def member_of(fan: Fan, asked: OpenStep) -> int:
    """The number (from 0) of the step that was asked, whoever was chosen for it."""
    return next(number for number, step in enumerate(fan.node.steps) if step.name == asked.step.name)


def stopped_by_gate(fan: Fan) -> bool:
    """Whether all gates have spoken and one of them has failed."""
    return len(fan.heard) == gates_of(fan.node) and any(each.gate == "failed" for _, each in fan.heard)


def weights_of(fan: Fan) -> tuple[float, ...]:
    """The weights of those who were heard, in their order; none where the plan gives none."""
    return tuple(fan.node.weights[number] for number, _ in fan.heard) if fan.node.weights else ()
