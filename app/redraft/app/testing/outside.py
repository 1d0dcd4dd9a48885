"""What lies outside of all processes in a history: no crash reaches it, and it is made anew for each seed."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final

RUN: Final[ContextVar[str]] = ContextVar("run", default="")
"""The run that the actor works for whose code is at work now; empty outside of actors."""


class Outside:
    """The world that your actors act on in a simulation.

    `kept` is for whatever outlives a crash, as files and databases do: keep your stand-ins for them there. `did` tells
    of an effect that must not happen twice, and `effects` are those told so far, in order.
    """

    def __init__(self, note: Callable[[str, str], None]) -> None:
        self.kept: dict[str, Any] = {}
        self.effects: list[str] = []
        self._runs: dict[str, list[str]] = {}
        self._note = note

    def did(self, effect: str) -> None:
        """Tells of an effect, such as "mailed to ann: Tides", that is a fault when it happens twice in a history."""
        self.effects.append(effect)
        self._runs.setdefault(effect, []).append(RUN.get())
        self._note(f"outside: {effect}", RUN.get())

    def doubled(self) -> list[str]:
        """A sentence for each effect that happened more than once."""
        return [
            f"doubled: {effect!r} happened {len(runs)} times, in {_runs(runs)}"
            for effect, runs in self._runs.items()
            if len(runs) > 1
        ]


def _runs(runs: list[str]) -> str:
    named = [f"run {run}" for run in dict.fromkeys(runs) if run]
    return " and ".join(named) or "no run"
