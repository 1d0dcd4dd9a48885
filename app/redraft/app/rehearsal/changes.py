"""Guesses what steps change in the state of a run: nothing, or the values that people give."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

import msgspec

from redraft.actors.conditions.text import terms
from redraft.actors.deciding.run_values import first_values
from redraft.actors.plans.check_state import values_misfit
from redraft.actors.plans.paths import steps_in
from redraft.app.rehearsal.measured import conditions_in
from redraft.events.errors import InputError
from redraft.events.messages.conditions import State
from redraft.events.messages.content import Brief
from redraft.events.messages.item_ids import INDEX, ITEM
from redraft.events.messages.plan import Plan, Step, eaches_of
from redraft.events.messages.run_state import Values

Changes: TypeAlias = Mapping[str, tuple[Values, ...]]
"""The changes of each answer of a step, by its name or its actor's; the last one is repeated."""

NO_CHANGES: Final[Changes] = MappingProxyType({})
_EXAMPLE: Final = "--state 'run_tests={\"tests_pass\": true}'"


class GuessedChanges:
    """Gives the changes of each step in order; none for a step without a guess."""

    def __init__(self, guesses: Changes) -> None:
        self._guesses = guesses
        self._given: dict[str, int] = {}

    def of(self, step: Step) -> Values:
        """Returns what the next answer of a step changes."""
        name = _known_as(step, self._guesses)
        if name is None:
            return {}
        guess, given = self._guesses[name], self._given.get(name, 0)
        self._given[name] = given + 1
        return guess[min(given, len(guess) - 1)]


def _known_as(step: Step, guesses: Changes) -> str | None:
    return next((name for name in (step.name, step.actor) if name in guesses), None)


def read_changes(texts: Iterable[str]) -> Changes:
    """Returns the guesses of `--state`; several for one step are its answers in order. Raises InputError."""
    found: dict[str, tuple[Values, ...]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        try:
            changes = msgspec.json.decode(values, type=Values) if equals and name.strip() else None
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            changes = None
        if changes is None:
            raise InputError(
                f"--state {text!r} is not a guess; write a step and the values that it changes: {_EXAMPLE}"
            )
        found[name.strip()] = (*found.get(name.strip(), ()), changes)
    return found


def check_changes(plan: Plan, brief: Brief, guesses: Changes) -> None:
    """Raises InputError for changes that a step cannot make, and for a value of a condition that nobody sets."""
    steps = [(path, step) for path, step in steps_in(plan.steps)]
    for name, guess in guesses.items():
        writes = [step.writes for _, step in steps if name in (step.name, step.actor)]
        for values in guess:
            fault = values_misfit(plan.state, values) or next(
                filter(None, (_undeclared(values, each) for each in writes)), ""
            )
            if fault:
                raise InputError(f"--state {name}=…: {fault}")
    known = {*first_values(plan, brief), *(each for guess in guesses.values() for values in guess for each in values)}
    known |= {ITEM, INDEX} if any(True for _ in eaches_of(plan.steps)) else set()
    for term in (term for condition in conditions_in(plan) for term in terms(condition)):
        if isinstance(term, State) and term.of not in known:
            raise InputError(f"a condition reads state.{term.of}, and nobody sets it here; {_remedy(term.of, steps)}")


def _undeclared(values: Values, writes: Sequence[str]) -> str:
    name = next((name for name in values if writes and name not in writes), "")
    return name and f"it does not write {name}; it writes {', '.join(writes)}"


def _remedy(value: str, steps: Sequence[tuple[str, Step]]) -> str:
    """Returns how to guess a value: as the answer of the step that writes it, of a free one, or from the beginning."""
    step = next((step for _, step in steps if value in step.writes), None)
    step = step or next((step for _, step in steps if step.role == "step" and not step.writes), None)
    if step is None:
        return f"say with what it begins: --set state.{value}=true"
    return f"say what {step.name} changes: --state '{step.name}={{\"{value}\": true}}'"


def unguessed(plan: Plan, guesses: Changes) -> Iterator[str]:
    """Yields the names of the free steps that are taken to change nothing, each once."""
    names = (step.name for _, step in steps_in(plan.steps) if step.role == "step" and _known_as(step, guesses) is None)
    yield from dict.fromkeys(names)


def write_changes(guesses: Changes) -> list[str]:
    """Returns the guesses as people write them."""
    each = ((name, msgspec.json.encode(values).decode()) for name, guess in guesses.items() for values in guess)
    return [f"{name}={msgspec.json.format(values, indent=0)}" for name, values in each]
