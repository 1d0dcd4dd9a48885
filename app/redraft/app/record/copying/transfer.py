"""Copies runs from a store to an archive, and from an archive into a store.

An export holds whole runs, in the order of the log. An import verifies all of the archive first, then adds it in
batches, so that it can be resumed. Events keep their order, versions, hashes and bytes. In an empty store they get the
positions 1, 2, 3, …, which equal those of the exported log if all of it was exported; in another store they follow the
events there. Events that the store has already, with the same bytes and so the same id, are skipped: after an
interruption the import is just repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import IO, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from redraft.actors.deciding.evolve import evolve
from redraft.actors.deciding.state import RunState
from redraft.actors.runtime.admission import LONGEST_ID, require_run_id
from redraft.app.record.clock_times import CLOCKS_SHOW, find_strange_time
from redraft.app.record.copying.archive import ArchiveWriter, Item, RunKey, read_archive
from redraft.app.record.waiting import awaits_nothing
from redraft.events.backends import open_store
from redraft.events.bus.port import LONGEST_ATTRIBUTE, size_of
from redraft.events.errors import CodecError, EncryptionKeyMissing, InputError, Tampered
from redraft.events.messages.codec import GENESIS, UNREADABLE, decode_event, link_of
from redraft.events.messages.content import MAX_DRAFT_BYTES, Brief
from redraft.events.messages.domain_events import RunErased
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.event_names import EVENT_NAMES
from redraft.events.messages.item_ids import is_within, lineage
from redraft.events.store.event_store import EventStore
from redraft.events.store.raw_rows import AT_ONCE, RawRow, RowCopier
from redraft.projections.record_check import Checked, Ids

_SEALED: Final = b'"sealed":"'


class RunSelection(msgspec.Struct, frozen=True):
    """The runs to export: those with events `since` a time, or only `runs`, but none of `without`.

    A run stands for the runs of its items too, at any depth.
    """

    since: datetime | None = None
    runs: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()


class Exported(msgspec.Struct, frozen=True):
    """The number of events and runs of an archive."""

    events: int
    runs: int


class _Timed(msgspec.Struct, frozen=True):
    time: datetime


_TIMES: Final = msgspec.json.Decoder(_Timed)


async def export_log(store: EventStore, wanted: RunSelection, file: IO[bytes], now: datetime) -> Exported:
    """Writes the selected runs of the log, as it is now. Raises Tampered for an event that is not what was recorded."""
    rows, head = store.copying(), await store.head()
    chosen = await _find_active(rows, head, wanted.since) if wanted.since else None
    if wanted.runs:
        chosen = wanted.runs if chosen is None else wanted.runs & chosen
    writer = await asyncio.to_thread(ArchiveWriter, file, now)
    seen: set[str] = set()
    events = 0
    async for batch in _read_log(rows, head):
        items: list[Item] = []
        for row in batch:
            if is_within(row.run, wanted.without) or (chosen is not None and not is_within(row.run, chosen)):
                continue
            if row.run not in seen:
                seen.add(row.run)
                items += await _find_key(rows, row)
            items.append(row)
            events += 1
        await asyncio.to_thread(writer.add, items)
    await asyncio.to_thread(writer.finish, events, len(seen))
    return Exported(events, len(seen))


async def _find_active(rows: RowCopier, head: int, since: datetime) -> frozenset[str]:
    """Returns the runs that have events since that time, or that have items with such a run."""
    found: set[str] = set()
    async for batch in _read_log(rows, head):
        found.update(run for row in batch if _time_of(row) >= since for run in lineage(row.run))
    return frozenset(found)


def _time_of(row: RawRow) -> datetime:
    try:
        return _TIMES.decode(_bytes_of(row)).time
    except UNREADABLE as error:
        raise Tampered(
            f"event {row.version} of run {row.run} ({row.name}) is not what was recorded: it cannot be read"
        ) from error


async def _find_key(rows: RowCopier, first: RawRow) -> list[Item]:
    """Returns the key of a run whose first event is encrypted, if it still has one."""
    wrapped = await rows.key(first.run) if _SEALED in _bytes_of(first) else None
    return [RunKey(first.run, wrapped)] if wrapped is not None else []


def _bytes_of(row: RawRow) -> bytes:
    """Returns the bytes of a row. Raises Tampered for one without, which only a foreign writer can have added."""
    if isinstance(row.state, bytes):
        return row.state
    raise Tampered(
        f"row {row.version} of run {row.run} is not an event: it holds no bytes; leave the run out: "
        f"redraft export --without {row.run}"
    )


async def _read_log(rows: RowCopier, head: int) -> AsyncIterator[list[RawRow]]:
    position = 0
    while batch := await rows.after(position, head):
        position = batch[-1].position
        yield list(batch)


BATCH_BYTES: Final = 16 * 1024 * 1024
"""The maximum number of bytes of events added together; a larger event is added on its own."""

_LARGE: Final = 1024 * 1024
"""The bytes that an event of an archive may have which this release does not read, as later ones may add fields."""

_LONGEST_EVENT_ID: Final = LONGEST_ATTRIBUTE + 20
"""The most bytes of an event's id: it begins with that of the message which caused it, and its number follows."""

