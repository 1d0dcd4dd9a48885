"""What models cost: as the list of prices has it, or as people say where it does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, TypeAlias, assert_never

import msgspec
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from redraft.events.conditions import AllOf, AnyOf, Approved, Compare, Condition, Not, Oscillating, Plateau
from redraft.events.plan import Option, Plan, Step, loops_of

MILLION: Final = 1_000_000

_Price: TypeAlias = Annotated[float, Field(ge=0, le=1e9)]


class ModelPrice(BaseModel):
    """What a model costs, in USD for a million tokens: those that it is given, and those that it writes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input: _Price = 0.0
    output: _Price = 0.0

    def of(self, given: int, taken: int) -> float:
        """What so many tokens in and out cost, in USD."""
        return (given * self.input + taken * self.output) / MILLION


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


def has_money_budget(plan: Plan) -> bool:
    """Whether the plan says what may be spent, by one run or in a day."""
    return any(budget is not None and budget.cost is not None for budget in (plan.budget, plan.daily))


def asks_for_cost(plan: Plan) -> bool:
    """Whether a loop of the plan ends by what was spent."""
    return any(_of_cost(loop.until) for _, loop in loops_of(plan.steps))


def unknown_price(names: Sequence[str]) -> str:
    """Whose price nobody knows, and how to state it."""
    told = ", ".join(names)
    return (
        f"nobody knows the price of {told}; state it in USD for a million tokens, "
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
        case Approved() | Plateau() | Oscillating():
            return False
        case _:
            assert_never(condition)
