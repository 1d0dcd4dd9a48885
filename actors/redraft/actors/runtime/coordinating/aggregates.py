"""The runs that a coordinator has in memory: each run's state, and the hash of the last event in it.

A state may be ahead of the log, by events that are being written, or behind it, if another coordinator was faster.
Nothing wrong is recorded either way: each append names the hash that it was decided on.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

import msgspec

from redraft.actors.deciding.evolve import fold
from redraft.actors.deciding.state import RunState
from redraft.actors.runtime.coordinating.proving import RunTexts
from redraft.events.errors import Tampered
from redraft.events.messages.codec import GENESIS
from redraft.events.messages.domain_events import StepAnswered, StepRequested, VerdictLate
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.memory import text_memory
from redraft.events.messages.plan import nodes_of
from redraft.events.messages.usage import Usage

MAX_BYTES: Final = 32 * 1024 * 1024
"""The default size of a cache, in bytes."""

T = TypeVar("T")


class Recent(Generic[T]):
    """A cache of at most `limit` bytes; the newest value stays even if it is larger."""

    def __init__(self, limit: int = MAX_BYTES) -> None:
        self._limit = limit
        self._bytes = 0
        self._values: OrderedDict[str, tuple[T, int]] = OrderedDict()

    def get(self, run: str) -> T | None:
        """Returns the value of a run and marks it as used; None when there is none."""
        entry = self._values.get(run)
        if entry is None:
            return None
        self._values.move_to_end(run)
        return entry[0]

    def keep(self, run: str, value: T, size: int) -> None:
        """Stores a run's value of `size` bytes in place of an older one; evicts the least recently used."""
        entry = self._values.get(run)
        if entry is not None:
            self._bytes -= entry[1]
            self._values.move_to_end(run)
        self._values[run] = value, size
        self._bytes += size
        while self._bytes > self._limit and len(self._values) > 1:
            self._bytes -= self._values.popitem(last=False)[1][1]

    def drop(self, run: str) -> None:
        """Removes the value of a run, if there is one."""
        entry = self._values.pop(run, None)
        if entry is not None:
            self._bytes -= entry[1]

    def clear(self) -> None:
        """Removes all values."""
        self._values.clear()
        self._bytes = 0


OVERHEAD: Final = 3 * 1024
"""The memory of a run's state in bytes, estimated, beside its texts and what the other estimates count."""

NODE: Final = 512
"""The memory of a node of a plan, in bytes, estimated."""

PART: Final = 1024
"""The memory of an open step, or of a draft with its judgement, in bytes, estimated."""

CLOSED: Final = 64
"""The number of closed steps for which the id of the requesting event is kept."""


NewTrace: TypeAlias = Callable[[str], str]
"""Returns the trace context, as a W3C traceparent, of a run that begins without one; empty for none."""


def no_trace(run: str) -> str:
    """Returns no trace: nobody traces runs here."""
    return ""


class RunReader(Protocol):
    """Reads the events of a run."""

    async def read(self, run: str, upto: int | None = None, after: int = 0) -> Sequence[Recorded]: ...


class Aggregate(msgspec.Struct, eq=False):
    """A run's state, and the hash of its last event; `GENESIS` for a run that has not begun.

    Both move on with each decision. It is `void` once one of these could not be recorded: then nothing that was decided
    on it counts, unless it is recorded already. `request_ids` maps the path of each open step, and of at most `CLOSED`
    others, to the id of the event that requested it. `trace` is the trace context that the run's first event records.
    `texts` are those that its outcomes were compared with, if any were. `fixed_size` is the memory in bytes that it
    takes whatever happens; 0 before it is estimated. `encrypted`: its texts are kept encrypted. `repeated` is the usage
    of the answers that a fork repeats: its parent's, not its own.
    """

    state: RunState = RunState()
    hash: str = GENESIS
    void: bool = False
    request_ids: dict[str, str] = {}
    trace: str = ""
    texts: RunTexts | None = None
    fixed_size: int = 0
    encrypted: bool = False
    repeated: Usage = Usage()

    def note_request(self, number: str, request: StepRequested) -> None:
        """Notes the id of an event that requests a step."""
        self.request_ids[request.path] = number

    def advance(self, state: RunState, last: str) -> None:
        """Moves on to this state and hash; forgets the requests of steps that were closed long ago."""
        known = self.request_ids
        if len(known) > CLOSED and len(known) > CLOSED + len(state.late) + len(state.open):
            self.request_ids = {path: known[path] for path in (*state.late, *state.open) if path in known}
        self.state, self.hash = state, last


class Aggregates:
    """The runs that were needed last, as many as `Recent` holds; `loads` counts those that were read from the log."""

    def __init__(self, log: RunReader) -> None:
        self.loads = 0
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
        if not aggregate.fixed_size:
            nodes = sum(1 for _ in nodes_of(aggregate.state.plan.steps))
            aggregate.fixed_size = OVERHEAD + NODE * nodes + text_memory(aggregate.state.brief.text)
        self._kept.keep(run, aggregate, _size(aggregate))

    def drop(self, run: str, aggregate: Aggregate) -> None:
        """Makes an aggregate void, and forgets the run unless another is kept by now."""
        aggregate.void = True
        if self._kept.get(run) is aggregate:
            self._kept.drop(run)

    async def load(self, run: str) -> Aggregate:
        """Returns the run as the log has it, and keeps it if it has begun.

        Raises what reading or folding its events raises.
        """
        aggregate = aggregate_of(await self._log.read(run))
        if aggregate.state.version:
            self.loads += 1
            self.keep(run, aggregate)
        return aggregate

    async def newer(self, run: str, aggregate: Aggregate) -> Aggregate | None:
        """Returns the run as the log has it if the log has newer events; else None."""
        if not await self._log.read(run, after=aggregate.state.version):
            return None
        return await self.load(run)


def _size(aggregate: Aggregate) -> int:
    """Returns the approximate memory of a run, in bytes."""
    state = aggregate.state
    size, parts = aggregate.fixed_size, len(state.open) + len(state.late)
    if aggregate.texts is not None:
        size += aggregate.texts.size
    for frame in state.frames:
        parts += len(frame.judged)
        if frame.made:
            size += sum(made.size for made in frame.made)
    return size + PART * parts + PART // 4 * len(aggregate.request_ids)


def usage_of(events: Iterable[Recorded]) -> Usage:
    """Returns the summed usage of the answers among these events."""
    return sum((each.data.usage for each in events if isinstance(each.data, StepAnswered | VerdictLate)), Usage())


def aggregate_of(events: Sequence[Recorded]) -> Aggregate:
    """Returns the aggregate of a complete stream of events.

    Raises Tampered if the events are no chain, and what folding them raises.
    """
    last = GENESIS
    for number, event in enumerate(events, 1):
        if event.version != number:
            raise Tampered(f"event {number} of run {event.run} is missing")
        if event.previous != last:
            raise Tampered(f"event {number} of run {event.run} does not follow the one before it")
        last = event.hash
    first = events[0] if events else None
    made = Aggregate(trace=first.trace if first else "", encrypted=first is not None and first.encrypted)
    made.repeated = usage_of(event for event in events if event.repeats)
    for event in events:
        if isinstance(event.data, StepRequested):
            made.note_request(event.id, event.data)
    made.advance(fold(event.data for event in events), last)
    return made
