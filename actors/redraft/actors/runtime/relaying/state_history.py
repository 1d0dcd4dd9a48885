"""Folds the state of a run for requests: each has the state as it was when it was recorded."""

from __future__ import annotations

import msgspec

from redraft.actors.deciding.run_values import Changing, first_values
from redraft.actors.plans.paths import step_key
from redraft.events.messages.domain_events import DomainEvent, RunStarted, StepRequested
from redraft.events.messages.run_state import Values


class StateHistory:
    """The values of a run's state after the events added so far, and those at the latest request of each step."""

    def __init__(self) -> None:
        self._values: Values = {}
        self._size = 0
        self._at_requests: dict[tuple[str, str], Values] = {}

    def add(self, data: DomainEvent) -> int:
        """Adds the next event of the run; returns by how many bytes the state has grown, estimated."""
        if type(data) is StepRequested:
            if self._values:
                self._at_requests[_place(data.path)] = self._values
            return 0
        if type(data) is RunStarted:
            return self._change(first_values(data.plan, data.brief))
        return self._change(data.state) if isinstance(data, Changing) and data.state else 0

    def at_request(self, path: str) -> Values:
        """Returns the state when the step at this path was requested last."""
        return self._at_requests.get(_place(path), {}) if self._at_requests else {}

    def _change(self, changes: Values) -> int:
        self._values = {**self._values, **changes}
        before, self._size = self._size, len(msgspec.json.encode(self._values)) if self._values else 0
        return self._size - before


def _place(path: str) -> tuple[str, str]:
    """Returns the step in the plan and its own name, which for a judge says the draft: few, however long the run is."""
    return step_key(path), path.rpartition("/")[2]
