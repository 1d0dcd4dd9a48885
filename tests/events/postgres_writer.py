"""Writes to a store as badly as it can: URL NAME EVENTS WRITERS. Says each event that is acknowledged.

Among the appends are conflicts, transactions that are rolled back, and transactions that wait before they commit.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import count
from uuid import uuid4

import psycopg

from redraft.events.backends import open_store
from redraft.events.errors import Conflict
from redraft.events.messages.codec import GENESIS
from redraft.events.messages.domain_events import StepFailed
from redraft.events.messages.envelope import Origin
from redraft.events.store.append import Append, encode
from redraft.events.store.event_store import EventStore, NewEvent

APPEND = "SELECT redraft_append(%s, %s, %s, %s)"


def notes(number: int) -> tuple[NewEvent, ...]:
    return tuple(
        NewEvent(Origin(uuid4().hex, "writer"), datetime.now(UTC), StepFailed("Loop", 1, "error", f"note {n}"))
        for n in range(number)
    )


async def write(url: str, run: str, events: int) -> None:
    """Two events an append, until there are so many, through a store of its own."""
    async with open_store(url) as store, await psycopg.AsyncConnection.connect(url, autocommit=True) as beside:
        await write_all(store, beside, run, events)


async def write_all(store: EventStore, beside: psycopg.AsyncConnection, run: str, events: int) -> None:
    version, last = 0, GENESIS
    for turn in count():
        if version >= events:
            return
        appended = await store.append(run, version, notes(2), last)
        said(run, [event.version for event in appended])
        if turn % 7 == 3:
            await conflict(store, run, version, last)
        if turn % 11 == 5:
            await by_hand(beside, f"{run}-lost-{turn}", commit=False)
        if turn % 13 == 6:
            await by_hand(beside, f"{run}-slow-{turn}", commit=True)
            said(f"{run}-slow-{turn}", [1, 2])
        version, last = version + 2, appended[-1].hash


async def conflict(store: EventStore, run: str, version: int, last: str) -> None:
    try:
        await store.append(run, version, notes(2), last)
    except Conflict:
        return
    raise AssertionError("the conflict went unseen")


async def by_hand(beside: psycopg.AsyncConnection, run: str, *, commit: bool) -> None:
    """Two events in a transaction that takes its time between writing and its end."""
    rows = encode(Append(run, 0, notes(2))).rows
    columns = ([run, run], [1, 2], [row.topic for row in rows], [row.state for row in rows])
    async with beside.transaction(force_rollback=not commit):
        await beside.execute(APPEND, columns)
        await beside.execute("SELECT pg_sleep(0.002)")


def said(run: str, versions: Sequence[int]) -> None:
    sys.stdout.write("".join(f"{run}:{version}\n" for version in versions))
    sys.stdout.flush()


async def main(url: str, name: str, events: int, writers: int) -> None:
    async with asyncio.TaskGroup() as group:
        for number in range(writers):
            group.create_task(write(url, f"{name}-{number}", events // writers))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
