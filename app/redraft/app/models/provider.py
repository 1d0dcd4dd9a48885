"""A model by its name, and what its answers cost."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, infer_model
from pydantic_ai.providers import infer_provider_class
from pydantic_ai.usage import RequestUsage

from redraft.app.process.logs import without_secrets
from redraft.app.settings.settings import CURRENCY, ModelPrice
from redraft.events.messages.usage import Usage

if TYPE_CHECKING:
    from pydantic_ai.models.openai import OpenAIChatModel

_CONFIGURE: Final = (
    "no model is configured: give --model openai:gpt-5, or set REDRAFT_MODEL (and the key where the model is asked: "
    "OPENAI_API_KEY, ANTHROPIC_API_KEY, GOOGLE_API_KEY; or REDRAFT_MODEL_URL for a server of your own)"
)

_FORMER: Final = {"google-gla": "google", "google-vertex": "google-cloud"}


def model_of(name: str, url: str) -> Model:
    """The model of this name. Raises UserError when its name is not known, or its key is not set here.

    With a `url`, that server is asked for it, whatever the name says of a provider.
    """
    return _served(name, url) if url else infer_model(name)


def model_fault(name: str, url: str = "") -> str:
    """Returns the fault of a model's name in one line, with the remedy; empty when the model can be asked."""
    found = model_or_fault(name, url)
    return found if isinstance(found, str) else ""


def model_or_fault(name: str, url: str) -> Model | str:
    """The model of this name, see `model_of`; or what is wrong with the name in one line, with the remedy."""
    if not name:
        return _CONFIGURE
    if fault := name_fault(name, url):
        return fault
    try:
        return model_of(name, url)
    except (UserError, ImportError) as error:
        said = " ".join(str(error).split()).partition(". ")[0].replace("`", "").partition(" or pass it via")[0]
        return without_secrets(f"model {name!r}: {said[:1].lower()}{said[1:]}")


def name_fault(name: str, url: str = "") -> str:
    """Returns the fault of a name that no key mends, as `model_fault` does; a server with a `url` takes any name."""
    if url:
        return ""
    provider, colon, model = name.partition(":")
    if not colon:
        return f"model {name!r}: name the provider too, such as openai:{name}"
    if provider in _FORMER:
        return f"model {name!r}: the provider has another name now, write {_FORMER[provider]}:{model}"
    try:
        infer_provider_class(provider)
    except ValueError:
        return f"model {name!r}: unknown model: {name}"
    except (UserError, ImportError):  # what is missing here; `model_of` says how to mend it
        return ""
    return "" if model.strip() else f"model {name!r}: name the model too, such as openai:gpt-5"


def _served(name: str, url: str) -> OpenAIChatModel:
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    key = os.environ.get("OPENAI_API_KEY") or "none"
    return OpenAIChatModel(name.partition(":")[2] or name, provider=OpenAIProvider(base_url=url, api_key=key))


def usage_of(
    messages: Iterable[ModelMessage], stated: ModelPrice | None, model: str, prompt: str, seconds: float
) -> Usage:
    """Returns the usage of these answers of a model; a `stated` price counts instead of that of the list."""
    answers = [each for each in messages if isinstance(each, ModelResponse)]
    costs = [_cost(each, stated) for each in answers]
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


def cost_of(given: int, taken: int, name: str, url: str, stated: ModelPrice | None = None) -> float | None:
    """Returns the cost in USD of input and output tokens of a model, by the stated price, or the list of prices.

    None when neither knows. `url` is that of a server which is asked for every model: it speaks OpenAI's protocol.
    """
    provider, _, model = name.rpartition(":")
    usage = RequestUsage(input_tokens=given, output_tokens=taken)
    answer = ModelResponse(parts=[], model_name=model, provider_name="openai" if url else provider, usage=usage)
    return _cost(answer, stated)


def _cost(answer: ModelResponse, stated: ModelPrice | None) -> float | None:
    """Returns the cost of an answer: by the stated price, else by the list of prices; None when neither knows."""
    if stated is not None:
        return stated.of(answer.usage.input_tokens, answer.usage.output_tokens)
    try:
        return float(answer.cost().total_price)
    except (AssertionError, LookupError, ValueError):
        return None
