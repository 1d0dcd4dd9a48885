"""Guesses the values of the state that steps change, by what the conditions of a plan ask of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Final

from redraft.actors.conditions.text import terms
from redraft.events.messages.conditions import State
from redraft.events.messages.plan import Plan, Step, ValueKind, loops_of, steps_of
from redraft.events.messages.run_state import Value, Values

_TRUE: Final[Mapping[ValueKind, Value]] = {
    "int": 1,
    "float": 1.0,
    "str": "guessed",
    "list": [1],
    "dict": {"guessed": 1},
}
_FALSE: Final[Mapping[ValueKind, Value]] = {"int": 0, "float": 0.0, "str": "", "list": [], "dict": {}}
"""A value that is true, and one that is not, of each kind but `bool` and `any`."""


class GuessedValues:
    """Makes up the values that conditions look at: a step meets a condition as often as its draft is good."""

    def __init__(self, plan: Plan | None, random: Random) -> None:
        self._random = random
        steps = [step for _, step in steps_of(plan.steps)] if plan is not None else []
        self._declared = {name for step in steps for name in step.writes}
        self._asked = {term.of: term for term in _asked_in(plan)} if plan is not None else {}
        self._kinds = {field.name: field.kind for field in plan.state.fields} if plan and plan.state else {}

    def of(self, step: Step, share: float) -> Values:
        """Returns what a step changes: the values that it declares, or those that no step of the plan declares."""
        names = step.writes or self._asked.keys() - self._declared
        return {name: self._guess(self._asked[name], share) for name in sorted(names) if name in self._asked}

    def _guess(self, term: State, share: float) -> Value:
        meets, kind = self._random.random() < share, self._kinds.get(term.of, "any")
        if term.operator == "is":
            return (_TRUE if meets else _FALSE).get(kind, meets)
        if isinstance(term.value, str):
            return term.value if meets else ""
        away = {">=": -1, ">": 0, "<=": 1, "<": 0, "==": -1}[term.operator]
        enough = {">": 1, "<": -1}.get(term.operator, 0)
        number = term.value + (enough if meets else away)
        return int(number) if float(number).is_integer() and kind != "float" else number


def _asked_in(plan: Plan) -> Iterator[State]:
    for _, loop in loops_of(plan.steps):
        yield from (term for term in terms(loop.until) if isinstance(term, State))
