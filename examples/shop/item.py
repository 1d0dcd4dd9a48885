"""A line of a cart."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Item:
    """So many of one thing, and the price of one in cents."""

    name: str
    price: int
    count: int = 1

    @property
    def cost(self) -> int:
        return self.price * self.count
