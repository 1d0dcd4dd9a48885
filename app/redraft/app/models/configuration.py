"""The language model that the shipped `llm` actors ask where their step names none, and who watches what it writes."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias, assert_never

import msgspec
from pydantic import ValidationError

from redraft.actors.plans.arms import with_arms
from redraft.actors.plans.paths import map_steps, steps_in
from redraft.actors.workflow.actor import Actor, ActorKey
from redraft.app.settings.settings import ModelLimit, ModelPrice, Settings
from redraft.events.errors import InputError
from redraft.events.messages.conditions import (
    AllOf,
    AnyOf,
    Approved,
    Compare,
    Condition,
    Exit,
    Not,
    Oscillating,
    Plateau,
    State,
)
from redraft.events.messages.plan import Option, Plan, Step, loops_of

MINUTE: Final = 60.0


class Shared(Protocol):
    """Turns that several processes share; see `redraft.events.rabbit.coordination.Semaphore.take`."""

    def take(self, name: str, turns: int, keep: float = 0.0) -> AbstractAsyncContextManager[None]: ...


class Local:
    """Turns inside one process."""

    def __init__(self) -> None:
        self._free: dict[str, asyncio.Semaphore] = {}

    @asynccontextmanager
    async def take(self, name: str, turns: int, keep: float = 0.0) -> AsyncIterator[None]:
        """Waits for one of the `turns` of a name, and holds it for at least `keep` seconds."""
        free = self._free.setdefault(name, asyncio.Semaphore(turns))
        await free.acquire()
        loop = asyncio.get_running_loop()
        until = loop.time() + keep
        try:
            yield
        finally:
            left = until - loop.time()
            if left > 0:
                loop.call_later(left, free.release)
            else:
                free.release()


class RateLimits:
    """The limits of each model, kept in this process until they are `shared` with others."""

    def __init__(self, limits: Mapping[str, ModelLimit]) -> None:
        self._limits = limits
        self._turns: Shared = Local()

    def share(self, turns: Shared) -> None:
        """From now on all who share these turns keep the limits together."""
        self._turns = turns

    @asynccontextmanager
    async def of(self, model: str) -> AsyncIterator[None]:
        """Waits for a turn to ask this model, and holds it through the block."""
        limit = self._limits.get(model)
        async with AsyncExitStack() as held:
            if limit and limit.max_concurrent:
                await held.enter_async_context(self._turns.take(f"once.{model}", limit.max_concurrent))
            if limit and limit.requests_per_minute:
                await held.enter_async_context(self._turns.take(f"minute.{model}", limit.requests_per_minute, MINUTE))
            yield


Watch: TypeAlias = Callable[[str, str], None]
"""Told the path of a step, and a piece of what its model writes, as it comes."""

ACTORS: Final = frozenset({"llm", "verify"})
"""The shipped actors that ask a model."""

INSTALL: Final = "the actors that ask a language model need pip install 'redraft[llm]'"

NO_LIMITS: Final = RateLimits({})


@dataclass(frozen=True, slots=True)
class Models:
    """The model for steps that name none, such as `openai:gpt-5` (empty: there is none), and how it is reached.

    `url` is that of a server which speaks OpenAI's chat completions; it then serves every model. It is the worker's
    own, never a plan's: the key goes there. `watch` is told what models write while they write; `turns` keeps the
    limits of each model; `prices` are what the settings say that models cost.
    """

    default: str = ""
    url: str = ""
    watch: Watch | None = None
    turns: RateLimits = NO_LIMITS
    prices: Mapping[str, ModelPrice] = field(default_factory=dict)


NO_MODEL: Final = Models()


def models_of(settings: Settings, watch: Watch | None = None) -> Models:
    """The models of the settings."""
    turns = RateLimits(settings.model_limits)
    return Models(settings.model, settings.model_url, watch, turns, settings.model_prices)


def with_model(plan: Plan, model: str, prices: Mapping[str, ModelPrice]) -> Plan:
    """The plan with this model for every step that asks one and names none, and with the prices that the settings have.

    So both are kept with the run.
    """

    def named(step: Step) -> Step:
        if step.actor not in ACTORS:
            return step
        if model and "model" not in step.options:
            step = msgspec.structs.replace(step, options={**step.options, "model": model})
        return with_prices(step, prices)

    return msgspec.structs.replace(plan, steps=map_steps(plan.steps, with_arms(named)))


def actor_keys(actors: Iterable[Actor]) -> frozenset[ActorKey]:
    """Returns the keys of these actors."""
    return frozenset((actor.role, actor.name) for actor in actors)


def asks_model(step: Step, own: frozenset[ActorKey]) -> bool:
    """Returns whether a step asks a model; of the user's actors (`own`: their keys) nobody knows."""
    return step.actor in ACTORS and (step.role, step.actor) not in own


def asking_in(plan: Plan, own: frozenset[ActorKey]) -> list[Step]:
    """The steps that ask a model; `own` as for `asks_model`."""
    return [step for _, step in steps_in(plan.steps) if asks_model(step, own)]


