"""Which actors are served, as the bus says now and then; for how long not, and what may still wait in their queues."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from redraft.actors.roles import Seat
from redraft.events.bus import Queues, work_queue
from redraft.events.errors import BusError, InputError

WATCH: Final = timedelta(seconds=10)
"""How long it is between two looks at the queues."""

QUEUE_WAIT: Final = timedelta(minutes=10)
"""How long a request waits while no worker serves its actor, unless the plan or the settings say otherwise."""

QUEUE_LIMIT: Final = timedelta(days=1)
"""How long a request waits in a queue from which workers take, unless the settings say otherwise."""

ARRIVAL: Final = timedelta(minutes=1)
"""Within which a request that is recorded is in its queue: a queue that is empty later than that has given it out."""

LEEWAY: Final = timedelta(minutes=15)
"""How long beyond its timeout what was given out is awaited: its worker may have died, and another have it now."""

_APART: Final = timedelta(minutes=1)
"""How long it is at least between two times that are kept at which a queue was empty."""

_KEPT: Final = 2_880
"""How many such times are kept of a queue: those of two days."""


class Crews:
    """Keeps what the looks at the queues showed. `wait` and `limit` are the settings `queue_wait` and `queue_limit`.

    Where the bus could not be asked, and before the first look, an actor counts as served and a queue as never empty.
    """

    def __init__(self, queues: Queues, wait: timedelta = QUEUE_WAIT, limit: timedelta = QUEUE_LIMIT) -> None:
        self.wait = wait
        self._queues = queues
        self._limit = limit
        self._looked: datetime | None = None
        self._unserved: dict[Seat, datetime] = {}
        self._empty: dict[Seat, list[datetime]] = {}

    def is_due(self, now: datetime) -> bool:
        """Whether it is time for another look."""
        return self._looked is None or now - self._looked >= WATCH

    async def look(self, seats: Iterable[Seat], now: datetime) -> None:
        """Asks about the queues of these actors, and forgets all others."""
        self._looked = now
        asked = tuple(seats)
        self._empty = {seat: times for seat, times in self._empty.items() if seat in asked}
        unserved: dict[Seat, datetime] = {}
        try:
            for seat in asked:
                if not await self._is_served(seat, now):
                    unserved[seat] = self._unserved.get(seat, now)
        except BusError:
            unserved = {}
        self._unserved = unserved

    async def _is_served(self, seat: Seat, now: datetime) -> bool:
        try:
            depth = await self._queues.queue(work_queue(*seat))
        except InputError:  # no queue can have its name; the relay says so
            return True
        if depth is None or depth.waiting == 0:
            times = self._empty.setdefault(seat, [])
            if not times or now - times[-1] >= _APART:
                times.append(now)
                del times[:-_KEPT]
        return depth is not None and depth.consumers > 0

    def unserved(self, now: datetime) -> Sequence[tuple[Seat, timedelta]]:
        """The actors that nobody serves, and for how long."""
        return [(seat, now - since) for seat, since in self._unserved.items()]

    def since(self, seat: Seat) -> datetime | None:
        """Since when nobody serves an actor; None for one that is served."""
        return self._unserved.get(seat)

    def may_wait(self, seat: Seat, requested: datetime, timeout: timedelta, now: datetime) -> bool:
        """Whether a request may still wait in its queue, or was given out so lately that its answer is not overdue."""
        if now >= requested + self._limit + timeout:
            return False
        times = self._empty.get(seat, [])
        place = bisect_right(times, requested + ARRIVAL)
        return place == len(times) or now < times[place] + timeout + LEEWAY
