"""Publishes every recorded request as a command in its actor's queue. The log is the outbox."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final

import msgspec

from redraft.actors.deciding.decider import AROUND
from redraft.actors.deciding.evolve import fold
from redraft.actors.runtime.coordinating.aggregates import Recent
from redraft.actors.runtime.relaying.event_publisher import EventAnnouncer, LogReader, SentBatch
from redraft.actors.runtime.relaying.item_runs import ItemRuns, reader_of
from redraft.actors.runtime.relaying.messages import failure_message, request_message
from redraft.actors.runtime.relaying.queue_publisher import (
    LeftOut,
    Offer,
    OnTrouble,
    OutgoingMessage,
    QueuePublisher,
    Refused,
    belongs_elsewhere,
    error_message,
    raise_if_unavailable,
)
from redraft.actors.runtime.relaying.request_builder import RequestBuilder
from redraft.actors.runtime.working.active_calls import utc_now
from redraft.actors.values import ignore
from redraft.events.bus.port import INBOX, Bus, EventPublisher, work_queue
from redraft.events.errors import MessageTooLarge, StoreError
from redraft.events.messages.commands import MESSAGE_NAMES, Failed, Work
from redraft.events.messages.domain_events import ItemOf, RunEnded, RunErased, RunQuarantined, StepRequested
from redraft.events.messages.envelope import Entry, Recorded
from redraft.events.messages.filters import RunFacts
from redraft.events.messages.item_ids import run_of_item
from redraft.events.underway import Underway

SLOW: Final = 5.0
"""Seconds after which a queue that has not accepted its messages counts as unusable."""

SAVE: Final = 0.25
"""Seconds between two saves of the position; requests sent since the last one are sent again by the next relay."""

READ_AT_ONCE: Final = 25
"""The number of events of a run that are read at once, since each may have a large draft."""

AT_ONCE: Final = 4 * 1024 * 1024
"""The bytes of requests that are built before they are sent."""

_LAST: Final = frozenset({RunEnded, RunErased, RunQuarantined})
"""Events after which a run makes no more requests."""


def _whole_inbox(run: str) -> str:
    """Returns no routing key: outcomes go to the inbox itself."""
    return ""


class Relay:
    """Publishes, in log order, the requests of the runs that it `owns`, and publishes every event if it can.

    Sending a request again is harmless: workers confirm one that may be a duplicate.

    A request that cannot be built or sent affects only its run: the step fails as `invalid`, or, if not even that can
    be sent, the event is left out. The position stays before an event of a later release, so that a relay of that
    release sends its request. Requests for an unusable queue wait for it (`queue_publisher`). `on_trouble` is called
    for each of these; `left_out` counts the events, `refused` the steps. A queue that has not accepted its messages
    after `slow` seconds counts as unusable. `offer` is as in `QueuePublisher`. `reply_key` returns the routing key
    of a run's outcomes, which its requests name. Requests that are confirmed say when, by the `clock`. `on_item` is
    called with each run that asks for the run of an item, and with that run, before anything is sent to it.
    """

    def __init__(
        self,
        log: LogReader,
        bus: Bus,
        owns: Callable[[str], bool],
        publisher: EventPublisher | None = None,
        on_trouble: OnTrouble = ignore,
        slow: float = SLOW,
        offer: Offer | None = None,
        reply_key: Callable[[str], str] = _whole_inbox,
        clock: Callable[[], datetime] = utc_now,
        on_item: Callable[[str, str], object] = ignore,
    ) -> None:
        self._clock = clock
        self._reply_key = reply_key
        self.left_out = 0
        self.refused = 0
        self._left_to_others: int | None = None
        self._read = 0
        self._has_read = asyncio.Event()
        self._underway = Underway()
        self._log = log
        self._bus = bus
        self._owns = owns
        self._on_trouble = on_trouble
        self._builders: Recent[RequestBuilder] = Recent()
        self._on_item = on_item
        self._items = ItemRuns(reader_of(log))
        self._queues = QueuePublisher(bus, self.resend, self._refuse, on_trouble, slow, offer)
        self._events = EventAnnouncer(log, publisher, owns, self._facts, on_trouble, slow)

    def longest_wait(self) -> float:
        """Returns for how many seconds the oldest batch that was read has not been passed on; 0 when there is none."""
        return self._underway.longest()

    @property
    def position(self) -> int:
        """Returns the position up to which all events are published and every request is sent or refused."""
        return self.put_until(self._events.reached)

    def put_until(self, position: int | None = None) -> int:
        """Returns the position up to which every request is in its queue, at most `position` or the last one read."""
        waiting = (self._queues.oldest_waiting(), self._left_to_others)
        return min([self._read if position is None else position, *(each - 1 for each in waiting if each is not None)])

    def put_into(self, queue: str) -> int:
        """Returns the position up to which every request for a queue is in it, but those of runs of a later release."""
        oldest = self._queues.oldest_waiting(queue)
        return self._read if oldest is None else min(self._read, oldest - 1)

    async def run(
        self,
        after: int,
        save: Callable[[int], Awaitable[None]] | None = None,
        check: Callable[[], Awaitable[None]] | None = None,
        *,
        doubtful: int = 0,
    ) -> None:
        """Follows the log from this position until it is cancelled, and passes its own position to `save`.

        Up to the position `doubtful` another relay may have sent requests already: workers have to confirm those.
        Requests go out first; events and the position follow, for all batches that gather meanwhile. Before each send
        it calls `check`, which raises when another relay has taken over.
        """
        self._read = self._events.reached = after
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._events.run(check))
                if save is not None:
                    group.create_task(self._save(save))
                async for batch in self._log.tail(after):
                    if check is not None:
                        await check()
                    number = self._underway.begin()
                    try:
                        await self._pass_on(batch, doubtful, is_followed=save is not None)
                    finally:
                        self._underway.end(number)
                    self._read = batch[-1].position
                    self._has_read.set()
        finally:
            self.close()

    async def _pass_on(self, batch: Sequence[Entry], doubtful: int, *, is_followed: bool) -> None:
        """Sends the requests of a batch, and queues its events for publishing."""
        events = [event for event in batch if isinstance(event, Recorded) and self._owns(event.run)]
        known = [event for event in events if event.position <= doubtful] if doubtful else ()
        facts = await self._publish(known, sent=2, again=True) if known else {}
        facts |= await self._publish(events[len(known) :])
        if is_followed or self._events.has_publisher:
            await self._events.add(SentBatch(events, facts, batch[-1].position))

    def close(self) -> None:
        """Stops retrying for unusable queues."""
        self._queues.close()

    async def _save(self, store: Callable[[int], Awaitable[None]]) -> None:
        """Stores the position from time to time, and at the end.

        Requests up to the stored position need not be confirmed when the next relay begins.
        """
        saved = self.position
        try:
            while True:
                if self.position != saved:
                    saved = self.position
                    await store(saved)
                if saved >= self._read:
                    self._has_read.clear()
                    await self._has_read.wait()
                await asyncio.sleep(SAVE)
        except asyncio.CancelledError:
            if self.position != saved:
                with suppress(StoreError):
                    await store(self.position)
            raise

    async def resend(
        self, run: str, path: str = "", *, sent: int = 2, confirmed: bool = False, anew: bool = False
    ) -> int:
        """Sends again every unanswered request of a run and of its items' runs, or of one step; returns their number.

        `sent` is the ordinal of this attempt to send; with `confirmed`, a worker may serve the request without asking
        for confirmation; `anew` is as in `QueuePublisher.put`. A run whose events cannot be read or folded is left
        out: 0. The path `AROUND` of a run of an item stands for what it has missed of the run around it.
        """
        try:
            if path == AROUND:
                return await self._look_after(run)
            events = await self._log.read(run)
            again = unanswered(events, path)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with a run concerns that run alone
            raise_if_unavailable(error)
            self._leave_out(run, 0, error)
            return 0
        await self._publish(again, sent, confirmed=confirmed, anew=anew, again=True)
        if path:
            return len(again)
        asked = [event.data for event in again if isinstance(event.data, StepRequested)]
        inner = [run_of_item(ItemOf(run, each.path)) for each in asked if each.role == "run"]
        return len(again) + sum([await self.resend(each, sent=sent, confirmed=confirmed, anew=anew) for each in inner])

    async def _publish(
        self,
        events: Sequence[Recorded],
        sent: int = 1,
        *,
        confirmed: bool = False,
        anew: bool = False,
        again: bool = False,
    ) -> dict[str, RunFacts]:
        """Sends the requests among these events; returns the workflow and tags of each of their runs, where known.

        `again`: they may have been sent before.
        """
        facts: dict[str, RunFacts] = {}
        messages: dict[str, list[OutgoingMessage]] = {}
        size = 0
        for event in events:
            try:
                builder = self._cached_builder(event) or await self._load_builder(event)
                facts[event.run] = builder.facts
                if builder.of is not None or builder.has_items:
                    messages.setdefault(INBOX, []).extend(await self._item_messages(builder, event, again=again))
                if type(event.data) is StepRequested and event.data.role == "run":
                    continue
                if type(event.data) is StepRequested and not event.repeats and not event.data.reused:
                    work = self._build(builder, event, event.data, sent, confirmed=confirmed)
                    queue, message = self._address(event, event.data, work, builder.trace)
                    messages.setdefault(queue, []).append(message)
                    size += len(message.bus_message.body)
                elif type(event.data) in _LAST:
                    self._builders.drop(event.run)
            except Exception as error:  # noqa: BLE001 - whatever is wrong with a run concerns that run alone
                messages.setdefault(INBOX, []).extend(self._fail_step(event, error))
            if size > AT_ONCE:
                await self._put(messages, anew=anew)
                messages, size = {}, 0
        await self._put(messages, anew=anew)
        return facts

    async def _item_messages(
        self, builder: RequestBuilder, event: Recorded, *, again: bool
    ) -> Sequence[OutgoingMessage]:
        """Returns what an event means for the runs of its run's items, and for the run around it."""
        if type(event.data) is StepRequested:
            if event.data.role != "run" or event.repeats:
                return ()
            self._on_item(event.run, run_of_item(ItemOf(event.run, event.data.path)))
            message = await self._items.start(event, event.data, again=again)
            return () if message is None else (OutgoingMessage(message, event, event.data.path),)
        found = await self._items.follow(event, builder.of, has_items=builder.has_items)
        return [OutgoingMessage(message, event, "") for message in found]

    async def _look_after(self, run: str) -> int:
        """Sends a run of an item what it has missed of the run around it; returns the number of messages."""
        found = await self._items.look_after(run)
        await self._bus.publish(INBOX, found)
        return len(found)

    def _build(
        self, builder: RequestBuilder, event: Recorded, request: StepRequested, sent: int, *, confirmed: bool
    ) -> Work:
        at = self._clock() if confirmed else None
        key = self._reply_key(event.run)
        return builder.command(
            event.run, request, sent, confirmed=confirmed, at=event.time, reply_key=key, confirmed_at=at
        )

    async def _put(self, messages: Mapping[str, Sequence[OutgoingMessage]], *, anew: bool) -> None:
        match list(messages.items()):
            case [(queue, ready)]:
                await self._queues.put(queue, ready, anew=anew)
            case several:
                await asyncio.gather(*(self._queues.put(queue, ready, anew=anew) for queue, ready in several))

    def _address(self, event: Recorded, request: StepRequested, work: Work, trace: str) -> tuple[str, OutgoingMessage]:
        """Returns a request's queue and message. Raises MessageTooLarge if the bus would not accept it."""
        bus_message = request_message(event, request, work, trace)
        size, largest = len(bus_message.body), self._bus.largest_request
        if size > largest:
            sizes = f"{size:,} bytes, more than the {largest:,} that the bus takes"
            raise MessageTooLarge(f"its request has {sizes}; make the drafts smaller")
        return work_queue(request.role, request.actor), OutgoingMessage(bus_message, event, request.path)

    def _fail_step(self, event: Recorded, error: Exception) -> Sequence[OutgoingMessage]:
        """Returns the message that fails the step an event requests; nothing if that is impossible."""
        self._builders.drop(event.run)
        raise_if_unavailable(error)
        if belongs_elsewhere(error):
            first = self._left_to_others
            self._left_to_others = event.position if first is None else min(first, event.position)
        if not isinstance(event.data, StepRequested) or event.repeats or belongs_elsewhere(error):
            self._leave_out(event.run, event.position, error)
            return ()
        try:
            bus_message = failure_message(event, event.data, error_message(error))
        except (msgspec.MsgspecError, UnicodeEncodeError) as unsayable:
            self._leave_out(event.run, event.position, unsayable)
            return ()
        self.refused += 1
        self._on_trouble(Refused(event.run, event.position, event.data.path, error_message(error)))
        return (OutgoingMessage(bus_message, event, event.data.path),)

    async def _refuse(self, message: OutgoingMessage, error: Exception) -> None:
        """Fails the step of a message that no queue accepts."""
        if message.bus_message.name == MESSAGE_NAMES[Failed]:
            self._leave_out(message.event.run, message.event.position, error)
        elif failed := self._fail_step(message.event, error):
            await self._queues.put(INBOX, failed)

    def _leave_out(self, run: str, position: int, error: Exception) -> None:
        self.left_out += 1
        self._on_trouble(LeftOut(run, position, error_message(error)))

    async def _facts(self, event: Recorded) -> RunFacts:
        """Returns the workflow and tags of an event's run; empty if its events cannot be read."""
        try:
            return (self._cached_builder(event) or await self._load_builder(event)).facts
        except Exception as error:  # noqa: BLE001 - whatever is wrong with a run concerns that run alone
            raise_if_unavailable(error)
            return RunFacts()

    def _cached_builder(self, event: Recorded) -> RequestBuilder | None:
        """Returns the builder of an event's run, with the event added.

        None unless all events before it, and the drafts that it names, are in memory.
        """
        builder = self._builders.get(event.run)
        if builder is None or builder.version < event.version - 1:
            return None
        before = builder.size
        builder.add(event)
        if builder.size != before:
            builder.forget_drafts()
            self._builders.keep(event.run, builder, builder.size)
        if type(event.data) is StepRequested and not builder.has_drafts(event.data):
            return None
        return builder

    async def _load_builder(self, event: Recorded) -> RequestBuilder:
        """Returns the builder of an event's run up to this event at least, from the log."""
        builder = await self._read_builder(event)
        if type(event.data) is StepRequested and not builder.has_drafts(event.data):
            builder = await self._read_builder(event, forgets=False)
        self._builders.keep(event.run, builder, builder.size)
        return builder

    async def _read_builder(self, event: Recorded, *, forgets: bool = True) -> RequestBuilder:
        """Reads a run up to this event, a few events at a time, so that its drafts are not in memory all at once."""
        builder = RequestBuilder()
        while (before := builder.version) < event.version - 1:
            for each in await self._log.read(event.run, upto=min(event.version, before + READ_AT_ONCE), after=before):
                builder.add(each)
            if builder.version == before:
                break
            if forgets:
                builder.forget_drafts()
        builder.add(event)
        return builder


def unanswered(events: Sequence[Recorded], path: str = "") -> list[Recorded]:
    """Returns the events whose requests have no answer, at this path or anywhere."""
    open_steps = fold(event.data for event in events).open.values()
    waiting = [step.request for step in open_steps if step.retry_at is None and path in ("", step.request.path)]
    return [
        event
        for event in events
        if isinstance(event.data, StepRequested) and event.data in waiting and not event.repeats
    ]
