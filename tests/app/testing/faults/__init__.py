"""Faults that are planted on purpose: each is found by a history, or the search is not worth much.

Each is a place of the shipped code, and what it says instead. The seed is one whose history shows it; `make faults`
looks for the first one anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from tests.app.testing.altered import altered


class Fault(NamedTuple):
    """What goes wrong, where, and the seed of a history that shows it."""

    name: str
    module: str
    function: str
    old: str
    new: str
    seed: int = 0
    also: tuple[str, str, str, str] | None = None
    """Another place (module, function, old, new) that has to be wrong for the first to be seen."""

    @contextmanager
    def planted(self) -> Iterator[None]:
        with ExitStack() as stack:
            stack.enter_context(altered(self.module, self.function, self.old, self.new))
            if self.also is not None:
                stack.enter_context(altered(*self.also))
            yield
