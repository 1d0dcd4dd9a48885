"""What it costs to send a cart."""

from __future__ import annotations

from shop.cart import Cart

HOME = 4_90
ABROAD = 9_90


def shipping(cart: Cart) -> int:
    """Sending costs less at home, and nothing where there is nothing to send."""
    if not cart.items:
        return 0
    return HOME if cart.country == "de" else ABROAD
