"""A simulated broker that several processes share: the shipped queues behind a lossy, duplicating, reordering
network.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing, asynccontextmanager, contextmanager
from typing import Final, Self, TypeAlias

from redraft.app.testing.faults import Faults
from redraft.app.testing.loop import Process, SimLoop
from redraft.events.bus.local import LocalBus
from redraft.events.bus.port import INBOX, BusMessage, Consumer, DeadLetter, Depth, T, inbox_queue, is_inbox
from redraft.events.errors import BusError
from redraft.events.messages.domain_events import RunCancelled
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.filters import RunFacts, ends_with_requests

PARTITIONS: Final = 3
"""The number of the inbox's partitions, where it has any: fewer than coordinators there may be, so that some have no
share.
"""

Notes: TypeAlias = asyncio.Queue[bytes | None]


class SimBroker:
    """The queues, their consumers, and the published events. `partitions` is the number of those of the inbox."""

    def __init__(self, loop: SimLoop, faults: Faults, partitions: int = 0) -> None:
        self.partitions = partitions
        self.loop = loop
        self.faults = faults
        self.queues = LocalBus(largest=2**24, shared=True)
        self.announced: list[Recorded] = []
        self.world = loop.process("broker")
        self.readers: dict[Process, list[tuple[str, Consumer]]] = {}
        self._ears: list[tuple[Process, str, Notes]] = []
        self.tells_overspent = True
        """Whether workers are told of the end of a run that ended by its budget."""
        self.delayed = 0
        """How many publications are under way that come late, or once more."""
        self.dropped: set[str] = set()
        """The runs whose requests were in memory alone when the broker restarted."""
        self.stands_until = 0.0
        """The time until which, if it is not over, the broker takes nothing and answers nothing."""
        self._cut_off: list[tuple[Process, Callable[[], None]]] = []

    def connection(self, process: Process) -> SimBus:
        """Returns the bus as a process has it."""
        return SimBus(self, process)

    def disconnect(self, process: Process) -> None:
        """Returns unacknowledged messages of a process to their queues; it must listen again where it listened."""
        for _, _, notes in [each for each in self._ears if each[0] is process]:
            self.unlisten(notes)
            notes.put_nowait(None)
        for _, reader in self.readers.pop(process, []):
            reader.leave()  # type: ignore[attr-defined]  # those of the shipped queues can

    def readers_of(self, queue: str) -> list[Process]:
        """Returns the processes that read a queue."""
        reading = ((process, name) for process, readers in self.readers.items() for name, _ in readers)
        return [process for process, name in reading if name == queue and not process.is_dead]

    def wipe(self) -> None:
        """Drops all queues with their messages; their consumers are cut off."""
        lost, self.queues = self.queues, LocalBus(largest=2**24, shared=True)
        self.readers.clear()
        self.loop.spawn(self.world, lost.close())
        self._reconnect()

    def restart(self) -> None:
        """Cuts everybody off, and drops all requests; what was in the inbox is there again."""
        for process in list(self.readers):
            self.disconnect(process)
        lost = self.queues.drop(lambda queue: not is_inbox(queue))
        self.dropped.update(delivery.bus_message.run for delivery in lost)
        self._reconnect()

    async def answers(self) -> None:
        """Returns once the broker does not stand still."""
        while (seconds := self.stands_until - self.loop.time()) > 0:
            await asyncio.sleep(seconds)

    @contextmanager
    def told_of_reconnects(self, process: Process, tell: Callable[[], None]) -> Iterator[None]:
        """Calls `tell`, while the block lasts, when the process was cut off and is connected again."""
        told = process, tell
        self._cut_off.append(told)
        try:
            yield
        finally:
            self._cut_off.remove(told)

    def _reconnect(self) -> None:
        for process, tell in self._cut_off:
            if not process.is_dead:
                self.loop.call_later(self.faults.between(0, 2), tell, context=process.context)

    def later(self, seconds: float, queue: str, bus_messages: Sequence[BusMessage]) -> None:
        """Delivers messages after a delay."""

        async def arrive() -> None:
            await asyncio.sleep(seconds)
            self.delayed -= 1
            await self.queues.publish(queue, bus_messages)

        self.delayed += 1
        self.loop.spawn(self.world, arrive())

    def listen(self, process: Process, topic: str) -> Notes:
        """Returns a queue of notes on a topic from now on; it holds None once the process is cut off."""
        notes: Notes = asyncio.Queue()
        self._ears.append((process, topic, notes))
        return notes

    def unlisten(self, notes: Notes) -> None:
        self._ears = [each for each in self._ears if each[2] is not notes]

    def tell(self, topic: str, note: bytes) -> None:
        for process, about, notes in self._ears:
            if about == topic and not process.is_dead:
                self.loop.call_later(self.faults.between(0, 0.1), notes.put_nowait, note, context=process.context)


class SimBus:
    """The bus of one process, which also publishes events and carries notes between workers of one queue."""

    largest = 2**24
    largest_request = 2**24

    def __init__(self, broker: SimBroker, process: Process) -> None:
        self._broker = broker
        self._process = process

    async def publish(self, queue: str, bus_messages: Sequence[BusMessage]) -> None:
        """Puts messages into a queue, or into partitions of the inbox; some are lost, duplicated or delayed."""
        chosen: dict[str, list[BusMessage]] = {} if bus_messages else {queue: []}
        for bus_message in bus_messages:
            to = inbox_queue(bus_message, self._broker.partitions) if queue == INBOX else queue
            chosen.setdefault(to, []).append(bus_message)
        for to, messages in chosen.items():
            await self._publish(to, messages)

    async def _publish(self, queue: str, bus_messages: Sequence[BusMessage]) -> None:
        faults, odds = self._broker.faults, self._broker.faults.odds
        await self._travel()
        if faults.happens(odds.publish_fails, f"the broker does not take what {self._process} puts into {queue}"):
            raise BusError("the connection to the broker was lost")
        now: list[BusMessage] = []
        for bus_message in bus_messages:
            what = f"{bus_message.name} of {bus_message.run} from {self._process} to {queue}"
            bus_message = BusMessage(bus_message.name, bus_message.body, bus_message.origin, bus_message.run)
            if faults.happens(odds.letter_lost, f"{what} is lost"):
                continue
            if faults.happens(odds.letter_doubled, f"{what} comes twice"):
                self._broker.later(faults.between(0, 60), queue, [bus_message])
            if faults.happens(odds.letter_late, f"{what} comes late"):
                self._broker.later(faults.between(0, 60), queue, [bus_message])
            else:
                now.append(bus_message)
        if now:
            await self._broker.queues.publish(queue, now)
        await self._travel()
        if faults.happens(odds.publish_fails, f"{self._process} is not told that {queue} has its messages"):
            raise BusError("the connection to the broker was lost")

    @asynccontextmanager
    async def consume(self, queue: str, prefetch: int) -> AsyncIterator[Consumer]:
        async with self._broker.queues.consume(queue, prefetch) as reader:
            readers = self._broker.readers.setdefault(self._process, [])
            readers.append((queue, reader))
            try:
                yield reader
            finally:
                readers.remove((queue, reader))

    async def publish_events(self, events: Sequence[Recorded], facts: Mapping[str, RunFacts]) -> None:
        """Publishes events."""
        await self._travel()
        self._broker.announced.extend(events)
        for event in events:
            known = facts.get(event.run, RunFacts())
            ended = ends_with_requests(event, known) and (known.may_leave or self._broker.tells_overspent)
            if ended or isinstance(event.data, RunCancelled):
                self._broker.tell("cancelled", event.run.encode())

    async def cancellations(self, listening: Callable[[], None]) -> AsyncGenerator[str, None]:
        """Yields the runs that people cancel, and those that end and left steps."""
        async with aclosing(self._listen("cancelled", listening)) as notes:
            async for run in notes:
                yield run.decode()

    def read_broadcasts(self, queue: str) -> AsyncGenerator[bytes, None]:
        return self._listen(queue, lambda: None)

    async def _listen(self, topic: str, listening: Callable[[], None]) -> AsyncGenerator[bytes, None]:
        """Yields the notes on a topic; listens again whenever it was cut off."""
        notes = self._broker.listen(self._process, topic)
        listening()
        try:
            while True:
                if (note := await notes.get()) is not None:
                    yield note
                else:
                    notes = self._broker.listen(self._process, topic)
        finally:
            self._broker.unlisten(notes)

    async def broadcast(self, queue: str, note: bytes) -> None:
        await self._travel()
        self._broker.tell(queue, note)

    def reconnects(self, tell: Callable[[], None]) -> AbstractContextManager[None]:
        return self._broker.told_of_reconnects(self._process, tell)

    async def dead_letters(self, keep: Callable[[DeadLetter], T]) -> Sequence[T]:
        return await self._broker.queues.dead_letters(keep)

    async def retry(self, dead_letter_id: str) -> bool:
        return await self._broker.queues.retry(dead_letter_id)

    async def discard(self, dead_letter_id: str) -> bool:
        return await self._broker.queues.discard(dead_letter_id)

    async def queue(self, queue: str) -> Depth | None:
        await self._broker.answers()
        return await self._broker.queues.queue(queue)

    async def retry_all(self) -> Sequence[str]:
        return await self._broker.queues.retry_all()

    async def discard_all(self) -> Sequence[str]:
        return await self._broker.queues.discard_all()

    async def close(self) -> None:
        """Does nothing: the broker goes on."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def _travel(self) -> None:
        await asyncio.sleep(self._broker.faults.between(0.0002, 0.02))
        await self._broker.answers()
