"""The permission of followers to go on: checked again and again, once for all who have the same identity."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager

import msgspec

from redraft.app.server.problems import Refused
from redraft.events.errors import RedraftError


class _Asked(msgspec.Struct, eq=False):
    """Asks for so many who follow; `task` returns why they may not go on."""

    task: asyncio.Task[Exception]
    followers: int = 0


class Standing:
    """Asks `every` so many seconds."""

    def __init__(self, every: float) -> None:
        self._every = every
        self._asked: dict[Hashable, _Asked] = {}

    @contextmanager
    def of(self, who: Hashable, ask: Callable[[], Awaitable[object]]) -> Iterator[asyncio.Task[Exception]]:
        """Yields a task that returns what `ask` raises once who follows may not go on: Refused, or a RedraftError.

        Of all who are inside with the same `who`, the `ask` of the first counts.
        """
        asked = self._asked.get(who)
        if asked is None or asked.task.done():
            asked = self._asked[who] = _Asked(asyncio.create_task(self._refusal(ask), name="redraft-standing"))
        asked.followers += 1
        try:
            yield asked.task
        finally:
            asked.followers -= 1
            if not asked.followers:
                asked.task.cancel()
                if self._asked.get(who) is asked:
                    del self._asked[who]

    async def _refusal(self, ask: Callable[[], Awaitable[object]]) -> Exception:
        while True:
            await asyncio.sleep(self._every)
            try:
                await ask()
            except (Refused, RedraftError) as error:
                return error
