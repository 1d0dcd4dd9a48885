"""Puts what actors declare into the plan, by decorators or a model's options: scales, criteria, measures, history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from redraft.actors.plans.paths import as_done_by
from redraft.actors.values import is_number, shown
from redraft.actors.workflow.actor import Actor
from redraft.events.errors import PlanError, suggest
from redraft.events.messages.plan import Criterion, Step, measure_name
from redraft.events.messages.scales import UNIT, Scale

MODEL: str = "llm"
"""The critic whose options declare what it judges: `with: {criteria: {…}, scale: [1, 10], …}`."""

MODEL_SCALE: Scale = (1, 10)
"""The scale of that critic when its options declare criteria and no scale."""


def criteria_of(
    given: Mapping[str, str | Criterion], weights: Mapping[str, float] | None = None
) -> tuple[Criterion, ...]:
    """Returns criteria, each given by the sentence that says what is meant, or whole."""
    made = (
        replace(said, name=name) if isinstance(said, Criterion) else Criterion(name, said)
        for name, said in given.items()
    )
    return tuple(
        replace(each, weight=weights[each.name]) if weights and each.name in weights else each for each in made
    )


def with_declared(step: Step, actors: Iterable[Actor]) -> Step:
    """Returns a critic's step with what its actor, or its options, declare; of several arms, what all of them declare.

    A model's refiner has `only_issues` also from its options. Raises PlanError where the plan says otherwise.
    """
    actors = tuple(actors)
    step = _with_history(step, {actor.name: actor for actor in actors if actor.role == step.role})
    if step.role == "refiner" and step.actor == MODEL and step.options.get("only_issues") is True:
        return step if step.only_issues else replace(step, only_issues=True)
    if step.role != "critic":
        return step
    known = {actor.name: actor for actor in actors if actor.role == "critic"}
    doers = [as_done_by(step, arm) for arm in step.choose] or [step]
    declared = [_declared(each, known.get(each.actor)) for each in doers]
    scale, criteria = declared[0]
    if any(each != declared[0] for each in declared):
        scale, criteria = None, ()
    step = _with_measures(step, [_measures(each, known.get(each.actor)) for each in doers])
    for what, ours, theirs in (("scale", step.scale, scale), ("criteria", step.criteria, criteria)):
        if ours and theirs and ours != theirs:
            remedy = f"leave {what} out here, or write the same"
            raise PlanError(step.name, f"{what} differ from those that {step.actor or 'its actors'} declares; {remedy}")
    if (scale is None or step.scale) and (not criteria or step.criteria):
        return step
    return replace(step, scale=step.scale or scale, criteria=step.criteria or criteria)


def _with_history(step: Step, known: Mapping[str, Actor]) -> Step:
    """Returns the step with the history that its actors take, unless the plan says how much."""
    if step.history is not None:
        return step
    wanted: list[int] = []
    for each in [as_done_by(step, arm) for arm in step.choose] or [step]:
        actor = known.get(each.actor)
        if each.actor == MODEL:
            wanted += [0] if each.options.get("history") and step.role in ("generator", "critic") else []
        elif actor is not None and "history" in actor.takes and (actor.history or actor.role != "refiner"):
            wanted.append(actor.history)
    return replace(step, history=max(wanted)) if wanted else step


def _with_measures(step: Step, declared: Sequence[tuple[str, ...]]) -> Step:
    """Returns the step with the measures that all its actors declare, or those of them that the plan chooses."""
    theirs = tuple(name for name in declared[0] if all(name in each for each in declared))
    if not theirs or theirs == step.measures:
        return step
    if not step.measures:
        return replace(step, measures=theirs)
    names = tuple(map(measure_name, theirs))
    for name in step.measures:
        if measure_name(name) not in names:
            who = step.actor or "each of its actors"
            raise PlanError(step.name, f"measures: {name} is none that {who} declares; {suggest(name, names)}")
    return step


def _measures(step: Step, actor: Actor | None) -> tuple[str, ...]:
    """Returns the measures that an actor declares for its options; of a model, those that its options ask for."""
    if step.actor == MODEL:
        said = step.options.get("measures", {})
        if not isinstance(said, dict) or not all(isinstance(each, str) for each in said.values()):
            raise PlanError(step.name, "with.measures: give names, each with a sentence that says what is counted")
        return tuple(said)
    return () if actor is None else actor.measures_by(step.options)


def _declared(step: Step, actor: Actor | None) -> tuple[Scale | None, tuple[Criterion, ...]]:
    if step.actor == MODEL:
        return _declared_by_options(step)
    if actor is None:
        return None, ()
    return None if actor.scale == UNIT else actor.scale, actor.criteria


def _declared_by_options(step: Step) -> tuple[Scale | None, tuple[Criterion, ...]]:
    """Returns what the options of a model declare; what is wrong with them, the model's actor says."""
    said, scale, weights = (step.options.get(name) for name in ("criteria", "scale", "weights"))
    if said is None and weights is None and scale is None:
        return None, ()
    numbers = (
        isinstance(scale, list) and len(scale) == 2 and all(isinstance(each, int) and is_number(each) for each in scale)
    )
    if scale is not None and not (isinstance(scale, list) and numbers):
        raise PlanError(step.name, f"with.scale is {shown(scale)}; write two rising whole numbers, such as [1, 10]")
    found = (float(scale[0]), float(scale[1])) if isinstance(scale, list) else MODEL_SCALE
    if said is None:
        said = {}
    if not isinstance(said, dict) or not all(isinstance(each, str) for each in said.values()):
        raise PlanError(step.name, "with.criteria: give names, each with a sentence that says what is meant")
    shares: dict[str, float] = {}
    for name, weight in weights.items() if isinstance(weights, dict) else ():
        if name not in said:
            raise PlanError(step.name, f"with.weights: {name!r} is no criterion; {suggest(name, tuple(said))}")
        if not is_number(weight):
            raise PlanError(step.name, f"with.weights.{name} is {shown(weight)}; write a number")
        shares[name] = float(weight)
    return (found[0], found[1]), criteria_of({name: str(each) for name, each in said.items()}, shares)
