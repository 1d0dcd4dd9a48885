"""Live fragments: each is rendered once for all who look at it, when the log has moved on, and not too often."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from hashlib import sha256
from typing import Final, Literal, TypeAlias

import msgspec

from redraft.actors.runtime.failures import traceback_of
from redraft.app.process.lifecycle import retry_forever
from redraft.app.server.api.answers import beside
from redraft.app.server.gzip_stream import compress_piece
from redraft.app.server.problems import problem_of
from redraft.app.server.service import SHOWN, Service
from redraft.events.errors import EncryptionKeyMissing, StoreError

INTERVAL: Final = 0.3
"""Seconds between two renderings of a fragment, at least."""

UNFOLLOWED: Final = 2.0
"""Seconds between two looks where the log cannot be followed."""

HEARTBEAT: Final = 15.0
"""Seconds without a change after which a page is told that the server is there."""

Render: TypeAlias = Callable[[], Awaitable[Callable[[], str]]]
"""Returns what makes a fragment as HTML, of what has been read: it is called on a thread."""


class Fragment(msgspec.Struct, frozen=True):
    """A rendered fragment: the hash of its HTML, the server-sent event that all who look are sent, and the same event
    as a piece of a gzip stream."""

    id: str
    event: bytes
    compressed: bytes


def fragment_of(html: str, kind: Literal["fragment", "trouble"] = "fragment") -> Fragment:
    """Returns HTML, or why there is none, as an event: made once for all, as each copy would cost as much."""
    found = sha256(f"{kind} {html}".encode()).hexdigest()[:16]
    lines = "\ndata: ".join(html.splitlines())
    event = f"event: {kind}\nid: {found}\ndata: {lines}\n\n".encode()
    return Fragment(found, event, compress_piece(event))


class Subject(msgspec.Struct, frozen=True):
    """The events that outdate a fragment: a run's, or all. It is also rendered again after `every` seconds."""

    run: str = ""
    every: float | None = None


class _Channel:
    """A fragment that somebody looks at. `touched` is set when it has to be rendered again, of the events from the
    position `first` to `last`.
    """

    def __init__(self, subject: Subject, render: Render) -> None:
        self.subject = subject
        self.render = render
        self.fragment: Fragment | None = None
        self.watchers = 0
        self.first = self.last = 0
        self.touched = asyncio.Event()
        self.changed = asyncio.Event()
        self.woken = time.monotonic()
        self.task: asyncio.Task[None] | None = None

    def touch(self, position: int) -> None:
        if not self.touched.is_set():
            self.first = position
        self.last = max(self.last, position)
        self.touched.set()

    def publish(self, found: Fragment) -> None:
        """Wakes all who look, if this is not what they see."""
        if self.fragment is None or self.fragment.id != found.id:
            self.fragment = found
            self.wake()

    def wake(self) -> None:
        """Has all who look, look again: they are sent what is new, or a sign of life."""
        self.woken = time.monotonic()
        self.changed.set()
        self.changed = asyncio.Event()

    @property
    def rests(self) -> float | None:
        """The seconds to wait for an event: until it has to be rendered again, or those who look need a sign of life.
        None before there is anything to show.
        """
        if self.fragment is None:
            return None
        silent = max(0.0, self.woken + HEARTBEAT - time.monotonic())
        return silent if self.subject.every is None else min(self.subject.every, silent)


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
        closing = self._service.closing
        seen: Fragment | None = None
        try:
            while not closing.is_set():
                changed = channel.changed
                if channel.fragment is not None and channel.fragment is not seen:
                    seen = channel.fragment
                    yield seen
                    continue
                await changed.wait()
                if channel.fragment is seen:
                    yield None
        finally:
            self._leave(key, channel)

    def _enter(self, key: str, subject: Subject, render: Render) -> _Channel:
        channel = self._channels.get(key)
        if channel is None:
            channel = self._channels[key] = _Channel(subject, render)
            channel.touched.set()
            channel.task = asyncio.create_task(self._keep(channel), name="redraft-fragment")
        channel.watchers += 1
        if self._following is None:
            self._following = asyncio.create_task(self._watch_all(), name="redraft-dashboard")
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

    async def _watch_all(self) -> None:
        waking = asyncio.create_task(self._wake_at_the_end(), name="redraft-dashboard-end")
        try:
            await retry_forever("dashboard", self._follow, self._service.log)
        except EncryptionKeyMissing:
            await self._look_again_and_again()
        except Exception as error:  # noqa: BLE001 - whatever it is: who looks at a fragment would wait for ever
            self._service.log.warning("log not followed", error=str(error))
            await self._look_again_and_again()
        finally:
            waking.cancel()

    async def _look_again_and_again(self) -> None:
        """Has every fragment rendered again and again, where the log cannot be followed, as without its key."""
        while True:
            for channel in self._channels.values():
                channel.first = channel.last = 0
                channel.touched.set()
            await asyncio.sleep(UNFOLLOWED)

    async def _wake_at_the_end(self) -> None:
        """Wakes all who look once the server ends, so that they do not wait for a change."""
        await self._service.closing.wait()
        for channel in self._channels.values():
            channel.changed.set()

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
                async with asyncio.timeout(channel.rests):
                    await channel.touched.wait()
            if channel.touched.is_set() or channel.subject.every is not None:
                channel.touched.clear()
                await self._render(channel)
            if time.monotonic() >= channel.woken + HEARTBEAT:
                channel.wake()
            await asyncio.sleep(INTERVAL)

    async def _render(self, channel: _Channel) -> None:
        try:
            if not channel.subject.run:  # a run's page is made of its events alone; others read what counts them
                await self._await_rows(channel)
            make = await channel.render()
            channel.publish(await beside(lambda: fragment_of(make())))
        except Exception as error:  # noqa: BLE001 - the next change may mend it, and others look at other fragments
            channel.publish(fragment_of(self._tell(error), "trouble"))
            if isinstance(error, StoreError):
                asyncio.get_running_loop().call_later(UNFOLLOWED, channel.touched.set)

    async def _await_rows(self, channel: _Channel) -> None:
        """Returns once the read models count the first of the events, at their own pace, or when that takes too long.

        Those that they do not count then are to be rendered next time.
        """
        views = self._service.runtime.views
        with suppress(TimeoutError):
            async with asyncio.timeout(SHOWN):
                while views.position < channel.first:
                    await views.changed(views.position)
        if (reached := views.position) < channel.last:
            channel.touch(reached + 1)
            channel.first = reached + 1

    def _tell(self, error: Exception) -> str:
        """Logs why a fragment cannot be shown; returns it for those who look."""
        found = problem_of(error)
        if found is None:
            self._service.log.error("fragment failed", traceback=traceback_of(error))
            return "this is a defect of Redraft; the server's log says more"
        self._service.log.warning("fragment failed", error=found.detail)
        return found.detail
