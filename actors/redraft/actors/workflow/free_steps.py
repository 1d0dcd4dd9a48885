"""`step`: the decorator of functions without one of the four roles, and the builder of the step of any actor.

@step
async def research(context): ...           -> a dict of the values of the run's state that it changes

step(judge, timeout=60)                    a step of a plan, by an actor with settings of its own
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final, Literal, Unpack, overload

from redraft.actors.workflow.actor import Actor, Decorator, FreeStep, Function, Isolation, make_actor
from redraft.actors.workflow.builders import Member, StepSettings, StepSpec, make_step
from redraft.events.errors import PlanError

_OF_FUNCTIONS: Final = frozenset({"name", "version", "isolation", "history", "writes"})


@overload
def step(actor: Actor | str, **settings: Unpack[StepSettings]) -> StepSpec: ...  # type: ignore[overload-overlap]
@overload  # an actor can be called as well, and is no function here
def step(function: Function, /) -> FreeStep: ...
@overload
def step(*, choose: Iterable[Member | str], **settings: Unpack[StepSettings]) -> StepSpec: ...
@overload
def step(
    *,
    name: str | None = None,
    version: str | None = None,
    isolation: Isolation = "none",
    history: int = 0,
    writes: Sequence[str] = (),
) -> Decorator[Literal["step"]]: ...
def step(actor: Any = None, **settings: Any) -> StepSpec | FreeStep | Decorator[Literal["step"]]:
    """Makes an actor of a function (`@step`), or the step of a plan of an actor.

    The function of such an actor takes any of `draft` (None before the first), `critique`, `history`, `brief` and
    `context`, and returns the values of the run's state that it changes: a dict or an object with fields, or None.
    `writes` names those that it may change. The settings of a plan's step are those of `make_step`. Raises ActorError
    when the arguments of a function are not a step's, PlanError and ConditionError for wrong settings.
    """
    if actor is None and settings and settings.keys() <= _OF_FUNCTIONS:
        return partial(make_actor, "step", **settings)
    if callable(actor) and not isinstance(actor, Actor):
        if settings:
            name = str(getattr(actor, "__name__", actor))
            raise PlanError(name, "decorate the function with @step first, then give the settings of its step")
        return make_actor("step", actor)
    return make_step(actor, **settings)
