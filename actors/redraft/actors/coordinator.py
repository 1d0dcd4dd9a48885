"""Reads what comes in, has it decided and recorded by its `CommandHandler`, and acknowledges it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Final

from redraft.actors.admission import Admission
from redraft.actors.authority import Authority
from redraft.actors.command_handler import CommandHandler, Incoming, Known, Log, Report, Resend, Spent, Turn
from redraft.actors.forking import unfit
from redraft.events.bus import INBOX, Bus, Consumer, Delivery
from redraft.events.commands import StartRun, SteeringMessage
from redraft.events.content import MAX_DRAFT_BYTES
from redraft.events.domain_events import Parent
from redraft.events.envelope import Recorded
from redraft.events.errors import CodecError, InputError, Sealed, Tampered
from redraft.events.underway import Underway

BATCH: Final = 64
"""How many messages are decided on before what they bring is handed to the log; the next are decided on meanwhile."""

TRIES: Final = 5
"""How often a message is looked at before it is refused: another coordinator may be about to record its run's start."""

PREFETCH: Final = 1024
"""How many messages may be on their way through the coordinator."""

EARLY: Final = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
"""Seconds between two looks for a run to which a person spoke before it was there."""

HELD: Final = 256
"""How many such words are kept at once; others are given back."""


class Coordinator:
    """Serves the inbox. Messages of one run are taken in order; different runs share a transaction.

    `handler` decides and records. `ignored` counts messages that changed nothing: late, foreign or duplicate ones.
    What is for no run at all is set aside; what a person says to a run that is not there waits for it, `EARLY` long.
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
        self._early: dict[str, list[tuple[Incoming, Delivery]]] = {}
        self._drained = asyncio.Event()
        self._before: asyncio.Task[None] | None = None
        self._underway = Underway()

    def longest_wait(self) -> float:
        """Seconds for which the oldest message that was taken has been unsettled; 0 when none is."""
        return self._underway.longest()

    @property
    def ignored(self) -> int:
        return self.handler.ignored

    def drain(self) -> None:
        """Takes nothing more; `run` returns once what was taken is recorded and acknowledged, or given back."""
        self._draining = True
        self._drained.set()
        if self._taking is not None:
            self._taking.reschedule(asyncio.get_running_loop().time())

    async def run(self) -> None:
        """Serves the inbox until it is drained or cancelled. Raises BusError or StoreError when either is away."""
        self.handler.forget()
        self._underway = Underway()
        self._early.clear()
        self._before = None
        async with self._bus.consume(INBOX, PREFETCH) as inbox, asyncio.TaskGroup() as group:
            while deliveries := await self._taken(inbox):
                number = self._underway.begin()
                incoming = [each for delivery in deliveries if (each := await self._decoded(inbox, delivery))]
                by_tag = {delivery.tag: delivery for delivery in deliveries}
                turn = await self.handler.decide([each for each in incoming if not self._follows(each, by_tag)])
                for run in self._hold(turn, by_tag):
                    group.create_task(self._awaited(inbox, run))
                turn = Turn([each for each in turn.decided if each.incoming.tag in by_tag], turn.written)
                self._before = group.create_task(self._settled(inbox, by_tag, turn, self._before))
                self._before.add_done_callback(partial(self._ended, number))

    def _ended(self, number: int, _: asyncio.Task[None]) -> None:
        self._underway.end(number)

    def _follows(self, incoming: Incoming, deliveries: dict[int, Delivery]) -> bool:
        """Keeps a word that comes after others to the same run which wait for its start; returns whether it did."""
        waiting = self._early.get(incoming.message.run)
        if waiting is None or not isinstance(incoming.message, SteeringMessage):
            return False
        waiting.append((incoming, deliveries.pop(incoming.tag)))
        return True

    def _hold(self, turn: Turn, deliveries: dict[int, Delivery]) -> list[str]:
        """Keeps what was said to runs that are not there yet; returns those of them that nobody looks for yet."""
        runs: list[str] = []
        for each in turn.decided:
            if not each.early or sum(map(len, self._early.values())) >= HELD:
                continue
            run = each.incoming.message.run
            if run not in self._early:
                runs.append(run)
            self._early.setdefault(run, []).append((each.incoming, deliveries.pop(each.incoming.tag)))
        return runs

    async def _awaited(self, inbox: Consumer, run: str) -> None:
        """Looks for a run again and again, and then carries out what was said to it, in order.

        Who is drained meanwhile gives it back by leaving.
        """
        pauses = iter(EARLY)
        while waiting := self._early[run]:
            turn = await self.handler.decide([incoming for incoming, _ in waiting])
            if turn.decided[0].early and (pause := next(pauses, None)) is not None:
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._drained.wait()
                        return
                continue
            decided, self._early[run] = waiting[: len(turn.decided)], waiting[len(turn.decided) :]
            by_tag = {incoming.tag: delivery for incoming, delivery in decided}
            await self._settled(inbox, by_tag, turn, self._before, tries=1)
        del self._early[run]

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
        self,
        inbox: Consumer,
        deliveries: dict[int, Delivery],
        turn: Turn,
        before: asyncio.Task[None] | None,
        tries: int = TRIES,
    ) -> None:
        """Acknowledges what is recorded, and what means nothing, in order.

        What is refused is given back, to be looked at again, or parked when it was delivered so many times.
        """
        settled = await self.handler.settle(turn, before)
        await inbox.ack([deliveries[each.incoming.tag] for each in settled if not each.refused])
        for each in settled:
            if each.refused:
                delivery = deliveries[each.incoming.tag]
                again = delivery.count < tries and not each.barred
                await inbox.reject(delivery, requeue=again, reason=each.refused)
