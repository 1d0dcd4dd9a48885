"""`__all__` is the truth: what a layer offers is there, is documented, and nothing else is offered."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest

LAYERS = ["redraft.events", "redraft.actors", "redraft.projections", "redraft.app", "redraft.app.testing"]


@pytest.mark.parametrize("name", LAYERS)
def test_all_is_the_truth(name: str):
    layer = importlib.import_module(name)
    offered = {
        each for each in vars(layer) if not each.startswith("_") and not isinstance(getattr(layer, each), ModuleType)
    }
    assert set(layer.__all__) == offered
    assert len(layer.__all__) == len(offered)


@pytest.mark.parametrize("name", LAYERS)
def test_what_is_offered_says_what_it_is(name: str):
    layer = importlib.import_module(name)
    assert layer.__doc__
    for each in layer.__all__:
        value = getattr(layer, each)
        if callable(value):
            assert value.__doc__, f"{name}.{each} has no docstring"
