"""Folds the state of a run, and checks what may change it, by the rules that docs/state.md explains."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from redraft.events.messages.content import Draft, DraftRef
from redraft.events.messages.domain_events import DomainEvent, RunStarted, StateChanged
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import Plan, StateField
from redraft.events.messages.run_state import Value, Values
from redraft.projections.record_check.chain import Deviates

_LARGEST: Final = 262_144
"""The most bytes of JSON that a state may have."""

_NAME: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_KINDS: Final[dict[str, tuple[type, ...]]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "str": (str,),
    "list": (list,),
    "dict": (dict,),
}


def changes_of(data: DomainEvent) -> Values:
    """Returns the values that an event changes, or, of the start of a run, those that the run begins with."""
    if isinstance(data, RunStarted):
        return {**(data.plan.state.defaults if data.plan.state else {}), **data.brief.state}
    changed: Values = getattr(data, "state", {})
    return changed


def values_after(events: Sequence[Recorded]) -> Values:
    """Returns the state of a run after these events, its first ones."""
    values: Values = {}
    for event in events:
        values |= changes_of(event.data)
    return values


def place_of(path: str) -> str:
    """Returns the place of a step in the plan: `L/tests` for `L[2]/tests` and for `L[closing]/tests`."""
    return re.sub(r"\[[^/]*", "", path)


class StateFold:
    """The state of a run up to an event, and the place in the plan of the step that wrote each value last.

    A value that no step wrote has no writer. `about` has the version of the draft that the last answer of each step is
    about, or that it made; 0 for none.
    """

    def __init__(self, begun: Recorded, plan: Plan, *, inherits: bool) -> None:
        self.values: Values = {}
        self.writers: dict[str, str] = {}
        self.about: dict[str, int] = {}
        self._plan = plan
        self._begun = None if inherits else begun
        self._first = changes_of(begun.data)

    def begin(self) -> None:
        """Takes the values that the run begins with. Raises Deviates for those that its plan does not have."""
        if self._begun is not None:
            self._check(self._begun, self._first)
        self.values = self._first

    def take(self, event: Recorded, path: str, writes: Sequence[str] | None) -> None:
        """Takes what an answer changes. Raises Deviates for what the plan does not allow; `writes` None allows all."""
        changed = changes_of(event.data)
        if not changed:
            return
        if writes is not None:
            if writes and (others := sorted(changed.keys() - set(writes))):
                raise Deviates("state", event, f"{path} may not change {others[0]}: the plan names what it writes")
            self._check(event, changed)
        self._merge(changed, place_of(path))

    def note_look(self, path: str, draft: Draft | DraftRef | None) -> None:
        """Notes the draft that an answer is about, or that it made."""
        self.about[place_of(path)] = draft.version if draft else 0

    def take_persons(self, event: Recorded, data: StateChanged, inherited: int) -> None:
        """Takes the values a fork goes on with. Raises Deviates where it may not, or for nobody's."""
        if event.version > inherited:
            if event.version != inherited + 1 or not inherited:
                raise Deviates("state", event, "only a fork changes values by itself, right after what it repeats")
            if not data.by:
                raise Deviates("state", event, "nobody is named who changed the values with which the fork goes on")
            self._check(event, data.state)
        self._merge(data.state, "")

    def _merge(self, changed: Values, place: str) -> None:
        self.values = {**self.values, **changed}
        self.writers.update(dict.fromkeys(changed, place))

    def _check(self, event: Recorded, changed: Values) -> None:
        for name, value in changed.items():
            if fault := _fault_of(self._plan, name, value):
                raise Deviates("state", event, f"{name} {fault}")
        size = len(msgspec.json.encode({**self.values, **changed}))
        if size > _LARGEST:
            raise Deviates("state", event, f"the state has {size:,} bytes with that, more than {_LARGEST:,}")


def refuse_second(written: dict[str, str], event: Recorded) -> None:
    """Raises Deviates for an answer that changes what another of the same parallel has `written`; else notes it."""
    path = getattr(event.data, "path", "")
    for name in changes_of(event.data):
        if written.setdefault(name, path) != path:
            raise Deviates("state", event, f"{written[name]}, which was asked beside {path}, had changed {name}")


def _fault_of(plan: Plan, name: str, value: Value) -> str:
    if not _NAME.fullmatch(name):
        return "cannot name a value"
    fields = {field.name: field for field in plan.state.fields} if plan.state else {}
    if fields and name not in fields:
        return "is no value that the plan has"
    return f"is no {fields[name].kind}, as the plan has it" if fields and not _fits(value, fields[name]) else ""


def _fits(value: Value, field: StateField) -> bool:
    if field.kind == "any" or (value is None and field.optional):
        return True
    return isinstance(value, _KINDS[field.kind]) and isinstance(value, bool) == (field.kind == "bool")
