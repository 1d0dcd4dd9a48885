"""Measures of critics, and the terms of conditions about them, by the rules of docs/workflows.md."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Context
from typing import Final, TypeAlias

from redraft.events.messages.content import Critique
from redraft.events.messages.plan import Step

Counts: TypeAlias = Mapping[tuple[str, str], float]
"""Numbers by the name of the critic and of the measure."""


def is_counted(name: str, critics: Sequence[Step]) -> bool:
    """Returns whether one of these critics declares a measure of this name, such as `words` or `judge.words`."""
    return any(name in (each, f"{step.name}.{each}") for step in critics for each in declared_counts(step))


def declared_counts(step: Step) -> dict[str, bool]:
    """Returns the measures that a critic declares, and whether each of them must come; a condition has its own name."""
    if step.condition:
        return {step.actor: True}
    return {each.rstrip("?"): not each.endswith("?") for each in step.measures}


def count_of(name: str, counts: Counts) -> float | None:
    """Returns a measure by its name in conditions; None where no critic gave it."""
    found = [value for (critic, own), value in counts.items() if name in (own, f"{critic}.{own}")]
    return found[0] if found else None


_NINE_DIGITS: Final = Context(prec=9)


def share_of_change(now: float | None, was: float | None, rules: int) -> float | None:
    """Returns by which share of what it was a measure has changed, with 9 digits; None where one is not known.

    By rules 1 to 5 these are 9 decimals.
    """
    if now is None or was is None:
        return None
    if was == 0:
        return 0.0 if now == 0 else math.inf
    share = abs((now - was) / was)
    return round(share, 9) if rules < 6 else float(_NINE_DIGITS.create_decimal_from_float(share))


def why_miscounted(step: Step, critique: Critique) -> str:
    """Returns how the measures of a critique differ from those that the plan declares; empty if they do not."""
    declared = declared_counts(step)
    if others := sorted(critique.measures.keys() - declared.keys()):
        return f"{step.name} gave {others[0]}, a measure that the plan does not declare"
    missing = [name for name, needed in declared.items() if needed and name not in critique.measures]
    if missing:
        return f"{step.name} gave no {missing[0]}, a measure that the plan declares"
    if step.condition and critique.measures[step.actor] not in (0, 1):
        return f"{step.name} is a condition, which is 1 or 0, not {critique.measures[step.actor]:g}"
    return ""
