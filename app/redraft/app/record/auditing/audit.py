"""The audit of one run: its hashes, its origin and its plan verified, and its story."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from redraft.actors.conditions.reading import print_until
from redraft.actors.values import ignore
from redraft.app.record.auditing.record_faults import check_run, compare_lineage, is_faulty
from redraft.app.record.past import events_of
from redraft.app.wiring.local import LocalRuntime
from redraft.events.errors import CodecError, Tampered
from redraft.events.messages.envelope import Recorded
from redraft.projections.read_models.runs_query import find_run
from redraft.projections.record_check import Checked, unmet_drafts
from redraft.projections.run_views.narrative import narrate


class RunAudit(msgspec.Struct, frozen=True):
    """The findings of a run's audit.

    `verified` is the number of events whose hashes are right (0 where nothing was verified, or something is wrong),
    `fault` what is wrong with the log, `fork` what the run begins with if it is a fork, `record` the comparison with
    its plan. `checked`: the hashes were looked at.
    """

    events: Sequence[Recorded]
    verified: int = 0
    fault: str = ""
    fork: str = ""
    record: Checked | None = None
    checked: bool = False

    @property
    def is_faulty(self) -> bool:
        return bool(self.fault) or is_faulty(self.record)


async def audit_one(
    log: LocalRuntime, text: str, *, hashes: bool, origin: bool, report: Callable[[str], None] = ignore
) -> RunAudit:
    """Reads a run; verifies its `hashes`, and its `origin`: what it repeats of its parent, and that it fits its plan.

    `report` is told what cannot be read. Raises NoSuchRun, StoreError, CodecError, and Tampered when the hashes are
    wrong and nothing can be read.
    """
    run = (await find_run(log.views, text)).run
    count, fault = await _verify_hashes(log, run) if hashes else (0, "")
    found = RunAudit(await _read_events(log, run, fault, report), count, fault, checked=hashes)
    return await _verify_origin(log, found) if origin else found


def story_of(events: Sequence[Recorded]) -> list[dict[str, object]]:
    """Returns the story as JSON shows it: a sentence for each event, the event that led to it, and details."""
    return [
        {
            "version": entry.line.version,
            "sentence": entry.line.sentence,
            "because_of": entry.cause or None,
            "details": entry.details,
        }
        for entry in narrate(events, print_until, unmet_drafts(events))
    ]


def audit_document(found: RunAudit) -> dict[str, object]:
    """Returns the audit as JSON shows it."""
    events, record = found.events, found.record
    return {
        "run": events[0].run,
        "verified": bool(found.verified) if found.checked else None,
        "last_hash": events[-1].hash,
        "findings": list(record.findings) if record else None,
        "set_aside": record.set_aside if record else None,
        "events": events,
        "story": story_of(events),
    }


async def _verify_hashes(log: LocalRuntime, run: str) -> tuple[int, str]:
    """Returns how many events are right, and the fault; one of them is empty."""
    try:
        return await log.store.verify(run), ""
    except Tampered as error:
        return 0, str(error)


async def _verify_origin(log: LocalRuntime, found: RunAudit) -> RunAudit:
    """Compares a fork with its parent, and the run with its plan."""
    fork, fault = "", found.fault
    if not fault:
        parent = await compare_lineage(found.events, log.store.read)
        fork, fault = parent.message, parent.fault
    record = await check_run(log.store, found.events[0].run)
    verified = 0 if fault or is_faulty(record) else found.verified
    return RunAudit(found.events, verified, fault, fork, record, found.checked)


async def _read_events(log: LocalRuntime, run: str, fault: str, report: Callable[[str], None]) -> Sequence[Recorded]:
    """Returns the events of a run. Raises Tampered with the `fault` when it damaged events beyond reading."""
    try:
        return await events_of(log, run, report=report, strange=True)
    except CodecError as error:
        if not fault:
            raise
        raise Tampered(fault) from error