def check_models(plan: Plan, models: Models, own: frozenset[ActorKey] = frozenset()) -> str:
    """Raises InputError when a step of this plan asks a model that is not named, not known, or has no key here.

    `own` are the keys of actors that the user brought along: their models are not checked. Returns and raises what
    `check_money` does besides.
    """
    asking = asking_in(plan, own)
    if not asking:
        return ""
    require_installed()
    from redraft.app.models.provider import model_fault

    for name in dict.fromkeys(model_in(step, models) for step in asking):
        if fault := model_fault(name, models.url):
            raise InputError(fault)
    return check_money(plan, models, own)


def check_model_names(plan: Plan, models: Models, own: frozenset[ActorKey] = frozenset()) -> None:
    """Raises InputError, as `check_models` does, for a name that no model can have; a missing key or name is none."""
    names = dict.fromkeys(model_in(step, models) for step in asking_in(plan, own))
    if not any(names) or not is_installed():
        return
    from redraft.app.models.provider import name_fault

    for name in filter(None, names):
        if fault := name_fault(name, models.url):
            raise InputError(fault)


def check_money(plan: Plan, models: Models, own: frozenset[ActorKey] = frozenset()) -> str:
    """Raises InputError for a budget of money in a plan that asks a model of which nobody knows what it costs.

    Returns what to tell where loops end by what was spent and that is not known; empty where it is.
    """
    is_budgeted = any(budget is not None and budget.cost is not None for budget in (plan.budget, plan.daily))
    names = _unpriced(plan, models, own) if is_budgeted or asks_for_cost(plan) else []
    if names and is_budgeted:
        raise InputError(f"the budget of cost cannot be kept: {unknown_price(names)}")
    return f"conditions on cost leave out calls without a price: {unknown_price(names)}" if names else ""


def _unpriced(plan: Plan, models: Models, own: frozenset[ActorKey]) -> list[str]:
    """The models that are asked and that have no price; none where the library that has the prices is not installed."""
    asking = asking_in(plan, own) if is_installed() else []
    names = [model_in(step, models) for step in asking if cost_of_step(step, 1, 1, models) is None]
    return list(dict.fromkeys(filter(None, names)))


def model_in(step: Step, models: Models) -> str:
    """Returns the model that a step asks; empty where none is named."""
    return str(step.options.get("model", "")) or models.default


def cost_of_step(step: Step, given: int, taken: int, models: Models) -> float | None:
    """Returns the price in USD of these tokens, by plan, settings or list of prices; None if no price is known."""
    name = model_in(step, models)
    stated = stated_price(step.options, name, models.prices)
    if stated is not None:
        return stated.of(given, taken)
    if not name or not is_installed():
        return None
    from redraft.app.models.provider import cost_of

    return cost_of(given, taken, name, models.url)


def check_worker(targets: Iterable[str], models: Models) -> None:
    """Raises InputError when a worker that is to serve these cannot ask a model at all, or not the one of its own."""
    if ACTORS.isdisjoint(targets):
        return
    require_installed()
    from redraft.app.models.provider import model_fault

    if models.default and (fault := model_fault(models.default, models.url)):
        raise InputError(fault)


def require_installed() -> None:
    """Raises InputError, saying how to install it, where the library that speaks to models is not installed."""
    if not is_installed():
        raise InputError(INSTALL)


def is_installed() -> bool:
    """Returns whether the library that speaks to models is installed."""
    try:
        return importlib.util.find_spec("pydantic_ai") is not None
    except ImportError:
        return False


def stated_price(options: Mapping[str, Option], name: str, prices: Mapping[str, ModelPrice]) -> ModelPrice | None:
    """The price that a step's options state, else that of the settings; None where the list of prices is to say."""
    stated = {key: options[f"price_{key}"] for key in ("input", "output") if f"price_{key}" in options}
    if not stated:
        return prices.get(name)
    try:
        return ModelPrice.model_validate(stated)
    except ValidationError:
        return None  # the step fails when it is asked for, and says what is wrong with the option


def with_prices(step: Step, prices: Mapping[str, ModelPrice]) -> Step:
    """The step with the price of the model that it names, where the settings have it; so it is kept with the run."""
    price = prices.get(str(step.options.get("model", "")))
    if price is None or "price_input" in step.options or "price_output" in step.options:
        return step
    stated: dict[str, Option] = {"price_input": price.input, "price_output": price.output}
    return msgspec.structs.replace(step, options={**step.options, **stated})


def asks_for_cost(plan: Plan) -> bool:
    """Returns whether spending ends a loop of the plan."""
    return any(_of_cost(loop.until) for _, loop in loops_of(plan.steps))


def unknown_price(names: Sequence[str]) -> str:
    """Returns a sentence that names the models without a known price, and says how to state one."""
    told = ", ".join(names)
    return (
        f"the price of {told} is not known; state it in USD for a million tokens, "
        f'REDRAFT_MODEL_PRICES=\'{{"{names[0]}": {{"input": 1, "output": 4}}}}\''
    )


def _of_cost(condition: Condition) -> bool:
    match condition:
        case Compare(quantity=quantity):
            return quantity == "cost"
        case AnyOf(conditions=parts) | AllOf(conditions=parts):
            return any(map(_of_cost, parts))
        case Not(condition=negated):
            return _of_cost(negated)
        case Approved() | Plateau() | Oscillating() | Exit() | State():
            return False
        case _:
            assert_never(condition)
