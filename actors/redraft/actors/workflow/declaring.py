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

PROGRAM: str = "command"
"""The actor whose options name a program, which gets the history if an argument of it says so."""

HISTORY: str = "{history}"
"""The text of such an argument that stands for the history."""

MODEL_SCALE: Scale = (1, 10)
"""The scale of that critic when its options declare criteria and no scale."""

_OF_DRAFT: frozenset[str] = frozenset({"draft", "critique", "history", "folder"})
"""The parameters by which a function is given something about drafts."""


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
    own = {actor.name: actor for actor in actors if actor.role == step.role}
    step = _with_subject(_with_writes(_with_history(step, own), own), own)
    if step.role == "refiner" and step.actor == MODEL and step.options.get("only_issues") is True:
        return step if step.only_issues else replace(step, only_issues=True)
    if step.role != "critic":
        return step
    known = {actor.name: actor for actor in actors if actor.role == "critic"}
    if (actor := known.get(step.actor)) is not None and actor.condition and not step.condition:
        step = replace(step, condition=True)
    doers = [as_done_by(step, arm) for arm in step.choose] or [step]
    if (actor := known.get(step.actor)) is not None and actor.hermetic is False:
        check_shared(step.name, step, actor)
    declared = [_declared(each, known.get(each.actor)) for each in doers]
    scale, criteria = declared[0]
    scale = scale if all(each[0] == scale for each in declared) else None  # their scores are compared as 0..1
    criteria = criteria if all(each[1] == criteria for each in declared) else ()
    step = _with_measures(step, [_measures(each, known.get(each.actor)) for each in doers])
    for what, ours, theirs in (("scale", step.scale, scale), ("criteria", step.criteria, criteria)):
        if ours and theirs and ours != theirs:
            remedy = f"leave {what} out here, or write the same"
            raise PlanError(step.name, f"{what} differ from those that {step.actor or 'its actors'} declares; {remedy}")
    if (scale is None or step.scale) and (not criteria or step.criteria):
        return step
    return replace(step, scale=step.scale or scale, criteria=step.criteria or criteria)


def check_shared(path: str, step: Step, actor: Actor) -> None:
    """Raises PlanError where all runs are to take the verdicts of a critic that looks at more than it is given."""
    if step.reuse != "always" or actor.is_hermetic(step.options):
        return
    if actor.hermetic is False:
        more, remedy = "(files, programs, a database)", "write run, or leave it out"
    else:
        more = "by its options (the file of a prompt, a model that they do not name)"
        remedy = "name a model, give instructions in place of the file, or write run"
    said = f"reuse is always, but {step.actor} looks at more than it is given {more}, which may be another then"
    raise PlanError(path, f"{said}; {remedy}")


def _with_writes(step: Step, known: Mapping[str, Actor]) -> Step:
    """Returns the step with the values of the state that its actors say they may change, unless the plan names them."""
    doers = _actors_of(step, known)
    if step.writes or not doers or not all(actor.writes for actor in doers):
        return step
    return replace(step, writes=tuple(dict.fromkeys(name for actor in doers for name in actor.writes)))


def _with_subject(step: Step, known: Mapping[str, Actor]) -> Step:
    """Returns a free step as one about the run if no function that carries it out is given anything about a draft."""
    if step.role != "step" or step.about_run:
        return step
    doers = _actors_of(step, known)
    if not doers or any(_OF_DRAFT & {*actor.takes} for actor in doers):
        return step
    return replace(step, about_run=True)


def _actors_of(step: Step, known: Mapping[str, Actor]) -> list[Actor]:
    """Returns the actors that may carry out a step; none if one of them runs elsewhere, and is not known here."""
    names = [arm.actor for arm in step.choose] or [step.actor]
    return [known[name] for name in names] if known.keys() >= {*names} else []


def _with_history(step: Step, known: Mapping[str, Actor]) -> Step:
    """Returns the step with the history that its actors take, unless the plan says how much.

    Raises PlanError where the plan gives a history to actors that do not take it.
    """
    doers = [as_done_by(step, arm) for arm in step.choose] or [step]
    taken = [_history(each, known.get(each.actor)) for each in doers]
    if step.history is None:
        wanted = [each for each in taken if each is not None]
        return replace(step, history=max(wanted)) if wanted else step
    if all(_leaves_history(each, known.get(each.actor)) for each in doers):
        who = doers[0].actor
        remedy = f"{who} does not take 'history'; add it to the function, or remove history here"
        if _runs_program(doers[0]):
            remedy = f'no argument says {HISTORY}; add "{HISTORY}" to run, or remove history'
        raise PlanError(step.name, f"history is {step.history}, but {remedy}")
    return step


def _history(step: Step, actor: Actor | None) -> int | None:
    """Returns the number of texts that an actor takes with the history; None if it takes none, or gets it anyway."""
    if step.actor == MODEL:
        return 0 if step.options.get("history") and step.role != "refiner" else None
    if _runs_program(step):
        return None if _leaves_history(step, actor) or step.role == "refiner" else 0
    if actor is not None and actor.condition:
        return actor.history or None
    if actor is None or "history" not in actor.takes:
        return None
    return actor.history if actor.history or actor.role != "refiner" else None


def _runs_program(step: Step) -> bool:
    return step.actor == PROGRAM and "run" in step.options


def _leaves_history(step: Step, actor: Actor | None) -> bool:
    """Returns whether it is known that nobody would look at the history that this step is given."""
    if _runs_program(step):
        run = step.options["run"]
        return isinstance(run, list | tuple) and not any(HISTORY in str(each) for each in run)
    return step.actor != MODEL and actor is not None and "history" not in actor.takes


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
