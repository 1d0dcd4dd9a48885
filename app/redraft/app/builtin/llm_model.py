"""A model by its name, and what its answers cost."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, infer_model

from redraft.app.builtin.llm_options import LlmOptions
from redraft.app.builtin.secrets import without_secrets
from redraft.app.models import CONFIGURE
from redraft.events.usage import Usage

if TYPE_CHECKING:
    from pydantic_ai.models.openai import OpenAIChatModel

CURRENCY: Final = "USD"
_MILLION: Final = 1_000_000


def model_of(name: str, url: str) -> Model:
    """The model of this name. Raises UserError when its name is not known, or its key is not set here.

    With a `url`, that server is asked for it, whatever the name says of a provider.
    """
    return _served(name, url) if url else infer_model(name)


def model_fault(name: str, url: str = "") -> str:
    """What is wrong with a model's name in one line, with the remedy; empty when it can be asked."""
    if not name:
        return CONFIGURE
    if ":" not in name and not url:
        return f"model {name!r}: name the provider too, such as openai:{name}"
    try:
        model_of(name, url)
    except (UserError, ImportError) as error:
        said = " ".join(str(error).split()).partition(". ")[0].replace("`", "").partition(" or pass it via")[0]
        return without_secrets(f"model {name!r}: {said[:1].lower()}{said[1:]}")
    return ""


def _served(name: str, url: str) -> OpenAIChatModel:
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    key = os.environ.get("OPENAI_API_KEY") or "none"
    return OpenAIChatModel(name.partition(":")[2] or name, provider=OpenAIProvider(base_url=url, api_key=key))


def usage_of(messages: Iterable[ModelMessage], options: LlmOptions, model: str, prompt: str, seconds: float) -> Usage:
    """What these answers of a model used."""
    answers = [each for each in messages if isinstance(each, ModelResponse)]
    costs = [_cost(each, options) for each in answers]
    given, taken = sum(each.usage.input_tokens for each in answers), sum(each.usage.output_tokens for each in answers)
    return Usage(
        tokens=given + taken,
        cost=sum(cost for cost in costs if cost is not None),
        calls=len(answers),
        unpriced=costs.count(None),
        input_tokens=given,
        output_tokens=taken,
        seconds=round(seconds, 3),
        model=model,
        prompt=prompt,
        currency=CURRENCY if any(cost is not None for cost in costs) else "",
    )


def _cost(answer: ModelResponse, options: LlmOptions) -> float | None:
    """What an answer cost: by the prices of the plan, else by the list of prices; None when neither knows."""
    if options.price_input is not None or options.price_output is not None:
        given = answer.usage.input_tokens * (options.price_input or 0.0)
        return (given + answer.usage.output_tokens * (options.price_output or 0.0)) / _MILLION
    try:
        return float(answer.cost().total_price)
    except (AssertionError, LookupError, ValueError):
        return None