_ERASED: Final = EVENT_NAMES[RunErased]


class Imported(msgspec.Struct, frozen=True):
    """The result of an import: events added, events that were there already, and the number of runs.

    `kept`: every event of the archive is at the position at which it was exported.
    """

    added: int
    known: int
    runs: int
    kept: bool


class _Run(msgspec.Struct):
    """A run of the archive: the version, hash and name that were read last, and the version that the store has of it.

    `state` is the run's, without its brief; None for one that has ended, is encrypted, or cannot be folded.
    """

    version: int = 0
    hash: str = GENESIS
    there: int = 0
    name: str = ""
    state: RunState | None = RunState()


Runs: TypeAlias = Mapping[str, _Run]


async def verify_archive(path: Path, draft_limit: int = MAX_DRAFT_BYTES) -> Runs:
    """Returns the runs of an archive that could go into an empty store. Raises InputError for a damaged archive."""
    async with open_store("memory:") as nothing:
        return await _check_archive(nothing.copying(), path, draft_limit)


async def import_archive(
    store: EventStore, path: Path, verified: Runs | None = None, draft_limit: int = MAX_DRAFT_BYTES
) -> Imported:
    """Adds the events that the store does not have. No other process may relay from the store meanwhile.

    `verified` is the result of `verify_archive`: with it the archive is not verified again for an empty store.
    `draft_limit` is the size in bytes of the largest draft to expect.

    Raises InputError, with nothing added, for an archive that is damaged or has another history of a run in the store;
    StoreError when the store cannot be written: events added until then stay, and are skipped next time.
    """
    rows = store.copying()
    runs = (
        verified if verified is not None and not await store.head() else await _check_archive(rows, path, draft_limit)
    )
    keeps = await store.head() == sum(run.there for run in runs.values())
    await rows.note_imported([name for name, run in runs.items() if run.version > run.there])
    added, known = 0, 0
    async for batch in _read_batches(path, draft_limit):
        keys = [item for item in batch if isinstance(item, RunKey)]
        events = [item for item in batch if isinstance(item, RawRow)]
        new = [event for event in events if event.version > runs[event.run].there]
        for key in keys:
            if runs[key.run].there == 0 or await rows.key(key.run) is not None:
                await rows.put_key(key.run, key.wrapped)
        last = await rows.put(new) if new else 0
        keeps = keeps and (not new or last == new[-1].position)
        for event in new:
            if event.name == _ERASED:
                await store.destroy_key(event.run)
        added, known = added + len(new), known + len(events) - len(new)
    return Imported(added, known, len(runs), keeps)


async def _check_archive(rows: RowCopier, path: Path, draft_limit: int) -> dict[str, _Run]:
    """Returns the runs of an archive that is complete, whose hash chains hold, and that fits the store."""
    runs: dict[str, _Run] = {}
    with Ids() as ids:
        async for batch in _read_batches(path, draft_limit):
            for item in batch:
                _check_run(path, item.run)
                if item.run not in runs:
                    runs[item.run] = _Run(there=await rows.version(item.run))
                if isinstance(item, RawRow):
                    _check_next(path, runs[item.run], item)
                    _check_unique(path, ids, item)
                else:
                    _check_key(path, rows, item)
            await _compare_with_store(rows, path, runs, [item for item in batch if isinstance(item, RawRow)])
    for name, run in runs.items():
        if not run.version:
            raise InputError(f"archive {path} has a key for run {name}, but no event of it; export it again")
        if run.state is not None and awaits_nothing(run.state):
            raise InputError(
                f"archive {path}: run {name} was cut off after event {run.version} ({run.name}): it has not ended, and "
                f"waits for nothing; export the whole run again, or leave it out: redraft export --without {name}"
            )
    return runs


def _check_run(path: Path, run: str) -> None:
    """Raises InputError for the id of a run that no database keeps, or no coordinator takes."""
    try:
        require_run_id(run)
    except CodecError as error:
        fault = f"it has 1 to {LONGEST_ID} characters, all of which can be printed"
        raise InputError(
            f"archive {path}: {error}: {fault}; leave the run out: redraft export --without RUN, with its id"
        ) from None


