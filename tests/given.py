"""Specifications of runs for tests, after Emmett's: `given(events).when(message).then(events)`.

given(*started, requested).when(Generated("r", "write", 1, "text")).then_ends("accepted")
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from redraft.actors.deciding.decider import handle
from redraft.actors.deciding.evolve import fold
from redraft.actors.deciding.state import RunState
from redraft.actors.plans.arms import Choose, first_arm
from redraft.events.messages.commands import Message
from redraft.events.messages.domain_events import DomainEvent, RunEnded

NOON: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Given(msgspec.Struct, frozen=True):
    """A run with these events."""

    state: RunState

    def when(self, *messages: Message, at: datetime = NOON, choose: Choose = first_arm) -> When:
        """Returns what these messages bring about, one after the other, at this time.

        `choose` chooses the actor of a step that has several: real runs use `partial(thompson, "run", tallies)`.
        """
        state = self.state
        brought: list[DomainEvent] = []
        for message in messages:
            decision = handle(state, message, at, choose=choose)
            state = decision.state
            brought.extend(decision.events)
        return When(tuple(brought), state)


class When(msgspec.Struct, frozen=True):
    """The events that messages brought about, and the state after them."""

    events: tuple[DomainEvent, ...]
    state: RunState

    def then(self, *expected: DomainEvent) -> When:
        """Fails unless these are exactly the events."""
        if self.events != expected:
            raise AssertionError(f"expected {_list(expected)}\nbut got {_list(self.events)}")
        return self

    def then_nothing(self) -> When:
        """Fails unless the messages were ignored."""
        return self.then()

    def then_ends(self, outcome: str) -> When:
        """Fails unless the last event ends the run with this outcome."""
        last = self.events[-1] if self.events else None
        if not isinstance(last, RunEnded) or last.outcome != outcome:
            raise AssertionError(f"expected the run to end {outcome}, but got {_list(self.events)}")
        return self


def given(*events: DomainEvent) -> Given:
    """Returns a run with these past events."""
    return Given(fold(events))


def _list(events: Sequence[DomainEvent]) -> str:
    return "".join(f"\n  {event!r}" for event in events) or "nothing"
