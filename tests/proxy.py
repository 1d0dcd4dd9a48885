"""A TCP proxy before a server, which cuts, half-closes and freezes connections, and swallows answers."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from random import Random
from typing import Final
from urllib.parse import urlsplit

from tests.postgres_frames import COMMIT, Commits, Frames

_CHUNK: Final = 64 * 1024
_LINGER: Final = struct.pack("ii", 1, 0)
"""With this a socket that is closed says so with a reset."""


class Link:
    """One connection through the proxy: the client's side and the server's."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.client = client
        self.server = server
        self.commits = Commits()
        self.asked = Frames(begins_untyped=True)
        self.said = Frames(begins_untyped=False)
        self.is_dumb = False
        """Nothing that the server says to what was asked last reaches the client any more."""

    def cut(self) -> None:
        """Resets both sides."""
        for writer in (self.client, self.server):
            with suppress(OSError):
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)
            writer.transport.abort()

    def half_close(self, *, to_client: bool) -> None:
        """Tells one side that the other has nothing more to say; the other way stays open."""
        with suppress(OSError, RuntimeError):
            (self.client if to_client else self.server).write_eof()


class Proxy:
    """Listens on `port`, and passes on to another. `speaks_postgres`: only answers to commits are swallowed."""

    def __init__(self, target: int, *, speaks_postgres: bool = False) -> None:
        self.port = 0
        self._target = target
        self._speaks_postgres = speaks_postgres
        self._links: set[Link] = set()
        self._keep = False
        self._appends = False
        self._swallowed: asyncio.Future[None] | None = None
        self._flows = asyncio.Event()
        self._flows.set()
        self._still_to_hear: int | None = None
        self.served = 0
        """The number of connections that were let in."""
        self.most: int | None = None
        """The number of connections that are let in, if there is one: all others are reset at once."""
        self.refused = asyncio.Event()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Proxy]:
        """Listens for as long as the block lasts."""
        listening = await asyncio.start_server(self._served, "127.0.0.1", 0)
        self.port = listening.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            listening.close()
            self._flows.set()
            self.cut()

    def through(self, url: str) -> str:
        """This URL of a server on this machine, by way of the proxy."""
        place = urlsplit(url)
        return place._replace(netloc=f"{place.username}:{place.password}@127.0.0.1:{self.port}").geturl()

    def cut(self, chance: Random | None = None) -> int:
        """Resets every connection, or by `chance` some of them, one at least; returns how many."""
        chosen = self._chosen(chance)
        for link in chosen:
            link.cut()
        return len(chosen)

    def half_close(self, chance: Random) -> int:
        """Half-closes some connections, one at least, each on a side that is drawn; returns how many."""
        chosen = self._chosen(chance)
        for link in chosen:
            link.half_close(to_client=chance.random() < 0.5)
        return len(chosen)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Passes nothing on while the block lasts, and says nothing of it; then what waited first."""
        self._flows.clear()
        try:
            yield
        finally:
            self._flows.set()

    def freeze_after(self, heard: int) -> None:
        """Passes nothing on any more, until the block of `open` ends, once clients have said so many bytes."""
        self._still_to_hear = heard

    def swallow(self, *, keep: bool, appends: bool = False) -> asyncio.Future[None]:
        """Done when the next answer was dropped; the connection stays open if it is to be kept.

        Of answers to commits, those to `appends` alone.
        """
        self._keep, self._appends, self._swallowed = keep, appends, asyncio.get_running_loop().create_future()
        return self._swallowed

    def _chosen(self, chance: Random | None) -> list[Link]:
        links = list(self._links)
        return links if chance is None or not links else chance.sample(links, chance.randint(1, len(links)))

    async def _served(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        if self.most is not None and self.served >= self.most:
            self.refused.set()
            client.transport.abort()
            return
        self.served += 1
        try:
            from_server, server = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            client.transport.abort()
            return
        link = Link(client, server)
        self._links.add(link)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._passed(reader, server, link, self._heard))
                group.create_task(self._passed(from_server, client, link, self._answered))
        finally:
            self._links.discard(link)
            client.transport.abort()
            server.transport.abort()

    async def _passed(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        link: Link,
        seen: Callable[[Link, bytes], bytes],
    ) -> None:
        """Passes on what comes until one side has nothing more to say, and tells the other so."""
        with suppress(OSError, RuntimeError):
            while data := await reader.read(_CHUNK):
                await self._flows.wait()
                writer.write(seen(link, data))
                await writer.drain()
        with suppress(OSError, RuntimeError):
            writer.write_eof()

    def _heard(self, link: Link, data: bytes) -> bytes:
        link.is_dumb = False
        if self._still_to_hear is not None:
            self._still_to_hear -= len(data)
            if self._still_to_hear <= 0:
                self._flows.clear()
        if self._speaks_postgres:
            for kind, frame in link.asked.feed(data):
                link.commits.asked(kind, frame)
        return data

    def _answered(self, link: Link, data: bytes) -> bytes:
        """What of it is passed on: all, but for what is swallowed."""
        passed = b""
        for is_answer, part in self._parts(link, data):
            if is_answer and self._swallowed and not self._swallowed.done() and not link.is_dumb:
                self._swallow(link, self._swallowed)
            if not link.is_dumb:
                passed += part
        return passed

    def _parts(self, link: Link, data: bytes) -> list[tuple[bool, bytes]]:
        """What the server says, in parts, and whether each can be swallowed."""
        if not self._speaks_postgres:
            return [(True, data)]
        said = list(link.said.feed(data))
        return [
            (link.commits.is_commit(kind, frame) and not (self._appends and frame[5:] == COMMIT), frame)
            for kind, frame in said
        ]

    def _swallow(self, link: Link, done: asyncio.Future[None]) -> None:
        link.is_dumb = True
        if not self._keep:
            link.cut()
        done.set_result(None)
