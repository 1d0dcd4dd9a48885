"""What a shop charges for a cart: a package of ten files with four faults, for `redraft run examples/shop`."""

from shop.cart import Cart
from shop.invoice import invoice
from shop.item import Item

__all__ = ["Cart", "Item", "invoice"]
