"""A TCP proxy before a server, that can lose answers: what was asked is done, and nobody is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Wire:
    """`port` is where to connect. After `lose_answer` the next bytes from the server cut the connection instead.

    Or, after `lose_answers`, the connection stays open, and nothing comes through it from the server any more.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._losing = False
        self._keeping = False
        self._open: set[asyncio.Task[None]] = set()
        self.port = 0
        self.lost = 0

    def lose_answer(self) -> None:
        self._losing, self._keeping = True, False

    def lose_answers(self) -> None:
        self._losing, self._keeping = True, True

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carries one connection both ways, until either side ends it."""
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        ways = [asyncio.ensure_future(self._carry(*way)) for way in ((reader, back, False), (there, writer, True))]
        self._open.update(ways)
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for end in (back, writer):
            end.close()
        await asyncio.wait(ways)
        self._open.difference_update(ways)

    async def close(self) -> None:
        for way in self._open:
            way.cancel()
        if self._open:
            await asyncio.wait(self._open)

    async def _carry(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, is_answer: bool) -> None:
        is_mute = False
        with suppress(ConnectionError):
            while data := await source.read(65536):
                if is_answer and self._losing:
                    self._losing = False
                    self.lost += 1
                    if not self._keeping:
                        return
                    is_mute = True
                if is_mute:
                    continue
                target.write(data)
                await target.drain()


@asynccontextmanager
async def lossy_wire(target: int) -> AsyncIterator[Wire]:
    """A proxy before the local server on this port."""
    wire = Wire(target)
    server = await asyncio.start_server(wire.serve, "127.0.0.1", 0)
    wire.port = server.sockets[0].getsockname()[1]
    try:
        yield wire
    finally:
        server.close()
        await wire.close()
