"""Failures of steps as refinements are told of them."""

from __future__ import annotations

from redraft.events.messages.content import Critique
from redraft.events.messages.domain_events import StepFailed
from redraft.events.messages.plan import Step


def critique_of(failed: StepFailed, step: Step | None) -> Critique:
    """Returns the critique without a score that stands for a step that failed, with its error."""
    name = failed.path.rpartition("/")[2]
    critic = step.actor if step is not None else name
    return Critique(0.0, errors=(f"{name}: {failed.message}",), scored=False, critic=critic)
