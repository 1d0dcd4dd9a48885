"""From the log to the bus: every recorded request becomes a command in its actor's queue. The log is the outbox."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, Protocol

import msgspec

from redraft.actors.announcing import Herald, Sent
from redraft.actors.evolve import fold
from redraft.actors.lanes import Lanes, Parcel
from redraft.actors.material import Material
from redraft.actors.recent import Recent
from redraft.actors.trouble import LeftOut, Refused, Tell, is_for_another, raise_if_general, told, untold
from redraft.events.bus import INBOX, Announcer, Bus, Letter, work_queue
from redraft.events.codec import encode_message
from redraft.events.commands import MESSAGE_NAMES, Failed, Work
from redraft.events.domain_events import RunEnded, RunErased, RunQuarantined, StepRequested
from redraft.events.envelope import Entry, Origin, Recorded
from redraft.events.errors import StoreError, TooLarge
from redraft.events.filters import About
from redraft.events.underway import Underway

SLOW: Final = 5.0
"""Seconds after which a queue that has not taken what was put is left to itself."""

SAVE: Final = 0.25
"""Seconds between two times that the position is told; what was sent since is sent again by the next relay."""

AT_ONCE: Final = 4 * 1024 * 1024
"""Bytes of requests that are made before they are sent."""

_LAST: Final = frozenset({RunEnded, RunErased, RunQuarantined})
"""Events after which no more is asked for."""


class Log(Protocol):
    def tail(self, after: int, *, follow: bool = True) -> AsyncIterator[Sequence[Entry]]: ...

    async def read(self, run: str, upto: int | None = None, after: int = 0) -> Sequence[Recorded]: ...


class Relay:
    """Publishes, in log order, the requests of the runs that it `owns`, and announces every event if it can.

    Sending a request again is harmless: workers confirm one that may be a duplicate.

    What cannot be made or sent concerns its run alone: the step fails as `invalid`, or, where not even that can be
    said, the event is left out. What a later release wrote waits for that: the position stays before it, so that the
    relay of the later release sends it. What goes to a queue that cannot be used waits for it (`lanes`). `tell` is told
    of all that; `left_out` counts the events, `refused` the steps. After `slow` seconds a queue is left to itself.
    """

    def __init__(
        self,
        log: Log,
        bus: Bus,
        owns: Callable[[str], bool],
        announcer: Announcer | None = None,
        tell: Tell = untold,
        slow: float = SLOW,
    ) -> None:
        self.left_out = 0
        self.refused = 0
        self._left_to_others: int | None = None
        self._read = 0
        self._has_read = asyncio.Event()
        self._underway = Underway()
        self._log = log
        self._bus = bus
        self._owns = owns
        self._tell = tell
        self._materials: Recent[Material] = Recent()
        self._lanes = Lanes(bus, self._resent, self._refuse, tell, slow)
        self._herald = Herald(log, announcer, owns, self._facts, tell, slow)

    def longest_wait(self) -> float:
        """Seconds for which a batch that was read has not been passed on; 0 when none is under way."""
        return self._underway.longest()

    @property
    def position(self) -> int:
        """How far it has come: up to here all is made known, and every request is sent that is not refused."""
        return self.put_until(self._herald.reached)

    def put_until(self, position: int | None = None) -> int:
        """Up to where every request is in its queue, of those up to a position, or of all that were read."""
        waiting = (self._lanes.oldest(), self._left_to_others)
        return min([self._read if position is None else position, *(each - 1 for each in waiting if each is not None)])

    async def run(
        self,
        after: int,
        passed: Callable[[int], Awaitable[None]] | None = None,
        check: Callable[[], Awaitable[None]] | None = None,
        *,
        doubtful: int = 0,
    ) -> None:
        """Follows the log from this position until it is cancelled, telling how far it has come.

        Up to the position `doubtful` another relay may have sent requests already: workers are to confirm those.
        Requests go out first; making events known and the position follow, for all batches that gather meanwhile.
        Nothing is sent or made known without `check`, which raises when another relay has taken over.
        """
        self._read = self._herald.reached = after
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._herald.run(check))
                if passed is not None:
                    group.create_task(self._save(passed))
                async for batch in self._log.tail(after):
                    if check is not None:
                        await check()
                    with self._underway.during():
                        await self._pass_on(batch, doubtful, is_followed=passed is not None)
                    self._read = batch[-1].position
                    self._has_read.set()
        finally:
            self.close()

    async def _pass_on(self, batch: Sequence[Entry], doubtful: int, *, is_followed: bool) -> None:
        """Sends what a batch asks for, and hands over its events to be made known."""
        events = [event for event in batch if isinstance(event, Recorded) and self._owns(event.run)]
        known = [event for event in events if event.position <= doubtful]
        facts = await self._publish(known, sent=2) if known else {}
        facts |= await self._publish(events[len(known) :])
        if is_followed or self._herald.is_heard:
            await self._herald.add(Sent(events, facts, batch[-1].position))

    def close(self) -> None:
        """Tries no more to send what waits."""
        self._lanes.close()

    async def _save(self, passed: Callable[[int], Awaitable[None]]) -> None:
        """Tells the position now and then, and at the end: then the next relay need not doubt what we sent."""
        told = self.position
        try:
            while True:
                if self.position != told:
                    told = self.position
                    await passed(told)
                if told >= self._read:
                    self._has_read.clear()
                    await self._has_read.wait()
                await asyncio.sleep(SAVE)
        except asyncio.CancelledError:
            if self.position != told:
                with suppress(StoreError):
                    await passed(self.position)
            raise

    async def resend(self, run: str, path: str = "", *, sent: int = 2, confirmed: bool = False) -> int:
        """Sends again every request of a run that has no answer, or that of one step; gives the number of them.

        `sent` says for the how manieth time, `confirmed` that a worker may serve it without asking back. A run whose
        requests cannot be told from its events is left out: 0.
        """
        return await self._resend(run, path, sent, confirmed=confirmed)

    async def _resend(self, run: str, path: str, sent: int, *, confirmed: bool = False, anew: bool = False) -> int:
        try:
            events = await self._log.read(run)
            again = unanswered(events, path)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with a run concerns that run alone
            raise_if_general(error)
            self._leave_out(run, 0, error)
            return 0
        await self._publish(again, sent, confirmed=confirmed, anew=anew)
        return len(again)

    async def _resent(self, run: str, path: str, *, anew: bool) -> int:
        return await self._resend(run, path, 2, anew=anew)

    async def _publish(
        self, events: Sequence[Recorded], sent: int = 1, *, confirmed: bool = False, anew: bool = False
    ) -> dict[str, About]:
        """Sends what these events ask for; gives the workflow and tags of each of their runs, where they are known."""
        facts: dict[str, About] = {}
        parcels: dict[str, list[Parcel]] = {}
        size = 0
        for event in events:
            try:
                material = self._known(event) or await self._material(event)
                facts[event.run] = material.facts
                if isinstance(event.data, StepRequested) and not event.repeats:
                    at = None if confirmed else event.time
                    work = material.command(event.run, event.data, sent, confirmed=confirmed, at=at)
                    queue, parcel = self._addressed(event, event.data, work)
                    parcels.setdefault(queue, []).append(parcel)
                    size += len(parcel.letter.body)
                elif type(event.data) in _LAST:
                    self._materials.drop(event.run)
            except Exception as error:  # noqa: BLE001 - whatever is wrong with a run concerns that run alone
                parcels.setdefault(INBOX, []).extend(self._failed(event, error))
            if size > AT_ONCE:
                await self._put(parcels, anew=anew)
                parcels, size = {}, 0
        await self._put(parcels, anew=anew)
        return facts

    async def _put(self, parcels: Mapping[str, Sequence[Parcel]], *, anew: bool) -> None:
        match list(parcels.items()):
            case [(queue, ready)]:
                await self._lanes.put(queue, ready, anew=anew)
            case several:
                await asyncio.gather(*(self._lanes.put(queue, ready, anew=anew) for queue, ready in several))

    def _addressed(self, event: Recorded, asked: StepRequested, work: Work) -> tuple[str, Parcel]:
        """A request for its actor; of one that the bus would not take, the failure, in its worker's place."""
        letter = _letter(event, work)
        size, largest = len(letter.body), self._bus.largest
        if size > largest:
            sizes = f"{size:,} bytes, more than the {largest:,} that the bus takes"
            raise TooLarge(f"its request has {sizes}; make the drafts smaller")
        return work_queue(asked.role, asked.actor), Parcel(letter, event, asked)

    def _failed(self, event: Recorded, error: Exception) -> Sequence[Parcel]:
        """The failure of the step that an event asks for; nothing where that cannot be said."""
        self._materials.drop(event.run)
        raise_if_general(error)
        if is_for_another(error):
            first = self._left_to_others
            self._left_to_others = event.position if first is None else min(first, event.position)
        if not isinstance(event.data, StepRequested) or event.repeats or is_for_another(error):
            self._leave_out(event.run, event.position, error)
            return ()
        try:
            letter = _refusal(event, event.data, told(error))
        except (msgspec.MsgspecError, UnicodeEncodeError) as unsayable:
            self._leave_out(event.run, event.position, unsayable)
            return ()
        self.refused += 1
        self._tell(Refused(event.run, event.position, event.data.path, told(error)))
        return (Parcel(letter, event, event.data),)

    async def _refuse(self, parcel: Parcel, error: Exception) -> None:
        """No queue takes this letter."""
        if parcel.letter.name == MESSAGE_NAMES[Failed]:
            self._leave_out(parcel.event.run, parcel.event.position, error)
        elif failed := self._failed(parcel.event, error):
            await self._lanes.put(INBOX, failed)

    def _leave_out(self, run: str, position: int, error: Exception) -> None:
        self.left_out += 1
        self._tell(LeftOut(run, position, told(error)))

    async def _facts(self, event: Recorded) -> About:
        """The workflow and tags of an event's run; nothing where they cannot be told."""
        try:
            return (self._known(event) or await self._material(event)).facts
        except Exception as error:  # noqa: BLE001 - whatever is wrong with a run concerns that run alone
            raise_if_general(error)
            return About()

    def _known(self, event: Recorded) -> Material | None:
        """Returns the material of an event's run, with the event in it, if that of all before it is kept."""
        material = self._materials.get(event.run)
        if material is None or material.version < event.version - 1:
            return None
        before = material.size
        material.add(event)
        if material.size != before:
            self._materials.keep(event.run, material, material.size)
        return material

    async def _material(self, event: Recorded) -> Material:
        """Returns the material of an event's run, up to the event at least; reads the events before it."""
        material = Material(await self._log.read(event.run, upto=event.version) if event.version > 1 else ())
        material.add(event)
        self._materials.keep(event.run, material, material.size)
        return material


def unanswered(events: Sequence[Recorded], path: str = "") -> list[Recorded]:
    """The events that ask for what has no answer, at this path or anywhere."""
    open_steps = fold(event.data for event in events).open.values()
    waiting = [step.request for step in open_steps if step.retry_at is None and path in ("", step.request.path)]
    return [
        event
        for event in events
        if isinstance(event.data, StepRequested) and event.data in waiting and not event.repeats
    ]


def _refusal(event: Recorded, asked: StepRequested, fault: str) -> Letter:
    """That a step failed for good, said in its worker's place."""
    name, body = encode_message(Failed(event.run, asked.path, asked.attempt, "invalid", fault, retryable=False))
    origin = Origin(f"{event.id}.refused", "relay", event.id, event.correlation, event.trace)
    return Letter(name, body, origin, event.run)


def _letter(event: Recorded, work: Work) -> Letter:
    name, body = encode_message(work)
    origin = Origin(event.id, "relay", event.causation, event.correlation, event.trace)
    return Letter(name, body, origin, event.run, work)
