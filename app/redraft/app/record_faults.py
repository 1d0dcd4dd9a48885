"""Every run of a log held against its plan, one at a time, and ids of events against those of all other runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from msgspec.structs import replace

from redraft.events.copying import Copying, Kept
from redraft.events.errors import NoSuchRun
from redraft.events.store import EventStore
from redraft.events.verification import Report
from redraft.projections.record_check import Checked, Ids, Row, check_rows

HASHED: Final = frozenset({"gap", "previous", "unreadable"})
"""Codes of findings that verifying the hashes tells as well."""


async def check_run(store: EventStore, run: str) -> Checked:
    """Returns what is wrong with the record of a run. Raises NoSuchRun, StoreError."""
    rows = [Row(version, name, state, position) for version, name, state, position in await store.raw(run)]
    if not rows:
        raise NoSuchRun(run)
    return check_rows(run, rows, store.copying().opener)


async def check_log(store: EventStore) -> AsyncIterator[Checked]:
    """Yields what is wrong with each run of a log; one run at a time is in memory. Raises StoreError."""
    copying = store.copying()
    with Ids() as ids:
        async for run, rows in _runs(copying, await store.head()):
            checked = check_rows(run, rows, copying.opener)
            doubled = ids.add(checked)
            yield replace(checked, findings=(*checked.findings, *doubled)) if doubled else checked


async def faulty(store: EventStore, report: Report) -> list[Checked]:
    """The runs of which something is found that the report of their hashes does not say already."""
    known = {(fault.run, fault.position) for fault in report.faults}
    found: list[Checked] = []
    async for checked in check_log(store):
        new = tuple(
            each for each in checked.findings if not (each.code in HASHED and (each.run, each.position) in known)
        )
        if new or (checked.findings and checked.set_aside):
            found.append(replace(checked, findings=new or checked.findings, ids=()))
    return found


async def _runs(copying: Copying, head: int) -> AsyncIterator[tuple[str, list[Row]]]:
    """Each run with its rows, up to a position of the log."""
    last: Kept | None = None
    rows: list[Row] = []
    while page := await copying.by_run(*((last.run, last.version) if last else ("", 0))):
        for kept in page:
            if last is not None and kept.run != last.run:
                yield last.run, rows
                rows = []
            last = kept
            if kept.position <= head:
                rows.append(Row(kept.version, kept.name, kept.state, kept.position))
    if last is not None:
        yield last.run, rows
