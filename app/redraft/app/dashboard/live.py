"""Live fragments: each is rendered once for all who look at it, when the log has moved on, and not too often."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from hashlib import sha256
from typing import Final, TypeAlias

import msgspec

from redraft.actors.runtime.failures import traceback_of
from redraft.app.process.lifecycle import retry_forever
from redraft.app.server.problems import problem_of
from redraft.app.server.service import Service

INTERVAL: Final = 0.25
"""Seconds between two renderings of a fragment, at least."""

HEARTBEAT: Final = 15.0
"""Seconds without a change after which a page is told that the server is there."""

Render: TypeAlias = Callable[[], Awaitable[str]]
"""Returns a fragment as HTML."""


class Fragment(msgspec.Struct, frozen=True):
    """A rendered fragment: its HTML, and the hash of that."""

    html: str
    id: str


class Subject(msgspec.Struct, frozen=True):
    """The events that outdate a fragment: a run's, or all. It is also rendered again after `every` seconds."""

    run: str = ""
    every: float | None = None


class _Channel:
    """A fragment that somebody looks at. `touched` is set when it has to be rendered again."""

    def __init__(self, subject: Subject, render: Render) -> None:
        self.subject = subject
        self.render = render
        self.fragment: Fragment | None = None
        self.watchers = 0
        self.position = 0
        self.touched = asyncio.Event()
        self.changed = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    def touch(self, position: int) -> None:
        self.position = position
        self.touched.set()

    def publish(self, html: str) -> None:
        """Wakes all who look, if this is not what they see."""
        found = Fragment(html, sha256(html.encode()).hexdigest()[:16])
        if self.fragment != found:
            self.fragment = found
            self.changed.set()
            self.changed = asyncio.Event()


class Broadcaster:
    """Keeps the fragments that somebody looks at. It follows the log only while there are any."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._channels: dict[str, _Channel] = {}
        self._following: asyncio.Task[None] | None = None

    async def watch(self, key: str, subject: Subject, render: Render) -> AsyncGenerator[Fragment | None, None]:
        """Yields the fragment of this key, and again whenever it has changed; None as a sign of life.

        It ends when the server does. Who calls with the same key sees the same fragment: the key names everything
        that it depends on.
        """
        channel = self._enter(key, subject, render)
        seen: Fragment | None = None
        closing = asyncio.create_task(self._service.closing.wait())
        try:
            while not closing.done():
                changed = channel.changed
                if channel.fragment != seen and channel.fragment is not None:
                    seen = channel.fragment
                    yield seen
                    continue
                waiting = asyncio.create_task(changed.wait())
                await asyncio.wait({waiting, closing}, timeout=HEARTBEAT, return_when=asyncio.FIRST_COMPLETED)
                if not waiting.done():
                    waiting.cancel()
                    if not closing.done():
                        yield None
        finally:
            closing.cancel()
            self._leave(key, channel)

    def _enter(self, key: str, subject: Subject, render: Render) -> _Channel:
        channel = self._channels.get(key)
        if channel is None:
            channel = self._channels[key] = _Channel(subject, render)
            channel.touched.set()
            channel.task = asyncio.create_task(self._keep(channel), name="redraft-fragment")
        channel.watchers += 1
        if self._following is None:
            following = retry_forever("dashboard", self._follow, self._service.log)
            self._following = asyncio.create_task(following, name="redraft-dashboard")
        return channel

    def _leave(self, key: str, channel: _Channel) -> None:
        channel.watchers -= 1
        if channel.watchers == 0:
            del self._channels[key]
            if channel.task is not None:
                channel.task.cancel()
        if not self._channels and self._following is not None:
            self._following.cancel()
            self._following = None

    async def _follow(self) -> None:
        """Tells fragments when something that they are about was recorded."""
        store = self._service.runtime.store
        head = await store.head()
        for channel in self._channels.values():
            channel.touch(head)
        async with aclosing(store.tail(head)) as batches:
            async for batch in batches:
                runs = {event.run for event in batch}
                for channel in self._channels.values():
                    if not channel.subject.run or channel.subject.run in runs:
                        channel.touch(batch[-1].position)

    async def _keep(self, channel: _Channel) -> None:
        """Renders a fragment when it was touched, at once after a pause, and at most so often."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(channel.subject.every if channel.fragment else None):
                    await channel.touched.wait()
            channel.touched.clear()
            await self._service.shown(channel.position)
            try:
                channel.publish(await channel.render())
            except Exception as error:  # noqa: BLE001 - the next change may mend it, and others look at other fragments
                self._tell(error)
            await asyncio.sleep(INTERVAL)

    def _tell(self, error: Exception) -> None:
        found = problem_of(error)
        if found is None:
            self._service.log.error("fragment failed", traceback=traceback_of(error))
        else:
            self._service.log.warning("fragment failed", error=found.detail)
