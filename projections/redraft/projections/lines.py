"""Rows as what people read: the cells of a row in the order of a struct's fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from redraft.projections.place import Cells
from redraft.projections.projection import times

T = TypeVar("T", bound=msgspec.Struct)


def line_of(kind: type[T], *moments: str) -> Callable[[Cells], T]:
    """What makes a struct of a row whose cells are in the order of its fields; `moments` are those that are times."""
    names = kind.__struct_fields__

    def made(cells: Cells) -> T:
        row = dict(zip(names, cells, strict=True))
        return msgspec.convert({**row, **times(row, *moments)}, kind, strict=False)

    return made
