"""Trials of many examples in parts: the first part runs in `make test`, the others in `make check` alone."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from _pytest.mark import ParameterSet


def first_alone(parts: Iterable[object]) -> list[ParameterSet]:
    """Returns the parts as parameters: all but the first are for `make check`."""
    first, *others = parts
    return [pytest.param(first), *(pytest.param(each, marks=pytest.mark.check) for each in others)]
