"""The right of one process at a time to do something: it ends by itself, and is renewed for as long as it is used.

Whoever has it is named by a row that says until when. Another takes it when that time is over, so that a process which
stands still does not keep it; or at once when the one before has ended. Each holder begins a new epoch, and nothing is
moved in one that is over.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable
from datetime import datetime
from types import TracebackType
from typing import Final, Protocol, Self

import msgspec

LASTS: Final = 10.0
"""Seconds for which a lease is given, and given again each time that it is renewed."""

RENEW: Final = 2.0
"""Seconds between two renewals."""

FRESH: Final = 3.0
"""Seconds after a renewal in which the store is not asked again whether the lease is still ours."""


class Held(msgspec.Struct, frozen=True):
    """Who has a lease, and since when (UTC), where that is known; `ended`: it was not renewed, and may be taken."""

    holder: str
    since: datetime | None = None
    ended: bool = False

    def __str__(self) -> str:
        return self.holder if self.since is None else f"{self.holder} since {self.since:%Y-%m-%d %H:%M:%S} UTC"


class Row(Protocol):
    """Where a lease is kept. Every method raises StoreError when the store is away."""

    async def take(self) -> Held | None:
        """Takes the lease if nobody has it; otherwise returns who does."""
        ...

    async def renew(self, position: int) -> int:
        """Renews the lease, and returns the checkpoint, once it is at least at this position. Raises LeaseLost."""
        ...

    async def let_go(self) -> None:
        """Gives the lease back, if it is held, and closes what it was held by."""
        ...

    async def close(self) -> None:
        """Lets go of what is left; nothing is called after that."""
        ...


class Lease:
    """A lease and the checkpoint that only its holder moves. Entered, it can be acquired; left, it is given back.

    Every method raises StoreError when the store is away. `retry` is how often, in seconds, one that stands by tries.
    """

    def __init__(self, row: Row, retry: float) -> None:
        self._row = row
        self._retry = retry
        self._renewed = -FRESH

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.release()
        await self._row.close()

    async def acquire(self, waits: Callable[[Held], None] | None = None) -> int:
        """Waits until nobody else has the lease, and returns the checkpoint. When it was lost, acquire it again.

        `waits` is told for whom, each time that it is another.
        """
        await self.release()
        told: Held | None = None
        while (held := await self._row.take()) is not None:
            if waits is not None and (told is None or (told.holder, told.since) != (held.holder, held.since)):
                waits(held)
            told = held
            await asyncio.sleep(self._retry)
        return await self.load()

    async def keep(self) -> None:
        """Renews the lease until it is cancelled. Raises LeaseLost."""
        while True:
            await asyncio.sleep(RENEW)
            await self._renew(0)

    async def check(self) -> None:
        """Raises LeaseLost when another has it. The store is asked, unless it said so a moment ago."""
        if time.monotonic() - self._renewed > FRESH:
            await self._renew(0)

    async def load(self) -> int:
        """The position of the last event that was published, 0 before the first. Raises LeaseLost."""
        return await self._renew(0)

    async def save(self, position: int) -> None:
        """Moves the checkpoint up to this position, never down. Raises LeaseLost: then it was not moved."""
        await self._renew(position)

    async def release(self) -> None:
        """Gives the lease back, if it is held, so that the next may have it."""
        self._renewed = -FRESH
        await self._row.let_go()

    async def _renew(self, position: int) -> int:
        asked = time.monotonic()
        reached = await self._row.renew(position)
        self._renewed = asked
        return reached


def this_process() -> str:
    """This process, as others know it."""
    return f"process {os.getpid()} on {socket.gethostname()}"
