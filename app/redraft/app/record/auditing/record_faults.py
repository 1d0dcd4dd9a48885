"""Checks runs of a log against their plans, event ids across all runs, and forks against their parents."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final

import msgspec
from cachetools import LRUCache
from msgspec.structs import replace

from redraft.events.errors import NoSuchRun
from redraft.events.messages.domain_events import LessonStruck, RunErased, RunStarted
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.event_names import EVENT_NAMES
from redraft.events.store.event_store import EventStore
from redraft.events.store.raw_rows import RawRow, RowCopier
from redraft.events.store.verification import Report
from redraft.projections.record_check import UNPROVEN, Checked, Ids, Row, Sources, check_rows, sources_in
from redraft.projections.record_check.chain import decode_rows
from redraft.projections.record_check.lessons import NO_STRIKES, Strike, Strikes, strikes_in

LATER: Final = "later-release"
"""The code of a finding that is no fault: a later release knows what it means."""

NO_FAULTS: Final = frozenset({LATER, UNPROVEN})
"""Codes of findings that are no faults: a run that has no others is whole."""

HASH_CODES: Final = frozenset({"gap", "previous", "unreadable"})
"""Codes of findings that the verification of hashes reports as well."""


async def check_run(store: EventStore, run: str) -> Checked:
    """Returns the faults of a run's record. Raises NoSuchRun, StoreError."""
    rows = [Row(*each) for each in await store.raw(run)]
    sources, strikes = await _SourceReader(store).read(run, rows), await _StrikeReader(store).read(run, rows)
    return await asyncio.to_thread(check_rows, run, rows, store.copying().opener, sources, strikes)


def is_faulty(record: Checked | None) -> bool:
    """Returns whether a run that nobody has set aside has findings."""
    return record is not None and not record.set_aside and any(each.code not in NO_FAULTS for each in record.findings)


async def check_log(store: EventStore) -> AsyncIterator[Checked]:
    """Yields the checked runs of a log; only one and its sources are in memory at a time. Raises StoreError."""
    copying, reader, strikes = store.copying(), _SourceReader(store), _StrikeReader(store)
    with Ids() as ids:
        async for run, rows in _read_runs(copying, await store.head()):
            checked = check_rows(run, rows, copying.opener, await reader.read(run, rows), await strikes.read(run, rows))
            doubled = ids.add(checked)
            yield replace(checked, findings=(*checked.findings, *doubled)) if doubled else checked


async def find_faulty(store: EventStore, report: Report) -> list[Checked]:
    """Returns the runs with findings that the report on their hashes does not have already."""
    known = {(fault.run, fault.position) for fault in report.faults}
    found: list[Checked] = []
    async for checked in check_log(store):
        new = tuple(
            each for each in checked.findings if not (each.code in HASH_CODES and (each.run, each.position) in known)
        )
        if new or (checked.findings and checked.set_aside):
            found.append(replace(checked, findings=new or checked.findings, ids=()))
    return found


KEPT: Final = 16
"""The number of runs that are kept for others that took verdicts from them."""


class _SourceReader:
    """Reads the runs that other runs took verdicts from; keeps the last ones, as many runs may take from one."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._kept: LRUCache[str, Sequence[Recorded] | None] = LRUCache(KEPT)

    async def read(self, run: str, rows: Sequence[Row]) -> Sources:
        """Returns the events of each run that this one took verdicts from, of those that can be read."""
        found = {other: await self._events_of(other) for other in sorted(sources_in(run, rows))}
        return {other: events for other, events in found.items() if events is not None}

    async def _events_of(self, run: str) -> Sequence[Recorded] | None:
        if run not in self._kept:
            self._kept[run] = await self._read_events(run)
        return self._kept[run]

    async def _read_events(self, run: str) -> Sequence[Recorded] | None:
        try:
            rows = [Row(*each) for each in await self._store.raw(run)]
        except NoSuchRun:
            return None
        events, unreadable = decode_rows(run, rows, self._store.copying().opener)
        return None if unreadable else events


_LESSONS: Final = b'"lessons":'
_STRUCK: Final = EVENT_NAMES[LessonStruck]


class _StrikeReader:
    """Reads what people struck out, in the whole log: once, and only if a run has lessons."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._strikes: Strikes | None = None

    async def read(self, run: str, rows: Sequence[Row]) -> Strikes:
        """Returns the strikes of the log if these rows of a run may have lessons; none for one of another log."""
        if not rows or _LESSONS not in bytes(rows[0].state) or await self._store.is_imported(run):
            return NO_STRIKES
        if self._strikes is None:
            self._strikes = await self._read_all()
        return self._strikes

    async def _read_all(self) -> Strikes:
        found: defaultdict[tuple[str, str], list[Strike]] = defaultdict(list)
        copying = self._store.copying()
        async for run, rows in _read_runs(copying, await self._store.head()):
            struck = [row for row in rows[1:] if row.name == _STRUCK]
            events = decode_rows(run, [rows[0], *struck], copying.opener)[0] if struck else []
            for lesson, strike in strikes_in(events):
                found[lesson].append(strike)
        return found


async def _read_runs(copying: RowCopier, head: int) -> AsyncIterator[tuple[str, list[Row]]]:
    """Yields each run with its rows, up to a position of the log."""
    last: RawRow | None = None
    rows: list[Row] = []
    async for page in copying.by_run():
        for kept in page:
            if last is not None and kept.run != last.run:
                yield last.run, rows
                rows = []
            last = kept
            if kept.position <= head:
                rows.append(Row(kept.version, kept.name, kept.state, kept.position))
    if last is not None:
        yield last.run, rows


class Lineage(msgspec.Struct, frozen=True):
    """The result of comparing a fork with its parent: a sentence `message`, or what is wrong (`fault`)."""

    message: str = ""
    fault: str = ""


async def compare_lineage(events: Sequence[Recorded], read: Callable[[str], Awaitable[Sequence[Recorded]]]) -> Lineage:
    """Compares what a fork repeats with its parent's events, which `read` returns; empty for a run that is no fork."""
    begun = events[0].data if events else None
    if not isinstance(begun, RunStarted) or begun.parent is None:
        return Lineage()
    run, at = begun.parent.run, begun.parent.version
    past = await read(run)
    fork = f"a fork of run {run} at event {at}"
    if len(past) < at:
        return Lineage(f"{fork}, which is not in this store")
    if any(isinstance(event.data, RunErased) for event in (*past, *events)):
        return Lineage(f"{fork}; texts were erased, so the two cannot be compared")
    begins = past[0].data
    if isinstance(begins, RunStarted) and begun.lessons != begins.lessons:
        return Lineage(fault=f"run {events[0].run} has other lessons than run {run}, of which it is a fork")
    for own, before in zip(events[1:at], past[1:at], strict=False):
        if own.repeats != before.id or own.data != before.data:
            where = f"event {own.version} of run {own.run}"
            return Lineage(fault=f"{where} is not what it repeats, event {before.version} of run {run}")
    if len(events) < at:
        return Lineage(fault=f"run {events[0].run} has {len(events)} events, and repeats {at} of run {run}")
    return Lineage(f"{fork}, whose events it repeats word for word")
