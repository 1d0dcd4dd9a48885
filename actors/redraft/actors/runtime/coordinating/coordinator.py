"""Reads the inbox, passes its messages to a `CommandHandler`, and acknowledges them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, repeat
from typing import Final, TypeAlias

import msgspec

from redraft.actors.deciding.forking import why_unfit
from redraft.actors.runtime.admission import Admission
from redraft.actors.runtime.coordinating.command_handler import CommandHandler
from redraft.actors.runtime.coordinating.decisions import DecidedBatch, Incoming
from redraft.actors.runtime.coordinating.kept_inbox import KeptInbox
from redraft.actors.runtime.coordinating.sharing import PREFETCH, Share, open_inbox
from redraft.actors.runtime.full_dead_letters import keeping_refused
from redraft.actors.runtime.relaying.queue_publisher import UnusableQueues
from redraft.actors.values import ignore
from redraft.events.bus.port import INBOX, Bus, Delivery
from redraft.events.errors import CodecError, EncryptionKeyMissing, InputError, StoreError, Tampered
from redraft.events.messages.commands import StartRun, SteeringMessage
from redraft.events.messages.domain_events import Parent
from redraft.events.messages.envelope import Recorded
from redraft.events.underway import Underway

BATCH: Final = 64
"""The number of messages decided on before their events are appended; the next are decided on during the append."""

TRIES: Final = 5
"""The number of deliveries before a message is refused: another coordinator may be about to record its run's start."""

EARLY: Final = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
"""Seconds between attempts to find the run of an early steering message, one that came before the run's start."""

MAX_EARLY: Final = 256
"""The number of early messages that are kept at once; others are given back to the inbox."""

PAUSES: Final = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0)
"""Seconds between attempts to decide while the store is away; the last one again and again."""

Outlasts: TypeAlias = Callable[[StoreError], bool]
"""Returns whether to wait until the store is there again, which has raised this error."""


def outlasts_nothing(error: StoreError) -> bool:
    """Returns False: who is asked ends with the error."""
    return False


class _Held(msgspec.Struct):
    """Messages of a run that are kept for later, in order: early ones, or all once one of them was `postponed`."""

    messages: list[tuple[Incoming, Delivery]]
    postponed: bool = False


