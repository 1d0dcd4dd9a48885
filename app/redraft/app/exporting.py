"""From a store to an archive: whole runs, in the order of the log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from typing import IO, Final

import msgspec

from redraft.app.archive import ArchiveWriter, Item, RunKey
from redraft.events.copying import Copying, Kept
from redraft.events.errors import Tampered
from redraft.events.store import EventStore

_SEALED: Final = b'"sealed":"'


class Wanted(msgspec.Struct, frozen=True):
    """Which runs: all of which something was recorded `since`, or only these, but not those `without`."""

    since: datetime | None = None
    runs: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()


class Exported(msgspec.Struct, frozen=True):
    """How many events of how many runs an archive holds."""

    events: int
    runs: int


class _Timed(msgspec.Struct, frozen=True):
    time: datetime


_TIMES: Final = msgspec.json.Decoder(_Timed)


async def export_log(store: EventStore, wanted: Wanted, file: IO[bytes], now: datetime) -> Exported:
    """Writes what is wanted of the log as it is now. Raises Tampered for an event that is not what was recorded."""
    rows, head = store.copying(), await store.head()
    chosen = await _active(rows, head, wanted.since) if wanted.since else None
    if wanted.runs:
        chosen = wanted.runs if chosen is None else wanted.runs & chosen
    writer = await asyncio.to_thread(ArchiveWriter, file, now)
    seen: set[str] = set()
    events = 0
    async for batch in _batches(rows, head):
        items: list[Item] = []
        for row in batch:
            if row.run in wanted.without or (chosen is not None and row.run not in chosen):
                continue
            if row.run not in seen:
                seen.add(row.run)
                items += await _key(rows, row)
            items.append(row)
            events += 1
        await asyncio.to_thread(writer.add, items)
    await asyncio.to_thread(writer.finish, events, len(seen))
    return Exported(events, len(seen))


async def _active(rows: Copying, head: int, since: datetime) -> frozenset[str]:
    """The runs of which something was recorded since then."""
    found: set[str] = set()
    async for batch in _batches(rows, head):
        found.update(row.run for row in batch if _time(row) >= since)
    return frozenset(found)


def _time(row: Kept) -> datetime:
    try:
        return _TIMES.decode(_bytes(row)).time
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Tampered(
            f"event {row.version} of run {row.run} ({row.name}) is not what was recorded: it cannot be read"
        ) from error


async def _key(rows: Copying, first: Kept) -> list[Item]:
    """The key of a run whose first event is sealed, if it still has one."""
    wrapped = await rows.key(first.run) if _SEALED in _bytes(first) else None
    return [RunKey(first.run, wrapped)] if wrapped is not None else []


def _bytes(row: Kept) -> bytes:
    """Returns the bytes of a row. Raises Tampered for one that holds no bytes, as a stranger may have put it there."""
    if isinstance(row.state, bytes):
        return row.state
    raise Tampered(
        f"row {row.version} of run {row.run} is no event: it holds no bytes; leave the run out: "
        f"redraft export --without {row.run}"
    )


async def _batches(rows: Copying, head: int) -> AsyncIterator[list[Kept]]:
    position = 0
    while batch := await rows.after(position, head):
        position = batch[-1].position
        yield list(batch)
