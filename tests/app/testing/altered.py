"""Planting a fault: one place of the shipped code says something else, for as long as a context lasts."""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from types import FunctionType
from typing import Any
from unittest.mock import patch


@contextmanager
def altered(module: str, name: str, old: str, new: str) -> Iterator[None]:
    """A function, or a method `Class.method`, with this text of it replaced. Fails when either is gone."""
    home = import_module(f"redraft.{module}")
    *above, last = name.split(".")
    owner: Any = getattr(home, above[0]) if above else home
    function = inspect.getattr_static(owner, last)
    inner = function.fget if isinstance(function, property) else function
    assert isinstance(inner, FunctionType), f"{module}.{name} is no function any more"
    source = textwrap.dedent(inspect.getsource(inner))
    assert source.count(old) == 1, f"{module}.{name} has {old!r} {source.count(old)} times, and should have it once"
    made: dict[str, Any] = {}
    code = compile(source.replace(old, new), f"<{name}, altered>", "exec", flags=_FUTURE, dont_inherit=True)
    exec(code, home.__dict__, made)  # noqa: S102 - the project's own text, of which a part was replaced
    changed = made[last]
    with ExitStack() as stack:
        stack.enter_context(patch.object(owner, last, changed))
        if not above:
            for other in _others(inner, home):
                stack.enter_context(patch.object(other, last, changed))
        yield


_FUTURE = __import__("__future__").annotations.compiler_flag


def _others(function: FunctionType, home: Any) -> list[Any]:
    """The modules that have imported a function by its name."""
    return [
        each
        for name, each in list(sys.modules.items())
        if name.startswith("redraft.") and each is not home and getattr(each, function.__name__, None) is function
    ]
