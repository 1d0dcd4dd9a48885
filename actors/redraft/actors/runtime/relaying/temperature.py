"""The temperature of a request that is raised as its run oscillates."""

from __future__ import annotations

from typing import Final

from redraft.events.messages.plan import Option

USUAL_TEMPERATURE: Final = 0.7
"""The temperature that a step without one starts from when it is raised."""

TEMPERATURE_STEP: Final = 0.2
"""The amount by which the temperature is raised each time."""

MAX_TEMPERATURE: Final = 2.0
"""The highest temperature that models accept."""


def raise_temperature(options: dict[str, Option], times: int) -> dict[str, Option]:
    """Returns the step's options with `temperature` raised by `times` steps; it starts at 0.7 when unset."""
    given = options.get("temperature", USUAL_TEMPERATURE)
    if not times or not isinstance(given, int | float):
        return options
    return options | {"temperature": round(min(MAX_TEMPERATURE, given + times * TEMPERATURE_STEP), 2)}
