"""Money as people read it."""

from __future__ import annotations


def money(cents: int) -> str:
    """`12.30` for 1230 cents."""
    return f"{cents // 100}.{cents % 100:02}"
