"""Value added tax."""

from __future__ import annotations

from shop.rates import RATES


def tax(cents: int, country: str) -> float:
    """The tax on so many cents."""
    return cents * RATES[country]