def _check_next(path: Path, run: _Run, event: RawRow) -> None:
    """Raises InputError unless the event follows the last one of its run, is known to this release, and has times that
    some clock may show."""
    if event.version != run.version + 1:
        raise InputError(
            f"archive {path}: event {run.version + 1} of run {event.run} is missing; export the whole run again"
        )
    if link_of(event.run, event.version, event.name, event.state).previous != run.hash:
        raise InputError(
            f"archive {path}: event {event.version} of run {event.run} does not follow the one before; export it again"
        )
    place = f"event {event.version} of run {event.run} ({event.name})"
    try:
        read = decode_event(event.run, event.version, event.name, event.state)
    except CodecError as error:
        raise InputError(
            f"archive {path}: {place} cannot be read here: {error.__cause__ or error}; upgrade Redraft, or leave the "
            f"run out: redraft export --without {event.run}"
        ) from None
    if (size := size_of(read.id)) > _LONGEST_EVENT_ID:
        raise InputError(
            f"archive {path}: {place} has an id of {size:,} bytes; the limit is {_LONGEST_EVENT_ID:,}; leave "
            f"the run out: redraft export --without {event.run}"
        )
    if strange := find_strange_time(read):
        raise InputError(
            f"archive {path}: {place} has a time that no clock shows ({strange}); they are {CLOCKS_SHOW}: leave the "
            f"run out: redraft export --without {event.run}"
        )
    if len(event.state) > _LARGE and not read.encrypted:
        known = len(msgspec.json.encode(read.data))
        if len(event.state) - known > _LARGE:
            raise InputError(
                f"archive {path}: {place} has {len(event.state):,} bytes, of which this release reads {known:,}; "
                f"upgrade Redraft, or leave the run out: redraft export --without {event.run}"
            )
    run.version, run.hash, run.name = event.version, event.state[9:73].decode(), event.name
    if run.state is not None:
        run.state = _follow(run.state, read)


def _follow(state: RunState, event: Recorded) -> RunState | None:
    """Returns the state of a run after one more event; None where nobody needs it, or it cannot be told."""
    if event.encrypted:
        return None
    try:
        state = evolve(state, event.data)
    except Exception:  # noqa: BLE001 - whatever is wrong with a run concerns that run alone: it is set aside here
        return None
    return replace(state, brief=Brief("")) if state.status == "running" else None


def _check_unique(path: Path, ids: Ids, event: RawRow) -> None:
    """Raises InputError when an earlier event has the same id, as a store accepts each id once."""
    own = link_of(event.run, event.version, event.name, event.state).id
    found = ids.add(Checked(event.run, (), ids=((own, event.version, 0),)))
    if found:
        raise InputError(
            f"archive {path}: {found[0].message}, and a store takes each id once: the exported log is damaged, see "
            f"redraft audit --all --verify there; leave the run out: redraft export --without {event.run}"
        )


def _check_key(path: Path, rows: RowCopier, key: RunKey) -> None:
    """Raises InputError for a key that the store's encryption key cannot decrypt, as its run would be unreadable."""
    try:
        rows.check_key(key.run, key.wrapped)
    except EncryptionKeyMissing as error:
        raise InputError(f"archive {path}: {error}; or leave the run out: redraft export --without {key.run}") from None


async def _compare_with_store(rows: RowCopier, path: Path, runs: dict[str, _Run], events: Sequence[RawRow]) -> None:
    """Raises InputError when the store has a different event in place of one of these."""
    mine: dict[str, list[RawRow]] = {}
    for event in events:
        if event.version <= runs[event.run].there:
            mine.setdefault(event.run, []).append(event)
    for run, rows_of_run in mine.items():
        found = await rows.of_run(run, rows_of_run[0].version - 1, rows_of_run[-1].version)
        there = {row.version: (row.name, row.state) for row in found}
        for one in rows_of_run:
            if there.get(one.version) != (one.name, one.state):
                raise InputError(
                    f"archive {path}: run {run} is in the store with another history, from event {one.version} on; "
                    "import the archive into another store"
                )


async def _read_batches(path: Path, draft_limit: int) -> AsyncIterator[list[Item]]:
    """Yields the items of the archive in batches, read on another thread."""
    items = read_archive(path, draft_limit)
    while batch := await asyncio.to_thread(_take_batch, items):
        yield batch


def _take_batch(items: Iterator[Item]) -> list[Item]:
    batch: list[Item] = []
    size = 0
    for item in islice(items, AT_ONCE):
        batch.append(item)
        size += len(item.state) if isinstance(item, RawRow) else 0
        if size > BATCH_BYTES:
            break
    return batch
