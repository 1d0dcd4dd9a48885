"""Every name in docs/architecture.md that stands for code is there."""

from __future__ import annotations

import re
from functools import reduce
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
NAMES = sorted(set(re.findall(r"`((?:events|actors|projections|app)\.\w+(?:\.\w+)*)`", PAGE)))


def test_the_page_names_the_code():
    assert len(NAMES) > 40


@pytest.mark.parametrize("name", NAMES)
def test_a_name_on_the_page_is_in_the_code(name: str):
    parts = f"redraft.{name}".split(".")
    module, members = imported(parts)
    reduce(getattr, members, module)


def imported(parts: list[str]) -> tuple[ModuleType, list[str]]:
    """The module that the first of the parts name, as many as can be, and the parts that are left."""
    for count in range(len(parts), 1, -1):
        try:
            return import_module(".".join(parts[:count])), parts[count:]
        except ModuleNotFoundError:
            continue
    raise ModuleNotFoundError(".".join(parts))
