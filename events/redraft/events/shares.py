"""The shares of coordinators: which of them reads which partition of the inbox, by leases in the store.

A coordinator renews its leases by taking its turn every few seconds. Each then has its fair share: the number of
partitions divided by that of the coordinators which took a turn lately, rounded up. One that has too many gives up the
surplus, and others take what is free or has expired. Leases only spare work: the log refuses what two coordinators
decide on one run, so one that still believes it holds a partition does no harm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Final, Self, TypeVar

import msgspec

from redraft.events.small_tables import Tables, Transactions
from redraft.events.store.event_store import Threads, thread
from redraft.events.subscriptions.subscriptions import Execute

_T = TypeVar("_T")

LASTS: Final = 8.0
"""Seconds until the leases of a coordinator expire, counted from its last turn."""

RENEW: Final = 2.0
"""Seconds between two turns."""

CREATE: Final = (
    """CREATE TABLE IF NOT EXISTS redraft_partitions (
        number integer PRIMARY KEY, holder text NOT NULL, expires double precision NOT NULL
    )""",
    "CREATE TABLE IF NOT EXISTS redraft_coordinators (name text PRIMARY KEY, expires double precision NOT NULL)",
)
"""Creates the tables, in any database."""

_ONE_AT_A_TIME: Final = "INSERT INTO redraft_coordinators VALUES ('', 0) ON CONFLICT (name) DO UPDATE SET expires = 0"
"""Locks a row, so that one turn follows the other."""

_OVER: Final = "(expires <= ? OR expires > ?)"
"""An expiry further away than a lease lasts comes from a clock that was set back since."""

_FORGET: Final = f"DELETE FROM redraft_coordinators WHERE name <> '' AND {_OVER}"  # noqa: S608 - words of our own
_HERE: Final = (
    "INSERT INTO redraft_coordinators VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET expires = excluded.expires"
)
_HELD: Final = "SELECT number FROM redraft_partitions WHERE holder = ?"
_FREE: Final = f"SELECT number FROM redraft_partitions WHERE {_OVER} ORDER BY number LIMIT ?"  # noqa: S608
_RENEW: Final = "UPDATE redraft_partitions SET expires = ? WHERE holder = ?"
_TAKE: Final = "UPDATE redraft_partitions SET holder = ?, expires = ? WHERE number = ?"
_RELEASE: Final = "UPDATE redraft_partitions SET holder = '', expires = 0 WHERE holder = ?"
_ALL: Final = f"SELECT number, CASE WHEN {_OVER} THEN '' ELSE holder END FROM redraft_partitions ORDER BY number"  # noqa: S608


class Turn(msgspec.Struct, frozen=True):
    """The partitions that a coordinator holds after its turn; it should give up the `surplus`, a part of them.

    `joint` has, for each partition of all, the first of those that its holder keeps: what goes there is read by the
    same coordinator. One that nobody holds, or that is to be given up, has itself.
    """

    held: tuple[int, ...]
    surplus: tuple[int, ...] = ()
    joint: tuple[int, ...] = ()


class PartitionHolder(msgspec.Struct, frozen=True):
    """A partition, and the coordinator that holds it; empty when none does."""

    number: int
    holder: str


class Shares:
    """The leases of a store. Every method raises StoreError when it cannot be done.

    `clock` is an SQL expression: the seconds of the clock that all coordinators share, that of the database.
    `are_there` says without making anything whether there may be some. A lease lasts `lasts` seconds.
    """

    def __init__(
        self,
        tables: Tables,
        clock: str,
        are_there: Callable[[], bool] = lambda: True,
        threads: Threads = thread,
        lasts: float = LASTS,
    ) -> None:
        self._tables = Transactions(tables, threads("redraft-shares"))
        self._clock = f"SELECT {clock}"
        self._are_there = are_there
        self._lasts = lasts

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._tables.close()

    async def take_turn(self, me: str, reads: Collection[int], partitions: int) -> Turn:
        """Renews the leases of what coordinator `me` reads, ends its others, and takes free ones up to its fair share.

        `partitions` is how many there are at least: a number that was once recorded never becomes smaller, so that the
        queues of an earlier setting are read too, even with 0.
        """

        def taken(execute: Execute) -> Turn:
            execute(_ONE_AT_A_TIME, ())
            now = self._now(execute)
            execute(_FORGET, self._over(now))
            execute(_HERE, (me, now + self._lasts))
            fair = _fair_share(execute, partitions)
            held = {number for (number,) in execute(_HELD, (me,))}
            for number in held.difference(reads):
                execute(_TAKE, ("", 0.0, number))
            held.intersection_update(reads)
            for (number,) in execute(_FREE, (*self._over(now), max(0, fair - len(held)))):
                execute(_TAKE, (me, now + self._lasts, number))
                held.add(number)
            execute(_RENEW, (now + self._lasts, me))
            return Turn(tuple(sorted(held)), tuple(sorted(held)[fair:]), _joint(execute(_ALL, self._over(now)), fair))

        return await self._tables.run(taken)

    async def leave(self, me: str) -> None:
        """Gives up all that `me` holds: it is no coordinator any more."""

        def left(execute: Execute) -> None:
            execute(_ONE_AT_A_TIME, ())
            execute(_RELEASE, (me,))
            execute("DELETE FROM redraft_coordinators WHERE name = ?", (me,))

        await self._tables.run(left)

    async def all(self) -> Sequence[PartitionHolder]:
        """Returns every recorded partition with its holder, in order."""
        if not await asyncio.to_thread(self._are_there):
            return ()

        def read(execute: Execute) -> list[PartitionHolder]:
            return [PartitionHolder(*row) for row in execute(_ALL, self._over(self._now(execute)))]

        return await self._tables.run(read)

    def _now(self, execute: Execute) -> float:
        ((now,),) = execute(self._clock, ())
        return float(now)

    def _over(self, now: float) -> tuple[float, float]:
        """Returns the values of `_OVER`."""
        return now, now + 2 * self._lasts


def _joint(rows: Sequence[tuple[int, str]], fair: int) -> tuple[int, ...]:
    """Returns `Turn.joint` for the partitions with their holders, in order, of which each keeps its fair share."""
    kept: dict[str, list[int]] = {}
    joint = []
    for number, holder in rows:
        theirs = kept.setdefault(holder, [])
        theirs.append(number)
        joint.append(theirs[0] if holder and len(theirs) <= fair else number)
    return tuple(joint)


def _fair_share(execute: Execute, partitions: int) -> int:
    """Records partitions that are missing; returns how many of all each coordinator should have."""
    ((recorded,),) = execute("SELECT count(*) FROM redraft_partitions", ())
    for number in range(recorded, partitions):
        execute("INSERT INTO redraft_partitions VALUES (?, '', 0)", (number,))
    ((live,),) = execute("SELECT count(*) FROM redraft_coordinators WHERE name <> ''", ())
    return -(-max(int(recorded), partitions) // int(live))
