"""Turns what free steps and conditions of one's own return into values of the run's state, and into a verdict."""

from __future__ import annotations

import msgspec

from redraft.actors.runtime.working.returned_values import InvalidResult, described, exact, fields_of, refuse_coroutine
from redraft.events.messages.content import Critique
from redraft.events.messages.run_state import Values, size_fault, values_fault


def values_of(returned: object) -> Values:
    """Returns the values that a dict or an object with fields changes; None changes nothing. Raises InvalidResult."""
    refuse_coroutine(returned)
    if returned is None:
        return {}
    given = fields_of(returned)
    if given is None:
        raise InvalidResult(f"returned {described(returned)}, not a dict or an object with fields, nor None")
    try:
        values: Values = msgspec.to_builtins(given, enc_hook=_plain)
    except (msgspec.MsgspecError, TypeError, UnicodeError, RecursionError) as error:
        raise InvalidResult(f"returned a value that JSON does not have: {error}") from None
    if fault := values_fault(values) or size_fault(values):
        raise InvalidResult(f"returned values that cannot be recorded: {fault}")
    return values


def _plain(value: object) -> object:
    """Returns a kind of text, a model or the like as plain values. Raises TypeError for any other object."""
    if isinstance(value, str):
        return exact(value)
    fields = fields_of(value)
    if fields is None:
        raise TypeError(f"objects of type {type(value).__name__} are not supported")
    return fields


def verdict_of(name: str, returned: object) -> Critique:
    """Returns the verdict of a condition: its measure is 1 if it holds, 0 if not, and a text says why not.

    Raises InvalidResult for anything but a bool or a text.
    """
    refuse_coroutine(returned)
    match returned:
        case bool():
            why: tuple[str, ...] = ()
        case str() if returned.strip():
            why = (exact(returned),)
        case _:
            raise InvalidResult(f"returned {described(returned)}, not True, False, or a text that says why not")
    holds = returned is True
    return Critique(0.0, weaknesses=why, critic=name, scored=False, measures={name: int(holds)})
