"""A lease: the right of one process at a time to do something. It expires unless its holder renews it.

A row names the holder and the time of expiry. After that time another process may take the lease, so that a stalled
process does not keep it; it may take it at once when the holder has ended. Each holder begins a new epoch, and a holder
of an earlier epoch can move nothing.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable
from datetime import datetime
from typing import Final, Protocol, Self

import msgspec

LASTS: Final = 10.0
"""Seconds until a lease expires, counted from each renewal."""

RENEW: Final = 2.0
"""Seconds between two renewals."""

FRESH: Final = 3.0
"""Seconds after a renewal in which `check` does not query the store."""


class LeaseHolder(msgspec.Struct, frozen=True):
    """The holder of a lease, and since when (UTC), where that is known; `ended`: the lease expired and may be taken."""

    holder: str
    since: datetime | None = None
    ended: bool = False

    def __str__(self) -> str:
        return self.holder if self.since is None else f"{self.holder} since {self.since:%Y-%m-%d %H:%M:%S} UTC"


LOCKED: Final = LeaseHolder("a process that keeps the file locked")
"""Stands for whoever locks the file of the lease: perhaps not its holder, as who holds it cannot be read meanwhile."""


class LeaseRow(Protocol):
    """The storage of a lease. Every method raises StoreError when the store is away."""

    @property
    def epoch(self) -> int:
        """The number of times that the lease was taken, if we have it: 1 for the first holder; otherwise 0."""

    async def take(self) -> LeaseHolder | None:
        """Takes the lease if it is free and returns None; otherwise returns its holder."""

    async def renew(self, position: int) -> int:
        """Renews the lease, moves the checkpoint up to at least this position, and returns it. Raises LeaseLost."""

    async def release(self) -> None:
        """Gives the lease back, if it is held, and closes the connection that held it."""

    async def look(self) -> tuple[LeaseHolder | None, int]:
        """Returns the holder, None when there never was one, and the checkpoint. Creates nothing."""

    async def close(self) -> None:
        """Frees all remaining resources; no method is called after this."""


class Lease:
    """A lease and the checkpoint that only its holder moves. Enter its context to acquire it; leaving gives it back.

    Every method raises StoreError when the store is away. `retry` is the number of seconds between attempts to acquire
    it.
    """

    def __init__(self, row: LeaseRow, retry: float) -> None:
        self._row = row
        self._retry = retry
        self._renewed = -FRESH

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.release()
        await self._row.close()

    async def acquire(self, waits: Callable[[LeaseHolder], None] | None = None) -> int:
        """Waits until the lease is free, takes it, and returns the checkpoint. Call it again after LeaseLost.

        Calls `waits` with the holder, each time that the holder changes.
        """
        await self.release()
        notified: LeaseHolder | None = None
        while (held := await self._row.take()) is not None:
            if waits is not None and (
                notified is None or (notified.holder, notified.since) != (held.holder, held.since)
            ):
                waits(held)
            notified = held
            await asyncio.sleep(self._retry)
        return await self.load()

    @property
    def is_first(self) -> bool:
        """Whether nobody had the lease before us."""
        return self._row.epoch == 1

    @property
    def is_held(self) -> bool:
        """Whether we have it, as far as the last renewal showed."""
        return self._row.epoch > 0

    async def keep(self) -> None:
        """Renews the lease until this task is cancelled. Raises LeaseLost."""
        while True:
            await asyncio.sleep(RENEW)
            await self._renew(0)

    async def check(self) -> None:
        """Raises LeaseLost when another process has the lease. Queries the store unless the last renewal is recent."""
        if time.monotonic() - self._renewed > FRESH:
            await self._renew(0)

    async def load(self) -> int:
        """Returns the position of the last published event, 0 before the first. Raises LeaseLost."""
        return await self._renew(0)

    async def save(self, position: int) -> None:
        """Moves the checkpoint up to this position, never down. Raises LeaseLost: then it was not moved."""
        await self._renew(position)

    async def release(self) -> None:
        """Gives the lease back, if it is held."""
        self._renewed = -FRESH
        await self._row.release()

    async def _renew(self, position: int) -> int:
        started = time.monotonic()
        reached = await self._row.renew(position)
        self._renewed = started
        return reached


def this_process() -> str:
    """Returns the name of this process, for others: its id and its machine."""
    return f"process {os.getpid()} on {socket.gethostname()}"
