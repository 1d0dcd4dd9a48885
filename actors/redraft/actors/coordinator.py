"""Reads what comes in, decides, appends, acknowledges. It alone appends to the log."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime
from typing import Final, Protocol, TypeAlias

import msgspec

from redraft.actors.decider import handle, is_open
from redraft.actors.evolve import fold
from redraft.actors.run_state import RunState
from redraft.events.bus import INBOX, Bus, Consumer, Delivery
from redraft.events.codec import decode_message
from redraft.events.commands import ConfirmStep, Message, StartRun
from redraft.events.content import MAX_DRAFT_BYTES
from redraft.events.domain_events import DomainEvent
from redraft.events.envelope import Origin, Recorded
from redraft.events.errors import CodecError, Conflict
from redraft.events.store import Append, NewEvent

BATCH: Final = 32
"""How many messages are decided on before what they bring is handed to the log; the next are decided on meanwhile."""

REMEMBERED: Final = 16_384
"""For how many runs it is remembered that our idea of them was wrong: far more than are on their way at once."""

LONGEST_ID: Final = 200
"""Characters of a run's id at most. One that is longer, empty or not printable is no id: a database may choke on it."""

PREFETCH: Final = 1024
"""How many messages may be on their way through the coordinator."""

KEPT: Final = 1024
"""How many runs' states are kept in memory; the expected version tells when one of them is out of date."""

Written: TypeAlias = Coroutine[None, None, Sequence[tuple[Recorded, ...] | Conflict]]


class Log(Protocol):
    def hand_in(self, appends: Sequence[Append]) -> Written: ...

    async def read(self, run: str, upto: int | None = None, after: int = 0) -> Sequence[Recorded]: ...


class Resend(Protocol):
    """Sends an open request again for the nth time (`sent`), as one that is surely without an answer."""

    async def __call__(self, run: str, path: str, sent: int) -> None: ...


class Incoming(msgspec.Struct, frozen=True):
    delivery: Delivery
    message: Message


class Turn(msgspec.Struct, frozen=True):
    """What was decided on together: the messages, what they bring, and requests that a worker was not sure of.

    `epochs` counts, for each run, how often our idea of it had turned out to be wrong when it was decided on.
    """

    incoming: Sequence[Incoming]
    appends: list[Append]
    doubts: list[ConfirmStep]
    epochs: dict[str, int]


