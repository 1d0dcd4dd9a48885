"""The invoice for a cart."""

from __future__ import annotations

from shop.cart import Cart
from shop.discount import discount
from shop.shipping import shipping
from shop.tax import tax
from shop.text import line


def invoice(cart: Cart) -> str:
    """The items, the discount, what sending costs, the tax and the sum, a line each."""
    off = int(discount(cart.cost))
    sent = shipping(cart)
    taxed = int(tax(cart.cost - off + sent, cart.country))
    lines = [line(f"{item.count} {item.name}", item.cost) for item in cart.items]
    lines += [line("discount", -off)] if off else []
    lines += [line("shipping", sent), line("tax", taxed), line("sum", cart.cost - off + sent + taxed)]
    return "\n".join(lines)
