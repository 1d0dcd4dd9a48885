"""Faults that are planted on purpose: each is found by a history, or the search is not worth much.

Each is a place of the shipped code, and what it says instead. The seed is one whose history shows it; `make faults`
looks for the first one anew.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import NamedTuple

from tests.simulation.altered import altered


class Fault(NamedTuple):
    """What goes wrong, where, and the seed of a history that shows it."""

    name: str
    module: str
    function: str
    old: str
    new: str
    seed: int = 0

    def planted(self) -> AbstractContextManager[None]:
        return altered(self.module, self.function, self.old, self.new)
