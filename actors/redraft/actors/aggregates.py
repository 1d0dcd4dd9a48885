"""Runs as a coordinator knows them: the state that their events make, and the event that it was made up to.

What is kept may be ahead of the log, by events that are on their way into it, and behind it, where another coordinator
was faster. Either way nothing untrue is recorded: what is decided names the hash that it was decided on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from sys import getsizeof
from typing import Final, Protocol

import msgspec

from redraft.actors.evolve import fold
from redraft.actors.recent import Recent
from redraft.actors.run_state import RunState
from redraft.events.codec import GENESIS
from redraft.events.domain_events import DomainEvent, StepRequested
from redraft.events.envelope import Recorded
from redraft.events.errors import Tampered

OVERHEAD: Final = 16 * 1024
"""Bytes of memory that a run takes beside its texts, about: its plan, and where it stands in it."""


CLOSED: Final = 64
"""Of how many steps that are not open any more it is remembered at most by which events they were asked for."""


class Log(Protocol):
    async def read(self, run: str, upto: int | None = None, after: int = 0) -> Sequence[Recorded]: ...


class Aggregate(msgspec.Struct, eq=False):
    """A run by its state and the hash of the last event in it, `GENESIS` for a run that has not begun.

    Both move on with each decision. It is `void` once one of these could not be recorded: then nothing that was
    decided on it counts, unless it is recorded already. `asked` are the ids of the events by which its open steps were
    asked for, by path, and those of at most `CLOSED` others.
    """

    state: RunState = RunState()
    hash: str = GENESIS
    void: bool = False
    asked: dict[str, str] = {}

    def advance(self, state: RunState, last: str, events: Iterable[tuple[str, DomainEvent]]) -> None:
        """Moves on by events, which are given with their ids, to this state and the hash of the last of them."""
        asked = self.asked
        for number, event in events:
            if type(event) is StepRequested:
                asked[event.path] = number
        if len(asked) > CLOSED + len(state.late) + len(state.open):
            self.asked = {path: asked[path] for path in (*state.late, *state.open) if path in asked}
        self.state, self.hash = state, last


class Aggregates:
    """The runs that were needed last, as many as `Recent` holds."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._kept: Recent[Aggregate] = Recent()

    def clear(self) -> None:
        """Forgets all runs."""
        self._kept.clear()

    def known(self, run: str) -> Aggregate | None:
        """The run, if it is kept."""
        return self._kept.get(run)

    def keep(self, run: str, aggregate: Aggregate) -> None:
        """Keeps a run, in place of what was kept of it."""
        self._kept.keep(run, aggregate, _size(aggregate.state))

    def drop(self, run: str, aggregate: Aggregate) -> None:
        """Makes an aggregate void, and forgets the run unless another is kept by now."""
        aggregate.void = True
        if self._kept.get(run) is aggregate:
            self._kept.drop(run)

    async def load(self, run: str) -> Aggregate:
        """The run as the log has it; it is kept if it has begun. Raises whatever reading or folding its events does."""
        aggregate = aggregate_of(await self._log.read(run))
        if aggregate.state.version:
            self.keep(run, aggregate)
        return aggregate

    async def newer(self, run: str, aggregate: Aggregate) -> Aggregate | None:
        """The run as the log has it, if somebody else went on with it."""
        if not await self._log.read(run, after=aggregate.state.version):
            return None
        return await self.load(run)


def _size(state: RunState) -> int:
    """The bytes of memory that a state takes, about."""
    size = OVERHEAD + getsizeof(state.brief.text)
    for frame in state.frames:
        for made in frame.made:
            size += made.size
    return size


def aggregate_of(events: Sequence[Recorded]) -> Aggregate:
    """The run that these events, all of it, make. Raises Tampered when they are no chain, or what folding them does."""
    last = GENESIS
    for number, event in enumerate(events, 1):
        if event.version != number:
            raise Tampered(f"event {number} of run {event.run} is missing")
        if event.previous != last:
            raise Tampered(f"event {number} of run {event.run} does not follow the one before it")
        last = event.hash
    made = Aggregate()
    made.advance(fold(event.data for event in events), last, ((event.id, event.data) for event in events))
    return made
