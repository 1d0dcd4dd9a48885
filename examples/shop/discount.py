"""Discounts for those who buy much."""

from __future__ import annotations

LEAST = 100_00
SHARE = 0.1


def discount(cents: int) -> float:
    """A tenth off from a hundred on."""
    return cents * SHARE if cents > LEAST else 0
