"""The state of a run as it stood at an event: its values, and who changed each of them last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TypeAlias

import msgspec

from redraft.events.messages import domain_events as events
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.redaction import ERASED
from redraft.events.messages.run_state import Value, Values
from redraft.projections.display import MESSAGE_LENGTH, NAME_LENGTH, plain, value_text
from redraft.projections.run_views.sentences import asked_of, changes_of, path_of


class StateChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """Values that the event `version` changed. `by` names the author: the plan, the brief, a person, or an actor, with
    the `path` of its step.
    """

    version: int
    time: datetime
    by: str
    state: Values
    path: str = ""


class StateAt(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of a run after `version` events, and the changes by which it came about, in order.

    `erased`: its values can no longer be read.
    """

    run: str
    version: int
    state: Values
    changes: tuple[StateChange, ...]
    erased: bool = False

    @property
    def last_changes(self) -> dict[str, StateChange]:
        """Returns the last change of each value, by its name."""
        return {name: change for change in self.changes for name in change.state}

    @property
    def rows(self) -> list[tuple[str, Value, StateChange]]:
        """Returns the values by name, each with its last change."""
        last = self.last_changes
        return [(name, value, last[name]) for name, value in self.state.items()]


Side: TypeAlias = Value | msgspec.UnsetType
"""A value in one of two states; UNSET where it is not there."""


class ValueDifference(msgspec.Struct, frozen=True, omit_defaults=True):
    """A value that differs between two states."""

    name: str
    before: Side = msgspec.UNSET
    after: Side = msgspec.UNSET


def state_at(stream: Sequence[Recorded], version: int | None = None) -> StateAt:
    """Returns the state of a run with these events, its first ones in order, after `version` of them, or after all.

    It begins with the plan's defaults and the brief's values; each answer that counts may replace some.
    """
    known = stream[:version]
    begun = known[0].data if known else None
    erased = isinstance(begun, events.RunStarted) and begun.brief.text == ERASED
    changes = () if erased else tuple(_changes(known))
    state = {name: value for change in changes for name, value in change.state.items()}
    return StateAt(plain(known[0].run) if known else "", len(known), state, changes, erased)


def _changes(stream: Sequence[Recorded]) -> Iterator[StateChange]:
    asked: dict[str, events.StepRequested] = {}
    for recorded in stream:
        event = recorded.data
        if type(event) is events.StepRequested:
            asked[event.path] = event
        elif type(event) is events.RunStarted:
            plan = event.plan
            yield from _first_changes(recorded, plan.state.defaults if plan.state else {}, event.brief.state)
        elif changed := changes_of(event):
            path = path_of(event)
            yield StateChange(recorded.version, recorded.time, _author(event, asked.get(path)), changed, path)


def _first_changes(recorded: Recorded, defaults: Values, given: Values) -> Iterator[StateChange]:
    for by, values in (("the plan", defaults), ("the brief", given)):
        if values:
            yield StateChange(recorded.version, recorded.time, by, values)


def _author(event: events.DomainEvent, asked: events.StepRequested | None) -> str:
    """Returns the actor that was asked, or the person who changed values when a fork began."""
    by = event.by if isinstance(event, events.StateChanged) else ""
    return asked_of(asked) if asked is not None else plain(by, NAME_LENGTH) or "a person"


def differences(before: Values, after: Values) -> tuple[ValueDifference, ...]:
    """Returns the values that differ between two states, in the order of the first, then of the second."""
    names = dict.fromkeys((*before, *after))
    pairs = ((name, before.get(name, msgspec.UNSET), after.get(name, msgspec.UNSET)) for name in names)
    return tuple(ValueDifference(name, was, now) for name, was, now in pairs if not _same(was, now))


def side_text(side: Side) -> str:
    """Returns a value of one of two states as JSON, or that it is not there."""
    return "(not there)" if side is msgspec.UNSET else value_text(side, MESSAGE_LENGTH)


def _same(one: Side, other: Side) -> bool:
    """Returns whether two values are the same JSON: 1 and true are not."""
    if one is msgspec.UNSET or other is msgspec.UNSET:
        return one is other
    return msgspec.json.encode(one, order="deterministic") == msgspec.json.encode(other, order="deterministic")
