"""Saying in a test what a run does: `given(events).when(message).then(events)`, after Emmett's specifications.

given(*started, requested).when(Generated("r", "write", 1, "text")).then_ends("accepted")
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from redraft.actors.arms import Choose, first_arm
from redraft.actors.decider import handle
from redraft.actors.evolve import fold
from redraft.actors.run_state import RunState
from redraft.events.commands import Message
from redraft.events.domain_events import DomainEvent, RunEnded

NOON: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Given(msgspec.Struct, frozen=True):
    """A run that these events have happened to."""

    state: RunState

    def when(self, *messages: Message, at: datetime = NOON, choose: Choose = first_arm) -> When:
        """What these messages, one after the other, bring about at this time.

        `choose` says who does a step that chooses: `partial(thompson, "run", tallies)` is what real runs use.
        """
        state = self.state
        brought: list[DomainEvent] = []
        for message in messages:
            decision = handle(state, message, at, choose=choose)
            state = decision.state
            brought.extend(decision.events)
        return When(tuple(brought), state)


class When(msgspec.Struct, frozen=True):
    """What messages brought about: the events, and the state after them."""

    events: tuple[DomainEvent, ...]
    state: RunState

    def then(self, *expected: DomainEvent) -> When:
        """Fails unless these are exactly the events."""
        if self.events != expected:
            raise AssertionError(f"expected {_listed(expected)}\nbut got {_listed(self.events)}")
        return self

    def then_nothing(self) -> When:
        """Fails unless the messages were ignored."""
        return self.then()

    def then_ends(self, outcome: str) -> When:
        """Fails unless the last event ends the run with this outcome."""
        last = self.events[-1] if self.events else None
        if not isinstance(last, RunEnded) or last.outcome != outcome:
            raise AssertionError(f"expected the run to end {outcome}, but got {_listed(self.events)}")
        return self


def given(*events: DomainEvent) -> Given:
    """A run with this past."""
    return Given(fold(events))


def _listed(events: Sequence[DomainEvent]) -> str:
    return "".join(f"\n  {event!r}" for event in events) or "nothing"
