"""The items that somebody buys."""

from __future__ import annotations

from dataclasses import dataclass

from shop.item import Item


@dataclass(frozen=True)
class Cart:
    """The items, and the country that they go to."""

    items: tuple[Item, ...]
    country: str = "de"

    @property
    def cost(self) -> int:
        """What all items cost, in cents."""
        return sum(item.cost for item in self.items)
