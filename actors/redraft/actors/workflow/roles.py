"""The four roles and conditions, as decorators for plain functions, with the arguments and the result of each.

    @generator   def write(brief, critique, history, context): ...           -> str or Draft
    @critic      def judge(draft, history, brief, context): ...              -> Critique, score, bool or object
    @refiner     def improve(draft, critique, history, brief, context): ...  -> str, Draft or Revision
    @publisher   def save(draft, brief, context): ...                        -> Receipt, str, path or None
    @condition   def good_enough(facts, context): ...                        -> True, False, or a text: why not

Functions may be async or not (those that are not run in threads) and take any of these arguments, by name. Each
decorator takes a `name=` for the actor and a `version=` for its code, in place of those that the function itself gives.
With `isolation="process"` the function runs in a child process, which is killed at the step's deadline. `writes` names
the values of the run's state that it may change, which it returns beside its result: `WithState(result, {…})`. A step
without any of these roles is made by `step`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Final, Literal, overload

from redraft.actors.plans.check_nodes import check_criteria, check_measures
from redraft.actors.values import shown
from redraft.actors.workflow.actor import (
    NO_FIELDS,
    SCORES,
    Critic,
    Decorator,
    Function,
    Generator,
    Hermetic,
    Isolation,
    Measures,
    Publisher,
    Refiner,
    make_actor,
    require,
)
from redraft.actors.workflow.declaring import criteria_of
from redraft.events.errors import ActorError, suggest
from redraft.events.messages.plan import Criterion
from redraft.events.messages.scales import Scale

_NO_CRITERIA: Final[Mapping[str, str | Criterion]] = MappingProxyType({})
_NO_WEIGHTS: Final[Mapping[str, float]] = MappingProxyType({})


@overload
def generator(function: Function, /) -> Generator: ...
@overload
def generator(
    *,
    name: str | None = None,
    version: str | None = None,
    isolation: Isolation = "none",
    history: int = 0,
    writes: Sequence[str] = (),
) -> Decorator[Literal["generator"]]: ...
def generator(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    version: str | None = None,
    isolation: Isolation = "none",
    history: int = 0,
    writes: Sequence[str] = (),
) -> Generator | Decorator[Literal["generator"]]:
    """Makes an actor that writes a first draft, or another in each iteration of a loop.

    In a loop it may take what was said of the last draft (`critique`) and the `history`, with the texts of so many
    earlier drafts. Raises ActorError when the arguments are not a generator's.
    """
    make: Decorator[Literal["generator"]] = partial(
        make_actor, "generator", name=name, version=version, isolation=isolation, history=history, writes=writes
    )
    return make if function is None else make(function)


@overload
def critic(function: Function, /) -> Critic: ...
@overload
def critic(
    *,
    name: str | None = None,
    scale: Scale = SCORES,
    version: str | None = None,
    isolation: Isolation = "none",
    fields: Mapping[str, str] = NO_FIELDS,
    criteria: Mapping[str, str | Criterion] = _NO_CRITERIA,
    weights: Mapping[str, float] = _NO_WEIGHTS,
    measures: Measures = (),
    history: int = 0,
    hermetic: Hermetic = True,
    writes: Sequence[str] = (),
) -> Decorator[Literal["critic"]]: ...
def critic(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    scale: Scale = SCORES,
    version: str | None = None,
    isolation: Isolation = "none",
    fields: Mapping[str, str] = NO_FIELDS,
    criteria: Mapping[str, str | Criterion] = _NO_CRITERIA,
    weights: Mapping[str, float] = _NO_WEIGHTS,
    measures: Measures = (),
    history: int = 0,
    hermetic: Hermetic = True,
    writes: Sequence[str] = (),
) -> Critic | Decorator[Literal["critic"]]:
    """Makes an actor that judges a draft, scoring on `scale` (low, high), on which conditions are read too.

    `criteria` are what it judges, each with a sentence that says what is meant, or a Criterion with a scale of its own:
    it returns `criteria={"accuracy": 8, …}`. Its score is their mean, by `weights` (1 unless given), unless it returns
    one. `measures` are the names of numbers that it counts and returns each time, `measures={"words": 312}`; one whose
    name ends with `?` may be missing. `fields` names fields of what the function returns that stand for a critique's:
    `{"improvements": "suggestions"}`. If it takes the `history`, that has the texts of so many earlier drafts.
    One that looks at more than it is given (files, programs, a database) is not `hermetic`, or says by a function of
    its options whether it is: no other run takes its verdicts then. Raises ActorError when the function's arguments are
    not a critic's, the scale is not two rising numbers, a criterion or a measure cannot be used, or `fields` names a
    field that a critique has not.
    """
    declared = _declared_criteria(criteria, weights)
    if not callable(measures):
        measures = _declared_measures(measures, declared)
    make: Decorator[Literal["critic"]] = partial(
        make_actor,
        "critic",
        name=name,
        version=version,
        isolation=isolation,
        scale=scale,
        fields=fields,
        criteria=declared,
        measures=measures,
        history=history,
        hermetic=hermetic,
        writes=writes,
    )
    return make if function is None else make(function)


@overload
def refiner(function: Function, /) -> Refiner: ...
@overload
def refiner(
    *,
    name: str | None = None,
    version: str | None = None,
    isolation: Isolation = "none",
    history: int = 0,
    writes: Sequence[str] = (),
) -> Decorator[Literal["refiner"]]: ...
def refiner(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    version: str | None = None,
    isolation: Isolation = "none",
    history: int = 0,
    writes: Sequence[str] = (),
) -> Refiner | Decorator[Literal["refiner"]]:
    """Makes an actor that improves a draft; its history has the texts of so many earlier drafts.

    Raises ActorError when the function's arguments are not a refiner's.
    """
    make: Decorator[Literal["refiner"]] = partial(
        make_actor, "refiner", name=name, version=version, isolation=isolation, history=history, writes=writes
    )
    return make if function is None else make(function)


@overload
def publisher(function: Function, /) -> Publisher: ...
@overload
def publisher(
    *,
    name: str | None = None,
    version: str | None = None,
    isolation: Isolation = "none",
    writes: Sequence[str] = (),
) -> Decorator[Literal["publisher"]]: ...
def publisher(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    version: str | None = None,
    isolation: Isolation = "none",
    writes: Sequence[str] = (),
) -> Publisher | Decorator[Literal["publisher"]]:
    """Makes an actor that publishes a draft. Raises ActorError when the function's arguments are not a publisher's."""
    make: Decorator[Literal["publisher"]] = partial(
        make_actor, "publisher", name=name, version=version, isolation=isolation, writes=writes
    )
    return make if function is None else make(function)


@overload
def condition(function: Function, /) -> Critic: ...
@overload
def condition(
    *, name: str | None = None, version: str | None = None, isolation: Isolation = "none", history: int = 0
) -> Decorator[Literal["critic"]]: ...
def condition(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    version: str | None = None,
    isolation: Isolation = "none",
    history: int = 0,
) -> Critic | Decorator[Literal["critic"]]:
    """Makes a condition of a loop from a function of its facts (see ConditionFacts), which must have no effects.

    A worker runs it as a critic that only says whether the condition holds: `until=good_enough`, or by its name in the
    text of a condition, `until="good_enough and score >= 0.8"`, where it also stands in the body. Raises ActorError
    when the function does not take the facts, or conditions cannot use its name.
    """

    def make(written: Function) -> Critic:
        made = make_actor(
            "critic", written, name=name, version=version, isolation=isolation, history=history, condition=True
        )
        return replace(made, measures=_declared_measures((made.name,), ()))

    return make if function is None else make(function)


def _declared_measures(measures: object, criteria: tuple[Criterion, ...]) -> tuple[str, ...]:
    if isinstance(measures, str) or not isinstance(measures, Sequence):
        raise ActorError(f'@critic: measures are {shown(measures)}; give names, such as ("words", "coverage?")')
    require(lambda: check_measures("@critic", tuple(measures), criteria))
    return tuple(measures)


def _declared_criteria(criteria: object, weights: object) -> tuple[Criterion, ...]:
    if not isinstance(criteria, Mapping):
        example = '{"accuracy": "every claim is right"}'
        raise ActorError(f"@critic: criteria are {shown(criteria)}; give each with what is meant, such as {example}")
    if not isinstance(weights, Mapping):
        raise ActorError(
            f'@critic: weights are {shown(weights)}; give a number by criterion, such as {{"accuracy": 2}}'
        )
    if weights and not criteria:
        raise ActorError("@critic: weights are those of criteria, and none is given; give criteria, or remove weights")
    for name in weights:
        if name not in criteria:
            raise ActorError(f"@critic: weights: {name!r} is no criterion of it; {suggest(str(name), tuple(criteria))}")
    found = criteria_of(criteria, weights)
    require(lambda: check_criteria("@critic", found))
    return found
