"""Conditions on values of a run's state: whether they hold and fit a plan's state, and which ask nothing of critics."""

from __future__ import annotations

from functools import lru_cache

from redraft.actors.conditions.printing import print_condition
from redraft.actors.conditions.text import COMPARE, terms
from redraft.actors.values import shown
from redraft.events.errors import ConditionError, suggest
from redraft.events.messages.conditions import LIMITS, AllOf, AnyOf, Compare, Condition, Exit, Not, State
from redraft.events.messages.plan import StateSpec
from redraft.events.messages.run_state import Values


def value_meets(term: State, values: Values) -> bool | None:
    """Returns whether a condition on a value holds; None if there is no such value, or one of another type."""
    if term.of not in values:
        return None
    value = values[term.of]
    if term.operator == "is":
        return bool(value)
    if isinstance(term.value, str):
        return value == term.value if isinstance(value, str) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return COMPARE[term.operator](value, term.value)


def describe_value(term: State, values: Values) -> str:
    """Returns what a condition on a value found, for people: `state.words 312 >= 300`, `state.done`."""
    written = print_condition(term)
    if term.operator in ("is", "=="):
        return written
    return f"state.{term.of} {shown(values.get(term.of))}{written.removeprefix(f'state.{term.of}')}"


@lru_cache(maxsize=256)
def asks_critics(condition: Condition, own: frozenset[str] = frozenset()) -> bool:
    """Returns whether a condition asks for anything that critics, or people, say of a draft.

    What conditions of these names say, the user's `own`, is not asked of critics.
    """
    return any(
        term.quantity not in LIMITS and term.quantity != "outputs" and term.of.rpartition(".")[2] not in own
        if isinstance(term, Compare)
        else not isinstance(term, State | Exit | AnyOf | AllOf | Not)
        for term in terms(condition)
    )


@lru_cache(maxsize=256)
def reads_state(condition: Condition) -> bool:
    """Returns whether a condition looks at the run's state."""
    return any(isinstance(term, State) for term in terms(condition))


def check_values(condition: Condition, spec: StateSpec | None) -> None:
    """Raises ConditionError for a value that the plan's state has not, or that is not of the type compared with."""
    fields = {field.name: field for field in spec.fields} if spec is not None else {}
    for term in terms(condition) if fields else ():
        if not isinstance(term, State):
            continue
        if term.of not in fields:
            raise ConditionError(f"state.{term.of} is no value of the plan's state; {suggest(term.of, tuple(fields))}")
        kind = fields[term.of].kind
        if term.operator != "is" and kind not in (
            ("str", "any") if isinstance(term.value, str) else ("int", "float", "any")
        ):
            raise ConditionError(
                f"{print_condition(term)} can never hold, as state.{term.of} is of type {kind}; change one of them"
            )
