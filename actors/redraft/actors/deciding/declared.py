"""Compares a critique with what the plan says that its critic declares. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from redraft.events.messages.content import Critique
from redraft.events.messages.plan import Step


def why_invalid(step: Step, critique: Critique) -> str:
    """Returns why a critique cannot be recorded as one of this step; empty when it can."""
    if not 0.0 <= critique.score <= 1.0:
        return f"a score of {critique.score:g} is not in 0..1"
    if critique.confidence is not None and not 0.0 <= critique.confidence <= 1.0:
        return f"a confidence of {critique.confidence:g} is not in 0..1"
    for mark in critique.criteria:
        if not 0.0 <= mark.score <= 1.0 or not 0.0 <= (mark.confidence or 0.0) <= 1.0:
            return f"the score or confidence of {mark.name} is not in 0..1"
    given = [mark.name for mark in critique.criteria]
    if len(set(given)) < len(given):
        return "one criterion has two scores"
    declared = [criterion.name for criterion in step.criteria]
    if missing := [name for name in declared if name not in given]:
        return f"no score for {missing[0]}, a criterion that the plan declares"
    if declared and (others := [name for name in given if name not in declared]):
        return f"a score for {others[0]}, a criterion that the plan does not declare"
    return ""


def as_declared(step: Step, critique: Critique) -> Critique:
    """Returns the critique with the scales that the plan declares, on which its scores are shown."""
    if not critique.criteria:
        return critique if critique.scale == step.scale else replace(critique, scale=step.scale)
    scales = {each.name: each.scale for each in step.criteria}
    marks = tuple(replace(each, scale=scales.get(each.name)) for each in critique.criteria)
    return replace(critique, scale=step.scale, criteria=marks)
