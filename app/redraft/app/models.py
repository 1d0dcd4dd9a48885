"""Which language model the shipped `llm` actors ask where their step names none, and who watches what it writes."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never

import msgspec

from redraft.actors.plan_paths import steps_in
from redraft.app.turns import Turns
from redraft.events.errors import InputError
from redraft.events.plan import Approve, Node, Parallel, Plan, Repeat, Step

Watch: TypeAlias = Callable[[str, str], None]
"""Told the path of a step, and a piece of what its model writes, as it comes."""

ACTORS: Final = frozenset({"llm", "verify"})
"""The shipped actors that ask a model."""

INSTALL: Final = "the actors that ask a language model need pip install 'redraft[llm]'"
CONFIGURE: Final = (
    "no model is configured: give --model openai:gpt-5, or set REDRAFT_MODEL (and the key where the model is asked: "
    "OPENAI_API_KEY, ANTHROPIC_API_KEY, GOOGLE_API_KEY; or REDRAFT_MODEL_URL for a server of your own)"
)


NO_LIMITS: Final = Turns({})


@dataclass(frozen=True, slots=True)
class Models:
    """The model for steps that name none, such as `openai:gpt-5` (empty: there is none), and how it is reached.

    `url` is that of a server which speaks OpenAI's chat completions; it then serves every model. It is the worker's
    own, never a plan's: the key goes there. `watch` is told what models write while they write; `turns` keeps the
    limits of each model.
    """

    default: str = ""
    url: str = ""
    watch: Watch | None = None
    turns: Turns = NO_LIMITS


NO_MODEL: Final = Models()


def with_model(plan: Plan, model: str) -> Plan:
    """The plan with this model for every step that asks one and names none; so it is kept with the run."""
    if not model:
        return plan
    return msgspec.structs.replace(plan, steps=tuple(_node_with(node, model) for node in plan.steps))


def _node_with(node: Node, model: str) -> Node:
    match node:
        case Step():
            return _step_with(node, model)
        case Repeat():
            return msgspec.structs.replace(node, body=tuple(_node_with(each, model) for each in node.body))
        case Parallel():
            steps = tuple(_step_with(each, model) for each in node.steps)
            judge = _step_with(node.judge, model) if node.judge else None
            return msgspec.structs.replace(node, steps=steps, judge=judge)
        case Approve():
            return node
        case _:
            assert_never(node)


def _step_with(step: Step, model: str) -> Step:
    if step.actor not in ACTORS or "model" in step.options:
        return step
    return msgspec.structs.replace(step, options={**step.options, "model": model})


def check_models(plan: Plan, models: Models, own: frozenset[tuple[str, str]] = frozenset()) -> None:
    """Raises InputError when a step of this plan asks a model that is not named, not known, or has no key here.

    `own` are the seats (role and name) of actors that the user brought along: what they ask is theirs to say.
    """
    asking = [step for _, step in steps_in(plan.steps) if step.actor in ACTORS and (step.role, step.actor) not in own]
    if not asking:
        return
    require_installed()
    from redraft.app.builtin.llm_model import model_fault

    for name in dict.fromkeys(str(step.options.get("model", "")) or models.default for step in asking):
        if fault := model_fault(name, models.url):
            raise InputError(fault)


def check_worker(targets: Iterable[str], models: Models) -> None:
    """Raises InputError when a worker that is to serve these cannot ask a model at all, or not the one of its own."""
    if ACTORS.isdisjoint(targets):
        return
    require_installed()
    from redraft.app.builtin.llm_model import model_fault

    if models.default and (fault := model_fault(models.default, models.url)):
        raise InputError(fault)


def require_installed() -> None:
    """Raises InputError, saying how to install it, where the library that speaks to models is not installed."""
    if not is_installed():
        raise InputError(INSTALL)


def is_installed() -> bool:
    """Whether the library that speaks to models is."""
    try:
        return importlib.util.find_spec("pydantic_ai") is not None
    except ImportError:
        return False