class Coordinator:
    """Serves the inbox. Messages of one run are taken in order; different runs share a transaction.

    With a `share` it reads those partitions that are its own, and competes with others for the inbox itself.
    `handler` decides and records; if it has no `authority`, everybody may send everything. `ignored` counts messages
    that changed nothing: late, foreign or duplicate ones. A message that belongs to no run becomes a dead letter; a
    steering message to a run that does not exist yet waits for it, as long as `EARLY` adds up to.

    Where the store is away it keeps the messages that it has taken, and decides on them again when the store is back,
    if it `outlasts` the error: a message that is given back each time would be a dead letter after some minutes. So it
    keeps the messages of one run, and goes on with others, while it cannot be read what a daily budget has left.
    """

    def __init__(
        self, handler: CommandHandler, bus: Bus, share: Share | None = None, outlasts: Outlasts = outlasts_nothing
    ) -> None:
        self.handler = handler
        self._outlasts = outlasts
        self._failures = 0
        self._drained = asyncio.Event()
        self._open = partial(open_inbox, bus, share, self._drained) if share else partial(bus.consume, INBOX, PREFETCH)
        self._unusable = UnusableQueues(share.on_trouble if share else ignore)
        self._admission = Admission(handler.limit, bus.largest)
        self._draining = False
        self._taking: asyncio.Timeout | None = None
        self._held: dict[str, _Held] = {}
        self._previous: asyncio.Task[None] | None = None
        self._underway = Underway()

    def longest_wait(self) -> float:
        """Returns for how many seconds the oldest unsettled message has been taken; 0 when there is none."""
        return self._underway.longest()

    @property
    def ignored(self) -> int:
        return self.handler.ignored

    def drain(self) -> None:
        """Takes no more messages; `run` returns once all that were taken are acknowledged or given back."""
        self._draining = True
        self._drained.set()
        if self._taking is not None:
            self._taking.reschedule(asyncio.get_running_loop().time())

    async def run(self) -> None:
        """Serves the inbox until it is drained or cancelled. Raises BusError when the bus is away, and the StoreError
        that it does not outlast.
        """
        async with self._open() as opened, keeping_refused(opened, self._unusable) as kept:
            inbox = KeptInbox(kept)
            while True:
                try:
                    return await self._serve(inbox)
                except ExceptionGroup as errors:
                    if not self._is_outlasted(errors):
                        raise
                    if (task := asyncio.current_task()) is not None and task.cancelling():
                        raise asyncio.CancelledError from errors
                pause = PAUSES[min(self._failures, len(PAUSES) - 1)]
                self._failures += 1
                await self._is_drained_within(pause)
                inbox.begin_again()

    def _is_outlasted(self, errors: ExceptionGroup) -> bool:
        """Returns whether the errors are all of a store that is waited for."""
        first: Exception = errors
        while isinstance(first, ExceptionGroup):
            first = first.exceptions[0]
        return errors.split(StoreError)[1] is None and isinstance(first, StoreError) and self._outlasts(first)

    async def _serve(self, inbox: KeptInbox) -> None:
        """Serves the inbox until it is drained; nothing that was decided before counts, unless it is recorded."""
        self.handler.forget()
        self._underway = Underway()
        self._held.clear()
        self._previous = None
        async with asyncio.TaskGroup() as group:
            while deliveries := await self._take(inbox):
                number = self._underway.begin()
                incoming = [each for delivery in deliveries if (each := await self._decode(inbox, delivery))]
                by_tag = {delivery.tag: delivery for delivery in deliveries}
                if self._held:
                    incoming = [each for each in incoming if not self._joins_held(each, by_tag)]
                batch = await self.handler.decide(incoming)
                for run in self._hold(batch, by_tag):
                    group.create_task(self._wait_for_turn(inbox, run))
                if len(by_tag) < len(deliveries):
                    batch = DecidedBatch([each for each in batch.decided if each.incoming.tag in by_tag], batch.written)
                self._previous = group.create_task(self._settle(inbox, by_tag, batch, self._previous))
                self._previous.add_done_callback(partial(self._end_batch, number))

    def _end_batch(self, number: int, _: asyncio.Task[None]) -> None:
        self._underway.end(number)

    def _joins_held(self, incoming: Incoming, deliveries: dict[int, Delivery]) -> bool:
        """Keeps a message that follows others of its run which are kept; returns whether it did."""
        held = self._held.get(incoming.message.run)
        if held is None or not (held.postponed or isinstance(incoming.message, SteeringMessage)):
            return False
        held.messages.append((incoming, deliveries.pop(incoming.tag)))
        return True

    def _hold(self, batch: DecidedBatch, deliveries: dict[int, Delivery]) -> list[str]:
        """Keeps messages that nothing can be decided on yet; returns those runs for which no task waits yet.

        Those that are postponed are at most as many as the inbox gives unsettled.
        """
        runs: list[str] = []
        early = sum(len(held.messages) for held in self._held.values() if not held.postponed)
        for each in batch.decided:
            run, known = each.incoming.message.run, self._held.get(each.incoming.message.run)
            if each.postponed is not None:
                if known is None and not self._outlasts(each.postponed):
                    continue
            elif not each.early or early >= MAX_EARLY:
                continue
            early += each.early
            if known is None:
                runs.append(run)
                known = self._held[run] = _Held([])
            message = each.incoming, deliveries.pop(each.incoming.tag)
            if each.postponed is not None and not known.postponed:
                known.postponed = True
                known.messages.insert(0, message)  # what came early waits for it
            else:
                known.messages.append(message)
        return runs

    async def _wait_for_turn(self, inbox: KeptInbox, run: str) -> None:
        """Waits until a run has begun, and what it is decided by can be read; then handles its messages in order.

        A coordinator that is drained meanwhile returns, and so gives the messages back.
        """
        held, early, postponed = self._held[run], iter(EARLY), chain(PAUSES, repeat(PAUSES[-1]))
        while waiting := list(held.messages):
            batch = await self.handler.decide([incoming for incoming, _ in waiting])
            is_postponed = any(each.postponed is not None for each in batch.decided)
            held.postponed = held.postponed or is_postponed  # all that comes joins until nothing is left, in order
            later = {each.incoming.tag for each in batch.decided if each.early or each.postponed is not None}
            pause = next(postponed if is_postponed else early, None) if later else None
            by_tag = {each.tag: delivery for each, delivery in waiting if pause is None or each.tag not in later}
            held.messages = [each for each in held.messages if each[0].tag not in by_tag]
            if by_tag:
                decided = [each for each in batch.decided if each.incoming.tag in by_tag]
                await self._settle(inbox, by_tag, DecidedBatch(decided, batch.written), self._previous, tries=1)
            if pause is not None and await self._is_drained_within(pause):
                return
        del self._held[run]

    async def _is_drained_within(self, pause: float) -> bool:
        """Waits for so many seconds, but not once the coordinator is drained; returns whether it is."""
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._drained.wait()
        return self._draining

    async def _take(self, inbox: KeptInbox) -> Sequence[Delivery]:
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

    async def _decode(self, inbox: KeptInbox, delivery: Delivery) -> Incoming | None:
        try:
            message = self._admission.message(delivery.bus_message)
            if self.handler.authority is not None:
                for user in delivery.users:
                    self.handler.authority.require(user, message)
            past = (
                await self._read_past(message, message.parent) if type(message) is StartRun and message.parent else ()
            )
            fresh = delivery.count == 1
            return Incoming(message, delivery.bus_message.origin, delivery.tag, fresh, past, users=delivery.users)
        except (CodecError, InputError, Tampered, EncryptionKeyMissing) as error:
            await inbox.reject(delivery, requeue=False, reason=str(error))
            return None

    async def _read_past(self, start: StartRun, parent: Parent) -> Sequence[Recorded]:
        """Returns the parent's events that a fork repeats. Raises InputError when it cannot begin so, CodecError."""
        past = await self.handler.log.read(parent.run, upto=parent.version)
        try:
            fault = why_unfit(start, past)
        except (LookupError, AssertionError, AttributeError, TypeError, ValueError) as error:
            fault = (
                f"the first {parent.version} events of run {parent.run} cannot be followed with what the fork changes "
                f"({error!r}); fork it at an earlier event"
            )
        if fault:
            raise InputError(f"run {start.run} cannot begin as a fork: {fault}")
        return past

    async def _settle(
        self,
        inbox: KeptInbox,
        deliveries: dict[int, Delivery],
        batch: DecidedBatch,
        previous: asyncio.Task[None] | None,
        tries: int = TRIES,
    ) -> None:
        """Acknowledges, in order, the messages that are recorded or change nothing.

        A refused message is redelivered, and becomes a dead letter after `tries` deliveries.
        """
        settled = await self.handler.settle(batch, previous)
        self._failures = 0
        await inbox.ack([deliveries[each.incoming.tag] for each in settled if not each.refused])
        for each in settled:
            if each.refused:
                delivery = deliveries[each.incoming.tag]
                again = delivery.count < tries and not each.barred
                await inbox.reject(delivery, requeue=again, reason=each.refused)
