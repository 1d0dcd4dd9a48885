"""Which language model the shipped `llm` actors ask where their step names none, and who watches what it writes."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import msgspec

from redraft.actors.arms import with_arms
from redraft.actors.plan_paths import mapped, steps_in
from redraft.actors.roles import Actor
from redraft.actors.roles import Seat as Seat
from redraft.app.prices import ModelPrice, asks_for_cost, has_money_budget, stated_price, unknown_price, with_prices
from redraft.app.settings import Settings
from redraft.app.turns import Turns
from redraft.events.errors import InputError
from redraft.events.plan import Plan, Step

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
    limits of each model; `prices` are what the settings say that models cost.
    """

    default: str = ""
    url: str = ""
    watch: Watch | None = None
    turns: Turns = NO_LIMITS
    prices: Mapping[str, ModelPrice] = field(default_factory=dict)


NO_MODEL: Final = Models()


def models_of(settings: Settings, watch: Watch | None = None) -> Models:
    """The models of the settings."""
    turns = Turns(settings.model_limits)
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

    return msgspec.structs.replace(plan, steps=mapped(plan.steps, with_arms(named)))


def seats_of(actors: Iterable[Actor]) -> frozenset[Seat]:
    """Returns the seats that these actors take."""
    return frozenset((actor.role, actor.name) for actor in actors)


def asks_model(step: Step, own: frozenset[Seat]) -> bool:
    """Whether a step asks a model. `own` are the seats of actors that the user brought along: of those nobody knows."""
    return step.actor in ACTORS and (step.role, step.actor) not in own


def asking_in(plan: Plan, own: frozenset[Seat]) -> list[Step]:
    """The steps that ask a model; `own` as for `asks_model`."""
    return [step for _, step in steps_in(plan.steps) if asks_model(step, own)]


def check_models(plan: Plan, models: Models, own: frozenset[Seat] = frozenset()) -> str:
    """Raises InputError when a step of this plan asks a model that is not named, not known, or has no key here.

    `own` are the seats of actors that the user brought along: what they ask is theirs to say. Returns and raises what
    `check_money` does besides.
    """
    asking = asking_in(plan, own)
    if not asking:
        return ""
    require_installed()
    from redraft.app.builtin.llm_model import model_fault

    for name in dict.fromkeys(str(step.options.get("model", "")) or models.default for step in asking):
        if fault := model_fault(name, models.url):
            raise InputError(fault)
    return check_money(plan, models, own)


def check_money(plan: Plan, models: Models, own: frozenset[Seat] = frozenset()) -> str:
    """Raises InputError for a budget of money in a plan that asks a model of which nobody knows what it costs.

    Returns what to tell where loops end by what was spent and that is not known; empty where it is.
    """
    is_budgeted = has_money_budget(plan)
    names = _unpriced(plan, models, own) if is_budgeted or asks_for_cost(plan) else []
    if names and is_budgeted:
        raise InputError(f"the budget of cost cannot be kept: {unknown_price(names)}")
    return f"conditions on cost leave out calls without a price: {unknown_price(names)}" if names else ""


def _unpriced(plan: Plan, models: Models, own: frozenset[Seat]) -> list[str]:
    """The models that are asked and that have no price; none where the library that has the prices is not installed."""
    if not is_installed():
        return []
    from redraft.app.builtin.llm_model import cost_of

    found: dict[str, None] = {}
    for step in asking_in(plan, own):
        name = str(step.options.get("model", "")) or models.default
        stated = stated_price(step.options, name, models.prices)
        if name and cost_of(1, 1, name, models.url, stated) is None:
            found[name] = None
    return list(found)


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
