"""Lines of an invoice."""

from __future__ import annotations

from shop.money import money

WIDTH = 32


def line(name: str, cents: int) -> str:
    """A name at the left, an amount at the right."""
    return f"{name:<{WIDTH - 10}}{money(cents):>10}"
