"""What a step used: model calls, tokens, money, time."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

MOST = 10**15
"""The largest number in a usage: sums of thousands of them still fit into a database's integers."""

PLAUSIBLE = 10**12
"""The largest number that one outcome may report; more is a fault of who counted, and would spoil every sum."""

_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MOST)]
_Amount: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=MOST)]

MIXED = "mixed"
"""Stands for the currency of a sum of amounts in different ones."""


class Usage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What a step, or everything up to a moment, used. All zero where no model was asked.

    `tokens` counts input and output together, `input_tokens` and `output_tokens` are its parts where they are known.
    `cost` is money in `currency` (ISO 4217, such as USD; empty: the unit that the plan's `cost` conditions speak of).
    `calls` counts requests to a model, `unpriced` those of them whose price nobody knows and that `cost` leaves out.
    `seconds` is how long the calls took, `model` names the model or models, and `prompt` is the SHA-256 (hex) of the
    prompt or prompts that were used.
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
        """Whether nothing was used."""
        return not (self.tokens or self.cost or self.calls)

    @property
    def fault(self) -> str:
        """Returns which number is none that one outcome can have used; empty when all are plausible."""
        if (
            0 <= self.tokens <= PLAUSIBLE
            and 0 <= self.cost <= PLAUSIBLE
            and 0 <= self.calls <= PLAUSIBLE
            and 0 <= self.unpriced <= PLAUSIBLE
            and 0 <= self.input_tokens <= PLAUSIBLE
            and 0 <= self.output_tokens <= PLAUSIBLE
            and 0 <= self.seconds <= PLAUSIBLE
        ):
            return ""
        for name in _NUMBERS:
            if not 0 <= (value := getattr(self, name)) <= PLAUSIBLE:
                return f"{name}={value:g}, and a usage is a number from 0 to {PLAUSIBLE:,}"
        return ""

    def __add__(self, other: Usage) -> Usage:
        """The sum; no number of it is above `MOST`, so that it can always be recorded."""
        return Usage(
            min(MOST, self.tokens + other.tokens),
            min(MOST, self.cost + other.cost),
            min(MOST, self.calls + other.calls),
            min(MOST, self.unpriced + other.unpriced),
            min(MOST, self.input_tokens + other.input_tokens),
            min(MOST, self.output_tokens + other.output_tokens),
            min(MOST, self.seconds + other.seconds),
            _both(self.model, other.model),
            _both(self.prompt, other.prompt),
            _currency(self.currency, other.currency),
        )


_NUMBERS = ("tokens", "cost", "calls", "unpriced", "input_tokens", "output_tokens", "seconds")


def _both(one: str, other: str) -> str:
    """Two lists of names as one, in order, each once."""
    if not other or one == other:
        return one
    return ", ".join(dict.fromkeys(name for name in (*one.split(", "), *other.split(", ")) if name))


def _currency(one: str, other: str) -> str:
    return one or other if not (one and other) or one == other else MIXED
