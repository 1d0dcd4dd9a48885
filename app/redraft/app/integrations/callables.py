"""A plain callable as an actor: one that takes texts and knows nothing of Redraft, such as a function of a library.

A function of your own is an actor by its decorator alone: `@critic`. These are for what cannot be decorated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from redraft.actors.workflow.actor import Actor, is_async, source_version
from redraft.actors.workflow.context import Context
from redraft.actors.workflow.free_steps import step
from redraft.actors.workflow.roles import critic, generator, publisher, refiner
from redraft.app.integrations.material import NO_CRITERIA
from redraft.events.messages.content import Brief, Critique, Draft, History
from redraft.events.messages.plan import Criterion
from redraft.events.messages.scales import UNIT, Scale


def callable_generator(function: Callable[[str], Any], *, name: str = "", version: str = "") -> Actor:
    """Returns a generator that calls the function with the text of the brief, for the text of the draft.

    Without a `name` it has that of the function. A coroutine function is awaited, any other is called in a thread.
    Raises ActorError for a name that cannot be an actor's.
    """

    @generator(name=_name(function, name))
    def write(brief: Brief) -> Any:  # noqa: ANN401 - the worker judges what it returns
        return function(brief.text)

    return _versioned(write, function, version)


def callable_critic(
    function: Callable[[str], Any],
    *,
    name: str = "",
    version: str = "",
    scale: Scale = UNIT,
    criteria: Mapping[str, str | Criterion] = NO_CRITERIA,
) -> Actor:
    """Returns a critic that calls the function with the text of the draft, for whatever a critic may return.

    That is a number on the `scale`, a bool, a Critique, or an object with fields of one. The rest is as for
    `callable_generator`.
    """

    @critic(name=_name(function, name), scale=scale, criteria=criteria)
    def judge(draft: Draft) -> Any:  # noqa: ANN401 - the worker judges what it returns
        return function(draft.text)

    return _versioned(judge, function, version)


def callable_refiner(function: Callable[[str, str], Any], *, name: str = "", version: str = "") -> Actor:
    """Returns a refiner that calls the function with the text of the draft and with what was said of it, line by line.

    The lines are the errors, weaknesses and suggestions of the critique, and people's advice. The rest is as for
    `callable_generator`.
    """

    @refiner(name=_name(function, name))
    def improve(draft: Draft, critique: Critique | None, history: History) -> Any:  # noqa: ANN401 - see above
        said = (*critique.errors, *critique.weaknesses, *critique.suggestions) if critique else ()
        return function(draft.text, "\n".join((*said, *history.advice)))

    return _versioned(improve, function, version)


def callable_publisher(function: Callable[[str], Any], *, name: str = "", version: str = "") -> Actor:
    """Returns a publisher that calls the function with the text of the draft, for the place where it then is.

    The function may be called more than once for the same draft. The rest is as for `callable_generator`.
    """

    @publisher(name=_name(function, name))
    def publish(draft: Draft) -> Any:  # noqa: ANN401 - the worker judges what it returns
        return function(draft.text)

    return _versioned(publish, function, version)


def callable_step(
    function: Callable[[dict[str, Any]], Any], *, name: str = "", version: str = "", writes: Sequence[str] = ()
) -> Actor:
    """Returns a free step that calls the function with the run's state, for the values that change in it.

    These are a dict or an object with fields; None changes nothing. `writes` names those that may change. The rest is
    as for `callable_generator`.
    """

    @step(name=_name(function, name), writes=writes)
    def work(context: Context) -> Any:  # noqa: ANN401 - the worker judges what it returns
        return function(dict(context.state))

    return _versioned(work, function, version)


def _name(function: Callable[..., Any], name: str) -> str:
    return name or str(getattr(function, "__name__", "") or type(function).__name__)


def _versioned(actor: Actor, function: Callable[..., Any], version: str) -> Actor:
    """Returns the actor with the version that is given, or else that of the function's source."""
    return replace(actor, version=version or source_version(function), is_async=is_async(function))
