"""Turns that all processes on a broker share: so many at once, and so many within a time.

A turn is a queue that is exclusive to one connection: the server lets nobody else have it, and takes it away when its
holder dies. So nothing is counted, nothing has to be given back by hand, and no process is in charge.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from aiormq import Channel
from aiormq.exceptions import ChannelLockedResource

from redraft.events.rabbit_link import LOST, Link, answer, let_go
from redraft.events.rabbit_topology import PREFIX, Names

MOST: Final = 200
"""How many turns of one name there may be: each is looked for in turn."""

_FIRST_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 0.5


class Turns:
    """`start` gives a number from 0 to below its argument: where the search for a free turn begins."""

    def __init__(self, link: Link, names: Names, start: Callable[[int], int]) -> None:
        self._link = link
        self._names = names
        self._start = start
        self._held: set[str] = set()
        self._kept: set[asyncio.Task[None]] = set()
        self._channel: Channel | None = None
        self._asking = asyncio.Lock()

    @asynccontextmanager
    async def take(self, name: str, turns: int, keep: float = 0.0) -> AsyncIterator[None]:
        """Waits for one of `turns` (1 to 200) of this name, and holds it through the block.

        It is kept for `keep` seconds from its beginning, if the block is over before. Raises BusError when the server
        cannot be used. While the connection is broken, another may have the turn as well.
        """
        queue = await self._taken(name, turns)
        until = asyncio.get_running_loop().time() + keep
        try:
            yield
        finally:
            giving = asyncio.create_task(self._give_back(queue, until))
            self._kept.add(giving)
            giving.add_done_callback(self._kept.discard)
            if not keep:
                await asyncio.shield(giving)

    async def close(self) -> None:
        """Lets go of every turn; the server takes them away with the connection."""
        for task in list(self._kept):
            task.cancel()

    async def _taken(self, name: str, turns: int) -> str:
        pause = _FIRST_PAUSE
        while True:
            first = self._start(turns)
            for number in range(turns):
                queue = self._names.there(f"{PREFIX}.turn.{name}.{(first + number) % turns}")
                if queue not in self._held and await self._is_ours(queue):
                    return queue
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _is_ours(self, queue: str) -> bool:
        self._held.add(queue)
        try:
            if await self._link.persist(lambda: self._declared(queue)):
                return True
        except BaseException:
            self._held.discard(queue)
            raise
        self._held.discard(queue)
        return False

    async def _declared(self, queue: str) -> bool:
        """Whether nobody else has it. A refusal ends the channel that it is told on."""
        async with self._asking:
            channel = await self._open()
            try:
                await answer(channel.queue_declare(queue, exclusive=True))
            except ChannelLockedResource:
                self._channel = None
                return False
            except BaseException:
                self._channel = None
                await let_go(channel)
                raise
            return True

    async def _open(self) -> Channel:
        if self._channel is None or self._channel.is_closed:
            self._channel = await self._link.channel()
        return self._channel

    async def _give_back(self, queue: str, until: float) -> None:
        try:
            await asyncio.sleep(max(0.0, until - asyncio.get_running_loop().time()))
            with suppress(*LOST):
                async with self._asking:
                    await answer((await self._open()).queue_delete(queue))
        finally:
            self._held.discard(queue)
