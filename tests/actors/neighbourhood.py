"""Neighbours in one process: what one tells, all hear."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator


class Neighbourhood:
    """`listening` is set for as long as somebody listens."""

    def __init__(self) -> None:
        self.told: list[bytes] = []
        self._ears: defaultdict[str, list[asyncio.Queue[bytes]]] = defaultdict(list)
        self._changed = asyncio.Event()

    async def read_broadcasts(self, queue: str) -> AsyncGenerator[bytes, None]:
        ear: asyncio.Queue[bytes] = asyncio.Queue()
        self._ears[queue].append(ear)
        self._changed.set()
        try:
            while True:
                yield await ear.get()
        finally:
            self._ears[queue].remove(ear)

    async def broadcast(self, queue: str, note: bytes) -> None:
        self.told.append(note)
        for ear in self._ears[queue]:
            ear.put_nowait(note)

    async def until_heard_by(self, number: int, queue: str) -> None:
        async with asyncio.timeout(60):
            while len(self._ears[queue]) < number:
                self._changed.clear()
                await self._changed.wait()
