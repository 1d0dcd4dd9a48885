"""What a program can wait for in a run: its end, an event of a type, or that a condition holds for a judged draft."""

from __future__ import annotations

import re
from typing import Final, Protocol

from redraft.actors.condition_text import parse_condition
from redraft.actors.evolve import evolve
from redraft.actors.interpreter import facts_of
from redraft.actors.judgement import holds
from redraft.actors.run_state import RunState
from redraft.events.conditions import Condition
from redraft.events.domain_events import DraftCritiqued, RunEnded, RunQuarantined
from redraft.events.envelope import Recorded
from redraft.events.filters import names_of

END: Final = "end"
_ENDS: Final = frozenset({RunEnded, RunQuarantined})
_TYPE: Final = re.compile(r"[a-z]+\.[a-z]+(\.v\d+)?")


class Until(Protocol):
    def met(self, event: Recorded) -> bool:
        """Takes the next event of a run, from its first on; whether it is the one that was waited for."""
        ...


def read_until(text: str) -> Until:
    """What this text means: `end`, a type such as `draft.published`, or a condition such as `score >= 0.8`.

    Raises InputError (ConditionError) when it means nothing.
    """
    if text.strip() == END:
        return Named(names_of("run.ended"))
    if _TYPE.fullmatch(text.strip()):
        return Named(names_of(text.strip()))
    return Holding(parse_condition(text))


class Named:
    """Met by the first event that has one of these names."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def met(self, event: Recorded) -> bool:
        return event.name in self._names


class Holding:
    """Met by the critique, the last of a draft's critics, with which the condition holds; see `judgement.holds`."""

    def __init__(self, condition: Condition) -> None:
        self._condition = condition
        self._state = RunState()

    def met(self, event: Recorded) -> bool:
        self._state = state = evolve(self._state, event.data)
        if not isinstance(event.data, DraftCritiqued) or not state.frames:
            return False
        facts = facts_of(state, state.frames[-1], event.time)
        if facts is None or event.version not in facts.judgement.critiques:
            return False
        return holds(self._condition, facts, limits=True)


def is_end(event: Recorded) -> bool:
    """Whether nothing more of the run will come."""
    return type(event.data) in _ENDS
