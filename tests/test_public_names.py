"""`__all__` is the truth: what a layer offers is there, is documented, and nothing else is offered."""

from __future__ import annotations

import importlib
import subprocess
import sys
from types import ModuleType

import pytest

TOOLS = {"TYPE_CHECKING", "annotations", "public_names"}
"""What the packages themselves are made with: their names come when they are asked for."""

LAYERS = ["redraft.events", "redraft.actors", "redraft.projections", "redraft.app", "redraft.app.testing"]


@pytest.mark.parametrize("name", LAYERS)
def test_all_is_the_truth(name: str):
    layer = importlib.import_module(name)
    promised = {each for each in layer.__all__ if getattr(layer, each) is not None}
    found = {each for each in dir(layer) if not isinstance(getattr(layer, each), ModuleType)}
    offered = {each for each in found - TOOLS if not each.startswith("_") or each == "__version__"}
    assert promised == set(layer.__all__) == offered
    assert len(layer.__all__) == len(offered)


@pytest.mark.parametrize("name", LAYERS)
def test_what_is_offered_says_what_it_is(name: str):
    layer = importlib.import_module(name)
    assert layer.__doc__
    for each in layer.__all__:
        value = getattr(layer, each)
        if callable(value):
            assert getattr(value, "__origin__", value).__doc__, f"{name}.{each} has no docstring"


def test_a_package_is_imported_without_what_it_offers():
    code = "import sys; import redraft.actors, redraft.app, redraft.events, redraft.projections; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    ours = {name for name in done.stdout.split() if name.startswith("redraft.")}
    assert ours == {*LAYERS[:4], "redraft.events.public_names"}
