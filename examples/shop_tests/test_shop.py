"""The tests of `examples/shop`, by which it is mended."""

from __future__ import annotations

from shop import Cart, Item, invoice
from shop.discount import discount
from shop.money import money
from shop.tax import tax


def test_tax_is_a_share_of_the_price() -> None:
    assert tax(100_00, "de") == 19_00
    assert tax(50_00, "fr") == 10_00


def test_a_discount_begins_at_a_hundred() -> None:
    assert discount(99_99) == 0
    assert discount(100_00) == 10_00


def test_money_may_be_owed_to_the_buyer() -> None:
    assert money(1230) == "12.30"
    assert money(-1005) == "-10.05"


def test_an_invoice_rounds_to_the_nearest_cent() -> None:
    cart = Cart((Item("pens", 99, 3), Item("paper", 4_49)), "ch")
    assert invoice(cart).splitlines()[-2:] == [
        "tax                         1.41",
        "sum                        18.77",
    ]


def test_an_invoice_has_a_line_for_each_item() -> None:
    lines = invoice(Cart((Item("desk", 100_00),))).splitlines()
    assert [line.split()[0] for line in lines] == ["1", "discount", "shipping", "tax", "sum"]
