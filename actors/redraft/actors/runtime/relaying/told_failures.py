"""Failures of steps as refinements are told of them, and options that change with what happened before."""

from __future__ import annotations

from typing import Final

from redraft.events.messages.content import Critique
from redraft.events.messages.domain_events import StepFailed
from redraft.events.messages.plan import Option, Step

USUAL_TEMPERATURE: Final = 0.7
"""The temperature that a step without one starts from when it is raised."""

TEMPERATURE_STEP: Final = 0.2
"""The amount by which the temperature is raised each time."""

MAX_TEMPERATURE: Final = 2.0
"""The highest temperature that models accept."""


def critique_of(failed: StepFailed, step: Step | None) -> Critique:
    """Returns the critique without a score that stands for a step that failed, with its error."""
    name = failed.path.rpartition("/")[2]
    return Critique(0.0, errors=(f"{name}: {failed.message}",), scored=False, critic=step.actor if step else name)


def raise_temperature(options: dict[str, Option], times: int) -> dict[str, Option]:
    """Returns the step's options with `temperature` raised by `times` steps; it starts at 0.7 when unset."""
    given = options.get("temperature", USUAL_TEMPERATURE)
    if not times or not isinstance(given, int | float):
        return options
    return options | {"temperature": round(min(MAX_TEMPERATURE, given + times * TEMPERATURE_STEP), 2)}