class Coordinator:
    """Decides for every run. Messages of one run are taken in order; different runs share a transaction.

    `resend` sends one open request again, confirmed, to a worker that was not sure of it. `ignored` counts messages
    that changed nothing: late, foreign or duplicate ones.
    """

    def __init__(
        self, log: Log, bus: Bus, clock: Callable[[], datetime], resend: Resend, limit: int = MAX_DRAFT_BYTES
    ) -> None:
        self.ignored = 0
        self._log = log
        self._bus = bus
        self._clock = clock
        self._resend = resend
        self._limit = limit
        self._states: OrderedDict[str, RunState] = OrderedDict()
        self._epochs: dict[str, int] = {}

    async def run(self) -> None:
        """Serves the inbox until it is cancelled. Raises BusError or StoreError when either cannot be reached."""
        self._states.clear()
        before: asyncio.Task[None] | None = None
        async with self._bus.consume(INBOX, PREFETCH) as inbox, asyncio.TaskGroup() as group:
            while True:
                deliveries = await inbox.take(BATCH)
                incoming = [each for delivery in deliveries if (each := await self._decoded(inbox, delivery))]
                turn = await self._decided(incoming)
                written = self._log.hand_in(turn.appends) if turn.appends else None
                before = group.create_task(self._settled(inbox, turn, written, before))

    async def _decoded(self, inbox: Consumer, delivery: Delivery) -> Incoming | None:
        try:
            message = decode_message(delivery.letter.name, delivery.letter.body)
        except CodecError as error:
            await inbox.reject(delivery, requeue=False, reason=str(error))
            return None
        if not (message.run.isprintable() and 0 < len(message.run) <= LONGEST_ID):
            await inbox.reject(delivery, requeue=False, reason=f"{message.run[:40]!r} cannot be the id of a run")
            return None
        return Incoming(delivery, message)

    async def _decided(self, incoming: Sequence[Incoming]) -> Turn:
        """Decides on all. What is decided next builds on it, though it is not yet written."""
        now = self._clock()
        turn = Turn(incoming, [], [], {})
        for each in incoming:
            run = each.message.run
            state = await self._state(each)
            turn.epochs[run] = self._epochs.get(run, 0)
            decision = handle(state, each.message, now, self._limit)
            if not decision.events and (newer := await self._newer(run, state)) is not None:
                state, decision = newer, handle(newer, each.message, now, self._limit)
            if decision.events:
                turn.appends.append(
                    Append(run, state.version, new_events(each.delivery.letter.origin, run, decision.events, now))
                )
                self._keep(run, decision.state)
            elif isinstance(each.message, ConfirmStep) and is_open(state, each.message.path, each.message.attempt):
                turn.doubts.append(each.message)
            else:
                self.ignored += 1
        return turn

    async def _settled(
        self, inbox: Consumer, turn: Turn, written: Written | None, before: asyncio.Task[None] | None
    ) -> None:
        """Acknowledges what is written, in order.

        Where another coordinator was faster, what was decided since on our idea of the run, also that a message means
        nothing, is void: those messages come again.
        """
        results = await written if written else ()
        if before is not None and not before.done():
            await asyncio.wait([before])
        for append, result in zip(turn.appends, results, strict=True):
            if isinstance(result, Conflict):
                self._states.pop(append.run, None)
                self._epochs[append.run] = turn.epochs[append.run] + 1
        while len(self._epochs) > REMEMBERED:
            del self._epochs[next(iter(self._epochs))]
        void = {run for run, epoch in turn.epochs.items() if self._epochs.get(run, 0) != epoch}
        for doubt in turn.doubts:
            if doubt.run not in void:
                await self._resend(doubt.run, doubt.path, doubt.sent + 1)
        await inbox.ack([each.delivery for each in turn.incoming if each.message.run not in void])
        for each in turn.incoming:
            if each.message.run in void:
                await inbox.reject(each.delivery, requeue=True, reason=f"run {each.message.run} had moved on")

    async def _state(self, incoming: Incoming) -> RunState:
        """The state of a message's run. One that is only now to start is taken to be new, until the log objects."""
        run = incoming.message.run
        state = self._states.get(run)
        if state is not None:
            return state
        if isinstance(incoming.message, StartRun) and incoming.delivery.count == 1:
            return RunState()
        return fold(event.data for event in await self._log.read(run))

    async def _newer(self, run: str, state: RunState) -> RunState | None:
        """The state as the log has it, if another coordinator went on with the run: then it may know of the message."""
        if not await self._log.read(run, after=state.version):
            return None
        newer = fold(event.data for event in await self._log.read(run))
        self._keep(run, newer)
        return newer

    def _keep(self, run: str, state: RunState) -> None:
        self._states[run] = state
        self._states.move_to_end(run)
        if len(self._states) > KEPT:
            self._states.popitem(last=False)


def new_events(came: Origin, run: str, events: Sequence[DomainEvent], now: datetime) -> tuple[NewEvent, ...]:
    """Events with their ids: made from that of the message that came, so that the same decision gives the same ids."""
    first = f"{came.id}.0"
    correlation = came.correlation or run
    return tuple(
        NewEvent(
            Origin(
                f"{came.id}.{number}",
                "coordinator" if number else came.actor,
                first if number else came.causation,
                correlation,
                came.trace,
            ),
            now,
            event,
        )
        for number, event in enumerate(events)
    )
