"""The resources that a step used: model calls, tokens, money, time."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

MOST = 10**15
"""The largest number in a usage: sums of thousands of them still fit into a database's integers."""

PLAUSIBLE = 10**12
"""The largest number that one outcome may report; a larger one is a counting error, and would spoil every sum."""

_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MOST)]
_Amount: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=MOST)]

MIXED = "mixed"
"""The currency of a sum of amounts in different currencies."""


class Usage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The resources that a step, or all steps up to a moment, used. All zero where no model was called.

    `tokens` counts input and output together, `input_tokens` and `output_tokens` are its parts where they are known.
    `cost` is money in `currency` (ISO 4217, such as USD; empty: the unit of the plan's `cost` conditions). `calls`
    counts requests to a model, `unpriced` those without a known price, which `cost` leaves out. `seconds` is the
    duration of the calls, `model` names the model or models, and `prompt` is the SHA-256 (hex) of the prompt or
    prompts.
    """

    tokens: _Count = 0
    cost: _Amount = 0.0
    calls: _Count = 0
    unpriced: _Count = 0
    input_tokens: _Count = 0
    output_tokens: _Count = 0
    seconds: _Amount = 0.0
    model: str = ""
    prompt: str = ""
    currency: str = ""

    @property
    def is_nothing(self) -> bool:
        """Returns whether no resources were used."""
        return not (self.tokens or self.cost or self.calls)

    @property
    def fault(self) -> str:
        """Names the first number that one outcome cannot plausibly have used; empty when all are plausible."""
        if self == _NOTHING:
            return ""
        for name in USAGE_NUMBERS:
            if not 0 <= (value := getattr(self, name)) <= PLAUSIBLE:
                return f"{name} is {value:,}, and a usage is a number from 0 to {PLAUSIBLE:,}"
        return ""

    def __add__(self, other: Usage) -> Usage:
        """Returns the sum; no number of it is above `MOST`, so that it can always be recorded."""
        return Usage(
            **{name: min(MOST, getattr(self, name) + getattr(other, name)) for name in USAGE_NUMBERS},
            model=_join_names(self.model, other.model),
            prompt=_join_names(self.prompt, other.prompt),
            currency=_join_currencies(self.currency, other.currency),
        )


_NOTHING = Usage()
USAGE_NUMBERS = ("tokens", "cost", "calls", "unpriced", "input_tokens", "output_tokens", "seconds")


def _join_names(one: str, other: str) -> str:
    """Joins two lists of names into one, in order, without duplicates."""
    if not other or one == other:
        return one
    return ", ".join(dict.fromkeys(name for name in (*one.split(", "), *other.split(", ")) if name))


def _join_currencies(one: str, other: str) -> str:
    return one or other if not (one and other) or one == other else MIXED
