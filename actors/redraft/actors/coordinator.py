"""Reads what comes in, decides, appends, acknowledges. It alone appends to the log."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, Protocol

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

BATCH: Final = 256
"""How many messages are decided on at most before what they bring is written in one transaction."""

KEPT: Final = 1024
"""How many runs' states are kept in memory; the expected version tells when one of them is out of date."""

TRIES: Final = 20
"""How often a message is decided on again when others append to its run first, before it goes back to the inbox."""


class Log(Protocol):
    async def append_all(self, appends: Sequence[Append]) -> Sequence[tuple[Recorded, ...] | Conflict]: ...

    async def read(self, run: str, upto: int | None = None, after: int = 0) -> Sequence[Recorded]: ...


class Resend(Protocol):
    """Sends an open request again for the nth time (`sent`), as one that is surely without an answer."""

    async def __call__(self, run: str, path: str, sent: int) -> None: ...


class Incoming(msgspec.Struct, frozen=True):
    delivery: Delivery
    message: Message


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

    async def run(self) -> None:
        """Serves the inbox until it is cancelled. Raises BusError or StoreError when either cannot be reached."""
        async with self._bus.consume(INBOX, BATCH) as inbox:
            while True:
                deliveries = await inbox.take(BATCH)
                incoming = [each for delivery in deliveries if (each := await self._decoded(inbox, delivery))]
                for tries in range(TRIES):
                    incoming = await self._settle(inbox, incoming, tries)
                    if not incoming:
                        break
                for each in incoming:
                    await inbox.reject(each.delivery, requeue=True)

    async def _decoded(self, inbox: Consumer, delivery: Delivery) -> Incoming | None:
        try:
            return Incoming(delivery, decode_message(delivery.letter.name, delivery.letter.body))
        except CodecError as error:
            await inbox.reject(delivery, requeue=False, reason=str(error))
            return None

    async def _settle(self, inbox: Consumer, incoming: Sequence[Incoming], tries: int) -> list[Incoming]:
        """Decides on all, writes what came of them together, and gives back those whose run had moved on."""
        now = self._clock()
        states = {each.message.run: await self._state(each.message, tries) for each in incoming}
        appends: list[Append] = []
        doubts: list[ConfirmStep] = []
        ignored = 0
        for each in incoming:
            run = each.message.run
            decision = handle(states[run], each.message, now, self._limit)
            if decision.events:
                appends.append(Append(run, states[run].version, _new_events(each, decision.events, now)))
                states[run] = decision.state
            elif isinstance(each.message, ConfirmStep):
                doubts.append(each.message)
            else:
                ignored += 1
        behind = await self._written(appends)
        for doubt in doubts:
            if is_open(states[doubt.run], doubt.path, doubt.attempt):
                await self._resend(doubt.run, doubt.path, doubt.sent + 1)
        self._keep({run: state for run, state in states.items() if run not in behind})
        self.ignored += ignored
        await inbox.ack([each.delivery for each in incoming if each.message.run not in behind])
        return [each for each in incoming if each.message.run in behind]

    async def _written(self, appends: Sequence[Append]) -> set[str]:
        """Appends all; the runs come back in which another coordinator was faster."""
        results = await self._log.append_all(appends) if appends else ()
        behind = {append.run for append, result in zip(appends, results, strict=True) if isinstance(result, Conflict)}
        for run in behind:
            self._states.pop(run, None)
        return behind

    async def _state(self, message: Message, tries: int) -> RunState:
        """The state of a message's run. One that is only now to start is taken to be new, until the log objects."""
        state = self._states.get(message.run)
        if state is None and isinstance(message, StartRun) and tries == 0:
            return RunState()
        if state is None:
            return fold(event.data for event in await self._log.read(message.run))
        return state

    def _keep(self, states: dict[str, RunState]) -> None:
        for run, state in states.items():
            if state.status == "running":
                self._states[run] = state
                self._states.move_to_end(run)
            else:
                self._states.pop(run, None)
        while len(self._states) > KEPT:
            self._states.popitem(last=False)


def _new_events(incoming: Incoming, events: Sequence[DomainEvent], now: datetime) -> tuple[NewEvent, ...]:
    """Events with their ids: made from the message's own, so that the same decision gives the same ids."""
    came = incoming.delivery.letter.origin
    first = f"{came.id}.0"
    correlation = came.correlation or incoming.message.run
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
