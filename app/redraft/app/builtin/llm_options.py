"""What a plan may say to the actors that ask a model."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from redraft.events.errors import PermanentError

_Asks: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=10)]
_Share: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Price: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]

SAMPLES: Final = 9
"""How often a critic may be asked for one judgement at most."""


class LlmOptions(msgspec.Struct, frozen=True):
    """What every such actor takes.

    `model` is a model's name as pydantic-ai has it, such as `openai:gpt-5` (empty: the worker's own). `prompt` is a
    shipped prompt's name or the path of a file; `instructions` are added to it. `temperature` (0 to 2) and `max_tokens`
    go to the model. An invalid reply is asked again, with what is wrong with it, `asks` times in all (1 to 10).
    `output` is how a structured reply is asked for. `price_input` and `price_output` are money for a million tokens, in
    USD. `reserve_tokens`, `reserve_cost` and `reserve_calls` are what is set aside of a budget for a first attempt:
    for the coordinator, and estimated where nobody says them (see `redraft.app.estimates`).
    """

    model: str = ""
    prompt: str = ""
    instructions: str = ""
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    max_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    asks: _Asks = 3
    output: Literal["tool", "native", "prompted"] = "tool"
    price_input: _Price | None = None
    price_output: _Price | None = None
    reserve_tokens: Annotated[int, msgspec.Meta(ge=0)] = 0
    reserve_cost: _Price = 0.0
    reserve_calls: Annotated[int, msgspec.Meta(ge=0)] = 0


class CriticOptions(LlmOptions, frozen=True):
    """A critic's: the `scale` of its score, and how often it judges.

    With `samples` above 1 (odd, 9 at most) it judges so often, and the median counts; with `borderline` (a score, 0 to
    1) only when the first score is within `margin` of that. With `verdict` it may approve or veto the draft itself.
    """

    scale: tuple[int, int] = (1, 10)
    samples: Annotated[int, msgspec.Meta(ge=1, le=SAMPLES)] = 1
    borderline: _Share | None = None
    margin: _Share = 0.1
    verdict: bool = False


def checked(options: CriticOptions) -> CriticOptions:
    """The options, if they fit each other; raises PermanentError with the remedy."""
    low, high = options.scale
    if low >= high:
        raise PermanentError(f"llm: option scale is [{low}, {high}]; write two rising numbers, such as [1, 10]")
    if options.samples % 2 == 0:
        raise PermanentError(f"llm: option samples is {options.samples}; write an odd number, which has a median")
    return options
