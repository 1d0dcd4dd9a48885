"""A budget as people type it: `tokens=50000,cost=2,calls=40,seconds=600`."""

from __future__ import annotations

from typing import Final

import msgspec

from redraft.events.errors import InputError
from redraft.events.plan import Budget

_WHOLE: Final = frozenset({"tokens", "calls"})
_FORM: Final = "write tokens=50000,cost=2,calls=40,seconds=600, or some of them"


def read_budget(text: str) -> Budget:
    """The budget that a text says. Raises InputError with the remedy."""
    given: dict[str, int | float] = {}
    for part in text.replace(",", " ").split():
        name, sign, value = part.partition("=")
        if not sign or name not in Budget.__struct_fields__ or name in given:
            raise InputError(f"--budget: {part!r} is no limit; {_FORM}")
        try:
            given[name] = int(value) if name in _WHOLE else float(value)
        except ValueError:
            raise InputError(f"--budget: {value!r} is no number for {name}; {_FORM}") from None
    return msgspec.convert(given, Budget)
