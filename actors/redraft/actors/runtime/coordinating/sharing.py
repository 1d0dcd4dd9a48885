"""A coordinator's share of the inbox: it takes its turn in the store, and reads the partitions that it holds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, Protocol

import msgspec

from redraft.actors.runtime.coordinating.divided_inbox import DividedInbox
from redraft.actors.runtime.relaying.queue_publisher import OnTrouble
from redraft.actors.values import ignore
from redraft.events.bus.port import INBOX, Bus, Consumer, partition_queue
from redraft.events.errors import BusError, StoreError
from redraft.events.shares import RENEW, Turn

PREFETCH: Final = 1024
"""The number of messages that may be unsettled at once."""


class ShareStore(Protocol):
    """The leases of the partitions; see `Shares`."""

    async def take_turn(self, me: str, reads: Collection[int], partitions: int) -> Turn: ...

    async def leave(self, me: str) -> None: ...


async def _no_check() -> None:
    """Finds nothing wrong."""


class Share(msgspec.Struct, frozen=True):
    """The share of the runs that a coordinator, known as `me`, has: some of `partitions`, by the leases in `store`.

    With 0 partitions it reads those that were recorded before, if there are any.
    `check` raises BusError while this process cannot read the bus: then its leases expire, and others take over.
    `on_trouble` is told of a queue that cannot be read, while the others are.
    `changed` is called with the partitions that it reads, each time that they change, `turned` with each turn.
    There are `pause` seconds between two turns, well below those that a lease lasts.
    """

    me: str
    partitions: int
    store: ShareStore
    check: Callable[[], Awaitable[None]] = _no_check
    changed: Callable[[Sequence[int]], None] = ignore
    turned: Callable[[Turn], None] = ignore
    pause: float = RENEW
    on_trouble: OnTrouble = ignore


@asynccontextmanager
async def open_inbox(bus: Bus, share: Share, drained: asyncio.Event) -> AsyncIterator[Consumer]:
    """Yields a reader of the inbox and of this coordinator's partitions; gives these up after the block.

    Once `drained` is set it takes no more turns, and leaves the partitions once what came from them is settled, or
    after some seconds: where draining takes long, as its store does not answer, others take over.
    """
    inbox = DividedInbox(bus, share.on_trouble)
    async with asyncio.TaskGroup() as group:
        reader = _ShareReader(inbox, share, group, drained)
        tasks = [group.create_task(inbox.serve(INBOX, PREFETCH, asyncio.Event())), group.create_task(reader.keep())]
        try:
            yield inbox
        finally:
            await reader.leave(tasks)


class _ShareReader:
    """Reads the partitions that are held: a task for each, with the event that ends it."""

    def __init__(self, inbox: DividedInbox, share: Share, group: asyncio.TaskGroup, drained: asyncio.Event) -> None:
        self._inbox = inbox
        self._drained = drained
        self._share = share
        self._group = group
        self._reading: dict[int, tuple[asyncio.Task[None], asyncio.Event]] = {}
        self._ended = asyncio.Event()
        self._told: set[int] = set()

    async def keep(self) -> None:
        """Takes a turn every few seconds, and when it has given something up, until it is cancelled or drained.

        Without store or bus it reads on as before.
        """
        share = self._share
        while not self._drained.is_set():
            self._ended.clear()
            with suppress(BusError, StoreError):
                await share.check()
                turn = await share.store.take_turn(share.me, tuple(self._reading), share.partitions)
                share.turned(turn)
                if not self._drained.is_set():
                    self._follow(turn)
            with suppress(TimeoutError):
                async with asyncio.timeout(share.pause):
                    await self._ended.wait()
        for _, closing in self._reading.values():
            closing.set()

    async def leave(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        """Ends all tasks, then gives up all leases, so that others need not wait for their end."""
        mine = [*tasks, *(task for task, _ in self._reading.values())]
        for task in mine:
            task.cancel()
        await asyncio.wait(mine)
        with suppress(StoreError):
            await self._share.store.leave(self._share.me)

    def _follow(self, turn: Turn) -> None:
        """Begins to read what is held, and ends what is surplus or lost."""
        wanted = set(turn.held).difference(turn.surplus)
        for number in wanted.difference(self._reading):
            closing = asyncio.Event()
            self._reading[number] = self._group.create_task(self._read(number, closing)), closing
        for number, (_, closing) in self._reading.items():
            if number not in wanted:
                closing.set()
        if wanted != self._told:
            self._told = wanted
            self._share.changed(sorted(wanted))

    async def _read(self, number: int, closing: asyncio.Event) -> None:
        try:
            await self._inbox.serve(partition_queue(number), PREFETCH // max(1, self._share.partitions), closing)
        finally:
            del self._reading[number]
            self._ended.set()
