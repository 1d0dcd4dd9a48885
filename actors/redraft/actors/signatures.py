"""How those who answer are named, and who is told when their code is not of the version that a plan names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from redraft.actors.roles import Actor
from redraft.events.commands import Request

Differs: TypeAlias = Callable[[Actor, str, str], None]
"""Is told of an actor, of the version that a plan names, and of the run whose plan it is."""

REMEMBERED: Final = 1000
"""Of how many versions it is remembered that they were told of; of more nothing is told."""


def unheard(actor: Actor, version: str, run: str) -> None:
    """Tells nobody."""


class Signatures:
    """`differs` is told once of each version of an actor that plans name and that is not the one at hand."""

    def __init__(self, differs: Differs = unheard) -> None:
        self._differs = differs
        self._told: set[tuple[Actor, str]] = set()

    def of(self, actor: Actor, request: Request) -> str:
        """Who answers a request: `critic judge`; `critic judge@VERSION` when the plan names another version."""
        wanted = request.version
        if not wanted or wanted == actor.version:
            return f"{actor.role} {actor.name}"
        if (actor, wanted) not in self._told and len(self._told) < REMEMBERED:
            self._told.add((actor, wanted))
            self._differs(actor, wanted, request.run)
        return f"{actor.role} {actor.name}@{actor.version or '?'}"
