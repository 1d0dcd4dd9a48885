"""Reads what comes in, has it decided and recorded by its `CommandHandler`, and acknowledges it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from redraft.actors.admission import Admission
from redraft.actors.authority import Authority
from redraft.actors.command_handler import CommandHandler, Incoming, Known, Log, Report, Resend, Settled, Spent, Turn
from redraft.actors.forking import unfit
from redraft.events.bus import INBOX, Bus, Consumer, Delivery
from redraft.events.commands import StartRun
from redraft.events.content import MAX_DRAFT_BYTES
from redraft.events.domain_events import Parent
from redraft.events.envelope import Recorded
from redraft.events.errors import CodecError, InputError, Sealed, Tampered

BATCH: Final = 64
"""How many messages are decided on before what they bring is handed to the log; the next are decided on meanwhile."""

TRIES: Final = 5
"""How often a message is looked at before it is refused: another coordinator may be about to record its run's start."""

PREFETCH: Final = 1024
"""How many messages may be on their way through the coordinator."""


class Coordinator:
    """Serves the inbox. Messages of one run are taken in order; different runs share a transaction.

    `handler` decides and records. `ignored` counts messages that changed nothing: late, foreign or duplicate ones.
    What is for no run at all is set aside.
    """

    def __init__(
        self,
        log: Log,
        bus: Bus,
        clock: Callable[[], datetime],
        resend: Resend,
        limit: int = MAX_DRAFT_BYTES,
        spent: Spent | None = None,
        known: Known | None = None,
        report: Report = lambda run, why: None,
        authority: Authority | None = None,
    ) -> None:
        """See `CommandHandler` for what it is given. Without an `authority` everybody may say everything."""
        self.handler = CommandHandler(log, clock, resend, limit, spent, known, report, authority)
        self._authority = authority
        self._log = log
        self._bus = bus
        self._admission = Admission(limit, bus.largest)
        self._draining = False
        self._taking: asyncio.Timeout | None = None

    @property
    def ignored(self) -> int:
        return self.handler.ignored

    def drain(self) -> None:
        """Takes nothing more; `run` returns once what was taken is recorded and acknowledged, or given back."""
        self._draining = True
        if self._taking is not None:
            self._taking.reschedule(asyncio.get_running_loop().time())

    async def run(self) -> None:
        """Serves the inbox until it is drained or cancelled. Raises BusError or StoreError when either is away."""
        self.handler.forget()
        before: asyncio.Task[None] | None = None
        async with self._bus.consume(INBOX, PREFETCH) as inbox, asyncio.TaskGroup() as group:
            while deliveries := await self._taken(inbox):
                incoming = [each for delivery in deliveries if (each := await self._decoded(inbox, delivery))]
                turn = await self.handler.decide(incoming)
                by_tag = {delivery.tag: delivery for delivery in deliveries}
                before = group.create_task(self._settled(inbox, by_tag, turn, before))

    async def _taken(self, inbox: Consumer) -> Sequence[Delivery]:
        """Returns the deliveries that wait in the inbox; none once the coordinator is drained."""
        if self._draining:
            return ()
        taking = self._taking = asyncio.timeout(None)
        try:
            async with taking:
                return await inbox.take(BATCH)
        except TimeoutError:
            if not taking.expired():
                raise
            return ()
        finally:
            self._taking = None

    async def _decoded(self, inbox: Consumer, delivery: Delivery) -> Incoming | None:
        try:
            message = self._admission.message(delivery.letter)
            if self._authority is not None:
                self._authority.require(delivery.user, message)
            past = await self._past(message, message.parent) if isinstance(message, StartRun) and message.parent else ()
            fresh = delivery.count == 1
            return Incoming(message, delivery.letter.origin, delivery.tag, fresh, past, user=delivery.user)
        except (CodecError, InputError, Tampered, Sealed) as error:
            await inbox.reject(delivery, requeue=False, reason=str(error))
            return None

    async def _past(self, start: StartRun, parent: Parent) -> Sequence[Recorded]:
        """Returns the parent's events that a fork repeats. Raises InputError when it cannot begin so, CodecError."""
        past = await self._log.read(parent.run, upto=parent.version)
        try:
            fault = unfit(start, past)
        except (LookupError, AssertionError, AttributeError, TypeError, ValueError) as error:
            fault = f"the events of run {parent.run} cannot be followed: {error!r}"
        if fault:
            raise InputError(f"run {start.run} cannot begin as a fork: {fault}")
        return past

    async def _settled(
        self, inbox: Consumer, deliveries: dict[int, Delivery], turn: Turn, before: asyncio.Task[None] | None
    ) -> None:
        """Acknowledges what is recorded, and what means nothing, in order; gives back what is refused."""
        settled = await self.handler.settle(turn, before)
        await inbox.ack([deliveries[each.incoming.tag] for each in settled if not each.refused])
        for each in settled:
            if each.refused:
                await _give_back(inbox, deliveries[each.incoming.tag], each)


async def _give_back(inbox: Consumer, delivery: Delivery, settled: Settled) -> None:
    """Lets a message be looked at again, or has it parked when it was looked at often enough."""
    again = delivery.count < TRIES and not settled.barred
    await inbox.reject(delivery, requeue=again, reason=settled.refused)
