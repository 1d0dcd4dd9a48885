"""From the log to the bus: every recorded request becomes a command in its actor's queue. The log is the outbox."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, Protocol

import msgspec

from redraft.actors.evolve import fold
from redraft.actors.material import Material
from redraft.events.bus import INBOX, Announcer, Bus, Letter, work_queue
from redraft.events.codec import encode_message
from redraft.events.commands import Failed, Work
from redraft.events.domain_events import RunEnded, RunErased, StepRequested
from redraft.events.envelope import Origin, Recorded
from redraft.events.errors import StoreError
from redraft.events.filters import About

WINDOW: Final = 64
"""How many batches may be sent and not yet made known."""

GATHER: Final = 0.02
"""Seconds for which events gather before they are made known, once for all of them."""

SAVE: Final = 0.25
"""Seconds between two times that the position is told; what was sent since is sent again by the next relay."""

KEPT: Final = 1024
"""How many runs' texts are kept in memory; those of others are read again when they are needed."""


class Log(Protocol):
    def tail(self, after: int, *, follow: bool = True) -> AsyncIterator[Sequence[Recorded]]: ...

    async def read(self, run: str, upto: int | None = None, after: int = 0) -> Sequence[Recorded]: ...


class Sent(msgspec.Struct, frozen=True):
    """Events whose requests are sent, the facts of each of their runs, and the position in the log that they reach."""

    events: Sequence[Recorded]
    facts: Mapping[str, About]
    position: int


class Relay:
    """Publishes, in log order, the requests of the runs that it `owns`, and announces every event if it can.

    Sending a request again is harmless: workers confirm one that may be a duplicate.
    """

    def __init__(self, log: Log, bus: Bus, owns: Callable[[str], bool], announcer: Announcer | None = None) -> None:
        self._log = log
        self._bus = bus
        self._owns = owns
        self._announcer = announcer
        self._materials: OrderedDict[str, Material] = OrderedDict()
        self._position = 0

    async def run(
        self, after: int, passed: Callable[[int], Awaitable[None]] | None = None, *, doubtful: int = 0
    ) -> None:
        """Follows the log from this position until it is cancelled, telling how far it has come.

        Up to the position `doubtful` another relay may have sent requests already: workers are to confirm those.
        Requests go out first; making events known and the position follow, for all batches that gather meanwhile.
        """
        sent: asyncio.Queue[Sent] = asyncio.Queue(WINDOW)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_up(sent))
            if passed is not None:
                group.create_task(self._tell(passed))
            async for batch in self._log.tail(after):
                events = [event for event in batch if self._owns(event.run)]
                known = [event for event in events if event.position <= doubtful]
                facts = await self._publish(known, sent=2) if known else {}
                facts |= await self._publish(events[len(known) :])
                if passed is not None or self._announcer is not None:
                    await sent.put(Sent(events, facts, batch[-1].position))

    async def _follow_up(self, sent: asyncio.Queue[Sent]) -> None:
        while True:
            ready = [await sent.get()]
            await asyncio.sleep(GATHER)
            while not sent.empty():
                ready.append(sent.get_nowait())
            events = [event for each in ready for event in each.events]
            if self._announcer is not None and events:
                facts = {run: known for each in ready for run, known in each.facts.items()}
                await self._announcer.announce(events, facts)
            self._position = ready[-1].position

    async def _tell(self, passed: Callable[[int], Awaitable[None]]) -> None:
        """Tells the position now and then, and at the end: then the next relay need not doubt what we sent."""
        told = self._position
        try:
            while True:
                if self._position != told:
                    told = self._position
                    await passed(told)
                await asyncio.sleep(SAVE)
        except asyncio.CancelledError:
            if self._position != told:
                with suppress(StoreError):
                    await passed(self._position)
            raise

    async def resend(self, run: str, path: str = "", *, sent: int = 2, confirmed: bool = False) -> int:
        """Sends again every request of a run that has no answer, or that of one step; gives the number of them.

        `sent` says for the how manieth time, `confirmed` that a worker may serve it without asking back.
        """
        events = await self._log.read(run)
        open_steps = fold(event.data for event in events).open.values()
        waiting = [step.request for step in open_steps if step.retry_at is None and path in ("", step.request.path)]
        again = [
            event
            for event in events
            if isinstance(event.data, StepRequested) and event.data in waiting and not event.repeats
        ]
        await self._publish(again, sent, confirmed=confirmed)
        return len(again)

    async def _publish(self, events: Sequence[Recorded], sent: int = 1, *, confirmed: bool = False) -> dict[str, About]:
        """Sends what these events ask for; gives the workflow and tags of each of their runs."""
        facts: dict[str, About] = {}
        letters: dict[str, list[Letter]] = {}
        for event in events:
            material = await self._material(event)
            facts[event.run] = material.facts
            if isinstance(event.data, StepRequested) and not event.repeats:
                work = material.command(event.run, event.data, sent, confirmed=confirmed)
                queue, letter = self._addressed(event, event.data, work)
                letters.setdefault(queue, []).append(letter)
            elif isinstance(event.data, RunEnded | RunErased):
                self._materials.pop(event.run, None)
        match list(letters.items()):
            case [(queue, ready)]:
                await self._bus.publish(queue, ready)
            case several:
                await asyncio.gather(*(self._bus.publish(queue, ready) for queue, ready in several))
        return facts

    def _addressed(self, event: Recorded, asked: StepRequested, work: Work) -> tuple[str, Letter]:
        """A request for its actor; of one that the bus would not take, the failure, in its worker's place."""
        letter = _letter(event, work)
        size, largest = len(letter.body), self._bus.largest
        if size <= largest:
            return work_queue(asked.role, asked.actor), letter
        fault = f"its request has {size:,} bytes, more than the {largest:,} that the bus takes; make the drafts smaller"
        name, body = encode_message(Failed(event.run, asked.path, asked.attempt, "invalid", fault, retryable=False))
        origin = Origin(f"{event.id}.refused", "relay", event.id, event.correlation, event.trace)
        return INBOX, Letter(name, body, origin, event.run)

    async def _material(self, event: Recorded) -> Material:
        material = self._materials.get(event.run)
        if material is None or material.version < event.version - 1:
            material = Material(await self._log.read(event.run, upto=event.version) if event.version > 1 else ())
            self._materials[event.run] = material
            if len(self._materials) > KEPT:
                self._materials.popitem(last=False)
        material.add(event)
        return material


def _letter(event: Recorded, work: Work) -> Letter:
    name, body = encode_message(work)
    origin = Origin(event.id, "relay", event.causation, event.correlation, event.trace)
    return Letter(name, body, origin, event.run, work)
