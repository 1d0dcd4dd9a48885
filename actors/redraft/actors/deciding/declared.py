"""Reads a critique as the plan says that its critic declares it: whether it fits, and as a judgement. Pure."""

from __future__ import annotations

from typing import Final
from unicodedata import category

from msgspec.structs import replace

from redraft.actors.conditions.reading import SCORE
from redraft.actors.deciding.facts import holds_for_draft
from redraft.actors.deciding.judgement import Judgement
from redraft.events.bus.port import size_of
from redraft.events.messages.conditions import CONFIDENCE
from redraft.events.messages.content import MOST_MEASURED, Critique
from redraft.events.messages.plan import RULES, Step, measure_name
from redraft.events.messages.scales import mean_of

LONGEST_CRITERION: Final = 200
"""The longest name of a criterion that no plan declares, in bytes of UTF-8: read models have rows under it."""


def why_invalid(step: Step, critique: Critique) -> str:
    """Returns why a critique cannot be recorded as one of this step; empty when it can."""
    if not 0.0 <= critique.score <= 1.0:
        return f"a score of {critique.score:g} is not in 0..1"
    if critique.confidence is not None and not 0.0 <= critique.confidence <= 1.0:
        return f"a confidence of {critique.confidence:g} is not in 0..1"
    if (step.criteria or critique.criteria) and (fault := _why_criteria_invalid(step, critique)):
        return fault
    return _why_measures_invalid(step, critique) if step.measures or critique.measures else ""


def _why_criteria_invalid(step: Step, critique: Critique) -> str:
    for mark in critique.criteria:
        if not 0.0 <= mark.score <= 1.0 or not 0.0 <= (mark.confidence or 0.0) <= 1.0:
            return f"the score or confidence of {mark.name} is not in 0..1"
    given = [mark.name for mark in critique.criteria]
    if long := [name for name in given if size_of(name) > LONGEST_CRITERION]:
        return f"the name of a criterion has {size_of(long[0]):,} bytes; the limit is {LONGEST_CRITERION}"
    if odd := [name for name in given if any(category(each) in ("Cc", "Cs") for each in name)]:
        return f"{odd[0]!r} cannot be the name of a criterion: it holds a control character"
    if len(set(given)) < len(given):
        return "one criterion has two scores"
    declared = [criterion.name for criterion in step.criteria]
    if missing := [name for name in declared if name not in given]:
        return f"no score for {missing[0]}, a criterion that the plan declares"
    if declared and (others := [name for name in given if name not in declared]):
        return f"a score for {others[0]}, a criterion that the plan does not declare"
    return ""


def _why_measures_invalid(step: Step, critique: Critique) -> str:
    declared = [measure_name(each) for each in step.measures]
    for name, value in critique.measures.items():
        if name not in declared:
            return f"a number for {name}, a measure that the plan does not declare"
        if not abs(value) <= MOST_MEASURED:  # of NaN too
            return f"{name} is {value}, and no number up to 10**15"
    missing = [name for name in step.measures if not name.endswith("?") and name not in critique.measures]
    return f"no number for {missing[0]}, a measure that the plan declares" if missing else ""


_OWN_NAME: Final = 7
"""The rules from which on a critique has the name of the actor that was asked, whatever its worker says."""


def as_declared(step: Step, critique: Critique, rules: int = RULES) -> Critique:
    """Returns the critique by its actor's name, with the scales that the plan declares, on which its scores are shown.

    What a worker in another language leaves to its criteria is made of them, as it is for functions: the score is their
    weighted mean, the confidence the lowest of theirs.
    """
    if rules >= _OWN_NAME and critique.critic != step.actor:
        critique = replace(critique, critic=step.actor)
    if not critique.criteria:
        same = critique.scale == step.scale and not critique.on_scale
        return critique if same else replace(critique, scale=step.scale, on_scale=False)
    scales = {each.name: each.scale for each in step.criteria}
    marks = tuple(replace(each, scale=scales.get(each.name)) for each in critique.criteria)
    confidence = critique.confidence
    if confidence is None:
        confidence = min((each.confidence for each in marks if each.confidence is not None), default=None)
    critique = replace(critique, scale=step.scale, criteria=marks, confidence=confidence, on_scale=False)
    if critique.scored:
        return critique
    weights = {each.name: each.weight for each in step.criteria}
    score = mean_of([each.score for each in marks], [weights.get(each.name, 1.0) for each in marks])
    return replace(critique, score=score, scored=True)


def judgement_of(
    version: int, critique: Critique, *, gate: bool = False, scored: bool = True, step: Step | None = None
) -> Judgement:
    """Returns one critique, at this version of the stream, as a judgement. A gate that is not passed disapproves.

    A critique without a score is `scored` as 0 by rules 2. `step` is the critic's, as the plan has it.
    """
    said, errors, scored = critique.approved, len(critique.errors), scored or critique.scored
    own = {} if step is None else {f"{step.name}.{SCORE}": critique.score}
    judged = Judgement(critique.score, errors, said, (version,), "", scored, own=own)
    if step is not None and (step.scale is not None or critique.criteria or critique.confidence is not None):
        marks = _marks_of(critique)
        own |= {f"{step.name}.{name}": value for name, value in marks.items()}
        judged = replace(judged, scale=step.scale, marks=marks)
    if step is not None and critique.measures:
        judged = replace(judged, measures={f"{step.name}.{name}": value for name, value in critique.measures.items()})
    if step is not None and step.condition:
        judged = replace(judged, condition=True)
    if not gate:
        return judged
    if said or (said is None and _passes(judged, step)):
        return replace(judged, gate="passed")
    return replace(judged, approved=False, gate="failed")


def _marks_of(critique: Critique) -> dict[str, float]:
    marks = {each.name: each.score for each in critique.criteria}
    return marks if critique.confidence is None else {**marks, CONFIDENCE: critique.confidence}


def _passes(judged: Judgement, step: Step | None) -> bool:
    if step is None or step.passes is None:
        return judged.score >= 1 and not judged.errors
    return holds_for_draft(step.passes, judged, (step,))
