"""From an archive to a store: verified as a whole first, then put in, in batches that can be gone on with.

Events keep their order, versions, hashes and bytes. In an empty store they get the positions 1, 2, 3, …, which are
those of the log that was exported as a whole; in another they follow what is there. What the store has already, by the
same bytes and so the same id, is passed over: an import that was interrupted is simply made again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from redraft.app.archive import Item, RunKey, read_archive
from redraft.events.codec import GENESIS, decode_event, link_of
from redraft.events.content import MAX_DRAFT_BYTES
from redraft.events.copying import AT_ONCE, Copying, Kept
from redraft.events.domain_events import EVENT_NAMES, RunErased
from redraft.events.errors import CodecError, InputError, Sealed
from redraft.events.store import EventStore, open_store
from redraft.projections.record_check import Checked, Ids

BATCH_BYTES: Final = 16 * 1024 * 1024
"""Bytes of events that are put in together at most; a larger event goes by itself."""

_ERASED: Final = EVENT_NAMES[RunErased]


class Imported(msgspec.Struct, frozen=True):
    """What came of an import: events put in, those that were there already, the runs of both.

    `kept`: every event of the archive is at the position at which it was exported.
    """

    added: int
    known: int
    runs: int
    kept: bool


class _Run(msgspec.Struct):
    """A run of the archive: the version and hash that were read last, and the version that the store has of it."""

    version: int = 0
    hash: str = GENESIS
    there: int = 0


Runs: TypeAlias = Mapping[str, _Run]


async def verify_archive(path: Path, draft_limit: int = MAX_DRAFT_BYTES) -> Runs:
    """The runs of an archive that could be put into an empty store. Raises InputError for one that is damaged."""
    async with open_store("memory:") as nothing:
        return await _checked(nothing.copying(), path, draft_limit)


async def import_archive(
    store: EventStore, path: Path, verified: Runs | None = None, draft_limit: int = MAX_DRAFT_BYTES
) -> Imported:
    """Puts in what the store does not have. Nobody else may relay from the store meanwhile.

    `verified` is what `verify_archive` gave, if it was asked: then it is not verified again for a store that is empty.
    `draft_limit` is the size of the largest draft, in bytes, that is expected in it.
    Raises InputError, with nothing put in, for an archive that is damaged or holds another history of a run that is
    there; StoreError when the store cannot be written: what was put in until then stays, and is passed over next time.
    """
    rows = store.copying()
    runs = verified if verified is not None and not await store.head() else await _checked(rows, path, draft_limit)
    keeps = await store.head() == sum(run.there for run in runs.values())
    await rows.note_imported([name for name, run in runs.items() if run.version > run.there])
    added, known = 0, 0
    async for batch in _batches(path, draft_limit):
        keys = [item for item in batch if isinstance(item, RunKey)]
        events = [item for item in batch if isinstance(item, Kept)]
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


async def _checked(rows: Copying, path: Path, draft_limit: int) -> dict[str, _Run]:
    """The runs of an archive that is whole, whose chains hold, and that fits what the store has."""
    runs: dict[str, _Run] = {}
    with Ids() as ids:
        async for batch in _batches(path, draft_limit):
            for item in batch:
                if item.run not in runs:
                    runs[item.run] = _Run(there=await rows.version(item.run))
                if isinstance(item, Kept):
                    _follow(path, runs[item.run], item)
                    _once(path, ids, item)
                else:
                    _open(path, rows, item)
            await _compare(rows, path, runs, [item for item in batch if isinstance(item, Kept)])
    for name, run in runs.items():
        if not run.version:
            raise InputError(f"archive {path} has a key for run {name}, but no event of it; export it again")
    return runs


def _follow(path: Path, run: _Run, event: Kept) -> None:
    """Raises InputError unless the event follows what was read of its run, and is one that this release knows."""
    if event.version != run.version + 1:
        raise InputError(
            f"archive {path}: event {run.version + 1} of run {event.run} is missing; export the whole run again"
        )
    if link_of(event.run, event.version, event.name, event.state).previous != run.hash:
        raise InputError(
            f"archive {path}: event {event.version} of run {event.run} does not follow the one before; export it again"
        )
    try:
        decode_event(event.run, event.version, event.name, event.state)
    except CodecError as error:
        place = f"event {event.version} of run {event.run} ({event.name})"
        raise InputError(
            f"archive {path}: {place} cannot be read here: {error.__cause__ or error}; upgrade Redraft, or leave the "
            f"run out: redraft export --without {event.run}"
        ) from None
    run.version, run.hash = event.version, event.state[9:73].decode()


def _once(path: Path, ids: Ids, event: Kept) -> None:
    """Raises InputError when an event before has the same id: no store takes it twice."""
    own = link_of(event.run, event.version, event.name, event.state).id
    found = ids.add(Checked(event.run, (), ids=((own, event.version, 0),)))
    if found:
        raise InputError(
            f"archive {path}: {found[0].told}, and a store takes each id once: the log it was made of was damaged, see "
            f"redraft audit --all --verify there; leave the run out: redraft export --without {event.run}"
        )


def _open(path: Path, rows: Copying, key: RunKey) -> None:
    """Raises InputError for a key that the store's encryption key cannot open: then nobody could read the log."""
    try:
        rows.check_key(key.run, key.wrapped)
    except Sealed as error:
        raise InputError(f"archive {path}: {error}; or leave the run out: redraft export --without {key.run}") from None


async def _compare(rows: Copying, path: Path, runs: dict[str, _Run], events: Sequence[Kept]) -> None:
    """Raises InputError when the store has another event in place of one of these."""
    mine: dict[str, list[Kept]] = {}
    for event in events:
        if event.version <= runs[event.run].there:
            mine.setdefault(event.run, []).append(event)
    for run, given in mine.items():
        found = await rows.of_run(run, given[0].version - 1, given[-1].version)
        there = {row.version: (row.name, row.state) for row in found}
        for one in given:
            if there.get(one.version) != (one.name, one.state):
                raise InputError(
                    f"archive {path}: run {run} is in the store with another history, from event {one.version} on; "
                    "import the archive into another store"
                )


async def _batches(path: Path, draft_limit: int) -> AsyncIterator[list[Item]]:
    """What the archive holds, read on another thread."""
    items = read_archive(path, draft_limit)
    while batch := await asyncio.to_thread(_some, items):
        yield batch


def _some(items: Iterator[Item]) -> list[Item]:
    batch: list[Item] = []
    size = 0
    for item in islice(items, AT_ONCE):
        batch.append(item)
        size += len(item.state) if isinstance(item, Kept) else 0
        if size > BATCH_BYTES:
            break
    return batch
