"""The ways to the queues. Where one cannot be used, what goes there waits, and everything else goes on.

A queue may be there with the settings of somebody else, be full, or refuse what is put. Of a request that waits only
its place is kept: it is sent again, from the log, once its queue takes something, unless it was answered meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

import msgspec

from redraft.actors.trouble import Blocked, Freed, LeftOut, Tell
from redraft.events.bus import Letter
from redraft.events.domain_events import StepRequested
from redraft.events.envelope import Recorded
from redraft.events.errors import BusError, BusUnusable, InputError, StoreError, TooLarge

AGAIN: Final = 2.0
"""Seconds between two tries of a queue that could not be used."""

MOST: Final = 16_384
"""How many requests may wait. What comes on top is left to the deadline of its step."""


class Parcel(msgspec.Struct, frozen=True):
    """A letter, the request that it is about, and the event that holds this."""

    letter: Letter
    event: Recorded
    asked: StepRequested


class Outlet(Protocol):
    async def publish(self, queue: str, letters: Sequence[Letter]) -> None: ...


class Again(Protocol):
    """Sends the request at a path again if it is unanswered. `anew`: raises BusUnusable or TimeoutError, as `put`."""

    async def __call__(self, run: str, path: str, *, anew: bool) -> object: ...


class Lanes:
    """`again` sends one request again; `refuse` is told of a letter that no queue takes, and why.

    After `slow` seconds a queue that has not taken what was put is left to itself.
    """

    def __init__(
        self, bus: Outlet, again: Again, refuse: Callable[[Parcel, Exception], Awaitable[None]], tell: Tell, slow: float
    ) -> None:
        self._bus = bus
        self._again = again
        self._refuse = refuse
        self._tell = tell
        self._slow = slow
        self._held: dict[str, dict[tuple[str, str], int]] = {}
        self._recovering: dict[str, asyncio.Task[None]] = {}

    def oldest(self) -> int | None:
        """The position of the first request that waits; None when none does."""
        if not self._held:
            return None
        return min((each for held in self._held.values() for each in held.values()), default=None)

    async def put(self, queue: str, parcels: Sequence[Parcel], *, anew: bool = False) -> None:
        """Puts letters into a queue; what it cannot take now waits, and what it never takes is refused.

        `anew` tries a queue for which others wait, and raises BusUnusable or TimeoutError when it cannot be used.
        """
        if queue in self._held and not anew:
            self._hold(queue, parcels)
            return
        try:
            async with asyncio.timeout(self._slow):
                await self._bus.publish(queue, [each.letter for each in parcels])
        except (TooLarge, InputError) as error:
            await self._singly(parcels, error)
        except (BusUnusable, TimeoutError) as error:
            if anew:
                raise
            self._block(queue, parcels, str(error))

    def close(self) -> None:
        """Tries no queue again."""
        for task in self._recovering.values():
            task.cancel()

    async def _singly(self, parcels: Sequence[Parcel], error: Exception) -> None:
        """One of these is not taken. Some may have been put: the others are sent again as what may be there twice."""
        if len(parcels) == 1:
            await self._refuse(parcels[0], error)
            return
        for each in parcels:
            await self._again(each.event.run, each.asked.path, anew=False)

    def _block(self, queue: str, parcels: Sequence[Parcel], fault: str) -> None:
        self._hold(queue, parcels)
        if queue not in self._recovering:
            slow = f"{queue} took nothing within {self._slow:g} seconds: it is full, bounded, or cannot be reached"
            self._tell(Blocked(queue, fault or slow))
            self._recovering[queue] = asyncio.create_task(self._recover(queue))

    def _hold(self, queue: str, parcels: Sequence[Parcel]) -> None:
        held = self._held.setdefault(queue, {})
        room = MOST - sum(map(len, self._held.values()))
        for each in parcels:
            key = (each.event.run, each.asked.path)
            if key not in held and room < 1:
                fault = f"{MOST:,} requests wait for queues already; the deadline of its step will look after it"
                self._tell(LeftOut(each.event.run, each.event.position, fault))
                continue
            room -= key not in held
            held[key] = each.event.position

    async def _recover(self, queue: str) -> None:
        """Tries the queue with what has waited longest, now and then, until nothing waits."""
        held = self._held[queue]
        await asyncio.sleep(AGAIN)
        while held:
            (run, path), position = next(iter(held.items()))
            try:
                await self._again(run, path, anew=True)
            except (BusError, StoreError, TimeoutError):
                await asyncio.sleep(AGAIN)
                continue
            if held[run, path] == position:
                del held[run, path]
        del self._held[queue], self._recovering[queue]
        self._tell(Freed(queue))
