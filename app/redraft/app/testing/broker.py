"""A broker that several processes share: the shipped queues, behind wires that lose, double, delay and reorder."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Self, TypeAlias

from redraft.app.testing.faults import Faults
from redraft.app.testing.loop import Process, SimLoop
from redraft.events.bus import Consumer, Depth, Letter, Parked, T
from redraft.events.domain_events import RunCancelled
from redraft.events.envelope import Recorded
from redraft.events.errors import BusError
from redraft.events.filters import About
from redraft.events.local_bus import LocalBus

Heard: TypeAlias = asyncio.Queue[bytes | None]


class SimBroker:
    """The queues, who reads them, and what was made known to the public."""

    def __init__(self, loop: SimLoop, faults: Faults) -> None:
        self.loop = loop
        self.faults = faults
        self.queues = LocalBus(largest=2**24, shared=True)
        self.announced: list[Recorded] = []
        self.world = loop.process("broker")
        self._readers: dict[Process, list[Consumer]] = {}
        self._ears: list[tuple[Process, str, Heard]] = []

    def connection(self, process: Process) -> SimBus:
        """The bus as a process has it."""
        return SimBus(self, process)

    def disconnect(self, process: Process) -> None:
        """What a process held goes back to its queues; where it listened, it has to listen anew."""
        for _, _, told in [each for each in self._ears if each[0] is process]:
            self.unlisten(told)
            told.put_nowait(None)
        for reader in self._readers.pop(process, []):
            reader.leave()  # type: ignore[attr-defined]  # those of the shipped queues can

    def wipe(self) -> None:
        """All queues are lost, with what is in them; whoever reads them is cut off."""
        lost, self.queues = self.queues, LocalBus(largest=2**24, shared=True)
        self._readers.clear()
        self.loop.spawn(self.world, lost.close())

    def reads(self, process: Process, reader: Consumer) -> None:
        self._readers.setdefault(process, []).append(reader)

    def left(self, process: Process, reader: Consumer) -> None:
        if reader in self._readers.get(process, []):
            self._readers[process].remove(reader)

    def later(self, seconds: float, queue: str, letters: Sequence[Letter]) -> None:
        """Letters that arrive when others have long come."""

        async def arrive() -> None:
            await asyncio.sleep(seconds)
            await self.queues.publish(queue, letters)

        self.loop.spawn(self.world, arrive())

    def listen(self, process: Process, topic: str) -> Heard:
        """What is told about a topic from now on, and None once the process is cut off."""
        told: Heard = asyncio.Queue()
        self._ears.append((process, topic, told))
        return told

    def unlisten(self, told: Heard) -> None:
        self._ears = [each for each in self._ears if each[2] is not told]

    def tell(self, topic: str, note: bytes) -> None:
        for process, about, told in self._ears:
            if about == topic and not process.is_dead:
                self.loop.call_later(self.faults.between(0, 0.1), told.put_nowait, note, context=process.context)


class SimBus:
    """The bus of one process: it also tells the public, and what those who serve one queue tell each other."""

    largest = 2**24

    def __init__(self, broker: SimBroker, process: Process) -> None:
        self._broker = broker
        self._process = process

    async def publish(self, queue: str, letters: Sequence[Letter]) -> None:
        """Puts letters into a queue; some are lost on the way, come twice, or late."""
        faults, odds = self._broker.faults, self._broker.faults.odds
        await self._travel()
        if faults.happens(odds.publish_fails, f"the broker does not take what {self._process} puts into {queue}"):
            raise BusError("the connection to the broker was lost")
        now: list[Letter] = []
        for letter in letters:
            what = f"{letter.name} of {letter.run} from {self._process} to {queue}"
            letter = Letter(letter.name, letter.body, letter.origin, letter.run)
            if faults.happens(odds.letter_lost, f"{what} is lost"):
                continue
            if faults.happens(odds.letter_doubled, f"{what} comes twice"):
                self._broker.later(faults.between(0, 60), queue, [letter])
            if faults.happens(odds.letter_late, f"{what} comes late"):
                self._broker.later(faults.between(0, 60), queue, [letter])
            else:
                now.append(letter)
        if now:
            await self._broker.queues.publish(queue, now)
        await self._travel()
        if faults.happens(odds.publish_fails, f"{self._process} is not told that {queue} has its letters"):
            raise BusError("the connection to the broker was lost")

    @asynccontextmanager
    async def consume(self, queue: str, prefetch: int) -> AsyncIterator[Consumer]:
        async with self._broker.queues.consume(queue, prefetch) as reader:
            self._broker.reads(self._process, reader)
            try:
                yield reader
            finally:
                self._broker.left(self._process, reader)

    async def announce(self, events: Sequence[Recorded], facts: Mapping[str, About]) -> None:
        """Tells the public."""
        await self._travel()
        self._broker.announced.extend(events)
        for event in events:
            if isinstance(event.data, RunCancelled):
                self._broker.tell("cancelled", event.run.encode())

    async def cancellations(self, listening: Callable[[], None]) -> AsyncGenerator[str, None]:
        """The runs that people cancel."""
        async with aclosing(self._told("cancelled", listening)) as told:
            async for run in told:
                yield run.decode()

    def notes(self, queue: str) -> AsyncGenerator[bytes, None]:
        return self._told(queue, lambda: None)

    async def _told(self, topic: str, listening: Callable[[], None]) -> AsyncGenerator[bytes, None]:
        """What is told about a topic; listens anew whenever it was cut off."""
        told = self._broker.listen(self._process, topic)
        listening()
        try:
            while True:
                if (note := await told.get()) is not None:
                    yield note
                else:
                    told = self._broker.listen(self._process, topic)
        finally:
            self._broker.unlisten(told)

    async def tell(self, queue: str, note: bytes) -> None:
        await self._travel()
        self._broker.tell(queue, note)

    async def parked(self, keep: Callable[[Parked], T]) -> Sequence[T]:
        return await self._broker.queues.parked(keep)

    async def retry(self, parked_id: str) -> bool:
        return await self._broker.queues.retry(parked_id)

    async def discard(self, parked_id: str) -> bool:
        return await self._broker.queues.discard(parked_id)

    async def queue(self, queue: str) -> Depth | None:
        return await self._broker.queues.queue(queue)

    async def retry_all(self) -> Sequence[str]:
        return await self._broker.queues.retry_all()

    async def discard_all(self) -> Sequence[str]:
        return await self._broker.queues.discard_all()

    async def close(self) -> None:
        """The broker goes on."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def _travel(self) -> None:
        await asyncio.sleep(self._broker.faults.between(0.0002, 0.02))
