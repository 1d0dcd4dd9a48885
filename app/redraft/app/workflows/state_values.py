"""Values of a run's state as people type them, `--set state.audience=children`, beside other settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

import msgspec

from redraft.events.errors import InputError
from redraft.events.messages.content import Brief
from redraft.events.messages.run_state import Value, Values, values_fault

_BEGINNING: Final = "state."


def split_state(settings: Sequence[str]) -> tuple[Values, list[str]]:
    """Returns the values that settings `state.NAME=VALUE` give, and the other settings.

    A value is JSON if it can be read as that, otherwise a text. Raises InputError for what cannot be a value.
    """
    values: Values = {}
    for setting in (each for each in settings if each.startswith(_BEGINNING)):
        name, equals, text = setting.removeprefix(_BEGINNING).partition("=")
        if not equals:
            raise InputError(f"--set {setting!r}: write state.NAME=VALUE, such as state.audience=children")
        values[name.strip()] = _value(text)
    if fault := values_fault(values):
        raise InputError(f"--set state: {fault}")
    return values, [each for each in settings if not each.startswith(_BEGINNING)]


def read_state(settings: Sequence[str]) -> Values:
    """Returns the values of settings for a new run, which has no others. Raises InputError."""
    values, others = split_state(settings)
    if others:
        raise InputError(f"--set {others[0]!r}: a new run is given values of its state; write state.NAME=VALUE")
    return values


def with_state(brief: Brief, values: Values) -> Brief:
    """Returns the brief with these values in place of its own."""
    return msgspec.structs.replace(brief, state={**brief.state, **values}) if values else brief


def _value(text: str) -> Value:
    try:
        return cast("Value", msgspec.json.decode(text))
    except (msgspec.DecodeError, UnicodeEncodeError):
        return text
    except RecursionError:
        raise InputError("--set state: a value nests too deep; make it flatter") from None
